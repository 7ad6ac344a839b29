"""Primary and secondary among the screens of a cell, and joint labels of a sweep."""

import random

import pytest
from evidence_maker import make
from hypothesis import given, settings
from hypothesis import strategies as st

from mechexp.findings import TaxonomyConfig, judge_cell, judge_sweep

CFG = TaxonomyConfig()


def cell(**screens):
    """One entry a screen, with heads of its own."""
    return [make(**{"screen": name, "heads": ((i, 0),), **c}) for i, (name, c) in enumerate(screens.items())]


def labels(evidence, cfg=CFG, judge=judge_cell):
    return {(e.cell, e.screen): v.label for e, v in zip(evidence, judge(evidence, cfg), strict=True)}


def by_screen(**screens):
    return {screen: label for (_, screen), label in labels(cell(**screens)).items()}


def test_the_largest_excess_is_primary():
    assert by_screen(a={"delta": -0.3}, b={"delta": -0.5}, c={"delta": 0.0, "p_harm": 0.5}) == {
        "a": "secondary",
        "b": "primary",
        "c": "correlate",
    }


def test_what_counts_is_the_distance_from_the_null_not_from_zero():
    found = by_screen(a={"delta": -0.5, "mean": -0.15}, b={"delta": -0.45, "mean": 0.0})
    assert found == {"a": "secondary", "b": "primary"}


def test_metrics_are_ranked_apart():
    evidence = [
        make(metric=m, screen=s, heads=((i, 0),), delta=d)
        for m, d_a, d_b in (("top1", -0.3, -0.5), ("logit_diff", -0.5, -0.3))
        for i, (s, d) in enumerate((("a", d_a), ("b", d_b)))
    ]
    assert [v.label for v in judge_cell(evidence, CFG)] == ["secondary", "primary", "primary", "secondary"]


def test_the_same_heads_are_one_finding_and_share_its_label():
    evidence = [make(screen=s, heads=h) for s, h in (("a", [(1, 2), (0, 1)]), ("b", [(0, 1), (1, 2)]))]
    evidence += cell(c={"delta": -0.3, "heads": ((4, 4),)})
    verdicts = judge_cell(evidence, CFG)
    assert [v.label for v in verdicts] == ["primary", "primary", "secondary"]
    assert ["same_heads" in v.flags for v in verdicts] == [True, True, False]


def test_the_same_heads_under_nulls_of_their_own_still_share_the_label():
    evidence = [make(screen="a", mean=-0.02), make(screen="b", mean=-0.03)]
    assert set(labels(evidence).values()) == {"primary"}


def test_ties_go_to_the_larger_effect_then_the_smaller_circuit_then_the_name():
    big = by_screen(a={"delta": -0.42, "mean": -0.02}, b={"delta": -0.43, "mean": -0.03})
    assert big == {"a": "secondary", "b": "primary"}
    small = by_screen(a={"heads": ((0, 0), (0, 1))}, b={"heads": ((5, 5),)})
    assert small == {"a": "secondary", "b": "primary"}
    assert by_screen(b={}, a={}) == {"a": "primary", "b": "secondary"}


def test_an_undecided_larger_effect_leaves_the_primary_open():
    evidence = cell(a={"delta": -0.4}, b={"delta": -0.8, "sets": 7}, c={"delta": -0.3})
    verdicts = judge_cell(evidence, CFG)
    assert [v.label for v in verdicts] == ["secondary", "indeterminate", "secondary"]
    assert "primary_open" in verdicts[0].flags
    assert "b may have a larger effect" in verdicts[0].rules[0]
    assert "primary_open" not in verdicts[2].flags  # it is not the largest, whatever b turns out to be


@pytest.mark.parametrize(
    "rival",
    [
        {"delta": -0.3, "sets": 7},  # smaller
        {"delta": 0.8, "sets": 7},  # helps
        {"delta": -0.8, "p_harm": 0.3},  # enough sets, and not significant
        {"delta": -0.8, "sets": 7, "mean": -0.35},  # not specific, more sets would not make it a cause
        {"delta": -0.8, "sets": 7, "half": 0.9},  # interval reaches 0
    ],
)
def test_other_undecided_effects_do_not(rival):
    assert labels(cell(a={}, b=rival))["m · t", "a"] == "primary"


def test_a_larger_effect_without_a_null_leaves_it_open_too():
    assert labels(cell(a={}, b={"delta": -0.8, "sets": 0}))["m · t", "a"] == "secondary"
    assert labels(cell(a={}, b={"delta": -0.3, "sets": 0}))["m · t", "a"] == "primary"


screens = st.fixed_dictionaries(
    {
        "delta": st.sampled_from([-0.9, -0.5, -0.3, -0.1, 0.0, 0.05, 0.3]),
        "mean": st.sampled_from([-0.3, -0.02, 0.0, 0.1]),
        "std": st.sampled_from([0.0, 0.02, 0.3]),
        "sets": st.sampled_from([0, 9, 99]),
        "half": st.sampled_from([0.01, 0.2]),
        "pattern": st.sampled_from([0.0, 1.0]),
        "singles_help": st.sampled_from([0.0, 1.0]),
        "heads": st.sampled_from([(), ((0, 0),), ((1, 1),), ((0, 0), (1, 1))]),
        "metric": st.sampled_from(["top1", "logit_diff"]),
        "cell": st.sampled_from(["x", "y", "z"]),
    }
)
sweeps = st.lists(screens, min_size=1, max_size=12).map(
    lambda found: [make(screen=f"s{i}", **c) for i, c in enumerate(found)]
)


@settings(deadline=None)
@given(sweeps, st.integers(0, 999), st.booleans())
def test_the_order_of_screens_and_cells_does_not_matter(evidence, seed, strict):
    cfg = TaxonomyConfig(strict_paper=strict)
    before = dict(zip([e.screen for e in evidence], judge_sweep(evidence, cfg), strict=True))
    shuffled = random.Random(seed).sample(evidence, len(evidence))
    after = dict(zip([e.screen for e in shuffled], judge_sweep(shuffled, cfg), strict=True))
    assert repr(before) == repr({screen: after[screen] for screen in before})


@settings(deadline=None)
@given(sweeps)
def test_one_circuit_at_most_is_primary_in_a_cell(evidence):
    verdicts = judge_sweep(evidence, CFG)
    found = {}
    for e, v in zip(evidence, verdicts, strict=True):
        if v.label == "primary":
            assert e.effect.delta < 0
            assert found.setdefault((e.cell, e.metric), e.heads) == e.heads
        assert v.label != "cause"


@settings(deadline=None)
@given(sweeps)
def test_a_sweep_never_turns_a_harmless_screen_into_a_cause(evidence):
    """Correction only takes causes and interferers away."""
    joint = judge_sweep(evidence, CFG)
    causal = ("primary", "secondary", "interferer")
    for name in {e.cell for e in evidence}:
        where = [i for i, e in enumerate(evidence) if e.cell == name]
        alone = judge_cell([evidence[i] for i in where], CFG)
        for i, own in zip(where, alone, strict=True):
            assert joint[i].label not in causal or own.label in causal


def test_a_single_cell_keeps_its_own_p():
    evidence = cell(a={"p_harm": 0.04}, b={"p_harm": 0.5, "delta": -0.2}, c={"p_harm": 0.9, "delta": -0.2})
    assert judge_sweep(evidence, CFG) == judge_cell(evidence, CFG)


def test_a_sweep_is_corrected_over_all_its_tests():
    nothing = {"delta": -0.01, "half": 0.05, "p_harm": 0.6}
    evidence = cell(a={"cell": "x", "p_harm": 0.02}, b={"cell": "y", **nothing}, c={"cell": "z", **nothing})
    assert labels(evidence, judge=judge_sweep)["x", "a"] == "indeterminate"
    assert (
        labels([evidence[0], evidence[0].__class__(**{**vars(evidence[0]), "cell": "w"})], judge=judge_sweep)[
            "x", "a"
        ]
        == "primary"
    )  # two tests, both at 0.02
    verdict = judge_sweep(evidence, CFG)[0]
    assert verdict.tested.p_harm == pytest.approx(0.06)
    assert verdict.tested.family == 3
    assert "Benjamini–Hochberg over 3 tests" in verdict.rules[0]


@pytest.mark.parametrize("bystander", [{"clean_top1": 0.1}, {"heads": ()}, {"sets": 0}])
def test_what_was_not_tested_does_not_count_in_the_family(bystander):
    evidence = cell(a={"cell": "x", "p_harm": 0.04}, b={"cell": "y", "p_harm": 0.9, **bystander})
    verdict = judge_sweep(evidence, CFG)[0]
    assert verdict.tested.family == 1
    assert verdict.label == "primary"


def test_the_same_heads_are_one_test():
    twin = {"cell": "x", "p_harm": 0.03, "heads": ((7, 7),)}
    evidence = cell(a=twin, b=twin, c={"cell": "y", "p_harm": 0.9, "delta": -0.01})
    verdicts = judge_sweep(evidence, CFG)
    assert verdicts[0].tested == verdicts[1].tested
    assert verdicts[0].tested.family == 2
    assert verdicts[0].label == "indeterminate"  # 0.03 > .05/2; as two tests of three it would have passed


def test_a_floor_that_correction_cannot_pass_is_underpowered_and_more_sets_settle_it():
    crowd = {f"n{i}": {"cell": f"c{i}", "delta": -0.01, "p_harm": 0.7} for i in range(19)}
    few = cell(a={"cell": "x"}, **crowd)
    verdict = judge_sweep(few, CFG)[0]
    assert verdict.label == "indeterminate"
    assert "underpowered" in verdict.flags
    assert verdict.tested.needed == 399  # .05/20
    settled = judge_sweep(cell(a={"cell": "x", "sets": 399}, **crowd), CFG)[0]
    assert settled.label == "primary"
    assert "underpowered" not in settled.flags


def test_help_is_corrected_too():
    crowd = {f"n{i}": {"cell": f"c{i}", "delta": 0.01, "p_help": 0.7} for i in range(19)}
    verdict = judge_sweep(cell(a={"cell": "x", "delta": 0.4, "singles_help": 1.0}, **crowd), CFG)[0]
    assert verdict.label == "indeterminate"
    assert verdict.tested.needed == 399


def test_misuse_is_refused():
    with pytest.raises(ValueError, match="one cell"):
        judge_cell(cell(a={"cell": "x"}, b={"cell": "y"}), CFG)
    with pytest.raises(ValueError, match="twice"):
        judge_cell([make(), make()], CFG)
    with pytest.raises(ValueError, match="prob_diff"):
        make().__class__(**{**vars(make()), "metric": "prob_diff"})
    assert judge_sweep([], CFG) == []
