import re
from pathlib import Path

from factories import NONE, STRONG, WEAK, Effect, make_cell
from test_html import HOSTILE, Page

from mechexp.findings.config import TaxonomyConfig
from mechexp.report.html import render_cell
from mechexp.report.sweep_page import render_sweep
from mechexp.tracking.joint import judge_sweep_folder
from mechexp.tracking.results import write_failure


def swept_page(folder: Path) -> Page:
    return Page(render_sweep(judge_sweep_folder(folder, TaxonomyConfig())).read_text())


def test_the_grid_the_screens_and_the_failures_are_shown_and_linked(tmp_path: Path) -> None:
    for i, model in enumerate(("pythia", "olmo")):
        effects = {"prev_token": STRONG if i else WEAK, "induction": NONE if i else STRONG}
        make_cell(tmp_path / str(i), model, "ioi", effects, sets=199, before_commit=render_cell)
    make_cell(tmp_path / "2", "olmo", "vb", competent=False)
    write_failure(tmp_path / "3", RuntimeError(HOSTILE))
    page = swept_page(tmp_path)
    assert page.open == []
    assert page.tags.count("script") == 1
    assert HOSTILE in page.text.replace("\n", "")
    links = {v for t, k, v in page.attributes if (t, k) == ("a", "href")}
    assert {"0/report.html", "1/report.html"} <= links
    flat = " ".join(page.text.split())
    assert re.search(r"prev_token ?Δ −3.10 \[−3.41, −2.79\] ?top-1 −62.0 pp", flat)
    assert "? (the model is not competent)" in flat
    assert "Is a primary cause shared by two models" in flat


def test_settings_are_kept_apart(tmp_path: Path) -> None:
    for i, kind in enumerate(("zero", "mean")):
        make_cell(
            tmp_path / str(i), "pythia", "ioi", {"prev_token": STRONG}, ablation={"name": kind}, sets=99
        )
    page = swept_page(tmp_path)
    flat = " ".join(page.text.split())
    assert "Primary causes" in flat
    assert re.search(r"ablation=zero ?model.*ablation=mean ?model", flat), "no grid of its own a setting"
    assert "All cells: control=matched_random, seed=0" in flat
    rows = flat.split("All screens")[1]
    assert all(re.search(f"pythia ?ioi ?ablation={kind}", rows) for kind in ("zero", "mean"))


def test_published_figures_stand_beside_zero_ablation_only(tmp_path: Path) -> None:
    for name, kind in (("z", "zero"), ("m", "mean")):
        effects = {"prev_token": Effect(-0.82, -3.0)}
        make_cell(tmp_path / name / "0", "pythia", "ioi", effects, ablation={"name": kind}, sets=99)
    assert "−82.0" in swept_page(tmp_path / "z").text.split("Published figures")[1]
    assert "Published figures" not in swept_page(tmp_path / "m").text


def test_a_sweep_in_which_all_failed_still_has_a_page(tmp_path: Path) -> None:
    write_failure(tmp_path / "0", RuntimeError("boom"))
    assert "boom" in swept_page(tmp_path).text
