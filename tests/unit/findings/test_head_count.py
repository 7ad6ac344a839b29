"""Curves over the number of heads: knee and destructive null."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mechexp.findings import TaxonomyConfig
from mechexp.findings.head_count import head_count_curve, knee

COUNTS = [1, 2, 5, 10, 20]


def test_knee_of_a_curve_that_saturates() -> None:
    assert knee(COUNTS, [-0.2, -0.4, -0.9, -0.95, -1.0]) == 5
    assert knee(COUNTS, [0.2, 0.4, 0.9, 0.95, 1.0]) == 5  # interferers have one too


@pytest.mark.parametrize("deltas", [[-1, -2, -5, -10, -20], [0, 0, 0, 0, -1], [0] * 5])
def test_no_knee_without_saturation(deltas: list[float]) -> None:
    assert knee(COUNTS, deltas) is None


def test_no_knee_of_too_few_points() -> None:
    assert knee([3], [-1]) is None


@given(st.lists(st.floats(-5, 5), min_size=5, max_size=5), st.sampled_from([0.25, 2.0, 64.0]))
def test_knee_is_one_of_the_counts_and_ignores_the_unit(deltas: list[float], unit: float) -> None:
    found = knee(COUNTS, deltas)
    assert found is None or found in COUNTS[:-1]
    if max(map(abs, deltas)) > 1e-3:
        assert knee(COUNTS, np.array(deltas) * unit) == found


def test_destructive_null_is_found_from_mean_and_from_spread() -> None:
    cfg = TaxonomyConfig()
    rng = np.random.default_rng(0)
    calm = [rng.normal(0, 0.01, 30) for _ in COUNTS]
    nulls = [*calm[:3], calm[3] - 0.5, rng.normal(0, 0.6, 30)]
    deltas = [-0.1, -0.2, -0.5, -0.6, -0.7]
    curve = head_count_curve(COUNTS, deltas, nulls, metric="logit_diff", clean=1.0, cfg=cfg)
    assert list(curve.table["destructive"]) == [False, False, False, True, True]
    assert curve.destructive_from == 10
    assert list(curve.table["null_sets"]) == [30] * 5
    assert curve.table["delta"].tolist() == deltas
    fine = head_count_curve(COUNTS, deltas, calm, metric="logit_diff", clean=1.0, cfg=cfg)
    assert fine.destructive_from is None


def test_order_of_counts_does_not_matter_and_missing_nulls_are_no_numbers() -> None:
    cfg = TaxonomyConfig()
    curve = head_count_curve([5, 1], [-0.5, -0.1], [[], [-0.1, 0.1]], metric="top1", clean=0.9, cfg=cfg)
    assert curve.table["k"].tolist() == [1, 5]
    assert np.isnan(curve.table["null_mean"].iloc[1]) and curve.table["null_sets"].iloc[1] == 0
    assert not curve.table["destructive"].iloc[1]
