"""Sampling of matched sets: sizes, distinctness, enumeration, determinism, nesting."""

from collections import Counter
from itertools import combinations, product
from math import comb

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from mechexp.controls import draw, extend
from mechexp.controls.sets import combination_at, distinct_sets, matched_space
from mechexp.errors import UserError
from mechexp.models.heads import Geometry, Head
from mechexp.screens.circuit import Circuit


def circuit_of(heads, n_layers=6, n_heads=8):
    return Circuit("s", tuple(Head(*h) for h in heads), "model", "", "", Geometry(n_layers, n_heads, 4))


@st.composite
def circuits(draw_, max_heads=8):
    n_layers, n_heads = draw_(st.integers(1, 4)), draw_(st.integers(1, max_heads))
    cells = st.tuples(st.integers(0, n_layers - 1), st.integers(0, n_heads - 1))
    heads = draw_(st.lists(cells, min_size=1, max_size=6, unique=True))
    return circuit_of(heads, n_layers, n_heads)


def spare_by_layer(circuit):
    spare = {}
    for layer in circuit.layers():
        mine = {h.head for h in circuit.heads if h.layer == layer}
        spare[layer] = [h for h in range(circuit.geometry.n_heads) if h not in mine]
    return spare


def brute_force(circuit):
    """All matched sets, written down the long way."""
    wanted, spare = Counter(h.layer for h in circuit.heads), spare_by_layer(circuit)
    per_layer = [
        [
            [Head(layer, h) for h in c]
            for c in combinations(spare[layer], min(wanted[layer], len(spare[layer])))
        ]
        for layer in wanted
    ]
    sets = {tuple(sorted(h for part in parts for h in part)) for parts in product(*per_layer)}
    return sets - {()}


@given(circuits(), st.integers(0, 2**32 - 1), st.integers(1, 60))
def test_sets_match_the_circuit_layer_by_layer_and_avoid_it(circuit, seed, m):
    matched = draw(circuit, max_sets=m, seed=seed)
    wanted, spare = Counter(h.layer for h in circuit.heads), spare_by_layer(circuit)
    for heads in matched.sets:
        assert not set(heads) & set(circuit.heads)
        assert heads == tuple(sorted(set(heads)))
        got = Counter(h.layer for h in heads)
        assert got == +Counter({layer: min(k, len(spare[layer])) for layer, k in wanted.items()})
    assert matched.short == sum(max(0, k - len(spare[layer])) for layer, k in wanted.items())
    assert bool(matched.short) == any("spare" in note for note in matched.notes)


@given(circuits(), st.integers(0, 2**32 - 1))
def test_total_and_enumeration_agree_with_brute_force(circuit, seed):
    truth = brute_force(circuit)
    assume(len(truth) <= 3000)
    matched = draw(circuit, control="exact", seed=seed)
    assert matched.total == len(truth) == len(matched.sets)
    assert set(matched.sets) == truth
    assert matched.exact


@given(circuits(), st.integers(0, 2**32 - 1), st.integers(1, 40), st.integers(0, 40))
def test_distinct_deterministic_and_nested(circuit, seed, m, more):
    few, many = draw(circuit, max_sets=m, seed=seed), draw(circuit, max_sets=m + more, seed=seed)
    assert len(few.sets) == len(set(few.sets)) == min(m, few.total)
    assert few.exact == (len(few.sets) == few.total)
    assert many.sets[: len(few.sets)] == few.sets
    assert draw(circuit, max_sets=m, seed=seed) == few
    assert extend(few, circuit, m + more, seed=seed) == many


def test_order_of_the_circuits_heads_does_not_matter():
    heads = [(3, 1), (0, 2), (3, 5), (1, 7)]
    assert draw(circuit_of(heads)).sets == draw(circuit_of(heads[::-1])).sets


def test_another_seed_draws_other_sets():
    c = circuit_of([(0, 0), (1, 1), (2, 2)])
    assert draw(c, seed=0).sets != draw(c, seed=1).sets


@given(st.integers(1, 9), st.data())
def test_combination_at_lists_all_in_lexicographic_order(n, data):
    k = data.draw(st.integers(0, n))
    assert [combination_at(r, n, k) for r in range(comb(n, k))] == list(combinations(range(n), k))


def test_an_astronomic_space_is_drawn_from_at_once():
    heads = [(layer, h) for layer in range(60) for h in range(20)]
    c = circuit_of(heads, n_layers=60, n_heads=64)
    matched = draw(c, max_sets=99)
    assert matched.total > 10**600
    assert len(set(matched.sets)) == 99
    assert {len(s) for s in matched.sets} == {1200}


def test_a_space_barely_larger_than_asked_for_still_gives_distinct_sets():
    c = circuit_of([(0, 0), (0, 1)], n_layers=1, n_heads=17)  # C(15, 2) = 105
    matched = draw(c, max_sets=104)
    assert matched.total == 105
    assert len(set(matched.sets)) == 104
    assert not matched.exact
    assert draw(c, max_sets=105).exact


@settings(deadline=None, max_examples=5)
@given(st.integers(0, 10**6))
def test_every_set_is_equally_likely(base):
    """Chi-square over first draws from a space of 35 sets; fails by chance once in 10^5."""
    from scipy import stats

    space = matched_space(circuit_of([(0, 0), (1, 3)], 2, 8))
    c = circuit_of([(0, h) for h in range(3)], 1, 7)  # C(4, 3) = 4
    counts = Counter(draw(c, max_sets=1, seed=base + i).sets[0] for i in range(400))
    assert stats.chisquare([counts[s] for s in brute_force(c)]).pvalue > 1e-5
    seconds = Counter(distinct_sets(space, 2, base + i)[1] for i in range(2000))
    observed = [seconds[s] for s in brute_force(circuit_of([(0, 0), (1, 3)], 2, 8))]
    assert stats.chisquare(observed).pvalue > 1e-5


def test_a_full_layer_leaves_smaller_sets_and_says_so():
    c = circuit_of([(0, h) for h in range(6)] + [(1, 0)])
    matched = draw(c, max_sets=5)
    assert {len(s) for s in matched.sets} == {3}
    assert matched.short == 4
    assert "layer 0 has 2 spare heads for the 6" in matched.notes[0]


def test_no_spare_head_at_all_gives_no_set():
    matched = draw(circuit_of([(0, h) for h in range(8)]))
    assert matched.sets == ()
    assert matched.total == 0
    assert any("no matched set exists" in note for note in matched.notes)


def test_an_empty_circuit_has_no_sets():
    assert draw(circuit_of([])).sets == ()
    assert draw(circuit_of([]), control="paper").sets == ()


def test_sinks_are_matched_with_sinks():
    sinks = [(0, 0), (0, 1), (0, 2), (0, 3), (1, 0)]
    c = circuit_of([(0, 0), (0, 7), (1, 1)])
    matched = draw(c, match_on="layer_bos", bos_heads=sinks, control="exact")
    assert matched.total == 3 * 3 * 6
    for heads in matched.sets:
        assert Counter((h.layer, h in set(sinks)) for h in heads) == {
            (0, True): 1,
            (0, False): 1,
            (1, False): 1,
        }


def test_sinks_without_a_spare_sink_are_noted():
    matched = draw(circuit_of([(0, 0), (1, 1)]), match_on="layer_bos", bos_heads=[(0, 0)])
    assert matched.short == 1
    assert "layer 0 (BOS class) has 0 spare heads" in matched.notes[0]


def test_matching_sinks_needs_to_know_them():
    with pytest.raises(UserError, match="BOS class of every head"):
        draw(circuit_of([(0, 0)]), match_on="layer_bos")
    with pytest.raises(UserError, match="unknown match_on 'depth'"):
        draw(circuit_of([(0, 0)]), match_on="depth")


def test_the_draw_itself_never_changes():
    """Stored results name sets by their order: a change here would break every resumed run."""
    sets = draw(circuit_of([(0, 0), (2, 5)]), max_sets=3, seed=0).sets
    assert [[str(h) for h in s] for s in sets] == PINNED


PINNED = [["L0H6", "L2H6"], ["L0H5", "L2H2"], ["L0H5", "L2H0"]]
