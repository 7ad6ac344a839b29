"""The published grid as a frame, and measured cells beside it."""

import numpy as np
import pandas as pd
import pytest

from mechexp.findings.published import (
    compare_with_published,
    load_published,
    published_delta,
    published_evidence,
)


def measured(task, model, screen, delta, half=0.02, mean=0.0, std=0.02, sets=199):
    return pd.DataFrame(
        [
            {
                "task": task,
                "model": model,
                "screen": screen,
                "delta_top1": delta,
                "delta_top1_low": delta - half,
                "delta_top1_high": delta + half,
                "null_top1_mean": mean,
                "null_top1_std": std,
                "null_sets": sets,
            }
        ]
    )


def joined(*args, **kwargs):
    table = compare_with_published(measured(*args, **kwargs))
    return table.set_index(["task", "model", "screen"]).loc[args[:3]]


def test_the_frame_holds_every_published_row_in_fractions():
    frame = load_published().set_index(["task", "model", "screen"])
    assert len(frame) == 33
    own = frame.loc[("ioi", "olmo", "s_inhibition")]
    assert own[["delta_top1", "null_mean", "null_std", "clean_top1"]].tolist() == pytest.approx(
        [-0.32, -0.066, 0.093, 0.878]
    )
    assert own["null_sets"] == 10
    assert own["heads"] == "L13H3,L11H5,L11H8,L12H1,L10H15"
    assert own["rounding"] == 0.005
    assert frame.loc[("succ", "pythia", "prev_token"), "prompts"] == 118


def test_known_faults_are_told():
    faults = load_published().set_index(["task", "model", "screen"])["faults"]
    assert faults[("ioi", "olmo", "s_inhibition")] == ""
    assert faults[("gt", "olmo", "prev_token")].startswith("wrong heads; no null; picked from fp16")
    assert faults[("vb", "olmo", "vb_specific")] == "a null of one set"
    assert faults.str.contains("wrong heads").sum() == 4


def test_rows_with_the_wrong_heads_are_no_evidence():
    rows = load_published()
    with pytest.raises(ValueError, match="wrong heads"):
        published_evidence(rows[rows["faults"].str.contains("wrong heads")].iloc[0])


def test_agreement_within_intervals():
    assert joined("ioi", "olmo", "s_inhibition", -0.30, mean=-0.07)[
        ["agree_delta", "agree_null"]
    ].tolist() == [
        "yes",
        "yes",
    ]
    assert joined("ioi", "olmo", "s_inhibition", -0.10, mean=0.2)[["agree_delta", "agree_null"]].tolist() == [
        "no",
        "no",
    ]


def test_what_was_not_measured_or_not_published_is_unknown():
    table = compare_with_published(measured("ioi", "pythia", "prev_token", -0.8))
    assert len(table) == 33
    own = table.set_index(["task", "model", "screen"])
    assert own.loc[("ioi", "pythia", "prev_token"), ["agree_delta", "agree_null"]].tolist() == [
        "yes",
        "unknown",
    ]
    assert own.loc[("gt", "olmo", "gt_specific"), "agree_delta"] == "unknown"
    assert joined("vb", "olmo", "vb_specific", -0.2)["agree_null"] == "unknown"  # one set has no spread
    assert (
        joined("ioi", "olmo", "s_inhibition", -0.3, sets=0, mean=np.nan, std=np.nan)["agree_null"]
        == "unknown"
    )


def test_rounding_of_a_published_figure_is_allowed_for():
    """gt: null 0.0 ± 0.0 pp; a measured mean of 0.04 pp rounds to it."""
    assert joined("gt", "pythia", "gt_specific", -0.7, mean=0.0004, std=0.0)["agree_null"] == "yes"
    assert joined("gt", "pythia", "gt_specific", -0.7, mean=0.002, std=0.0)["agree_null"] == "no"


def test_the_published_interval_covers_when_pairs_are_unknown():
    rng = np.random.default_rng(0)
    covered = []
    for _ in range(2000):
        clean = rng.random(500) < 0.9
        ablated = np.where(
            rng.random(500) < 0.6, clean, rng.random(500) < 0.5
        )  # truth: 0.6 × 0.9 + 0.4 × 0.5
        _, low, high = published_delta(clean.mean(), ablated.mean() - clean.mean(), 500)
        covered.append(low <= 0.74 - 0.9 <= high)
    assert np.mean(covered) >= 0.95


def test_a_model_measured_twice_is_refused():
    twice = pd.concat([measured("ioi", "olmo", "s_inhibition", -0.3)] * 2)
    with pytest.raises(pd.errors.MergeError):
        compare_with_published(twice)
