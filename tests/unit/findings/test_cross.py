"""Comparisons across models: shared primaries, depth, screens of one name."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mechexp.errors import UserError
from mechexp.findings.cells import cell_primary
from mechexp.findings.cross import name_transfer, no_shared_primary, primary_table, shared_primaries
from mechexp.findings.depth import depth_agreement, relative_depth
from mechexp.findings.differences import difference, equivalence


def row(model, task, screen, taxonomy="primary", delta=-2.0, half=0.1, clean=4.0, flags=""):
    return {
        "model": model,
        "task": task,
        "screen": screen,
        "taxonomy": taxonomy,
        "flags": flags,
        "delta_logit_diff": delta,
        "delta_logit_diff_low": delta - half,
        "delta_logit_diff_high": delta + half,
        "clean_logit_diff": clean,
    }


def frame(*rows):
    return pd.DataFrame([row(*r) if isinstance(r, tuple) else r for r in rows])


DISTINCT = frame(("a", "ioi", "x"), ("b", "ioi", "y"), ("a", "gt", "z"), ("b", "gt", "w"))
SHARED = frame(("a", "ioi", "x"), ("b", "ioi", "x"))


def test_difference_of_independent_intervals():
    d, low, high = difference((1.0, 0.7, 1.3), (0.4, 0.0, 0.8))
    assert d == pytest.approx(0.6)
    assert (low, high) == pytest.approx((0.6 - 0.5, 0.6 + 0.5))
    skewed = difference((1.0, 0.7, 1.0), (0.4, 0.4, 0.8))
    assert skewed == pytest.approx((0.6, 0.1, 0.6))


def test_difference_covers():
    rng = np.random.default_rng(0)
    x, y = rng.normal(1, 0.3, 4000), rng.normal(0.4, 0.1, 4000)
    covered = [
        (lambda d: d[1] <= 0.6 <= d[2])(difference((a, a - 0.588, a + 0.588), (b, b - 0.196, b + 0.196)))
        for a, b in zip(x, y, strict=True)
    ]
    assert np.mean(covered) == pytest.approx(0.95, abs=0.015)


def test_equivalence():
    assert equivalence(-0.1, 0.2, 0.2) == "yes"
    assert equivalence(0.21, 0.5, 0.2) == equivalence(-0.5, -0.21, 0.2) == "no"
    assert equivalence(0.1, 0.3, 0.2) == equivalence(-0.5, 0.5, 0.2) == "undecided"


def test_primary_table():
    table = primary_table(
        frame(
            ("a", "ioi", "x"),
            ("a", "ioi", "y", "secondary"),
            ("b", "ioi", "x", "null"),
            ("a", "gt", "x", "indeterminate"),
            ("b", "gt", "x"),
            ("b", "gt", "y"),
        )
    )
    assert table.loc["ioi"].to_dict() == {"a": "x", "b": "none"}
    assert table.loc["gt"].to_dict() == {"a": "? (undecided: x)", "b": "x = y"}


def test_cells_whose_primary_is_not_settled():
    open_ = frame(("a", "t", "x", "secondary"), row("a", "t", "y", "secondary", flags="weak,primary_open"))
    assert not cell_primary(open_).decided
    assert cell_primary(frame(("a", "t", "x", "not_evaluated"))).reason == "the model is not competent"
    settled = cell_primary(frame(("a", "t", "x", "null"), ("a", "t", "y", "empty")))
    assert settled.decided
    assert settled.screens == ()


def test_a_shared_primary_falsifies_the_claim_and_names_the_pair():
    claim = no_shared_primary(SHARED)
    assert claim.verdict == "false"
    assert "x in a · ioi and b · ioi" in claim.reason
    assert claim.evidence.loc[0, "comparable"] == "yes"
    assert claim.evidence.loc[0, "effect_a"] == pytest.approx(-0.5)


def test_distinct_primaries_support_it():
    assert no_shared_primary(DISTINCT).verdict == "true"
    assert no_shared_primary(DISTINCT, within_task=False).verdict == "true"


def test_sharing_across_tasks_counts_only_if_asked_for():
    both = frame(("a", "ioi", "x"), ("b", "ioi", "y"), ("b", "gt", "x"))
    assert no_shared_primary(both).verdict == "true"
    assert no_shared_primary(both, within_task=False).verdict == "false"


def test_size_can_be_asked_for():
    far = frame(("a", "t", "x", "primary", -3.6), ("b", "t", "x", "primary", -1.0))
    assert shared_primaries(far).loc[0, "comparable"] == "no"
    assert no_shared_primary(far).verdict == "false"
    assert no_shared_primary(far, comparable=True).verdict == "true"
    vague = frame(("a", "t", "x", "primary", -3.6, 3.0), ("b", "t", "x"))
    assert no_shared_primary(vague, comparable=True).verdict == "undecided"
    assert no_shared_primary(SHARED, comparable=True).verdict == "false"


def test_an_unsettled_cell_leaves_the_claim_open_unless_it_is_false_already():
    unsettled = row("c", "ioi", "x", "indeterminate")
    assert no_shared_primary(frame(*DISTINCT.to_dict("records"), unsettled)).verdict == "undecided"
    assert no_shared_primary(frame(*SHARED.to_dict("records"), unsettled)).verdict == "false"


def test_nothing_to_compare():
    assert no_shared_primary(frame(("a", "ioi", "x"))).verdict == "untested"
    assert no_shared_primary(frame(("a", "ioi", "x"), ("b", "gt", "x"))).verdict == "untested"


def test_screens_of_one_name():
    table = name_transfer(
        frame(
            ("a", "t", "x", "primary", -2.0),
            ("b", "t", "x", "primary", -1.0),
            ("a", "u", "x", "null", 0.0),
            ("b", "u", "x", "primary", -2.0),
            ("a", "v", "x", "not_evaluated", 0.0),
            ("b", "v", "x", "null", 0.0),
        )
    )
    assert len(table) == 1
    assert table.loc[0, ["tasks", "same_label", "largest_difference"]].tolist() == [2, 0.5, 0.5]


def test_frames_that_mix_controls_are_refused():
    with pytest.raises(UserError, match="a · ioi · x is there more than once"):
        primary_table(frame(("a", "ioi", "x"), ("a", "ioi", "x", "null")))
    with pytest.raises(UserError, match="lack flags"):
        primary_table(SHARED.drop(columns="flags"))


@given(st.integers(3, 12), st.integers(3, 12))
def test_depth_is_relative(layers, other_layers):
    """A profile that is a function of relative depth agrees with itself at any number of layers."""

    def scores(n, n_heads):
        return np.exp(3 * relative_depth(n))[:, None] * np.linspace(0.5, 1, n_heads)

    last, other_last = [(layers - 1, 0)], [(other_layers - 1, 5)]
    found = depth_agreement(scores(layers, 4), scores(other_layers, 6), last, other_last)
    assert found.spearman == pytest.approx(1)
    assert found.distance == pytest.approx(0)


def test_opposite_depths_disagree():
    up = np.arange(5.0)[:, None]
    found = depth_agreement(up, up[::-1], [(4, 0), (3, 0)], [(0, 0), (1, 0)])
    assert found.spearman == pytest.approx(-1)
    assert found.distance == pytest.approx(0.75)


def test_depth_of_nothing_is_unknown():
    flat = np.ones((5, 2))
    found = depth_agreement(flat, flat, [], [(0, 0)])
    assert np.isnan([found.spearman, found.distance]).all()
    assert relative_depth(1).tolist() == [0]
