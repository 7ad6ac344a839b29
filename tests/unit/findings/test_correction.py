"""Benjamini–Hochberg and the number of sets that a test lacks."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from statsmodels.stats.multitest import multipletests

from mechexp.findings.correction import benjamini_hochberg, sets_to_settle

NAN = float("nan")
p_values = st.lists(st.floats(0.001, 1), min_size=1, max_size=30)


@given(p_values)
def test_same_as_statsmodels(p):
    reject, adjusted = benjamini_hochberg(p, 0.05)
    expected = multipletests(p, alpha=0.05, method="fdr_bh")
    np.testing.assert_allclose(adjusted, expected[1])
    assert (reject == expected[0]).all()


@given(p_values, st.data())
def test_unknown_p_are_no_tests(p, data):
    at = data.draw(st.integers(0, len(p)))
    reject, adjusted = benjamini_hochberg([*p[:at], NAN, *p[at:]], 0.05)
    plain = benjamini_hochberg(p, 0.05)
    assert not reject[at]
    assert np.isnan(adjusted[at])
    assert (np.delete(reject, at) == plain[0]).all()


@given(p_values, st.data())
def test_a_smaller_p_never_loses_a_rejection(p, data):
    i = data.draw(st.integers(0, len(p) - 1))
    before, q_before = benjamini_hochberg(p, 0.05)
    after, q_after = benjamini_hochberg([*p[:i], p[i] / 2, *p[i + 1 :]], 0.05)
    assert (after >= before).all()
    assert (q_after <= q_before + 1e-12).all()


def test_nothing_to_test():
    reject, adjusted = benjamini_hochberg([NAN, NAN], 0.05)
    assert not reject.any()
    assert np.isnan(adjusted).all()
    assert benjamini_hochberg([], 0.05)[0].shape == (0,)


def test_a_p_exactly_at_its_threshold_passes():
    assert benjamini_hochberg([1 / 20], 0.05)[0].all()
    assert benjamini_hochberg([0.01] * 12 + [1.0] * 48, 0.05)[0][:12].all()


def test_sets_by_hand():
    assert sets_to_settle([0.1], [True], 0.05) == 19
    assert sets_to_settle([0.1], [False], 0.05) == 0
    assert sets_to_settle([0.1, 1.0, 1.0], [True, False, False], 0.05) == 59  # .05/3
    assert sets_to_settle([0.1, 0.1, 1.0], [True, True, False], 0.05) == 29  # 2 × .05/3
    assert sets_to_settle([0.1, 0.03, NAN], [True, False, False], 0.05) == 19  # the other passes too


@given(st.lists(st.sampled_from([0.02, 0.05, 0.1, 0.3, 1.0]), min_size=1, max_size=20), st.data())
def test_the_promised_number_of_sets_is_enough_and_one_less_is_not(p, data):
    reject, _ = benjamini_hochberg(p, 0.05)
    at_floor = data.draw(st.lists(st.booleans(), min_size=len(p), max_size=len(p)))
    short = np.array(at_floor) & ~reject
    m = sets_to_settle(p, short, 0.05)
    if not short.any():
        assert m == 0
        return
    assert benjamini_hochberg(np.where(short, 1 / (m + 1), p), 0.05)[0][short].all()
    fewer = np.where(short, 1 / m, p)
    assert not benjamini_hochberg(fewer, 0.05)[0][short].any()


def test_false_discoveries_stay_below_alpha():
    """Sweeps of 20 true nulls and 5 causes, with p from 199 sets."""
    rng = np.random.default_rng(0)
    rates = []
    for _ in range(400):
        p = np.concatenate([rng.integers(1, 201, 20) / 200, np.full(5, 1 / 200)])
        reject, _ = benjamini_hochberg(p, 0.05)
        rates.append(reject[:20].sum() / max(reject.sum(), 1))
    assert np.mean(rates) == pytest.approx(0.04, abs=0.012)  # alpha × share of true nulls
