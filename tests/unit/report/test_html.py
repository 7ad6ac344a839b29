import json
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from factories import HELPS, NONE, STRONG, WEAK, cell_parts, make_cell

from mechexp.findings.labels import FLAGS, LABELS
from mechexp.report.html import cell_page, explain, overlap, render_cell, render_folder, rerun_command
from mechexp.tracking.results import CellFiles, write_cell

FOUR = {"prev_token": STRONG, "induction": NONE, "name_mover": WEAK, "bos": HELPS}
HOSTILE = '</td><script>alert(1)</script><img src=x onerror=alert(1)>{{ 7*7 }}" onmouseover="x\' & \u202e'


class Page(HTMLParser):
    """Collects what a browser would see."""

    VOID = ("meta", "img", "br", "rect", "path")

    def __init__(self, text: str) -> None:
        super().__init__()
        self.text, self.tags, self.attributes, self.open = "", [], [], []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += [(tag, k, v or "") for k, v in attrs]
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag not in self.VOID:
            assert self.open.pop() == tag, f"</{tag}> closes something else"

    def handle_data(self, data: str) -> None:
        if not self.open or self.open[-1] not in ("script", "style"):
            self.text += data


@pytest.fixture(scope="module")
def cell(tmp_path_factory: pytest.TempPathFactory) -> CellFiles:
    return make_cell(
        tmp_path_factory.mktemp("cell"), "pythia", "ioi", FOUR, sets=99, before_commit=render_cell
    )


@pytest.fixture(scope="module")
def page(cell: CellFiles) -> Page:
    return Page((cell.folder / "report.html").read_text())


def test_the_page_is_well_formed(page: Page) -> None:
    assert page.open == []
    ids = [v for _, k, v in page.attributes if k == "id"]
    assert len(ids) == len(set(ids))
    links = {v[1:] for _, k, v in page.attributes if k == "href" and v.startswith("#")}
    assert links and links <= set(ids)


def test_nothing_is_fetched_when_it_is_opened(cell: CellFiles, page: Page) -> None:
    for tag, key, value in page.attributes:
        if key in ("src", "href", "data", "action", "poster"):
            assert value.startswith(("data:image/png;base64,", "#")), (tag, key, value[:60])
    text = (cell.folder / "report.html").read_text()
    assert "default-src 'none'" in text
    assert not re.search(r"url\((?!#)|@import|fetch\(|XMLHttpRequest|import\(", text)


def test_it_shows_the_verdict_and_why(cell: CellFiles, page: Page) -> None:
    for name, row in cell.screens.items():
        assert f"{name}: " in page.text
        for rule in row["rules"]:
            assert rule in page.text
        for flag in row["flags"]:
            assert explain(flag) in page.text
    assert "−3.10" in page.text and "[−3.41, −2.79]" in page.text
    images = [v for t, k, v in page.attributes if (t, k) == ("img", "src")]
    assert len(images) == 1 + 2 * len(FOUR)
    assert page.tags.count("rect") >= 2 * 96


def test_tables_are_complete_without_javascript(page: Page, cell: CellFiles) -> None:
    for row in cell.screens.values():
        for layer, head in row["heads"]:
            assert f"L{layer}H{head}" in page.text
    assert "display: none" not in page.text


def test_it_is_the_same_when_made_again_from_the_files(cell: CellFiles) -> None:
    before = (cell.folder / "report.html").read_bytes()
    assert render_folder(cell.folder).read_bytes() == before


def test_hostile_text_stays_text(tmp_path: Path) -> None:
    parts = cell_parts("pythia", "ioi", FOUR, notes=[HOSTILE], swept={HOSTILE: HOSTILE}, overrides=[HOSTILE])
    result = json.loads(json.dumps(parts["result"]))
    result["model"] |= {"name": HOSTILE, "id": HOSTILE, "revision": HOSTILE, "arch": HOSTILE}
    for row in result["screens"].values():
        row |= {"rules": [HOSTILE], "notes": [HOSTILE], "flags": [HOSTILE], "taxonomy": HOSTILE}
        row["evidence"][HOSTILE] = HOSTILE
    prompt = {
        "prompt": HOSTILE,
        "target": [HOSTILE],
        "distractor": HOSTILE,
        "half": HOSTILE,
        "spans": {HOSTILE: [0, 9]},
    }
    heads = parts["heads"].assign(best_class=HOSTILE, **{HOSTILE: 1.0})
    files = write_cell(
        tmp_path, **{**parts, "result": result, "prompts": [prompt], "heads": heads, "config": {"x": HOSTILE}}
    )
    clean = Page(cell_page(make_cell(tmp_path / "clean", "pythia", "ioi", FOUR)))
    page = Page(cell_page(files))
    assert page.open == []
    assert page.tags.count("script") == clean.tags.count("script") == 1
    assert not [a for a in page.attributes if a[1].startswith("on")]
    assert not [a for a in page.attributes if a[1] == "src" and not a[2].startswith("data:")]
    assert page.text.count("alert(1)") > 20  # it is shown, as text
    assert "{{ 7*7 }}" in page.text and "49" not in page.text.split("{{ 7*7 }}")[1][:5]


@pytest.mark.parametrize(
    "spans",
    [
        {"a": [5, 2]},
        {"a": [-1, 3]},
        {"a": [0, 10_000]},
        {"a": "xy"},
        {"a": [0, 5], "b": [3, 8]},
        {"a": [True, 3]},
        [1],
        None,
    ],
)
def test_strange_spans_do_not_lose_a_letter_of_the_prompt(tmp_path: Path, spans: Any) -> None:
    parts = cell_parts("pythia", "ioi", {})
    prompt = {"prompt": "When Ann and Bob met", "target": " Ann", "distractor": [], "spans": spans}
    page = Page(cell_page(write_cell(tmp_path, **{**parts, "prompts": [prompt]})))
    shown = re.sub(r"(?<=When)a|(?<=Whe)a", "", page.text)
    assert "Ann and Bob met" in shown


def test_every_label_and_flag_has_its_sentence() -> None:
    for name in (*LABELS, *FLAGS, *(f"{f}_top1" for f in FLAGS)):
        assert len(explain(name)) > 20
    assert explain("from another version") == ""


def test_a_cell_that_was_not_evaluated_says_why_and_draws_no_effects(tmp_path: Path) -> None:
    make_cell(tmp_path, "smollm2", "vb", competent=False, before_commit=render_cell)
    page = Page((tmp_path / "report.html").read_text())
    assert "top1 0.14 < 0.2" in page.text
    assert "img" not in page.tags


def test_other_kinds_of_ablation_stand_beside_the_cells_own(tmp_path: Path) -> None:
    parts = cell_parts("pythia", "ioi", {"prev_token": STRONG})
    frame = parts["conditions"]
    zero = frame[frame["role"] == "circuit"].assign(kind="zero", logit_diff=5.2 - 1.25)
    files = write_cell(tmp_path, **{**parts, "conditions": pd.concat([frame, zero])})
    flat = " ".join(Page(cell_page(files)).text.split())
    assert re.search(r"mean \(this cell's\) ?−62.0 ?−3.10 ?zero ?−62.0 ?−1.25", flat)


def test_shared_heads_are_one_finding_and_shown_as_such() -> None:
    screens = {
        "a": {"heads": [[0, 1], [1, 2]]},
        "b": {"heads": [[1, 2], [3, 4], [5, 6]]},
        "c": {"heads": [[7, 7]]},
    }
    (pair,) = overlap(screens)
    assert (pair["a"], pair["b"], pair["shared"]) == ("a", "b", "L1H2")
    assert pair["jaccard"] == pytest.approx(1 / 4)


def test_the_command_to_run_it_again_can_be_pasted_into_a_shell() -> None:
    result = cell_parts("pythia", "ioi")["result"]
    assert rerun_command(result).startswith(
        "python -m mechexp model=pythia task=ioi task.n=16 control=matched_random"
    )
    given = {**result, "overrides": ["task=succ", 'task.separator=", "', "x=$(rm -rf /)"]}
    assert rerun_command(given) == """python -m mechexp task=succ 'task.separator=", "' 'x=$(rm -rf /)'"""
