"""What a head is called: layer and head index, ``L1H3``; counted from zero, query heads."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

from mechexp.errors import UserError

_HEAD = re.compile(r"L(\d+)H(\d+)\Z")


class Head(NamedTuple):
    """One query head, by layer and index."""

    layer: int
    head: int

    def __str__(self) -> str:
        return f"L{self.layer}H{self.head}"


@dataclass(frozen=True)
class Geometry:
    """How many heads a model has, and how wide they are.

    Attributes:
        n_layers: Decoder layers.
        n_heads: Query heads a layer.
        head_dim: Width of one head's z.
    """

    n_layers: int
    n_heads: int
    head_dim: int

    def require(self, heads: Iterable[Head], *, where: str) -> None:
        """Refuse heads that this model does not have.

        Raises:
            UserError: A head lies outside the model; the message gives the model's size.
        """
        bad = [h for h in heads if not (0 <= h.layer < self.n_layers and 0 <= h.head < self.n_heads)]
        if bad:
            raise UserError(
                f"no such head: {format_heads(bad)}",
                where=where,
                expected=f"the model has {self.n_layers} layers × {self.n_heads} heads, "
                f"L0H0 … L{self.n_layers - 1}H{self.n_heads - 1}",
                todo="check that the circuit belongs to this model",
            )


def parse_head(text: str, *, where: str = "a list of heads") -> Head:
    """Read ``L1H3``.

    Raises:
        UserError: ``text`` is not of that form.
    """
    match = _HEAD.match(text.strip())
    if not match:
        raise UserError(f"{text!r} is not a head", where=where, expected="layer and head as L1H3")
    return Head(int(match[1]), int(match[2]))


def parse_heads(texts: str | Iterable[str], *, where: str = "a list of heads") -> tuple[Head, ...]:
    """Read ``"L1H3,L2H1"`` or ``["L1H3", "L2H1"]``, keeping the order; a head named twice is refused."""
    parts = [p for p in texts.split(",") if p.strip()] if isinstance(texts, str) else list(texts)
    heads = tuple(parse_head(p, where=where) for p in parts)
    twice = sorted({str(h) for h in heads if heads.count(h) > 1})
    if twice:
        raise UserError(f"head named twice: {', '.join(twice)}", where=where, expected="each head once")
    return heads


def format_heads(heads: Iterable[Head]) -> str:
    """Write heads as ``L1H3,L2H1``, in the order given."""
    return ",".join(str(Head(*h)) for h in heads)
