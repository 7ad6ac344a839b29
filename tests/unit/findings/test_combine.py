"""Both metrics of a screen put together."""

import pytest
from evidence_maker import NAN, make

from mechexp.findings import FLAGS, TaxonomyConfig, explain_flag, judge

CFG = TaxonomyConfig()


def finding(top1=None, logit_diff=None, **both):
    evidence = [make(metric="top1", **{**both, **(top1 or {})})]
    evidence += [make(metric="logit_diff", **{**both, **(logit_diff or {})})]
    (found,) = judge(evidence, CFG)
    return found


def test_the_headline_is_the_logit_differences_label():
    found = finding(top1={"delta": -0.01, "p_harm": 0.5})
    assert (found.label, found.taxonomy_logit_diff, found.taxonomy_top1) == (
        "primary",
        "primary",
        "correlate",
    )
    assert found.rules[0].startswith("logit_diff — Primary")
    assert any(r.startswith("top1 — Correlate") for r in found.rules)


@pytest.mark.parametrize(
    ("top1", "logit_diff", "expected"),
    [
        ({"delta": -0.02}, {"delta": -0.2}, True),
        ({"delta": 0.02}, {"delta": 0.2}, True),
        ({"delta": -0.021}, {"delta": -0.2}, False),
        ({"delta": -0.02}, {"delta": -0.19}, False),
        ({"delta": -0.02}, {"delta": -0.2, "specificity": 2.9}, False),
        ({"delta": -0.02}, {"delta": -0.2, "sets": 0}, False),
    ],
)
def test_margin_only(top1, logit_diff, expected):
    assert ("margin_only" in finding(top1, logit_diff).flags) == expected


@pytest.mark.parametrize(
    ("top1", "logit_diff", "expected"),
    [
        ({"delta": 0.1}, {"delta": -0.2}, True),
        ({"delta": -0.1}, {"delta": 0.2}, True),
        ({"delta": -0.1}, {"delta": -0.2}, False),
        ({"delta": 0.01}, {"delta": -0.2}, False),  # the interval of top-1 reaches 0
        ({"delta": 0.006, "half": NAN}, {"delta": -0.2, "half": NAN}, True),  # published: no intervals
        ({"delta": 0.0, "half": NAN}, {"delta": -0.2, "half": NAN}, False),
    ],
)
def test_metric_conflict(top1, logit_diff, expected):
    found = finding(top1, logit_diff)
    assert ("metric_conflict" in found.flags) == expected
    assert any("metric_conflict" in r for r in found.rules) == expected


def test_the_bounds_of_margin_only_can_be_moved():
    evidence = [make(metric="top1", delta=-0.05), make(metric="logit_diff", delta=-0.15)]
    assert "margin_only" not in judge(evidence, TaxonomyConfig(margin_top1=0.05))[0].flags
    assert "margin_only" not in judge(evidence, TaxonomyConfig(margin_logit_diff=0.15))[0].flags
    both = TaxonomyConfig(margin_top1=0.05, margin_logit_diff=0.15)
    assert "margin_only" in judge(evidence, both)[0].flags


def test_flags_of_top1_alone_are_marked_as_such():
    found = finding(top1={"mean": -0.3}, logit_diff={"delta": -0.15})
    assert "null_destructive_top1" in found.flags
    assert "null_destructive" not in found.flags
    assert "weak" in found.flags
    assert "weak_top1" not in found.flags


def test_a_flag_of_both_metrics_is_there_once():
    found = finding(sets=7, control="paper", null_short=2)
    assert sorted(found.flags) == ["paper_null", "short_null", "underpowered"]


def test_nothing_is_said_of_a_cell_that_was_not_evaluated():
    found = finding(top1={"delta": 0.0}, clean_top1=0.1)
    assert found.label == found.taxonomy_top1 == "not_evaluated"
    assert found.flags == ()


def test_every_flag_is_explained():
    assert all(explain_flag(f) == text for f, text in FLAGS.items())
    assert explain_flag("weak_top1") == FLAGS["weak"] + " (for top-1)"
    with pytest.raises(KeyError):
        explain_flag("no_such_flag")


def test_findings_keep_the_order_of_screens_whatever_the_order_of_metrics():
    evidence = [
        make(metric=m, screen=s, heads=((i, 0),))
        for i, s in enumerate(("z", "a"))
        for m in (("logit_diff", "top1") if i else ("top1", "logit_diff"))
    ]
    assert [f.screen for f in judge(evidence, CFG)] == ["z", "a"]
