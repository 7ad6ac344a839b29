# ruff: noqa: F811 (a test takes the fixture it imports)

import csv
import io
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from factories import NONE, STRONG, WEAK, Effect, make_cell
from mlflow_fixtures import runs_of, tracking  # noqa: F401 (pytest finds fixtures by name)

from mechexp import compare
from mechexp.findings.config import TaxonomyConfig
from mechexp.tracking import TrackingConfig, mirror_cell
from mechexp.tracking.store import open_store
from mechexp.tracking.sweep import close_sweep, open_sweep

SHARED = {"prev_token": STRONG, "name_mover": WEAK}
OTHER = {"prev_token": WEAK, "name_mover": STRONG}
GRID = {"pythia": SHARED, "olmo": SHARED, "olmoe": OTHER}


def make_grid(folder: Path, config: TrackingConfig, sweep: str = "", sets: int = 199, **kwargs: Any) -> None:
    run_id = open_sweep(config, sweep_id=sweep, folder=folder, command=[]) if sweep else None
    for i, (model, effects) in enumerate(GRID.items()):
        for j, task in enumerate(("ioi", "gt")):
            job = folder / str(2 * i + j)
            arch = {"arch": f"arch_{model}"}
            made = make_cell(job, model, task, effects, sets=sets, sweep_id=sweep, **kwargs)
            row = {**made.result, "model": {**made.result["model"], **arch}}
            (job / "result.json").write_text(json.dumps(row))
            mirror_cell(job, config, run_id)
    if run_id:
        close_sweep(config, TaxonomyConfig(), sweep_id=sweep, run_id=run_id, folder=folder, interrupted=False)


def run(capsys: pytest.CaptureFixture[str], config: TrackingConfig, *more: str) -> str:
    arguments = ["--root", config.root, "--experiment", config.experiment, *more]
    code = compare.main(arguments)
    shown = capsys.readouterr()
    assert code == 0, shown.err
    return shown.out


@pytest.mark.parametrize("form", ["json", "csv"])
def test_rows_hold_the_numbers_that_were_measured(
    tmp_path: Path, tracking: Any, capsys: pytest.CaptureFixture[str], form: str
) -> None:
    made = make_cell(tmp_path, "pythia", "ioi", SHARED, sets=199)
    mirror_cell(tmp_path, tracking)
    text = run(capsys, tracking, "--format", form)
    rows = json.loads(text)["rows"] if form == "json" else list(csv.DictReader(io.StringIO(text)))
    assert [r["screen"] for r in rows] == ["prev_token", "name_mover"]
    for row in rows:
        stored = made.result["screens"][row["screen"]]
        for name, value in stored["metrics"].items():
            assert float(row[name]) == pytest.approx(value, abs=1e-12)
        assert row["taxonomy"] == stored["taxonomy"]
        assert row["heads"].split(",") == [f"L{a}H{b}" for a, b in stored["heads"]]


def test_the_grid_names_primaries_and_says_whether_one_is_shared(
    tmp_path: Path, tracking: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    make_grid(tmp_path, tracking)
    found = json.loads(run(capsys, tracking, "--format", "json"))
    (grid,) = found["grids"]
    assert grid["primary"] == {
        "pythia": {"ioi": "prev_token", "gt": "prev_token"},
        "olmo": {"ioi": "prev_token", "gt": "prev_token"},
        "olmoe": {"ioi": "name_mover", "gt": "name_mover"},
    }
    assert grid["shared_primary"]["verdict"] == "false"  # the claim that none is shared
    pairs = {
        (p["model_a"], p["model_b"], p["task_a"], p["comparable"]) for p in grid["shared_primary"]["pairs"]
    }
    assert pairs == {("olmo", "pythia", "ioi", "yes"), ("olmo", "pythia", "gt", "yes")}
    text = run(capsys, tracking)
    assert "Is a primary cause shared by two models on one task, at comparable size? Yes" in " ".join(
        text.split()
    )
    assert "2 of these pairs are of two architectures" in " ".join(text.split())


def test_the_table_fits_100_columns_and_markdown_is_a_table(
    tmp_path: Path, tracking: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    make_grid(tmp_path, tracking)
    table = run(capsys, tracking)
    assert max(map(len, table.splitlines())) <= 100
    for word in ("pythia", "olmoe", "prev_token", "primary", "secondary"):
        assert word in table
    lines = run(capsys, tracking, "--format", "md").splitlines()
    body = [line for line in lines if line.startswith("| ioi | pythia | prev_token")]
    head = next(line for line in lines if line.startswith("| task | model"))
    assert len(body) == 1
    assert body[0].count("|") == head.count("|")


def test_labels_are_given_anew_over_all_that_is_compared(
    tmp_path: Path, tracking: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    make_cell(tmp_path / "a", "pythia", "ioi", {"prev_token": STRONG}, sets=19)
    mirror_cell(tmp_path / "a", tracking)
    alone = json.loads(run(capsys, tracking, "--format", "json"))["rows"]
    assert [r["taxonomy"] for r in alone] == ["primary"]
    for i in range(5):
        make_cell(tmp_path / str(i), "pythia", f"t{i}", {"prev_token": NONE}, sets=19)
        mirror_cell(tmp_path / str(i), tracking)
    rows = json.loads(run(capsys, tracking, "--format", "json"))["rows"]
    strong = next(r for r in rows if r["task"] == "ioi")
    assert (strong["taxonomy"], strong["taxonomy_cell"]) == ("indeterminate", "primary")
    assert "underpowered" in strong["flags"]


def test_a_sweep_is_chosen_by_its_id_or_its_run(
    tmp_path: Path, tracking: Any, runs_of: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    make_grid(tmp_path / "one", tracking, "s-one")
    make_cell(tmp_path / "alone", "gpt2", "ioi", SHARED)
    mirror_cell(tmp_path / "alone", tracking)
    run_id = next(r.info.run_id for r in runs_of(tracking) if r.data.tags["mechexp.level"] == "sweep")
    for name in ("s-one", run_id):
        rows = json.loads(run(capsys, tracking, "--sweep", name, "--format", "json"))["rows"]
        assert {r["model"] for r in rows} == set(GRID)
    everything = json.loads(run(capsys, tracking, "--format", "json"))["rows"]
    assert {r["model"] for r in everything} == {*GRID, "gpt2"}
    assert (
        compare.main(["--root", tracking.root, "--experiment", tracking.experiment, "--sweep", "s-two"]) == 1
    )
    assert "s-one" in capsys.readouterr().err


def test_of_the_same_cell_only_the_newest_run_counts(
    tmp_path: Path, tracking: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    for when, effect in ((2000.0, WEAK), (1000.0, STRONG)):
        made = make_cell(tmp_path / str(when), "pythia", "ioi", {"prev_token": effect})
        timing = {**made.result["timing"], "finished_at": when}
        (tmp_path / str(when) / "result.json").write_text(json.dumps({**made.result, "timing": timing}))
        mirror_cell(tmp_path / str(when), tracking)
    found = json.loads(run(capsys, tracking, "--format", "json"))
    assert [r["delta_logit_diff"] for r in found["rows"]] == [WEAK.logit_diff]
    assert any("1 older run" in note for note in found["notes"])


def test_only_like_is_set_beside_like(
    tmp_path: Path, tracking: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    for i, ablation in enumerate(("mean", "zero")):
        make_cell(tmp_path / str(i), "pythia", "ioi", SHARED, ablation={"name": ablation})
        mirror_cell(tmp_path / str(i), tracking)
    for i, k in enumerate(("1", "5")):
        make_cell(
            tmp_path / f"k{i}",
            "pythia",
            "ioi",
            SHARED,
            swept={"screen.k": k},
            screen={"name": "all", "k": int(k)},
        )
        mirror_cell(tmp_path / f"k{i}", tracking)
    found = json.loads(run(capsys, tracking, "--format", "json"))
    settings = [g["setting"] for g in found["grids"]]
    assert len(settings) == len(set(settings)) == 4
    assert sum("ablation=zero" in s for s in settings) == 1
    assert sum("screen.k=5" in s for s in settings) == 1


def test_runs_that_hold_only_what_the_interface_promises_are_compared_too(
    tracking: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    with open_store(tracking) as store:
        for screen, label, delta in (("prev_token", "primary", -3.0), ("induction", "null", -0.1)):
            labels = dict.fromkeys(("taxonomy", "taxonomy_top1", "taxonomy_logit_diff"), label)
            tags = {"mechexp.level": "screen", **labels, "flags": "", "heads": "L1H2,L3H4"}
            run_ = store.client.create_run(store.experiment_id, tags=tags)
            for key, value in {"model": "m", "task": "ioi", "screen": screen, "control": "paper"}.items():
                store.client.log_param(run_.info.run_id, key, value)
            for key in ("delta_logit_diff", "delta_logit_diff_low", "delta_logit_diff_high"):
                store.client.log_metric(run_.info.run_id, key, delta)
            store.client.log_metric(run_.info.run_id, "clean_logit_diff", 5.0)
    found = json.loads(run(capsys, tracking, "--format", "json"))
    assert {r["screen"]: r["taxonomy"] for r in found["rows"]} == {
        "prev_token": "primary",
        "induction": "null",
    }
    assert found["grids"][0]["primary"] == {"m": {"ioi": "prev_token"}}
    assert any("keep the label" in note for note in found["notes"])


def test_a_cell_that_was_not_evaluated_is_shown_as_such(
    tmp_path: Path, tracking: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    make_cell(tmp_path, "smollm2", "vb", SHARED, competent=False)
    mirror_cell(tmp_path, tracking)
    found = json.loads(run(capsys, tracking, "--format", "json"))
    assert {r["taxonomy"] for r in found["rows"]} == {"not_evaluated"}
    assert all("top1 0.14 < 0.2" in r["reason"] for r in found["rows"])
    assert "not competent" in found["grids"][0]["primary"]["smollm2"]["vb"]


def test_published_figures_stand_beside_cells_measured_as_they_were(
    tmp_path: Path, tracking: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    zero = {"name": "zero"}
    make_cell(tmp_path / "p", "pythia", "ioi", {"prev_token": Effect(-0.82, -3.0)}, ablation=zero)
    make_cell(tmp_path / "o", "olmo", "ioi", {"prev_token": Effect(-0.82, -3.0)}, ablation=zero)
    for name in "po":
        mirror_cell(tmp_path / name, tracking)
    found = json.loads(run(capsys, tracking, "--against", "published", "--format", "json"))
    rows = {(r["model"], r["task"], r["screen"]): r for r in found["published"]}
    assert rows["pythia", "ioi", "prev_token"]["delta_top1_published"] == pytest.approx(-0.82)
    assert rows["pythia", "ioi", "prev_token"]["agree_delta"] == "yes"
    assert rows["olmo", "ioi", "prev_token"]["agree_delta"] == "no"
    assert rows["olmoe", "vb", "prev_token"]["delta_top1"] is None
    table = run(capsys, tracking, "--against", "published")
    assert "published figures" in table
    assert max(map(len, table.splitlines())) <= 100
    assert "## Published" in run(capsys, tracking, "--against", "published", "--format", "md")


def test_without_a_comparable_cell_the_published_figures_say_so(
    tmp_path: Path, tracking: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    make_cell(tmp_path, "pythia", "ioi", SHARED)
    mirror_cell(tmp_path, tracking)
    found = json.loads(run(capsys, tracking, "--against", "published", "--format", "json"))
    assert any("ablation=zero" in note for note in found["notes"])
    assert len(found["published"]) > 20


def test_different_thresholds_are_told(
    tmp_path: Path, tracking: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    strict = {"taxonomy": {"min_specificity": 1000.0}}
    make_cell(tmp_path / "a", "pythia", "ioi", SHARED, **strict)
    mirror_cell(tmp_path / "a", tracking)
    found = json.loads(run(capsys, tracking, "--format", "json"))
    assert any("min_specificity=1000" in note for note in found["notes"])
    assert "primary" not in {r["taxonomy"] for r in found["rows"]}
    make_cell(tmp_path / "b", "pythia", "gt", SHARED)
    mirror_cell(tmp_path / "b", tracking)
    found = json.loads(run(capsys, tracking, "--format", "json"))
    assert any("different thresholds" in note for note in found["notes"])


def test_the_command_as_users_type_it(tmp_path: Path, tracking: Any) -> None:
    make_cell(tmp_path, "pythia", "ioi", SHARED)
    mirror_cell(tmp_path, tracking)
    command = [
        sys.executable,
        "-m",
        "mechexp.compare",
        "--root",
        tracking.root,
        "--experiment",
        tracking.experiment,
    ]
    done = subprocess.run([*command, "--format", "json"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert len(json.loads(done.stdout)["rows"]) == 2
    missing = subprocess.run(
        [sys.executable, "-m", "mechexp.compare", "--root", str(tmp_path / "none")],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert missing.returncode == 1
    assert "no tracking store" in missing.stderr
    assert "Traceback" not in missing.stderr
    assert not (tmp_path / "none").exists()
