"""BOS diagnostics: matched sink and other sets, and what the single heads say of a filter."""

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from mechexp.models.heads import Geometry, Head
from mechexp.protocols.sinks import reading, sink_and_other
from mechexp.screens.circuit import Circuit

GEOMETRY = Geometry(4, 6, 8)
HEADS = [Head(layer, h) for layer in range(4) for h in range(6)]


def circuit(heads: list[Head]) -> Circuit:
    return Circuit("s", tuple(heads), "m", "", "", GEOMETRY)


@given(st.sets(st.sampled_from(HEADS), min_size=1), st.sets(st.sampled_from(HEADS)), st.integers(0, 5))
def test_sets_are_pure_equal_and_in_the_layers(picked: set[Head], sinks: set[Head], seed: int) -> None:
    own, other = sink_and_other(circuit(sorted(picked)), set(sinks), seed)
    assert set(own) <= sinks and not set(other) & sinks
    counts = [Counter(h.layer for h in heads) for heads in (own, other, picked)]
    assert counts[0] == counts[1] and counts[0] <= counts[2]
    for layer in counts[2]:
        in_layer = sum(h.layer == layer for h in sinks)
        assert counts[0][layer] == min(counts[2][layer], in_layer, 6 - in_layer)
    assert sink_and_other(circuit(sorted(picked)), set(sinks), seed) == (own, other)


def test_picked_heads_come_first() -> None:
    own, other = sink_and_other(circuit([Head(1, 4), Head(1, 5)]), {(1, 4), (1, 0), (1, 1), (1, 2)}, 0)
    assert own[0] == Head(1, 4) and other[0] == Head(1, 5)
    assert len(own) == len(other) == 2


def test_single_heads_decide_on_the_filter() -> None:
    assert "apart" in reading(["L0H1"], ["L0H1", "L2H2"], [])
    assert "warranted" in reading(["L0H1"], ["L2H2"], ["L0H1"])
    assert "another circuit" in reading(["L0H1", "L0H2"], ["L0H1"], ["L0H2"])
    assert "without an effect" in reading(["L0H1"], ["L2H2"], ["L3H3"])
