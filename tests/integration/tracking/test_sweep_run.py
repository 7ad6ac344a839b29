import socket
from pathlib import Path
from typing import Any

import pytest
from factories import NONE, STRONG, make_cell
from mlflow_fixtures import artifacts, level

from mechexp.errors import UserError
from mechexp.findings.config import TaxonomyConfig
from mechexp.report.sweep_page import render_sweep
from mechexp.tracking import TrackingConfig, mirror_cell
from mechexp.tracking import sweep as sweep_module
from mechexp.tracking.results import write_failure
from mechexp.tracking.sweep import close_sweep, open_sweep

ID = "20260101-000000-000001"


def make_jobs(folder: Path, sets: int = 19) -> list[Path]:
    for i, task in enumerate(("ioi", "gt", "succ", "vb")):
        effects = {"prev_token": STRONG if i == 0 else NONE, "induction": NONE}
        make_cell(folder / str(i), "pythia", task, effects, sets=sets, sweep_id=ID, swept={"task": task})
    return [folder / str(i) for i in range(4)]


def start(tracking: TrackingConfig, folder: Path) -> str:
    return open_sweep(tracking, sweep_id=ID, folder=folder, command=["-m", "task=ioi,gt,succ,vb"])


def close(tracking: TrackingConfig, folder: Path, run_id: str, **kwargs: Any) -> list[str]:
    settings = {"interrupted": False, **kwargs}
    return close_sweep(tracking, TaxonomyConfig(), sweep_id=ID, run_id=run_id, folder=folder, **settings)


def test_a_sweep_is_a_parent_of_cells_that_are_parents_of_screens(
    tmp_path: Path, tracking: Any, runs_of: Any
) -> None:
    run_id = start(tracking, tmp_path)
    (parent,) = runs_of(tracking)
    assert parent.info.status == "RUNNING"
    for job in make_jobs(tmp_path):
        mirror_cell(job, tracking, run_id)
    assert close(tracking, tmp_path, run_id, render=render_sweep) == []
    runs = runs_of(tracking)
    assert {r.info.status for r in runs} == {"FINISHED"}
    assert [r.info.run_id for r in level(runs, "sweep")] == [run_id]
    cells = {r.info.run_id for r in level(runs, "cell") if r.data.tags["mlflow.parentRunId"] == run_id}
    assert len(cells) == 4
    assert [r.data.tags["mlflow.parentRunId"] in cells for r in level(runs, "screen")] == [True] * 8
    got = artifacts(tracking, run_id)
    assert {"joint.csv", "joint.json", "joint_table.json", "report.html"} == set(got)
    assert got["joint.csv"] == (tmp_path / "joint.csv").read_bytes()


def test_screens_are_labelled_jointly_when_the_sweep_ends(
    tmp_path: Path, tracking: Any, runs_of: Any
) -> None:
    run_id = start(tracking, tmp_path)
    for job in make_jobs(tmp_path, sets=19):
        mirror_cell(job, tracking, run_id)

    def strong() -> Any:
        screens = level(runs_of(tracking), "screen")
        return next(
            r for r in screens if r.data.params["task"] == "ioi" and r.data.params["screen"] == "prev_token"
        )

    assert strong().data.tags["taxonomy"] == "primary"
    close(tracking, tmp_path, run_id)
    tags = strong().data.tags
    assert (
        tags["taxonomy"] == tags["taxonomy_logit_diff"] == "indeterminate"
    )  # 1/20 does not pass among eight
    assert "underpowered" in tags["flags"].split(",")
    assert tags["taxonomy_cell"] == "primary"
    assert "indeterminate" in tags["mlflow.note.content"]


def test_a_failed_job_fails_the_parent_which_says_what_failed(
    tmp_path: Path, tracking: Any, runs_of: Any
) -> None:
    run_id = start(tracking, tmp_path)
    jobs = make_jobs(tmp_path)
    (jobs[2] / "result.json").unlink()
    write_failure(jobs[2], RuntimeError("weights are NaN at http://bob:s3cret@host"))
    mirror_cell(jobs[0], tracking, run_id)
    assert close(tracking, tmp_path, run_id) == [str(jobs[2])]
    runs = runs_of(tracking)
    (parent,) = level(runs, "sweep")
    assert parent.info.status == "FAILED"
    assert "2: weights are NaN" in parent.data.tags["failed"]
    assert "weights are NaN" in parent.data.tags["mlflow.note.content"]
    assert "s3cret" not in str(parent.data.tags)
    assert len(level(runs, "cell")) == 3
    assert {r.data.tags["taxonomy_cell"] for r in level(runs, "screen")} == {"primary", "null"}
    assert {r.info.status for r in runs if r.info.run_id != run_id} == {"FINISHED"}


def test_closing_twice_or_after_a_crash_doubles_nothing(
    tmp_path: Path, tracking: Any, runs_of: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_id = start(tracking, tmp_path)
    make_jobs(tmp_path)
    assert start(tracking, tmp_path) == run_id

    def broken(*args: Any) -> None:
        raise RuntimeError("in the middle")

    with monkeypatch.context() as patch:
        patch.setattr(sweep_module, "_log_sweep", broken)
        assert close(tracking, tmp_path, run_id) == [str(tmp_path)]
    assert {r.info.status for r in level(runs_of(tracking), "sweep")} == {"FAILED"}
    assert close(tracking, tmp_path, run_id) == []
    assert close(tracking, tmp_path, "") == []
    runs = runs_of(tracking)
    assert [len(level(runs, x)) for x in ("sweep", "cell", "screen")] == [1, 4, 8]
    assert {r.info.status for r in runs} == {"FINISHED"}


def test_a_sweep_that_was_stopped_says_so(tmp_path: Path, tracking: Any, runs_of: Any) -> None:
    run_id = start(tracking, tmp_path)
    make_jobs(tmp_path)
    close(tracking, tmp_path, run_id, interrupted=True)
    (parent,) = level(runs_of(tracking), "sweep")
    assert parent.info.status == "FAILED"
    assert "stopped before all jobs" in parent.data.tags["mlflow.note.content"]


def test_a_sweep_without_any_result_is_closed_too(tmp_path: Path, tracking: Any, runs_of: Any) -> None:
    run_id = start(tracking, tmp_path / "never_made")
    assert close(tracking, tmp_path / "never_made", run_id, interrupted=True) == []
    assert {r.info.status for r in runs_of(tracking)} == {"FAILED"}


def test_a_report_that_fails_does_not_keep_the_sweep_from_being_delivered(
    tmp_path: Path, tracking: Any, runs_of: Any
) -> None:
    def broken(joint: object) -> None:
        raise RuntimeError("no font")

    run_id = start(tracking, tmp_path)
    make_jobs(tmp_path)
    assert close(tracking, tmp_path, run_id, render=broken) == [str(tmp_path)]
    assert len(level(runs_of(tracking), "cell")) == 4


def test_a_server_that_is_away_does_not_stop_a_sweep(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    away = TrackingConfig(mode="server", uri=f"http://127.0.0.1:{port}")
    assert start(away, tmp_path) == ""
    assert "mechexp.sync" in caplog.text
    make_jobs(tmp_path)
    assert close(away, tmp_path, "") == [str(tmp_path)]
    assert (tmp_path / "joint.csv").is_file()


def test_a_local_store_that_cannot_be_used_stops_a_sweep_before_it_starts(tmp_path: Path) -> None:
    (tmp_path / "mlruns").write_text("a file")
    with pytest.raises(UserError, match="local tracking store"):
        start(TrackingConfig(root=str(tmp_path / "mlruns")), tmp_path)


def test_without_tracking_labels_are_still_joint_on_disk(tmp_path: Path) -> None:
    off = TrackingConfig(mode="off")
    make_jobs(tmp_path)
    assert start(off, tmp_path) == ""
    assert close(off, tmp_path, "") == []
    assert "indeterminate" in (tmp_path / "joint.csv").read_text()
