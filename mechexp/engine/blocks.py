"""Blocks: prompts of one length that are computed together, and where their positions lie.

Prompts are grouped by length instead of padded: padding changes positions, masks and the numbers of some
architectures. Legend: P prompt (of a block), T position.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np
import torch

from mechexp.errors import UserError
from mechexp.tasks.prompts import PromptSet


@dataclass(frozen=True)
class Block:
    """Prompts of equal length.

    Attributes:
        indices: Where these prompts are in the prompt set, (P,).
        ids_PT: Their token ids (int64).
        places: Index of each named position in each prompt, ``{name: (P,)}``; ``end`` is the last.
    """

    indices: np.ndarray
    ids_PT: torch.Tensor
    places: dict[str, torch.Tensor] = field(default_factory=dict)

    @property
    def size(self) -> int:
        """Number of prompts P."""
        return int(self.ids_PT.shape[0])

    @property
    def length(self) -> int:
        """Tokens a prompt, T."""
        return int(self.ids_PT.shape[1])

    def first(self, positions: str) -> int:
        """The first position that an intervention at ``positions`` touches in any prompt."""
        known = {"all": 0, "end": self.length - 1}
        return known[positions] if positions in known else int(self.places[positions].min())


def make_block(prompts: PromptSet, indices: np.ndarray, names: Iterable[str], device: torch.device) -> Block:
    """The block of the prompts at ``indices`` (equal length), with the named positions ``names``."""
    ids = torch.tensor([prompts.ids[i] for i in indices], device=device)
    places = {
        name: torch.tensor([prompts.positions[i][name] for i in indices], device=device)
        for name in names
        if name != "all"
    }
    places["end"] = torch.full((len(indices),), ids.shape[1] - 1, device=device)
    return Block(np.asarray(indices), ids, places)


def split(prompts: PromptSet, most: dict[int, int]) -> list[np.ndarray]:
    """Indices of each block: prompts grouped by length, at most ``most[length]`` to a block."""
    pieces: list[np.ndarray] = []
    for length, indices in prompts.buckets().items():
        count = -(-len(indices) // max(1, most[length]))
        pieces.extend(np.array_split(indices, count))
    return pieces


def check_positions(prompts: PromptSet, names: Iterable[str], *, where: str) -> None:
    """Refuse position names that a prompt does not have.

    Raises:
        UserError: Names the position, the prompt and the positions that all prompts share.
    """
    if len(prompts) == 0:
        raise UserError("no prompts", where=where, expected="at least one prompt")
    shared = {"all", "end"}.union(set.intersection(*(set(p) for p in prompts.positions)))
    for name in sorted(set(names) - shared):
        raise UserError(
            f"no position {name!r} in every prompt",
            where=where,
            expected=f"one of {', '.join(sorted(shared))}",
        )
