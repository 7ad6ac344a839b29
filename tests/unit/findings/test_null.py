"""The null's summary: p, z, specificity and their floors."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from mechexp.findings.null import NullSummary, floors, summarise_moments, summarise_null

deltas = st.lists(st.floats(-1, 1, width=32), min_size=1, max_size=40)


def test_numbers_by_hand():
    s = summarise_null(-0.3, [-0.1, -0.3, 0.1, 0.0], metric="top1", clean=0.9)
    assert (s.sets, s.min, s.max) == (4, -0.3, 0.1)
    assert s.mean == pytest.approx(-0.075)
    assert s.std == pytest.approx(np.std([-0.1, -0.3, 0.1, 0.0], ddof=1))
    assert s.median == pytest.approx(-0.05)
    assert s.p_harm == 2 / 5
    assert s.p_help == 5 / 5
    assert s.z == pytest.approx((-0.3 + 0.075) / s.std)
    assert s.specificity == pytest.approx(0.3 / max(0.075, 0.01, s.std / 2))


def test_ties_up_to_rounding_count_on_both_sides():
    delta = (0.1 + 0.2) - 0.6  # -0.3 but for the last bit
    s = summarise_null(delta, [-0.3, -0.3], metric="top1", clean=0.9)
    assert s.p_harm == s.p_help == 1


@pytest.mark.parametrize(
    ("metric", "clean", "expected"),
    [("top1", 0.9, (0.005, 0.01)), ("logit_diff", 4.0, (0.04, 0.08)), ("logit_diff", -4.0, (0.04, 0.08))],
)
def test_floors(metric, clean, expected):
    assert floors(metric, clean) == pytest.approx(expected)
    s = summarise_null(-0.2, [0.0] * 5, metric=metric, clean=clean)
    assert s.z == pytest.approx(-0.2 / expected[0])
    assert s.specificity == pytest.approx(0.2 / expected[1])


def test_unknown_metric_has_no_floors():
    with pytest.raises(ValueError, match="prob_diff"):
        floors("prob_diff", 1.0)


def test_specificity_of_few_scattered_sets_is_held_down_by_their_standard_error():
    s = summarise_null(-0.3, [-0.4, 0.4], metric="top1", clean=0.9)
    assert s.mean == 0
    assert s.specificity == pytest.approx(0.3 / (s.std / np.sqrt(2)))


def test_one_set_has_no_spread():
    s = summarise_null(-0.3, [-0.1], metric="top1", clean=0.9)
    assert np.isnan([s.std, s.z]).all()
    assert s.specificity == pytest.approx(3)
    assert s.p_harm == 0.5


def test_no_set_no_numbers():
    s = summarise_null(-0.3, [], metric="top1", clean=0.9)
    assert repr(s) == repr(NullSummary())
    assert not s.at_floor(s.p_harm)


def test_clean_zero_leaves_ratios_of_a_zero_null_open():
    s = summarise_null(-0.3, [0.0, 0.0], metric="logit_diff", clean=0.0)
    assert np.isnan([s.z, s.specificity]).all()


@given(deltas, st.floats(-1, 1, width=32))
def test_p_values(nulls, delta):
    s = summarise_null(delta, nulls, metric="top1", clean=0.9)
    m = len(nulls)
    assert 1 / (m + 1) <= s.p_harm <= 1
    assert 1 / (m + 1) <= s.p_help <= 1
    assert s.p_harm + s.p_help >= 1 + 1 / (m + 1) - 1e-12
    assert s.at_floor(s.p_harm) == (not any(n <= delta + 1e-9 for n in nulls))
    mirrored = summarise_null(-delta, [-n for n in nulls], metric="top1", clean=0.9)
    assert mirrored.p_help == s.p_harm


@given(deltas, st.randoms())
def test_the_order_of_the_sets_does_not_matter(nulls, random):
    shuffled = list(nulls)
    random.shuffle(shuffled)
    a, b = (summarise_null(-0.1, x, metric="top1", clean=0.9) for x in (nulls, shuffled))
    np.testing.assert_allclose(
        [a.mean, a.std, a.p_harm, a.z, a.specificity],
        [b.mean, b.std, b.p_harm, b.z, b.specificity],
        atol=1e-9,
    )


@pytest.mark.parametrize("m", [9, 99])
def test_p_is_uniform_when_the_circuit_is_one_of_its_sets(m):
    """Exchangeable null: p takes each of (1 … m + 1)/(m + 1) equally often."""
    rng = np.random.default_rng(m)
    draws = rng.standard_t(3, (4000, m + 1))
    p = [summarise_null(row[0], row[1:], metric="logit_diff", clean=1.0).p_harm for row in draws]
    counts = np.bincount(np.rint(np.array(p) * (m + 1)).astype(int), minlength=m + 2)[1:]
    assert stats.chisquare(counts).pvalue > 0.001
    assert np.mean(np.array(p) <= 0.1) == pytest.approx(0.1, abs=0.02)


def test_moments_alone_give_z_and_specificity_but_no_p():
    nulls = np.random.default_rng(0).normal(-0.1, 0.05, 10)
    full = summarise_null(-0.4, nulls, metric="top1", clean=0.9)
    part = summarise_moments(
        -0.4, mean=nulls.mean(), std=nulls.std(ddof=1), sets=10, metric="top1", clean=0.9
    )
    assert (part.z, part.specificity) == pytest.approx((full.z, full.specificity))
    assert np.isnan([part.p_harm, part.p_help, part.median]).all()
