import json
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from factories import HELPS, STRONG, make_cell
from mlflow_fixtures import artifacts, level

from mechexp.errors import UserError
from mechexp.report.html import render_cell
from mechexp.tracking import TrackingConfig, TrackingError, mirror_cell
from mechexp.tracking.store import open_store
from mechexp.tracking.validate import METRIC_NAMES, METRICS

EFFECTS = {"prev_token": STRONG, "bos": HELPS}


def test_a_cell_becomes_a_cell_run_and_one_run_a_screen(tmp_path: Path, tracking: Any, runs_of: Any) -> None:
    written = make_cell(tmp_path, "pythia", "ioi", EFFECTS)
    done = mirror_cell(tmp_path, tracking)
    assert done is not None
    runs = runs_of(tracking)
    (cell,) = level(runs, "cell")
    screens = {r.data.params["screen"]: r for r in level(runs, "screen")}
    assert set(screens) == {"prev_token", "bos"}
    assert len(runs) == 3
    assert {r.info.status for r in runs} == {"FINISHED"}
    assert cell.info.run_id == done.cell_run_id
    assert cell.info.run_name == "pythia · ioi"
    for name, run in screens.items():
        row = written.result["screens"][name]
        assert run.data.tags["mlflow.parentRunId"] == cell.info.run_id
        assert run.info.run_name == f"pythia · ioi · {name}"
        wanted = {n.format(m=m) for m in METRICS for n in METRIC_NAMES}
        assert {k: run.data.metrics[k] for k in wanted} == {k: row["metrics"][k] for k in wanted}
        assert run.data.tags["taxonomy"] == row["taxonomy"]
    assert screens["prev_token"].data.tags["taxonomy"] == "primary"
    assert cell.inputs.dataset_inputs[0].dataset.name == "ioi"
    assert cell.inputs.dataset_inputs[0].dataset.digest == written.result["task"]["prompts_hash"][:36]


def test_the_files_come_along(tmp_path: Path, tracking: Any) -> None:
    make_cell(tmp_path, effects=EFFECTS, before_commit=render_cell)
    (tmp_path / "mechexp.log").write_text("reached http://bob:s3cret@host\n")
    done = mirror_cell(tmp_path, tracking)
    assert done is not None
    got = artifacts(tracking, done.cell_run_id)
    for name in (
        "result.json",
        "heads.parquet",
        "conditions.parquet",
        "prompts.jsonl",
        "config.yaml",
        "report.html",
    ):
        assert got[name] == (tmp_path / name).read_bytes()
    assert {"circuits/bos.json", "plots/heads.png", "plots/effects.png", "plots/null__bos.png"} <= set(got)
    assert got["mechexp.log"] == b"reached http://***@host\n"
    screen = artifacts(tracking, done.screen_run_ids["bos"])
    assert set(screen) == {"heads.json", "plots/null__bos.png", "plots/singles__bos.png"}
    table = json.loads(screen["heads.json"])
    assert len(table["data"]) == 96
    assert [row[table["columns"].index("picked")] for row in table["data"]][:5] == [True] * 4 + [False]


def test_a_link_in_the_folder_publishes_nothing_from_elsewhere(tmp_path: Path, tracking: Any) -> None:
    make_cell(tmp_path / "cell", effects=EFFECTS)
    (tmp_path / "private").write_text("private")
    (tmp_path / "cell" / "plots").mkdir()
    (tmp_path / "cell" / "plots" / "x.png").symlink_to(tmp_path / "private")
    (tmp_path / "cell" / "x.log").symlink_to(tmp_path / "private")
    done = mirror_cell(tmp_path / "cell", tracking)
    assert done is not None
    assert b"private" not in artifacts(tracking, done.cell_run_id).values()


def test_trying_again_changes_nothing(tmp_path: Path, tracking: Any, runs_of: Any) -> None:
    make_cell(tmp_path, effects=EFFECTS)
    first = mirror_cell(tmp_path, tracking)
    before = {r.info.run_id: (r.data.to_dictionary(), r.info.end_time) for r in runs_of(tracking)}
    again = mirror_cell(tmp_path, tracking)
    (tmp_path / "mlflow.json").unlink()
    unmarked = mirror_cell(tmp_path, tracking)
    assert first is not None and again is not None and unmarked is not None
    assert (first.new, again.new) == (True, False)
    assert first.screen_run_ids == again.screen_run_ids == unmarked.screen_run_ids
    assert {r.info.run_id: (r.data.to_dictionary(), r.info.end_time) for r in runs_of(tracking)} == before
    with open_store(tracking) as store:
        history = store.client.get_metric_history(first.screen_run_ids["bos"], "delta_top1")
    assert len(history) == 1


def test_a_folder_that_moved_is_not_sent_twice(tmp_path: Path, tracking: Any, runs_of: Any) -> None:
    make_cell(tmp_path / "a", effects=EFFECTS)
    mirror_cell(tmp_path / "a", tracking)
    (tmp_path / "a").rename(tmp_path / "b")
    (tmp_path / "b" / "mlflow.json").unlink()
    mirror_cell(tmp_path / "b", tracking)
    assert len(runs_of(tracking)) == 3


def test_the_same_cell_run_anew_is_another_result(tmp_path: Path, tracking: Any, runs_of: Any) -> None:
    for name in ("a", "b"):
        make_cell(tmp_path / name, effects=EFFECTS)
        mirror_cell(tmp_path / name, tracking)
    cells = level(runs_of(tracking), "cell")
    assert len(cells) == 2
    assert len({r.data.tags["mechexp.cell_key"] for r in cells}) == 1


def test_a_run_that_someone_deleted_is_sent_again(tmp_path: Path, tracking: Any, runs_of: Any) -> None:
    make_cell(tmp_path, effects=EFFECTS)
    done = mirror_cell(tmp_path, tracking)
    assert done is not None
    with open_store(tracking) as store:
        for run_id in (done.cell_run_id, *done.screen_run_ids.values()):
            store.client.delete_run(run_id)
    again = mirror_cell(tmp_path, tracking)
    assert again is not None and again.new
    assert len(runs_of(tracking)) == 3


def test_a_marker_of_another_store_is_not_believed(tmp_path: Path, tracking: Any, runs_of: Any) -> None:
    make_cell(tmp_path, effects=EFFECTS)
    mirror_cell(tmp_path, tracking)
    elsewhere = TrackingConfig(root=tracking.root, experiment=f"{tracking.experiment}-other")
    mirror_cell(tmp_path, elsewhere)
    assert len(runs_of(tracking)) == len(runs_of(elsewhere)) == 3


class Crash(BaseException):
    """What kill -9 looks like from inside, as far as that is possible."""


@pytest.fixture
def crashing(monkeypatch: pytest.MonkeyPatch) -> Any:
    """``crashing(n)``: writing calls to MLflow fail from the n-th on; ``crashing(-1)`` only counts them."""
    import mlflow

    state = {"left": -1, "calls": 0}
    names = ("create_run", "log_batch", "log_artifact", "log_text", "log_inputs", "set_tag", "set_terminated")
    for name in names:
        real = getattr(mlflow.MlflowClient, name)

        def watched(self: Any, *args: Any, real: Any = real, **kwargs: Any) -> Any:
            state["calls"] += 1
            if state["left"] == 0:
                raise Crash
            state["left"] -= 1
            return real(self, *args, **kwargs)

        monkeypatch.setattr(mlflow.MlflowClient, name, watched)

    def set_up(n: int) -> int:
        calls, state["left"], state["calls"] = state["calls"], n, 0
        return calls

    return set_up


def test_a_crash_at_any_call_leaves_nothing_double_and_nothing_open(
    tmp_path: Path, tracking: Any, runs_of: Any, crashing: Any
) -> None:
    make_cell(tmp_path / "whole", effects=EFFECTS)
    crashing(-1)
    mirror_cell(tmp_path / "whole", tracking)
    calls = crashing(-1)
    assert calls > 20
    reference = sorted(
        (r.info.run_name, r.info.status, sorted(r.data.metrics.items())) for r in runs_of(tracking)
    )
    for n in range(0, calls, 3):
        config = TrackingConfig(root=tracking.root, experiment=f"{tracking.experiment}-crash-{n}")
        folder = tmp_path / str(n)
        make_cell(folder, effects=EFFECTS)
        crashing(n)
        with pytest.raises(Crash):
            mirror_cell(folder, config)
        crashing(-1)
        mirror_cell(folder, config)
        runs = runs_of(config)
        timeless = [(r.info.run_name, r.info.status, sorted(r.data.metrics.items())) for r in runs]
        assert sorted(timeless) == reference, f"crash at call {n}"


def test_a_failure_in_the_middle_closes_the_run_as_failed(
    tmp_path: Path, tracking: Any, runs_of: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    import mlflow

    def full(self: Any, *args: Any, **kwargs: Any) -> None:
        raise mlflow.exceptions.MlflowException("no space left for http://bob:s3cret@host")

    make_cell(tmp_path, effects=EFFECTS)
    with monkeypatch.context() as broken:
        broken.setattr(mlflow.MlflowClient, "log_artifact", full)
        with pytest.raises(TrackingError, match="no space left") as caught:
            mirror_cell(tmp_path, tracking)
    assert "s3cret" not in str(caught.value)
    assert "python -m mechexp.sync" in str(caught.value)
    assert {r.info.status for r in runs_of(tracking)} == {"FAILED"}
    mirror_cell(tmp_path, tracking)
    assert {r.info.status for r in runs_of(tracking)} == {"FINISHED"}


def test_the_environment_does_not_choose_our_run_or_store(
    tmp_path: Path, tracking: Any, runs_of: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MLFLOW_RUN_ID", "0" * 32)
    monkeypatch.setenv("MLFLOW_EXPERIMENT_NAME", "another")
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://127.0.0.1:9")
    make_cell(tmp_path, effects=EFFECTS)
    mirror_cell(tmp_path, tracking)
    assert len(runs_of(tracking)) == 3


def test_with_tracking_off_nothing_is_asked_of_mlflow(tmp_path: Path) -> None:
    make_cell(tmp_path)
    assert mirror_cell(tmp_path, TrackingConfig(mode="off")) is None
    assert not (tmp_path / "mlflow.json").exists()


@pytest.mark.parametrize(
    ("config", "told"),
    [
        (TrackingConfig(mode="cloud"), "local | server | off"),
        (TrackingConfig(mode="server", uri="localhost:5000"), "http://host:port"),
        (TrackingConfig(mode="server", uri="http://bob:s3cret@"), "http://host:port"),
    ],
)
def test_settings_that_make_no_sense_are_told(tmp_path: Path, config: TrackingConfig, told: str) -> None:
    make_cell(tmp_path)
    with pytest.raises(UserError) as caught:
        mirror_cell(tmp_path, config)
    assert told in str(caught.value)
    assert "s3cret" not in str(caught.value)


def test_a_root_that_cannot_be_a_folder_is_told(tmp_path: Path) -> None:
    make_cell(tmp_path / "cell")
    (tmp_path / "mlruns").write_text("a file")
    with pytest.raises(UserError, match=r"local tracking store") as caught:
        mirror_cell(tmp_path / "cell", TrackingConfig(root=str(tmp_path / "mlruns")))
    assert str(tmp_path / "mlruns") in str(caught.value)


def test_an_experiment_that_was_deleted_is_told(tmp_path: Path, tracking: Any) -> None:
    make_cell(tmp_path)
    with open_store(tracking) as store:
        store.client.delete_experiment(store.experiment_id)
    with pytest.raises(UserError, match="deleted"):
        mirror_cell(tmp_path, tracking)


@pytest.fixture
def dead_server() -> Iterator[tuple[str, list[int]]]:
    """A server that takes connections and drops them; the list grows by one a connection."""
    listener = socket.create_server(("127.0.0.1", 0))
    connections: list[int] = []

    def serve() -> None:
        while True:
            try:
                client, _ = listener.accept()
            except OSError:
                return
            connections.append(1)
            client.close()

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    yield f"http://bob:s3cret@127.0.0.1:{listener.getsockname()[1]}", connections
    listener.close()


def test_a_server_that_drops_connections_is_given_up_after_a_few_tries(
    tmp_path: Path, dead_server: tuple[str, list[int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    uri, connections = dead_server
    for name in ("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "MLFLOW_HTTP_REQUEST_BACKOFF_FACTOR"):
        monkeypatch.delenv(name, raising=False)
    make_cell(tmp_path)
    with pytest.raises(TrackingError) as caught:
        mirror_cell(tmp_path, TrackingConfig(mode="server", uri=uri))
    assert "python -m mechexp.sync" in str(caught.value)
    assert "s3cret" not in str(caught.value)
    assert 1 <= len(connections) <= 6
    assert (tmp_path / "result.json").is_file()


def test_a_server_that_is_not_there_is_told_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    make_cell(tmp_path)
    with pytest.raises(TrackingError, match="does not answer"):
        mirror_cell(tmp_path, TrackingConfig(mode="server", uri=f"http://127.0.0.1:{port}"))
