"""Adaptive nulls: how many matched sets to go on to, and the sets that are added."""

from collections.abc import Iterable
from dataclasses import dataclass

from mechexp.controls.sets import MatchedSets, distinct_sets, matched_space
from mechexp.screens.circuit import Circuit


@dataclass(frozen=True)
class Growth:
    """What to do next with an adaptive null.

    Attributes:
        sets: Sets to have in all; equal to those already drawn where it stops.
        done: Whether it stops here.
        reason: The stopping rule as it applied, for the log.
    """

    sets: int
    done: bool
    reason: str


def next_sets(
    drawn: int, *, total: int, exact_limit: int, decided: bool, needed: int | None = None
) -> Growth:
    """How many sets to have next (ours).

    A label is undecided for want of sets when not one set is as extreme as the circuit and even so 1/(m + 1)
    does not pass the test. Growth goes on only in that state, in which no label could have been won yet:
    one look counts, the last, and looking in between does not inflate the error.

    Args:
        drawn: Sets measured so far.
        total: Distinct sets that exist.
        exact_limit: Most sets that may be used.
        decided: Whether the label is decided, i.e. not flagged ``underpowered``.
        needed: Sets that would settle it, if known; growth is at least a doubling, so few rounds are needed.
    """
    most = min(total, exact_limit)
    if decided:
        return Growth(drawn, True, f"stopped at {drawn} sets: the label is decided")
    if drawn >= most:
        limit = "all that exist" if most == total else f"control.exact_limit={exact_limit}"
        return Growth(drawn, True, f"stopped at {drawn} sets ({limit}), undecided")
    goal = min(max(2 * drawn + 1, needed or 0), most)
    return Growth(
        goal, False, f"from {drawn} to {goal} sets: no set is as extreme, and 1/{drawn + 1} does not pass"
    )


def extend(
    matched: MatchedSets,
    circuit: Circuit,
    sets: int,
    *,
    seed: int,
    match_on: str = "layer",
    bos_heads: Iterable[tuple[int, int]] | None = None,
) -> MatchedSets:
    """More sets of a ``matched_random`` draw: the sets already there, then further distinct ones.

    Args:
        matched: What was drawn before, with the same ``seed``, ``match_on`` and ``bos_heads``.
        circuit: The circuit it was drawn for.
        sets: Sets to have in all.
        seed: Seed of the draw.
        match_on: ``layer`` or ``layer_bos``.
        bos_heads: BOS-class heads of the model.

    Raises:
        ValueError: ``matched`` is not the beginning of that draw.
    """
    space = matched_space(circuit, match_on=match_on, bos_heads=bos_heads)
    more = distinct_sets(space, max(sets, len(matched.sets)), seed)
    if more[: len(matched.sets)] != matched.sets:
        raise ValueError("these sets were not drawn by matched_random with this circuit, seed and matching")
    return MatchedSets(more, space.total, len(more) == space.total, matched.notes, space.short)
