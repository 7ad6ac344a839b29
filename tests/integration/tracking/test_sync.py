import json
import socket
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
from factories import NONE, STRONG, cell_parts, make_cell
from mlflow_fixtures import level

from mechexp import sync
from mechexp.findings.config import TaxonomyConfig
from mechexp.tracking import TrackingConfig, mirror_cell, write_cell

EFFECTS = {"prev_token": STRONG, "induction": NONE}


def tracked_cell(folder: Path, tracking: TrackingConfig, task: str = "ioi", **kwargs: Any) -> None:
    parts = cell_parts("pythia", task, EFFECTS, **kwargs)
    write_cell(folder, **{**parts, "config": {**parts["config"], "tracking": asdict(tracking)}})


def test_results_go_where_their_configuration_says_once(
    tmp_path: Path, tracking: Any, runs_of: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    for i in range(3):
        tracked_cell(tmp_path / str(i), tracking, seed=i)
    mirror_cell(tmp_path / "1", tracking)
    assert sync.main([str(tmp_path)]) == 0
    assert "2 cells sent, 1 were there already" in capsys.readouterr().out
    assert sync.main([str(tmp_path)]) == 0
    assert "0 cells sent, 3 were there already" in capsys.readouterr().out
    assert [len(level(runs_of(tracking), x)) for x in ("cell", "screen")] == [3, 6]


def test_a_store_that_was_lost_is_filled_again(tmp_path: Path, tracking: Any, runs_of: Any) -> None:
    tracked_cell(tmp_path / "0", tracking)
    sync.main([str(tmp_path)])
    new = TrackingConfig(root=tracking.root, experiment=f"{tracking.experiment}-new")
    assert sync.main([str(tmp_path), "--experiment", new.experiment]) == 0
    assert len(level(runs_of(new), "cell")) == 1


def test_a_sweep_is_delivered_with_joint_labels_and_a_closed_parent(
    tmp_path: Path, tracking: Any, runs_of: Any
) -> None:
    for i, task in enumerate(("ioi", "gt", "succ")):
        tracked_cell(tmp_path / str(i), tracking, task, sweep_id="s-1", sets=19)
    row = {
        "sweep_id": "s-1", "folder": str(tmp_path), "command": ["-m", "task=ioi,gt,succ"], "run_id": "",
        "tracking": asdict(tracking), "taxonomy": asdict(TaxonomyConfig()),
    }  # fmt: skip
    (tmp_path / "sweep.json").write_text(json.dumps(row))
    for _ in range(2):
        assert sync.main([str(tmp_path)]) == 0
        runs = runs_of(tracking)
        assert [len(level(runs, x)) for x in ("sweep", "cell", "screen")] == [1, 3, 6]
        assert {r.info.status for r in runs} == {"FINISHED"}
        assert {r.data.tags["taxonomy"] for r in level(runs, "screen")} == {"indeterminate", "null"}
        (parent,) = level(runs, "sweep")
        assert {r.data.tags["mlflow.parentRunId"] for r in level(runs, "cell")} == {parent.info.run_id}


def test_one_broken_folder_does_not_keep_the_others(
    tmp_path: Path, tracking: Any, runs_of: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    for i in range(3):
        tracked_cell(tmp_path / str(i), tracking, seed=i)
    (tmp_path / "1" / "heads.parquet").write_bytes(b"PAR1")
    assert sync.main([str(tmp_path)]) == 1
    shown = capsys.readouterr()
    assert str(tmp_path / "1" / "heads.parquet") in shown.err
    assert "2 cells sent" in shown.out
    assert len(level(runs_of(tracking), "cell")) == 2


def test_untracked_results_are_sent_only_when_a_store_is_named(
    tmp_path: Path, tracking: Any, runs_of: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    tracked_cell(tmp_path / "0", TrackingConfig(mode="off"))
    assert sync.main([str(tmp_path)]) == 0
    assert "1 are not tracked" in capsys.readouterr().out
    assert sync.main([str(tmp_path), "--root", tracking.root, "--experiment", tracking.experiment]) == 0
    assert len(level(runs_of(tracking), "cell")) == 1


def test_a_dead_server_is_asked_once_for_all_results(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    asked: list[object] = []
    connect = socket.create_connection

    def watched(address: Any, *args: Any, **kwargs: Any) -> Any:
        asked.append(address)
        return connect(address, *args, **kwargs)

    monkeypatch.setattr(socket, "create_connection", watched)
    for i in range(3):
        tracked_cell(tmp_path / str(i), TrackingConfig(), seed=i)
    assert sync.main([str(tmp_path), "--uri", f"http://bob:s3cret@127.0.0.1:{port}"]) == 1
    shown = capsys.readouterr()
    assert asked == [("127.0.0.1", port)]
    assert shown.err.count("does not answer") == 3
    assert "s3cret" not in shown.err + shown.out


def test_masked_credentials_are_not_sent_as_a_user_name(tmp_path: Path) -> None:
    tracked_cell(tmp_path, TrackingConfig(mode="server", uri="http://bob:s3cret@host:5000"))
    runner = sync.Sync(sync._parser().parse_args([]))
    assert runner._store_of(tmp_path).uri == "http://host:5000"


@pytest.mark.parametrize("arguments", [["nowhere"], []])
def test_a_folder_that_is_not_there_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], arguments: list[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert sync.main(arguments) == 1
    assert "multirun" in capsys.readouterr().err


@pytest.mark.parametrize(
    "text",
    ["tracking: [1, 2]", "tracking: {root: 3}", "- a", "tracking: {mode: !!python/object:os.system x}"],
)
def test_a_strange_configuration_is_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str
) -> None:
    make_cell(tmp_path)
    (tmp_path / "config.yaml").write_text(text)
    assert sync.main([str(tmp_path)]) == 1
    assert str(tmp_path / "config.yaml") in capsys.readouterr().err
