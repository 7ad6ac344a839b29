"""Rates of a calibration, on cases made up so that the right answer is known."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mechexp.calibrate import statistics as stat
from mechexp.calibrate.verdicts import Case

EXPECTED = {"primary": ("primary",), "interferer": ("interferer",), "idle": ("correlate", "null")}


def case(role, label, share=0.5, p_harm=0.5, p_help=0.5):
    return Case(
        seed=0, screen="bos", role=role, expected=EXPECTED[role], label=label, label_top1=label, flags=(),
        share=share, stands_out=9.0, found=True, p_harm=p_harm, p_help=p_help, delta=-share, specificity=1.0,
        z=0.0,
    )  # fmt: skip


def test_the_interval_is_clopper_and_pearsons():
    found = stat.rate([True] * 2 + [False] * 18)  # 2 of 20: tabulated 1.23 % – 31.70 %
    assert (found.hits, found.of, found.rate) == (2, 20, 0.1)
    assert (found.low, found.high) == pytest.approx((0.01235, 0.31698), abs=1e-4)
    assert np.isnan(stat.rate([]).rate)


@given(st.lists(st.booleans(), min_size=1, max_size=60))
def test_intervals_hold_their_rate(values):
    found = stat.rate(values)
    assert 0 <= found.low <= found.rate <= found.high <= 1


def test_recall_precision_and_false_positives_count_what_they_say():
    cases = [
        *[case("primary", "primary")] * 3,
        case("primary", "indeterminate"),
        case("interferer", "null", share=0.05),
        *[case("idle", "correlate")] * 5,
        case("idle", "interferer"),
        case("idle", "primary"),
    ]
    assert stat.recall(cases)["primary"].rate == 0.75
    assert stat.recall(cases)["interferer"].rate == 0.0
    assert stat.precision(cases)["primary"].rate == 0.75
    assert stat.false_positives(cases)["any"].hits == 2
    assert stat.false_positives(cases)["any"].of == 7
    assert stat.false_positives(cases)["interferer"].rate == pytest.approx(1 / 7)
    assert stat.confusion(cases)["idle"]["correlate"] == 5
    assert not stat.is_clear(cases[4])
    assert stat.is_clear(cases[5])


def test_recall_by_strength_sorts_cases_by_their_planted_share():
    cases = [case("interferer", "interferer", share=-0.25), case("interferer", "null", share=-0.01)]
    rows = {(r["low"], r["high"]): r for r in stat.by_strength(cases, "interferer")}
    assert rows[0.2, 0.3]["rate"] == 1.0
    assert rows[0.0, 0.03]["rate"] == 0.0
    assert sum(r["of"] for r in rows.values()) == 2


def test_p_calibration_tells_uniform_from_crowded():
    rng = np.random.default_rng(0)
    uniform = [case("idle", "null", p_harm=p, p_help=1 - p) for p in rng.uniform(size=300)]
    crowded = [case("idle", "null", p_harm=p**3, p_help=1 - p) for p in rng.uniform(size=300)]
    assert stat.p_calibration(uniform, 99)["harm"]["ks_p"] > 0.01
    assert stat.p_calibration(crowded, 99)["harm"]["ks_p"] < 1e-6
    assert stat.p_calibration(crowded, 99)["harm"]["at_or_under_05"]["rate"] > 0.2


def test_coverage_counts_intervals_that_hold_the_truth():
    def row(low, high, truth):
        metrics = {"delta_logit_diff_low": low, "delta_logit_diff_high": high}
        return {
            "population": {"s": {"logit_diff": truth, "top1": 0.0}},
            "runs": {"default": {"screens": {"s": {"metrics": metrics}}}},
        }

    rows = [row(-1, 1, 0.5), row(-1, 1, 2.0), row(0.0, 0.0, 0.0)]
    found = stat.coverage(rows)
    assert (found["logit_diff"].hits, found["logit_diff"].of) == (1, 2)
    assert found["top1"].of == 0
