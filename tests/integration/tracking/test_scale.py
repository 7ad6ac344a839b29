"""What takes a minute: a real server, processes that start at once, thousands of cells."""

import json
import os
import resource
import signal
import socket
import sqlite3
import subprocess
import sys
import time
import urllib.request
import uuid
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
from factories import HELPS, NONE, STRONG, WEAK, cell_parts, make_cell
from mlflow_fixtures import artifacts, level

from mechexp import compare, sync
from mechexp.findings.config import TaxonomyConfig
from mechexp.tracking import TrackingConfig, TrackingError, mirror_cell, write_cell
from mechexp.tracking.store import open_store, search_all
from mechexp.tracking.sweep import close_sweep, open_sweep

pytestmark = pytest.mark.slow
TESTS = Path(__file__).resolve().parents[2]


def start_processes(program: str, arguments: list[list[str]]) -> list[subprocess.Popen[str]]:
    env = {**os.environ, "PYTHONPATH": f"{TESTS}{os.pathsep}{TESTS.parent}"}
    command = [sys.executable, "-c", program]
    return [
        subprocess.Popen([*command, *a], env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        for a in arguments
    ]


MIRROR = """
import sys
from pathlib import Path
from factories import make_cell
from mechexp.tracking import TrackingConfig, mirror_cell
root, folder, name = sys.argv[1:]
for i in range(3):
    path = Path(folder) / f"{name}-{i}"
    make_cell(path, name, f"t{i}")
    mirror_cell(path, TrackingConfig(root=root))
"""


def test_four_processes_on_a_store_that_does_not_exist_yet(tmp_path: Path, runs_of: Any) -> None:
    root = tmp_path / "mlruns"
    jobs = start_processes(MIRROR, [[str(root), str(tmp_path / "jobs"), f"m{i}"] for i in range(4)])
    for job in jobs:
        _, errors = job.communicate(timeout=300)
        assert job.returncode == 0, errors
    runs = runs_of(TrackingConfig(root=str(root)))
    assert [len(level(runs, x)) for x in ("cell", "screen")] == [12, 36]
    assert {r.info.status for r in runs} == {"FINISHED"}


def test_four_processes_on_one_folder_send_it_once(tmp_path: Path, tracking: Any, runs_of: Any) -> None:
    make_cell(tmp_path / "cell")
    program = (
        "import sys\nfrom pathlib import Path\nfrom mechexp.tracking import TrackingConfig, mirror_cell\n"
        "mirror_cell(Path(sys.argv[1]), TrackingConfig(root=sys.argv[2], experiment=sys.argv[3]))\n"
    )
    jobs = start_processes(program, [[str(tmp_path / "cell"), tracking.root, tracking.experiment]] * 4)
    for job in jobs:
        _, errors = job.communicate(timeout=300)
        assert job.returncode == 0, errors
    assert [len(level(runs_of(tracking), x)) for x in ("cell", "screen")] == [1, 3]


def test_a_process_killed_while_it_sends_leaves_nothing_open_after_sync(
    tmp_path: Path, tracking: Any, runs_of: Any
) -> None:
    parts = cell_parts()
    write_cell(tmp_path / "cell", **{**parts, "config": {"tracking": asdict(tracking)}})
    program = (
        "import os, sys\nfrom pathlib import Path\nimport mlflow\n"
        "from mechexp.tracking import TrackingConfig, mirror_cell\n"
        "log = mlflow.MlflowClient.log_artifact\n"
        "def killed(self, run_id, path, *more):\n"
        "    if path.endswith('prompts.jsonl'): os.kill(os.getpid(), 9)\n"
        "    log(self, run_id, path, *more)\n"
        "mlflow.MlflowClient.log_artifact = killed\n"
        "mirror_cell(Path(sys.argv[1]), TrackingConfig(root=sys.argv[2], experiment=sys.argv[3]))\n"
    )
    (job,) = start_processes(program, [[str(tmp_path / "cell"), tracking.root, tracking.experiment]])
    job.communicate(timeout=300)
    assert job.returncode == -signal.SIGKILL
    assert {r.info.status for r in runs_of(tracking)} == {"RUNNING"}
    assert sync.main([str(tmp_path)]) == 0
    runs = runs_of(tracking)
    assert [len(level(runs, x)) for x in ("cell", "screen")] == [1, 3]
    assert {r.info.status for r in runs} == {"FINISHED"}


class Server:
    """A real MLflow server on loopback, with proxied artifacts; can be killed and started again."""

    def __init__(self, folder: Path) -> None:
        with socket.create_server(("127.0.0.1", 0)) as taken:
            self.port = taken.getsockname()[1]
        self.uri, self._folder = f"http://127.0.0.1:{self.port}", folder
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        store = f"sqlite:///{self._folder / 'server.db'}"
        command = [sys.executable, "-m", "mlflow", "server", "--host", "127.0.0.1", "--port", str(self.port),
                   "--workers", "1", "--backend-store-uri", store, "--artifacts-destination",
                   str(self._folder / "artifacts")]  # fmt: skip
        with (self._folder / "server.log").open("ab") as log:
            self._process = subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True)
        for _ in range(240):
            try:
                with urllib.request.urlopen(f"{self.uri}/health", timeout=2) as answer:
                    if answer.status == 200:
                        return
            except OSError:
                time.sleep(0.5)
        raise AssertionError((self._folder / "server.log").read_text())

    def kill(self) -> None:
        if self._process is not None:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
            self._process = None


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    (tmp_path / "server").mkdir()
    running = Server(tmp_path / "server")
    running.start()
    yield running
    running.kill()


def test_a_real_server_that_dies_in_the_middle_gets_everything_exactly_once(
    tmp_path: Path, server: Server, runs_of: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    config = TrackingConfig(mode="server", uri=server.uri)
    folder = tmp_path / "sweep"
    row = {"sweep_id": "s-1", "folder": str(folder), "command": [], "run_id": "", "tracking": asdict(config),
           "taxonomy": asdict(TaxonomyConfig())}  # fmt: skip
    run_id = open_sweep(config, sweep_id="s-1", folder=folder, command=[])
    for i, task in enumerate(("ioi", "gt", "succ", "vb")):
        parts = cell_parts("pythia", task, sweep_id="s-1", sets=99)
        write_cell(folder / str(i), **{**parts, "config": {"tracking": asdict(config)}})
    (folder / "sweep.json").write_text(json.dumps(row))
    first = mirror_cell(folder / "0", config, run_id)
    assert capsys.readouterr().out == ""  # MLflow's own lines between the rows of our table
    assert first is not None
    assert artifacts(config, first.cell_run_id)["result.json"] == (folder / "0" / "result.json").read_bytes()
    server.kill()
    with pytest.raises(TrackingError, match=r"does not answer|Connection"):
        mirror_cell(folder / "1", config, run_id)
    failed = close_sweep(
        config, TaxonomyConfig(), sweep_id="s-1", run_id=run_id, folder=folder, interrupted=False
    )
    assert failed == [str(folder)]
    assert sync.main([str(folder)]) == 1
    server.start()
    for _ in range(2):
        assert sync.main([str(folder)]) == 0
        runs = runs_of(config)
        assert [len(level(runs, x)) for x in ("sweep", "cell", "screen")] == [1, 4, 12]
        assert {r.info.status for r in runs} == {"FINISHED"}
    capsys.readouterr()
    assert compare.main(["--uri", server.uri, "--sweep", "s-1", "--format", "json"]) == 0
    assert len(json.loads(capsys.readouterr().out)["rows"]) == 12


SIX = ("prev_token", "induction", "name_mover", "s_inhibition", "bos", "duplicate_token")


def multiply(root: Path, cells: int) -> None:
    """Copy the one cell of a store, as rows of its database, under other names."""
    db = sqlite3.connect(root / "mlflow.db")
    tables = {
        t: [c[1] for c in db.execute(f"pragma table_info({t})")]
        for t in ("runs", "params", "tags", "metrics", "latest_metrics")
    }
    rows = {t: db.execute(f"select * from {t}").fetchall() for t in tables}
    ids = [r[tables["runs"].index("run_uuid")] for r in rows["runs"]]
    for i in range(1, cells):
        new = {old: uuid.uuid4().hex for old in ids}
        changed = {
            ("params", "model"): f"m{i % 20}",
            ("params", "task"): ("ioi", "gt", "succ", "vb")[i // 20 % 4],
            ("params", "seed"): str(i // 80),
            ("tags", "mlflow.mechexp.result_id"): f"{i:032x}",
            ("tags", "mechexp.cell_key"): f"{i:032x}",
        }
        for table, columns in tables.items():
            copies = []
            for row in rows[table]:
                copy = [new.get(v, v) if isinstance(v, str) else v for v in row]
                if "key" in columns:
                    key, value = columns.index("key"), columns.index("value")
                    copy[value] = changed.get((table, row[key]), copy[value])
                copies.append(copy)
            db.executemany(f"insert into {table} values ({','.join('?' * len(columns))})", copies)
    db.commit()
    db.close()


def test_two_thousand_cells_are_compared_with_paged_searches_in_bounded_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    import mlflow

    config = TrackingConfig(root=str(tmp_path / "mlruns"))
    effects = dict(zip(SIX, (STRONG, NONE, WEAK, NONE, HELPS, NONE), strict=True))
    make_cell(tmp_path / "cell", "m0", "ioi", effects, sets=999)
    mirror_cell(tmp_path / "cell", config)
    multiply(tmp_path / "mlruns", 2000)
    with open_store(config) as store:
        assert sum(1 for _ in search_all(store, "tags.`mechexp.level` = 'cell'", page=300)) == 2000
    pages: list[int] = []
    search = mlflow.MlflowClient.search_runs

    def watched(self: Any, *args: Any, **kwargs: Any) -> Any:
        found = search(self, *args, **kwargs)
        pages.append(len(found))
        return found

    monkeypatch.setattr(mlflow.MlflowClient, "search_runs", watched)
    start, before = time.process_time(), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    assert compare.main(["--root", config.root, "--format", "json"]) == 0
    spent = time.process_time() - start
    rows = json.loads(capsys.readouterr().out)["rows"]
    assert len(rows) == 12_000
    assert max(pages) <= 1000 and sum(pages) == 2000
    assert {r["taxonomy"] for r in rows if r["screen"] == "prev_token"} == {"primary"}
    print(f"compare of 2,000 cells: {spent:.1f} s of processor time, {before / 1e6:.2f} GB before")
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss < 2_000_000, "memory in kB"
