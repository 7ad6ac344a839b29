"""BOS-class diagnostics: is a circuit's effect that of its attention sinks (Xu 2026)?"""

from collections import defaultdict
from collections.abc import Iterable

import numpy as np

from mechexp.models.heads import Geometry, Head
from mechexp.screens.circuit import Circuit


def sink_and_other(
    circuit: Circuit, sinks: set[tuple[int, int]], seed: int
) -> tuple[tuple[Head, ...], tuple[Head, ...]]:
    """Two sets of equal size in the circuit's layers: BOS-class heads only, and others only (ours).

    Each layer gives as many heads to both as the circuit picked there, or as many as it has of the rarer
    kind. Picked heads come first, others are drawn.

    Args:
        circuit: The circuit.
        sinks: BOS-class heads of the model.
        seed: Seed of the draw.
    """
    rng = np.random.default_rng(seed)
    picked: dict[int, list[Head]] = defaultdict(list)
    for head in circuit.heads:
        picked[head.layer].append(head)
    sets: tuple[list[Head], list[Head]] = ([], [])
    for layer in sorted(picked):
        heads = _picked_first(picked[layer], layer, circuit.geometry, rng)
        kinds = [h for h in heads if h in sinks], [h for h in heads if h not in sinks]
        size = min(len(picked[layer]), len(kinds[0]), len(kinds[1]))
        for chosen, kind in zip(sets, kinds, strict=True):
            chosen += kind[:size]
    return tuple(sets[0]), tuple(sets[1])


def _picked_first(picked: list[Head], layer: int, geometry: Geometry, rng: np.random.Generator) -> list[Head]:
    rest = [h for h in (Head(layer, i) for i in range(geometry.n_heads)) if h not in set(picked)]
    return [*picked, *(rest[int(i)] for i in rng.permutation(len(rest)))]


def reading(dropped: Iterable[str], supporters: Iterable[str], interferers: Iterable[str]) -> str:
    """What the single-head ablations say of a BOS filter: they decide, not the filter.

    Args:
        dropped: BOS-class heads that the filter takes out of the circuit.
        supporters: Heads that hurt when removed alone, beyond their interval.
        interferers: Heads that help when removed alone, beyond their interval.
    """
    out = sorted(set(dropped))
    good, bad = (sorted(set(out) & set(side)) for side in (supporters, interferers))
    if good and bad:
        return (
            f"the filter drops supporters ({', '.join(good)}) and interferers ({', '.join(bad)}): "
            "the filtered circuit is another circuit"
        )
    if good:
        return f"the filter drops supporters ({', '.join(good)}): it takes the real circuit apart"
    if bad:
        return f"the filter drops interferers ({', '.join(bad)}) and no supporter: filtering is warranted"
    return f"the filter drops heads without an effect of their own ({', '.join(out)})"
