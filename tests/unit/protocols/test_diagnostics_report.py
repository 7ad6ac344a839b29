"""What the page of a cell says of its diagnostics: written by a real job, read back from the files."""

import re
from pathlib import Path

import pytest

from mechexp.progress import JobProgress
from mechexp.protocols.screen_ablate import screen_ablate
from mechexp.report.html import render_cell


@pytest.fixture(scope="module")
def page(micro_model, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Path]:
    from test_diagnostics import config, prompts

    from mechexp.config import ProtocolConfig
    from mechexp.jobs import describe, prompt_rows
    from mechexp.tracking import write_cell

    folder = tmp_path_factory.mktemp("cell")
    cfg = config(protocol=ProtocolConfig(bootstrap=200, redraws=5, redraw_sets=4, head_counts=[1, 2, 4]))
    loaded, given = micro_model("olmoe"), prompts()
    cfg.task.name = "custom"
    cell = screen_ablate(loaded, given, cfg, JobProgress("test"))
    result = {**describe(cfg, loaded, given), **cell.result, "timing": dict(cell.timing)}
    write_cell(
        folder, result, heads=cell.heads, conditions=cell.conditions, prompts=prompt_rows(given), config="",
        circuits=cell.circuits, before_commit=render_cell,
    )  # fmt: skip
    text = re.sub(r"<[^>]+>", "", (folder / "report.html").read_text())
    return text, folder


@pytest.mark.parametrize(
    "line",
    ["Removed alone:", "BOS class:", "Additivity:", "Self-repair", "Spectral signal:", "Expert routing:",
     "the paper's rules", "Head count, logit_diff:"],
)  # fmt: skip
def test_every_diagnostic_has_its_line(page: tuple[str, Path], line: str) -> None:
    assert line in page[0].replace("&#39;", "'")


def test_head_count_plot_is_drawn_and_shown(page: tuple[str, Path]) -> None:
    _, folder = page
    assert (folder / "plots" / "head_count__induction.png").stat().st_size > 5000
    assert "Effect and null against the number of heads removed" in (folder / "report.html").read_text()


def test_bos_sets_are_a_table(page: tuple[str, Path]) -> None:
    from mechexp.report.html import environment

    effect = {"heads": [[0, 1]], "delta_top1": -0.1, "delta_logit_diff": -1.25,
              "delta_logit_diff_low": -1.5, "delta_logit_diff_high": -1.0}  # fmt: skip
    bos = {"heads": ["L0H2"], "share": 0.5, "bos_filtered": effect, "sink_only": None, "other_only": effect}
    template = environment().from_string('{% import "diagnostics.html" as d %}{{ d.lines({"bos": bos}) }}')
    text = re.sub(r"<[^>]+>", " ", template.render(bos={**bos, "reading": "the <b> filter drops L0H2"}))
    assert "L0H1" in text and "−1.250" in text and "[−1.500, −1.000]" in text and "no such heads" in text
    assert "The &lt;b&gt; filter" in text  # escaped
