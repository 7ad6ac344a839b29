"""Each rule in its place, and each threshold from both sides."""

import pytest
from evidence_maker import NAN, make

from mechexp.findings import FLAGS, LABELS, Effect, TaxonomyConfig, judge_cell

CFG = TaxonomyConfig()
NOTHING = {"delta": 0.01, "half": 0.02, "p_harm": 0.5, "p_help": 0.5}
HELP = {"delta": 0.4, "mean": 0.02, "singles_help": 1.0}
OPEN = {"delta": -0.1, "mean": -0.04, "half": 0.02, "p_harm": 0.2, "pattern": 0.0}  # r = 2.5, z = -3


def judged(cfg=CFG, **changes):
    return judge_cell([make(**changes)], cfg)[0]


def label(**changes):
    return judged(**changes).label


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        # 1. competence first, then empty circuits
        ({"clean_frac_correct": 0.59}, "not_evaluated"),
        ({"clean_top1": 0.19}, "not_evaluated"),
        ({"clean_frac_correct": 0.6, "clean_top1": 0.2}, "primary"),
        ({"clean_frac_correct": NAN, "clean_top1": NAN}, "primary"),
        ({"heads": ()}, "empty"),
        ({"heads": (), "clean_top1": 0.1}, "not_evaluated"),
        # 2. interferer
        (HELP, "interferer"),
        ({**HELP, "half": 0.41}, "indeterminate"),  # interval reaches 0
        ({**HELP, "p_help": 0.05}, "interferer"),
        ({**HELP, "p_help": 0.06}, "indeterminate"),
        ({**HELP, "singles_help": 0.6}, "interferer"),
        ({**HELP, "singles_help": 0.59}, "indeterminate"),
        ({**HELP, "singles_help": NAN}, "indeterminate"),
        ({**HELP, "mean": 0.3}, "null"),  # help like the null's own
        # 3. cause
        ({}, "primary"),
        ({"half": 0.39}, "primary"),
        ({"half": 0.41}, "indeterminate"),
        ({"half": NAN}, "indeterminate"),
        ({"p_harm": 0.05}, "primary"),
        ({"p_harm": 0.051}, "indeterminate"),
        ({"p_harm": NAN}, "indeterminate"),
        ({"specificity": 3.0}, "primary"),
        ({"specificity": 2.99}, "indeterminate"),
        ({"delta": -0.95, "median": -0.92}, "indeterminate"),  # saturated
        ({"delta": -0.95, "median": -0.88}, "primary"),
        ({"delta": -0.89, "median": -0.92}, "primary"),
        # 4. correlate
        (NOTHING, "correlate"),
        ({**NOTHING, "delta": 0.05}, "correlate"),
        ({**NOTHING, "delta": -0.05}, "correlate"),
        ({**NOTHING, "delta": 0.051, "mean": 0.001}, "indeterminate"),
        ({**NOTHING, "delta": 0.1, "std": 0.1}, "correlate"),  # within one σ
        ({**NOTHING, "delta": 0.11, "std": 0.1}, "indeterminate"),
        ({**NOTHING, "pattern": 0.5}, "correlate"),
        ({**NOTHING, "pattern": 0.49}, "null"),
        ({**NOTHING, "pattern": NAN}, "null"),
        ({**NOTHING, "sets": 0}, "correlate"),  # little effect needs no null
        # 5. null or open
        (OPEN, "indeterminate"),
        ({**OPEN, "specificity": 2.0}, "null"),
        ({**OPEN, "specificity": 2.01}, "indeterminate"),
        ({**OPEN, "z": -0.99}, "null"),
        ({**OPEN, "z": 0.99}, "null"),
        ({**OPEN, "z": -1.0}, "indeterminate"),
        ({**OPEN, "z": NAN, "specificity": NAN}, "indeterminate"),
        ({**OPEN, "sets": 0}, "indeterminate"),
    ],
)
def test_decision_order(changes, expected):
    assert label(**changes) == expected


@pytest.mark.parametrize(("delta", "expected"), [(0.02, "correlate"), (-0.02, "correlate"), (0.021, "null")])
def test_little_effect_on_top1_is_two_points(delta, expected):
    assert label(metric="top1", delta=delta, half=0.03, mean=0.0, std=0.01, p_help=0.2, z=0.5) == expected


def test_a_circuit_wins_by_the_rules_in_order():
    """Significant, specific and small at once: cause comes before correlate."""
    verdict = judged(delta=-0.045, half=0.01, mean=0.0, std=0.001, specificity=3)
    assert verdict.label == "primary"
    assert "weak" in verdict.flags


@pytest.mark.parametrize(
    ("flag", "yes", "no"),
    [
        ("weak", {"delta": -0.19}, {"delta": -0.2}),
        ("weak", {"metric": "top1", "delta": -0.099}, {"metric": "top1", "delta": -0.1}),
        ("bos_confound", {**HELP, "bos": 0.5}, {**HELP, "bos": 0.49}),
        ("bos_confound", {**HELP, "bos": 1.0}, {"bos": 1.0}),  # of interferers only
        ("repaired", {**NOTHING, "direct": 0.2}, {**NOTHING, "direct": 0.19}),
        ("repaired", {**NOTHING, "direct": -0.3}, {"direct": 0.9}),  # of correlates only
        ("repaired", {**NOTHING, "direct": 0.3}, {**NOTHING, "direct": 0.3, "metric": "top1"}),
        ("saturated", {"delta": -0.95, "median": -0.95}, {"delta": -0.95, "median": -0.9}),
        ("null_destructive", {"mean": -0.25}, {"mean": -0.249}),
        ("null_destructive", {"mean": 0.25}, {"mean": 0.249}),
        ("null_destructive", {"std": 0.25}, {"std": 0.249}),
        ("null_destructive", {"metric": "top1", "std": 0.1}, {"metric": "top1", "std": 0.099}),
        ("no_null", {"sets": 0}, {"sets": 1}),
        ("paper_null", {"control": "paper", "sets": 10}, {"control": "matched_random", "sets": 10}),
        ("short_null", {"null_short": 1}, {"null_short": 0}),
        ("underpowered", {"sets": 18}, {"sets": 19}),
        ("underpowered", {**HELP, "sets": 18}, {**HELP, "sets": 19}),
        ("underpowered", {"sets": 18}, {"sets": 18, "p_harm": 2 / 19}),  # a set was as extreme
        ("underpowered", {**HELP, "sets": 18}, {**HELP, "sets": 18, "p_help": 0.2, "p_harm": 1 / 19}),
    ],
)
def test_flags_from_both_sides(flag, yes, no):
    assert flag in judged(**yes).flags
    assert flag not in judged(**no).flags


def test_underpowered_is_never_null_and_says_how_many_sets_would_do():
    verdict = judged(delta=-0.1, mean=-0.08, std=0.001, sets=9, null_total=49, pattern=0.0)
    assert verdict.label == "indeterminate"
    assert verdict.tested.needed == 19
    assert any("19 would settle it." in r for r in verdict.rules)
    few = judged(delta=-0.1, mean=-0.08, std=0.001, sets=7, null_total=7)
    assert any("only 7 exist" in r for r in few.rules)
    assert label(delta=-0.1, mean=-0.08, std=0.001, sets=9, p_harm=0.2, pattern=0.0) == "null"


def test_ten_sets_cannot_make_a_cause():
    verdict = judged(control="paper", sets=10)
    assert verdict.label == "indeterminate"
    assert {"paper_null", "underpowered"} <= set(verdict.flags)


def effect(delta, half=0.02):
    return Effect(1.0, 1 + delta, delta, delta - half, delta + half)


@pytest.mark.parametrize(
    ("other", "sensitive"),
    [
        (effect(-0.9), False),
        (effect(-0.051), False),
        (effect(-0.05), True),
        (effect(0.3), True),
        (effect(-0.3, half=0.5), True),
    ],
)
def test_ablation_sensitive(other, sensitive):
    verdict = judged(other_kinds={"mean_all": effect(-0.4), "zero": other})
    assert ("ablation_sensitive" in verdict.flags) == sensitive


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"sets": 10, "control": "paper"}, "primary"),
        ({"p_harm": NAN, "half": NAN, "specificity": 3.0, "delta": -0.06}, "primary"),  # weak, but specific
        ({**OPEN, "delta": -0.25}, "primary"),
        ({**OPEN, "delta": -0.25, "specificity": 2.5}, "primary"),
        ({**OPEN, "delta": -0.25, "specificity": 2.49}, "null"),
        ({**OPEN, "specificity": 2.9}, "null"),  # under 20 % of clean
        ({**HELP, "singles_help": NAN}, "interferer"),
        ({**HELP, "delta": 0.19, "singles_help": NAN}, "null"),
        ({"delta": -0.95, "median": -0.92}, "null"),  # saturated
        ({**OPEN, "sets": 0}, "indeterminate"),
    ],
)
def test_strict_paper_folds_into_the_nearest_class(changes, expected):
    verdict = judged(TaxonomyConfig(strict_paper=True), **changes)
    assert verdict.label == expected
    assert ("folded" in verdict.flags) == (expected != "indeterminate")


def test_strict_paper_leaves_decided_labels_alone():
    for changes in ({}, HELP, NOTHING, {"heads": ()}, {**OPEN, "z": 0.1}, {"clean_top1": 0.0}):
        assert judged(TaxonomyConfig(strict_paper=True), **changes) == judged(**changes)


def test_every_verdict_gives_its_reasons_with_numbers():
    assert judged().rules[1] == (
        "Cause: Δ = -0.4 logits (-40 % of clean), its interval [-0.42, -0.38] is below 0; "
        "p_harm = 0.01 ≤ 0.05; specificity = 20 ≥ 3; |z| = 19 ≥ 3; not saturated."
    )
    assert judged(metric="top1", **{**OPEN, "delta": -0.1}).rules == (
        "Not a cause: p_harm = 0.2 > 0.05; specificity = 2.5 < 3.",
        "Not null: specificity = 2.5 > 2; |z| = 3 ≥ 1.",
    )
    assert judged(clean_top1=0.14).rules == ("The clean model is not competent: top1 = 0.14 < 0.2.",)


THRESHOLDS = {
    "alpha": (0.005, {}),
    "min_frac_correct": (0.99, {}),
    "min_top1": (0.95, {}),
    "min_specificity": (21.0, {}),
    "null_specificity": (2.5, OPEN),
    "null_z": (3.5, OPEN),
    "singles_help": (0.1, {**HELP, "singles_help": 0.2}),
    "bos_fraction": (0.1, {**HELP, "bos": 0.2}),
    "weak_top1": (0.5, {"metric": "top1"}),
    "weak_logit_diff": (0.5, {}),
    "small_top1": (0.2, {**OPEN, "metric": "top1", "pattern": 1.0}),
    "small_logit_diff": (0.2, {**OPEN, "pattern": 1.0}),
    "small_sigma": (6.0, {**OPEN, "pattern": 1.0}),
    "pattern_share": (0.2, {**NOTHING, "pattern": 0.3}),
    "saturated": (0.9, {"delta": -0.4, "median": -0.2}),
    "destructive_mean": (0.01, {}),
    "destructive_std_top1": (0.01, {"metric": "top1"}),
    "destructive_std_logit_diff": (0.01, {}),
    "repaired_direct": (0.05, {**NOTHING, "direct": 0.1}),
    "strict_paper": (True, OPEN),
}


@pytest.mark.parametrize("name", sorted(THRESHOLDS))
def test_every_threshold_can_change_the_verdict(name):
    value, changes = THRESHOLDS[name]
    default = TaxonomyConfig(fold_specificity=3.0)
    moved = TaxonomyConfig(**{"fold_specificity": 3.0, name: value})
    if name == "min_specificity":
        moved.fold_specificity = 21.0
    a, b = judged(default, **changes), judged(moved, **changes)
    assert (a.label, a.flags) != (b.label, b.flags)


def test_words():
    seen = {judged(**c).label for c in ({}, HELP, NOTHING, OPEN, {"heads": ()}, {"clean_top1": 0.0})}
    assert seen <= set(LABELS)
    assert all(text.endswith(".") for text in (*LABELS.values(), *FLAGS.values()))
