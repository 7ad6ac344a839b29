"""The MoE hypothesis can come out either way."""

import pandas as pd
import pytest

from mechexp.findings.moe_primacy import CLAIM, moe_primacy

FITS = {"gt": "primary", "succ": "primary", "vb": "primary", "ioi": "secondary"}


def cells(model, moe, labels, flags=None, **columns):
    rows = []
    for task, label in labels.items():
        own = {"model": model, "moe": moe, "task": task, "screen": "prev_token", "taxonomy": label}
        rows.append({**own, "flags": (flags or {}).get(task, ""), **columns})
        if label != "primary":
            rows.append({**own, "screen": "other", "taxonomy": "primary", "flags": "", **columns})
    return pd.DataFrame(rows)


def test_supported_only_on_all_four_tasks():
    report = moe_primacy(cells("olmoe", True, FITS))
    assert report.verdict == "supported"
    assert set(report.cells["status"]) == {"supports"}
    part = {t: label for t, label in FITS.items() if t != "vb"}
    report = moe_primacy(cells("olmoe", True, part))
    assert report.verdict == "undecided"
    assert "olmoe · vb" in report.reason


@pytest.mark.parametrize(
    "change",
    [{"gt": "secondary"}, {"succ": "null"}, {"vb": "correlate"}, {"vb": "empty"}, {"ioi": "primary"}],
)
def test_one_decided_cell_against_it_falsifies_it(change):
    report = moe_primacy(cells("olmoe", True, {**FITS, **change}))
    assert report.verdict == "contradicted"
    assert f"olmoe · {next(iter(change))}" in report.reason


@pytest.mark.parametrize(
    ("label", "flag"),
    [
        ("not_evaluated", ""),
        ("indeterminate", "underpowered"),
        ("secondary", "weak,primary_open"),
        ("null", "null_destructive"),
    ],
)
def test_weak_evidence_leaves_it_open(label, flag):
    report = moe_primacy(cells("olmoe", True, {**FITS, "gt": label}, {"gt": flag}))
    assert report.verdict == "undecided"
    assert report.cells.set_index("task").loc["gt", "status"] == "undecided"


def test_dense_models_are_listed_but_decide_nothing():
    frame = pd.concat(
        [cells("olmoe", True, FITS), cells("pythia", False, dict.fromkeys(CLAIM, "null"))], ignore_index=True
    )
    report = moe_primacy(frame)
    assert report.verdict == "supported"
    assert (report.cells["moe"] == False).sum() == 4  # noqa: E712
    assert report.fisher_p == pytest.approx(0.1)  # 3 of 3 against 0 of 3


def test_without_moe_models_it_is_untested():
    report = moe_primacy(cells("pythia", False, FITS))
    assert report.verdict == "untested"
    assert report.fisher_p != report.fisher_p


def test_a_second_moe_model_must_fit_too():
    frame = pd.concat(
        [cells("olmoe", True, FITS), cells("mixtral", True, {**FITS, "succ": "secondary"})], ignore_index=True
    )
    assert moe_primacy(frame).verdict == "contradicted"


def test_routing_is_reported_where_measured():
    report = moe_primacy(cells("olmoe", True, FITS, router_topk_change=0.4, router_entropy_change=-0.1))
    assert (report.cells["router_topk_change"] == 0.4).all()
    assert "router_topk_change" not in moe_primacy(cells("olmoe", True, FITS)).cells


def test_prev_token_must_have_been_run():
    frame = cells("olmoe", True, FITS)
    report = moe_primacy(frame[(frame["task"] != "ioi") | (frame["screen"] != "prev_token")])
    assert report.verdict == "undecided"
    assert "was not run" in report.cells.set_index("task").loc["ioi", "reason"]


def test_no_rows_at_all():
    assert moe_primacy(cells("olmoe", True, FITS).iloc[:0]).verdict == "untested"
