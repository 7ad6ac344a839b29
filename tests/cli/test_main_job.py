"""The main job and a sweep, from the command line to result files and MLflow."""

import json
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

FILES = ("result.json", "heads.parquet", "conditions.parquet", "prompts.jsonl", "report.html", "config.yaml")


def job_folders(cwd: Path) -> list[Path]:
    return sorted(p for p in cwd.glob("multirun/*/*/*") if p.is_dir())


def test_one_cell_leaves_its_files_and_repeats_exactly(run: Any, small: list[str], tmp_path: Path) -> None:
    for again in ("resume=true", "resume=false"):
        done = run(*small, "screen.k=2", again)
        assert done.returncode == 0, done.stderr
        assert "prev_token" in done.stdout and "name_mover" in done.stdout
        assert max(len(line) for line in done.stdout.splitlines() if "multirun" not in line) <= 100
        assert "it/s" not in done.stderr, "a third party's progress bar leaked through"
    first, second = job_folders(tmp_path)
    for folder in (first, second):
        assert all((folder / name).is_file() for name in FILES)
        assert list((folder / "plots").glob("*.png")) and list((folder / "circuits").glob("*.json"))
    one, two = (json.loads((f / "result.json").read_text()) for f in (first, second))
    assert one["screens"] == two["screens"] and one["clean"] == two["clean"]
    assert one["cell_key"] == two["cell_key"]
    assert two["timing"]["cached_conditions"] == 0 and two["timing"]["needed_flops"] > 0
    conditions = pd.read_parquet(first / "conditions.parquet")
    assert {"circuit", "single", "null", "union", "upper_bound"} <= set(conditions["role"])
    ablated = conditions[conditions["role"] != "clean"]
    assert (ablated["edited"] > 0).all()
    nulls = conditions[(conditions["role"] == "null") & (conditions["screen"] == "prev_token")]
    assert len(nulls) == one["screens"]["prev_token"]["metrics"]["null_sets"] == 5
    # Δ in the result is what the condition rows say
    row = conditions[
        (conditions["role"] == "circuit")
        & (conditions["screen"] == "prev_token")
        & (conditions["kind"] == "mean")
    ].iloc[0]
    metrics = one["screens"]["prev_token"]["metrics"]
    assert metrics["delta_logit_diff"] == pytest.approx(row["logit_diff"] - one["clean"]["logit_diff"])


def test_halves_are_disjoint_and_recorded(run: Any, small: list[str], tmp_path: Path) -> None:
    done = run(*small, "screen.k=1", "tracking=off", "singles=none")
    assert done.returncode == 0, done.stderr
    (folder,) = job_folders(tmp_path)
    rows = [json.loads(line) for line in (folder / "prompts.jsonl").read_text().splitlines()]
    halves = {half: {r["prompt"] for r in rows if r["half"] == half} for half in ("screen", "test")}
    assert len(halves["screen"]) == len(halves["test"]) == 24
    assert not halves["screen"] & halves["test"]


def test_incompetent_model_is_not_evaluated_and_exits_0(run: Any, small: list[str], tmp_path: Path) -> None:
    done = run(*[a for a in small if "min_" not in a], "tracking=off")
    assert done.returncode == 0, done.stderr
    (folder,) = job_folders(tmp_path)
    result = json.loads((folder / "result.json").read_text())
    assert result["status"] == "not_evaluated"
    assert "taxonomy.min_top1" in result["reason"] and "not evaluated" in done.stdout
    assert {s["taxonomy"] for s in result["screens"].values()} <= {"not_evaluated"}


def test_a_failing_job_does_not_stop_the_sweep(
    run: Any, small: list[str], mlruns: Path, tmp_path: Path
) -> None:
    done = run("-m", *small, "task=ioi,custom,vb", "screen.k=1", "singles=none")
    assert done.returncode != 0
    assert done.stderr.count("error:") == 1 and "Traceback" not in done.stderr
    folders = job_folders(tmp_path)
    assert [(f / "result.json").is_file() for f in folders] == [True, False, True]
    assert "Traceback" in (folders[1] / "mechexp.log").read_text()
    assert json.loads((folders[1] / "error.json").read_text())["status"] == "failed"

    from mechexp.tracking import TrackingConfig, open_store

    with open_store(TrackingConfig(root=str(mlruns))) as store:
        runs = store.client.search_runs(
            [store.experiment_id],
            "tags.`mechexp.level` = 'sweep'",
            order_by=["start_time DESC"],
            max_results=1,
        )
        assert runs[0].info.status == "FAILED" and "file of prompts" in runs[0].data.tags["failed"]
        cells = store.client.search_runs(
            [store.experiment_id], f"tags.`mlflow.parentRunId` = '{runs[0].info.run_id}'"
        )
        assert len(cells) == 2 and {c.info.status for c in cells} == {"FINISHED"}
        assert not store.client.search_runs([store.experiment_id], "attributes.status = 'RUNNING'")


def test_sweep_over_lists_of_heads(run: Any, small: list[str], tmp_path: Path) -> None:
    done = run(
        "-m", *small, "tracking=off", "screen=heads", "screen.heads=[L0H1],[L2H3,L1H0]", "singles=none"
    )
    assert done.returncode == 0, done.stderr
    results = [json.loads((f / "result.json").read_text()) for f in job_folders(tmp_path)]
    assert [r["screens"]["heads"]["heads"] for r in results] == [[[0, 1]], [[2, 3], [1, 0]]]
    assert [r["swept"] for r in results] == [{"screen.heads": "[L0H1]"}, {"screen.heads": "[L2H3,L1H0]"}]


def test_known_outcomes_are_not_measured_again(run: Any, small: list[str], tmp_path: Path) -> None:
    asked = [*small, "screen.k=1", "singles=none", "tracking=off", f"engine.store={tmp_path}/store"]
    for root in ("one", "two"):  # an index of finished cells each: the cell is run again, from the store
        done = run(*asked, f"tracking.root={tmp_path}/{root}")
        assert done.returncode == 0, done.stderr
    first, second = (json.loads((f / "result.json").read_text()) for f in job_folders(tmp_path))
    assert first["timing"]["cached_conditions"] == 0
    assert second["timing"]["cached_conditions"] == second["timing"]["conditions"] > 0
    assert second["screens"] == first["screens"]


def test_few_custom_prompts_do_not_need_the_kinds_they_cannot_give(
    run: Any, small: list[str], tmp_path: Path
) -> None:
    names = ["Mary", "John", "Robert", "Michael", "William", "David", "Richard", "Thomas", "Linda", "Susan"]
    lines = [{"prompt": f"{name} lives in", "target": " Paris", "distractor": " Rome"} for name in names]
    path = tmp_path / "prompts.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    asked = [a for a in small if not a.startswith("task.")]
    done = run(*asked, "task=custom", f"task.path={path}", "ablation=zero", "screen.k=1", "tracking=off")
    assert done.returncode == 0, done.stderr
    (folder,) = job_folders(tmp_path)
    notes = json.loads((folder / "result.json").read_text())["notes"]
    assert any("sensitivity to ablation=mean was not measured" in note for note in notes), notes


def test_a_sweep_over_thresholds_is_refused(run: Any, small: list[str]) -> None:
    done = run("-m", *small, "tracking=off", "taxonomy.alpha=0.05,0.01")
    assert done.returncode != 0 and "one taxonomy a sweep" in done.stderr
