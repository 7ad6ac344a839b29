"""Δ, Δ − μ and their intervals."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from mechexp.errors import UserError
from mechexp.findings.effects import (
    additivity,
    bootstrap_counts,
    mean_interval,
    measure_effect,
    null_deltas,
    share_that_helps,
)

COUNTS = bootstrap_counts(40, 2000, seed=0)
values = hnp.arrays(np.float64, 40, elements=st.floats(-5, 5, width=32))


def test_effect_is_the_mean_change_and_excess_is_against_the_mean_null():
    clean, ablated = np.array([1.0, 2, 3, 4]), np.array([0.0, 2, 1, 4])
    null = np.array([[1.0, 2, 3, 0], [1, 1, 3, 3]])
    effect = measure_effect(clean, ablated, null, bootstrap_counts(4))
    assert effect.clean == 2.5
    assert effect.ablated == 1.75
    assert effect.delta == pytest.approx(-0.75)
    assert effect.excess == pytest.approx(-0.75 - null_deltas(clean, null).mean())
    assert effect.delta_low < effect.delta < effect.delta_high
    assert effect.excess_low < effect.excess < effect.excess_high


@pytest.mark.parametrize("null", [None, np.empty((0, 40))])
def test_without_a_null_there_is_no_excess(null):
    clean = np.arange(40.0)
    effect = measure_effect(clean, clean - 1, null, COUNTS)
    assert effect.delta == -1
    assert np.isnan([effect.excess, effect.excess_low, effect.excess_high]).all()
    assert effect.delta_low == effect.delta_high == -1


def test_booleans_are_differences_not_exclusive_ors():
    clean, ablated = np.array([True, True, False, False]), np.array([False, True, True, False])
    assert measure_effect(clean, ablated, None, bootstrap_counts(4)).delta == 0


@given(values, st.floats(0.1, 10), st.floats(-3, 3))
def test_intervals_follow_shift_and_scale(x, scale, shift):
    low, high = mean_interval(x, COUNTS)
    low2, high2 = mean_interval(scale * x + shift, COUNTS)
    np.testing.assert_allclose([low2, high2], [scale * low + shift, scale * high + shift], atol=1e-9)


@given(values, values)
def test_an_interval_does_not_depend_on_what_else_is_measured(x, y):
    alone = mean_interval(x, COUNTS)
    among = mean_interval(np.stack([y, x]), COUNTS)
    np.testing.assert_allclose([among[0][1], among[1][1]], [alone[0][0], alone[1][0]], atol=1e-12)


@given(values)
def test_the_interval_holds_the_estimate_and_widens_with_the_level(x):
    low, high = mean_interval(x, COUNTS, 0.95)
    low99, high99 = mean_interval(x, COUNTS, 0.99)
    assert low99 <= low <= x.mean() + 1e-9
    assert x.mean() - 1e-9 <= high <= high99


def test_one_seed_one_interval():
    x = np.random.default_rng(3).normal(size=40)
    again = bootstrap_counts(40, 2000, seed=0)
    assert mean_interval(x, again) == mean_interval(x, COUNTS)
    assert mean_interval(x, bootstrap_counts(40, 2000, seed=1)) != mean_interval(x, COUNTS)


def test_resamples_hold_as_many_prompts_as_there_are():
    assert (COUNTS.sum(axis=1) == 40).all()
    assert COUNTS.shape == (2000, 40)


@pytest.mark.parametrize(("n", "kind"), [(12, "normal"), (60, "normal"), (60, "top1"), (120, "skewed")])
def test_coverage_is_nominal(n, kind):
    """2000 simulated cells; a 95 % interval must cover in 93–97 % of them."""
    rng = np.random.default_rng(n)
    counts = bootstrap_counts(n, 1000, seed=1)
    draws, truth = {
        "normal": (rng.normal(-1, 2, (2000, n)), -1.0),
        "top1": (rng.choice([-1.0, 0, 1], (2000, n), p=[0.4, 0.5, 0.1]), -0.3),
        "skewed": (-rng.exponential(1, (2000, n)), -1.0),
    }[kind]
    low, high = mean_interval(draws, counts)
    assert 0.93 <= ((low <= truth) & (truth <= high)).mean() <= 0.97


def test_the_plain_percentile_interval_would_be_too_narrow():
    """Why the quantiles are moved outwards."""
    rng = np.random.default_rng(0)
    draws, counts = rng.normal(size=(2000, 12)), bootstrap_counts(12, 1000, seed=1)
    low, high = np.quantile(counts @ draws.T / 12, [0.025, 0.975], axis=0)
    assert ((low <= 0) & (high >= 0)).mean() < 0.93


def test_a_single_prompt_has_no_interval_and_nan_is_refused():
    assert np.isnan(mean_interval([1.0], bootstrap_counts(1))).all()
    with pytest.raises(ValueError, match="finite"):
        mean_interval([1.0, np.nan], bootstrap_counts(2))
    with pytest.raises(UserError, match="bootstrap"):
        bootstrap_counts(10, 50)


def test_additivity_and_share_that_helps():
    assert additivity(-0.6, [-0.1, -0.2]) == pytest.approx(2)
    assert np.isnan(additivity(-0.6, [-0.1, 0.1]))
    assert share_that_helps([0.1, 0, -0.1, 0.3]) == 0.5
    assert np.isnan(share_that_helps([]))
