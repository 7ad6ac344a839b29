"""One intervention at one site: what is put where, at which positions, in which directions.

Ablation, activation patching, subspace patching and steering are one operation here: at a site (a head's z or
the residual stream entering a layer) the activation x becomes

    x' = x + (new − x) B Bᵀ,   new = value (put in place)  or  x + value (added),

with B an orthonormal basis of the subspace that may change (the whole space where none is given; then x' is
exactly ``new``). Legend: P prompt, W width of the site (head dim or residual width), R rank.
"""

import hashlib
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from mechexp.errors import UserError
from mechexp.models.heads import Head
from mechexp.tasks.prompts import PromptSet

KINDS = ("zero", "mean", "mean_all", "resample")


@dataclass(frozen=True, eq=False)
class Edit:
    """One intervention.

    Attributes:
        layer: Decoder layer. For the residual stream: the layer it enters; ``n_layers`` is the stream after
            the last layer, before the final norm.
        head: Query head whose z is changed; None changes the residual stream.
        value: What is put in place or added: an ablation kind (heads only; ``zero`` for both); a
            ``PromptSet`` with one source prompt a prompt, whose clean activation at the same site is taken;
            or an array (W,) or (P, W).
        positions: ``all``, ``end`` or the name of a position that every prompt has. A source prompt's own
            position of that name is read; with ``all`` source and prompt must have equal length.
        add: Add ``value`` instead of putting it in place.
        basis: Orthonormal columns (W, R) of the only subspace that may change; None = everything.

    Raises:
        UserError: A kind that is unknown or not defined for the residual stream; a basis that is not
            orthonormal.
    """

    layer: int
    head: int | None = None
    value: "str | PromptSet | np.ndarray" = "mean"
    positions: str = "end"
    add: bool = False
    basis: np.ndarray | None = None

    def __post_init__(self) -> None:
        if isinstance(self.value, str):
            allowed = KINDS if self.head is not None else ("zero",)
            if self.value not in allowed:
                raise UserError(
                    f"unknown ablation kind {self.value!r}",
                    where=f"intervention at {self.site}",
                    expected=f"one of {', '.join(allowed)}, a set of source prompts, or an array",
                )
        if self.basis is not None:
            gram = np.asarray(self.basis, dtype=np.float64).T @ np.asarray(self.basis, dtype=np.float64)
            if np.abs(gram - np.eye(len(gram))).max(initial=0.0) > 1e-4:
                raise UserError(
                    "the basis is not orthonormal", where=f"intervention at {self.site}",
                    expected="columns of unit length at right angles", todo="take numpy.linalg.qr(basis)[0]",
                )  # fmt: skip

    @property
    def site(self) -> str:
        """``L1H3`` for a head's z, ``resid1`` for the residual stream entering layer 1."""
        return f"resid{self.layer}" if self.head is None else str(Head(self.layer, self.head))

    @cached_property
    def key(self) -> str:
        """SHA-256 over all that defines the intervention; equal keys = equal interventions."""
        parts = [self.site, self.positions, str(self.add), _digest(self.value), _digest(self.basis)]
        return hashlib.sha256("|".join(parts).encode()).hexdigest()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Edit) and self.key == other.key

    def __hash__(self) -> int:
        return hash(self.key)

    def __str__(self) -> str:
        if isinstance(self.value, str):
            what = self.value
        else:
            what = "prompts" if isinstance(self.value, PromptSet) else "array"
        inside = "" if self.basis is None else f" in {self.basis.shape[1]}d"
        return f"{'add' if self.add else 'set'} {self.site}@{self.positions} {what}{inside} #{self.key[:8]}"


def _digest(value: "str | PromptSet | np.ndarray | None") -> str:
    if value is None or isinstance(value, str):
        return str(value)
    if isinstance(value, PromptSet):
        positions = sorted((i, k, v) for i, p in enumerate(value.positions) for k, v in p.items())
        return hashlib.sha256(f"{value.ids}{positions}".encode()).hexdigest()
    array = np.ascontiguousarray(value)
    return hashlib.sha256(f"{array.shape}{array.dtype}".encode() + array.tobytes()).hexdigest()


def patch_head(
    head: Head, source: PromptSet, positions: str = "end", basis: np.ndarray | None = None
) -> Edit:
    """Put a head's z of source prompts in place (inside a subspace, where ``basis`` (D, R) is given)."""
    return Edit(head.layer, head.head, source, positions, basis=basis)


def set_head(
    head: Head, value_PD: np.ndarray, positions: str = "end", basis: np.ndarray | None = None
) -> Edit:
    """Put given vectors (D,) or (P, D) in place of a head's z."""
    return Edit(head.layer, head.head, np.asarray(value_PD, dtype=np.float32), positions, basis=basis)


def patch_residual(
    layer: int, source: PromptSet, positions: str = "end", basis: np.ndarray | None = None
) -> Edit:
    """Put the residual stream of source prompts in place, where it enters ``layer``."""
    return Edit(layer, None, source, positions, basis=basis)


def add_direction(layer: int, vector_PE: np.ndarray, positions: str = "end", head: int | None = None) -> Edit:
    """Add a vector (W,) or (P, W) to the residual stream entering ``layer``, or to a head's z."""
    return Edit(layer, head, np.asarray(vector_PE, dtype=np.float32), positions, add=True)


def complement(basis_WR: np.ndarray) -> np.ndarray:
    """Orthonormal basis (W, W − R) of all that is at right angles to ``basis_WR``."""
    full, _ = np.linalg.qr(np.asarray(basis_WR, dtype=np.float64), mode="complete")
    return np.ascontiguousarray(full[:, basis_WR.shape[1] :])
