"""``control=paper``: the ten draws of the published grid (Xu 2026), number for number."""

import numpy as np

from mechexp.controls.registry import CONTROLS, DrawRequest
from mechexp.controls.sets import MatchedSets
from mechexp.errors import UserError
from mechexp.models.heads import Head
from mechexp.screens.circuit import Circuit

SEEDS = range(10)


@CONTROLS.register("paper")
def paper(request: DrawRequest) -> MatchedSets:
    """Ten sets from ``RandomState(0)`` … ``RandomState(9)``, layers in the circuit's own order.

    The run's seed does not enter, as in the paper. Sets are kept as drawn, also where two are the same.

    Raises:
        UserError: Another number of sets, or another matching, was asked for.
    """
    if request.max_sets not in (None, len(SEEDS)):
        raise UserError(
            f"control=paper is the published null of {len(SEEDS)} sets, but max_sets={request.max_sets}",
            where="control.max_sets",
            todo="drop control.max_sets, or use control=matched_random",
        )
    if request.match_on != "layer":
        raise UserError(
            f"control=paper matches layers only, but match_on={request.match_on} was given",
            where="control.match_on",
            todo="drop control.match_on, or use control=matched_random",
        )
    space = request.space()
    notes = [*space.notes(), f"{len(SEEDS)} sets cannot reach p < .05: the smallest p is 1/{len(SEEDS) + 1}"]
    if not space.total:
        return MatchedSets((), 0, True, tuple(notes), space.short)
    sets = tuple(paper_set(request.circuit, seed) for seed in SEEDS)
    distinct = len(set(sets))
    if distinct < len(sets):
        notes.append(f"only {distinct} of the {len(sets)} sets are distinct")
    return MatchedSets(sets, space.total, distinct == space.total, tuple(notes), space.short)


def paper_set(circuit: Circuit, seed: int) -> tuple[Head, ...]:
    """One published draw: for each layer, in the circuit's own order, as many of its unpicked heads."""
    rng = np.random.RandomState(seed)
    heads: list[Head] = []
    for layer in circuit.layers():
        picked = {h.head for h in circuit.heads if h.layer == layer}
        spare = [h for h in range(circuit.geometry.n_heads) if h not in picked]
        drawn = rng.choice(spare, size=min(len(picked), len(spare)), replace=False) if spare else ()
        heads += [Head(layer, int(h)) for h in drawn]
    return tuple(sorted(heads))
