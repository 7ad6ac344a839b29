"""The taxonomy on the published figures: published labels where they allow one, reasons where they do not."""

import json
from pathlib import Path

import pytest

from mechexp.findings import TaxonomyConfig, judge_sweep
from mechexp.findings.published import WRONG_HEADS, load_published, published_evidence

DATA = Path(__file__).parent / "data" / "xu2026.json"
NO_NULL = "no null was run for the published primary: its specificity is unknown"

# What the published figures of a cell support by themselves: (screen, label, flags); or why nothing.
AGREES = {
    ("ioi", "olmo"): ("s_inhibition", "primary", ()),
    ("ioi", "olmoe"): ("name_mover", "primary", ()),
    ("gt", "pythia"): ("gt_specific", "primary", ()),
    ("succ", "olmo"): ("successor", "null", ("null_destructive",)),
    ("vb", "pythia"): ("vb_specific", "interferer", ()),
}
CANNOT = {
    ("ioi", "pythia"): NO_NULL,
    ("gt", "olmo"): "margin only: no null of the logit difference was published",
    ("gt", "olmoe"): NO_NULL,
    ("succ", "pythia"): "mixed is none of the five classes, and the rival circuit is another model's",
    ("succ", "olmoe"): NO_NULL,
    ("vb", "olmo"): NO_NULL,
    ("vb", "olmoe"): NO_NULL,
}
PUBLISHED_WORDS = {
    "primary": lambda screen: screen,
    "null": lambda _: "null not reliable",
    "interferer": lambda _: "interferer (BOS confound)",
}


@pytest.fixture(scope="module")
def verdicts():
    rows = load_published()
    rows = rows[~rows["faults"].str.contains(WRONG_HEADS)]
    evidence = [published_evidence(row) for _, row in rows.iterrows()]
    judged = judge_sweep(evidence, TaxonomyConfig(strict_paper=True))
    keys = zip(rows["task"], rows["model"], rows["screen"], strict=True)
    return dict(zip(keys, judged, strict=True))


@pytest.fixture(scope="module")
def published():
    return {
        (task, model): word
        for task, models in json.loads(DATA.read_text())["published_primary"].items()
        for model, word in models.items()
    }


def test_the_package_ships_the_same_figures():
    packaged = Path(load_published.__code__.co_filename).parent / "published" / "xu2026.json"
    assert json.loads(packaged.read_text()) == json.loads(DATA.read_text())


def test_every_published_cell_is_in_one_of_the_two_tables(published):
    assert set(AGREES) | set(CANNOT) == set(published)
    assert not set(AGREES) & set(CANNOT)


@pytest.mark.parametrize("cell", sorted(AGREES))
def test_published_labels_that_the_figures_allow(cell, verdicts, published):
    screen, label, flags = AGREES[cell]
    verdict = verdicts[(*cell, screen)]
    assert verdict.label == label
    assert set(flags) <= set(verdict.flags)
    assert published[cell] == PUBLISHED_WORDS[label](screen)


@pytest.mark.parametrize("cell", [c for c, why in CANNOT.items() if why == NO_NULL])
def test_a_primary_without_a_null_stays_open_and_no_other_screen_takes_its_place(cell, verdicts, published):
    own = verdicts[(*cell, published[cell])]
    assert own.label == "indeterminate"
    assert "no_null" in own.flags
    others = {screen: v.label for (task, model, screen), v in verdicts.items() if (task, model) == cell}
    assert "primary" not in others.values()


def test_margin_only_needs_a_null_of_the_logit_difference(verdicts, published):
    assert published["gt", "olmo"] == "margin only"
    row = load_published().set_index(["task", "model", "screen"]).loc[("gt", "olmo", "gt_specific")]
    assert abs(row["delta_top1"]) <= 0.02
    assert (
        abs(row["delta_logit_diff"]) >= 0.2 * row["clean_logit_diff"]
    )  # its size fits; r is what is missing
    assert verdicts["gt", "olmo", "gt_specific"].label == "null"


def test_a_mixed_cell_is_null_by_a_null_that_is_itself_destructive(verdicts):
    verdict = verdicts["succ", "pythia", "successor"]
    assert verdict.label == "null"
    assert "null_destructive" in verdict.flags


def test_by_default_ten_sets_decide_nothing_causal():
    rows = load_published()
    rows = rows[~rows["faults"].str.contains(WRONG_HEADS)]
    judged = judge_sweep([published_evidence(row) for _, row in rows.iterrows()], TaxonomyConfig())
    assert not {v.label for v in judged} & {"primary", "secondary", "interferer"}
