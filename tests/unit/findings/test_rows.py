"""Screens stored as rows give the same labels when read again."""

import json

import numpy as np
import pytest
from evidence_maker import make

from mechexp.errors import UserError
from mechexp.findings import (
    METRICS,
    Effect,
    TaxonomyConfig,
    bootstrap_counts,
    empty_evidence,
    from_row,
    judge,
    measure_evidence,
    relabel,
    to_row,
)

CFG = TaxonomyConfig()
NAMES = """clean_{m} ablated_{m} delta_{m} delta_{m}_low delta_{m}_high null_{m}_mean null_{m}_std
null_{m}_min null_{m}_max null_sets p_harm_{m} p_help_{m} z_{m} specificity_{m}"""


def stored(evidence):
    findings = judge(evidence, CFG, joint=True)
    pairs = zip(evidence[::2], evidence[1::2], strict=True)
    rows = [to_row(a, b, f) for (a, b), f in zip(pairs, findings, strict=True)]
    return findings, [
        (f.cell, f.screen, json.loads(json.dumps(r, allow_nan=False)))
        for f, r in zip(findings, rows, strict=True)
    ]


def pair(**changes):
    return [make(metric="top1", **changes), make(metric="logit_diff", **changes)]


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"delta": 0.4, "singles_help": 1.0, "bos": 0.7},
        {"delta": 0.0, "p_harm": 0.5, "direct": 0.5},
        {"sets": 7, "null_total": 7, "null_short": 1},
        {"sets": 1, "std": float("nan")},
        {"sets": 0, "control": "none"},
        {"heads": ()},
        {"clean_top1": 0.1},
        {"delta": -0.95, "median": -0.92},
        {"other_kinds": {"zero": Effect(1.0, 1.2, 0.2, 0.1, 0.3)}},
    ],
)
def test_a_row_read_again_is_the_same_evidence_and_label(changes):
    evidence = pair(screen="a", heads=((3, 3),), cell="x", delta=-0.3)
    evidence += pair(**{"screen": "b", "cell": "y", **changes})
    for e in evidence:
        object.__setattr__(e, "clean_top1", evidence[0].effect.clean if e.cell == "x" else e.clean_top1)
    findings, rows = stored(evidence)
    again = [from_row(*row) for row in rows]
    for metric in range(2):
        got, kept = again[1][metric], evidence[2 + metric]
        object.__setattr__(got, "clean_top1", kept.clean_top1)  # a row has it from the metric itself
        assert repr(got) == repr(kept)
    if "clean_top1" not in changes:
        assert repr(relabel(rows, CFG)) == repr(findings)


def test_names_are_those_of_the_interface():
    _, rows = stored(pair())
    expected = {n.format(m=m) for m in METRICS for n in NAMES.split()}
    assert set(rows[0][2]["metrics"]) == expected
    assert {
        "heads",
        "n_heads",
        "metrics",
        "taxonomy",
        "taxonomy_top1",
        "taxonomy_logit_diff",
        "flags",
    } <= set(rows[0][2])


def test_unknown_numbers_are_left_out_and_json_holds_no_nan():
    _, rows = stored(pair(sets=0))
    assert "p_harm_top1" not in rows[0][2]["metrics"]
    assert rows[0][2]["metrics"]["null_sets"] == 0
    assert rows[0][2]["evidence"]["top1"]["excess"] is None


def test_labels_follow_new_thresholds():
    _, rows = stored(pair())
    assert relabel(rows, CFG)[0].label == "primary"
    assert relabel(rows, TaxonomyConfig(min_specificity=30.0))[0].label == "indeterminate"


def test_cells_are_relabelled_jointly_or_each_alone():
    crowd = [e for i in range(19) for e in pair(cell=f"c{i}", delta=-0.01, p_harm=0.7)]
    _, rows = stored([*pair(cell="x"), *crowd])
    assert relabel(rows, CFG)[0].label == "indeterminate"
    assert relabel(rows[:1], CFG, joint=False)[0].label == "primary"


@pytest.mark.parametrize("broken", [{"evidence": {}}, {"metrics": {"delta_top1": "much"}}, {"heads": [[1]]}])
def test_a_broken_row_is_one_clear_message(broken):
    _, rows = stored(pair())
    cell, screen, row = rows[0]
    with pytest.raises(UserError, match=r"numbers of screen 's'(.|\n)*cell m · t"):
        from_row(cell, screen, {**row, **broken})


def test_measured_evidence_says_what_the_arrays_say():
    rng = np.random.default_rng(0)
    clean, ablated, null = rng.normal(5, 1, 50), rng.normal(2, 1, 50), rng.normal(4.9, 1, (19, 50))
    e = measure_evidence(
        clean,
        ablated,
        null,
        bootstrap_counts(50),
        cell="c",
        screen="s",
        metric="logit_diff",
        heads=[(2, 1), (0, 3)],
        singles_KP=np.stack([clean - 1, clean + 1]),
        other_kinds={"zero": clean - 2},
        null_total=77,
    )
    assert e.heads == ((0, 3), (2, 1))
    assert e.effect.delta == pytest.approx((ablated - clean).mean())
    assert e.effect.excess == pytest.approx(e.effect.delta - e.null.mean)
    assert e.null.sets == 19
    assert e.null.p_harm == 1 / 20
    assert e.singles_help == 0.5
    assert e.other_kinds["zero"].delta == pytest.approx(-2)


def test_an_empty_circuit_can_be_stored():
    evidence = [empty_evidence("c", "s", m, 0.9, clean_top1=0.9, clean_frac_correct=1.0) for m in METRICS]
    findings, rows = stored(evidence)
    assert findings[0].label == "empty"
    assert relabel(rows, CFG)[0].label == "empty"
