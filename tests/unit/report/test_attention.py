"""Attention on the page: what was kept is what is shown, on the named positions, and nothing else runs."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
from factories import STRONG, cell_parts
from test_html import HOSTILE, Page

from mechexp.errors import UserError
from mechexp.report.attention import explorer, strips
from mechexp.report.html import cell_page
from mechexp.report.summary import summary
from mechexp.tracking.results import CellFiles, read_cell, write_cell
from mechexp.tracking.validate import check_patterns

TOKENS = ["When", " Ann", " met", " Bob"]
TRIANGLE = [[1000], [300, 700], [1, 2, 997], [50, 620, 30, 300]]


def with_patterns(folder: Path, tokens: list[str] = TOKENS) -> CellFiles:
    parts = cell_parts("pythia", "ioi", {"prev_token": STRONG})
    heads = [f"L{a}H{b}" for a, b in parts["result"]["screens"]["prev_token"]["heads"]][:2]
    prompt = {"index": 0, "half": "screen", "tokens": tokens, "positions": {"io": 1, "s2": 1, "end": 3}}
    other = {**prompt, "index": 2, "tokens": ["a", "b"], "positions": {"end": 1}}
    per_mille = [
        [TRIANGLE, [[1000], [400, 600]]],
        [[[1000], [0, 1000], [0, 0, 1000], [0, 0, 0, 1000]]] * 1 + [[[1000], [1, 999]]],
    ]
    patterns = {
        "schema": "mechexp.patterns/1",
        "prompts": [prompt, other],
        "heads": heads,
        "per_mille": per_mille,
    }
    return write_cell(folder, **parts, patterns=patterns)


def test_strips_show_the_last_tokens_attention(tmp_path: Path) -> None:
    first, second = strips(with_patterns(tmp_path), "prev_token")
    assert [t.per_mille for t in first["tokens"]] == [50, 620, 30, 300]
    assert first["tokens"][1].names == ("io", "s2") and first["tokens"][3].names == ()
    assert first["named"] == [("io", 62.0), ("s2", 62.0), ("first token", 5.0)]
    assert second["tokens"][3].per_mille == 1000


def test_the_page_shows_the_first_pattern_without_javascript(tmp_path: Path) -> None:
    files = with_patterns(tmp_path)
    text = cell_page(files)
    page = Page(text)
    assert page.open == []
    assert "from  met to  Ann: 0.2 %" in page.text and "from  Bob to  Ann: 62.0 %" in page.text
    assert " Ann (io s2)" in page.text
    data = re.search(r'id="pattern-data">(.*?)</script>', text, re.DOTALL)
    assert data is not None
    kept = json.loads(data[1])
    assert kept["per_mille"][0][0] == TRIANGLE and kept["prompts"][0]["names"] == {"1": "io s2"}
    assert page.tags.count("option") == 2 + 2


def test_the_strongest_label_is_shown_first(tmp_path: Path) -> None:
    files = with_patterns(tmp_path)
    shown = explorer(files)
    assert shown is not None and shown["first"] == 0 and shown["heads"][0]["screens"] == ["prev_token"]


def test_hostile_tokens_stay_text(tmp_path: Path) -> None:
    clean = Page(cell_page(with_patterns(tmp_path / "clean")))
    page = Page(
        cell_page(with_patterns(tmp_path / "bad", [HOSTILE, "</script><script>alert(2)</script>", "b", "c"]))
    )
    assert page.open == []
    assert page.tags.count("script") == clean.tags.count("script") == 3
    assert not [a for a in page.attributes if a[1].startswith("on")]


def test_cells_without_patterns_have_no_such_section(tmp_path: Path) -> None:
    files = write_cell(tmp_path, **cell_parts("pythia", "ioi", {"prev_token": STRONG}))
    assert explorer(files) is None and strips(files, "prev_token") == []
    assert "pattern-data" not in cell_page(files)


def test_patterns_are_read_back_and_stale_ones_are_not(tmp_path: Path) -> None:
    files = with_patterns(tmp_path)
    assert read_cell(tmp_path).patterns == files.patterns
    write_cell(tmp_path, **cell_parts("pythia", "ioi", {"prev_token": STRONG}))  # a second try kept none
    assert (tmp_path / "patterns.json").is_file() and read_cell(tmp_path).patterns is None


@pytest.mark.parametrize(
    "change",
    [
        {"schema": "x"},
        {"heads": ["L1H1"]},
        {"heads": ["<b>", "L0H0"]},
        {"per_mille": [[[[1000]]]]},
        {"per_mille": 3},
        {"prompts": [{"tokens": ["a"], "positions": {"end": 7}}]},
        {"prompts": None},
    ],
)
def test_damaged_patterns_are_refused(tmp_path: Path, change: dict[str, Any]) -> None:
    patterns = with_patterns(tmp_path).patterns
    assert patterns is not None
    check_patterns(patterns, "here")
    with pytest.raises(UserError):
        check_patterns({**patterns, **change}, "here")


def test_values_outside_their_range_are_refused(tmp_path: Path) -> None:
    patterns = json.loads(json.dumps(with_patterns(tmp_path).patterns))
    patterns["per_mille"][0][0][1][1] = 1001
    with pytest.raises(UserError, match="do not fit"):
        check_patterns(patterns, "here")


def test_the_summary_tells_the_finding_in_numbers() -> None:
    result = cell_parts("pythia", "ioi", {"prev_token": STRONG}, sets=99)["result"]
    (sentence,) = summary(result)
    assert sentence.startswith("prev_token is the primary cause of ioi in pythia: removing L")
    assert "from 5.20 to 2.10" in sentence and "Δ −3.10 [−3.41, −2.79]" in sentence and "99 sets" in sentence


def test_the_summary_claims_nothing_where_nothing_was_found() -> None:
    from factories import HELPS, NONE

    none = summary(cell_parts("pythia", "ioi", {"induction": NONE}, sets=99)["result"])
    assert none[0].startswith("None of these screens") and "cause" not in " ".join(none)
    both = summary(cell_parts("pythia", "ioi", {"induction": NONE, "bos": HELPS}, sets=99)["result"])
    assert both[1].startswith("bos is an interferer")
    assert summary(cell_parts("pythia", "ioi", competent=False)["result"]) == []
