"""The examples of ``examples/`` as a user runs them: each is short, and each works."""

import json
import shutil
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
LONGEST = 30
PLANTED = ["model=planted", "control.max_sets=3", "protocol.bootstrap=100", "tracking=off", "singles=none"]


@pytest.fixture
def cell(run: Any, tmp_path: Path) -> Any:
    """``cell("task=echo", …)``: folder and ``result.json`` of a job with the examples' config folder."""

    def go(*arguments: str) -> tuple[Path, dict[str, Any]]:
        done = run("--config-dir", str(EXAMPLES), *arguments)
        assert done.returncode == 0, done.stderr
        (folder,) = tmp_path.glob("multirun/*/*/0")
        return folder, json.loads((folder / "result.json").read_text())

    return go


def test_examples_are_short() -> None:
    files = [p for p in EXAMPLES.glob("*/*") if p.suffix in (".py", ".yaml", ".jsonl")]
    assert {p.parent.name for p in files} >= {"model", "task", "screen", "control"}
    assert {p.name: n for p in files if (n := len(p.read_text().splitlines())) > LONGEST} == {}


def test_model_from_a_yaml(cell: Any, cli_model: Path, small: list[str], tmp_path: Path) -> None:
    shutil.copytree(cli_model, tmp_path / "checkpoints" / "my_checkpoint")
    own = [a for a in small if not a.startswith(("model", "tracking"))]
    _, result = cell(
        "model=my_checkpoint", "task=ioi", *own, "screen=prev_token", "screen.k=1", "tracking=off"
    )
    assert result["model"]["name"] == "my_checkpoint" and result["status"] == "complete"


def test_task_from_a_jsonl(cell: Any, small: list[str]) -> None:
    own = [a for a in small if not a.startswith(("task.n", "tracking"))]
    path = EXAMPLES / "task" / "comes_after.jsonl"
    folder, result = cell(
        *own, "task=custom", f"task.path={path}", "screen=induction", "screen.k=1", "tracking=off"
    )
    assert result["status"] == "complete" and result["task"]["n"] == 27
    assert all("item" in json.loads(line)["positions"] for line in (folder / "prompts.jsonl").open())


def test_task_screen_and_control_from_python_files(cell: Any) -> None:
    asked = ["task=echo", "task.n=40", "screen=to_first", "control=neighbours", "screen.k=2"]
    folder, result = cell(
        *PLANTED, *asked, "taxonomy.min_top1=0", "taxonomy.min_frac_correct=0", "task.verb=old"
    )
    assert result["status"] == "complete" and result["task"]["verb"] == "old"
    assert list(result["screens"]) == ["to_first"]
    frame = pd.read_parquet(folder / "conditions.parquet")
    circuit = result["screens"]["to_first"]["heads"]
    sets = frame[frame["role"] == "null"]["heads"]
    n = result["model"]["n_heads"]
    shifted = {
        ",".join(f"L{l}H{h}" for l, h in sorted((l, (h + s) % n) for l, h in circuit)) for s in range(1, n)
    }
    assert len(sets) and set(sets) <= shifted, "the null is not the one that the example draws"


def test_own_choices_are_listed_and_errors_name_the_file(run: Any, tmp_path: Path) -> None:
    done = run("--config-dir", str(EXAMPLES), "--help")
    choices = done.stdout.split("== The job")[0]
    lines = {line.split(":")[0]: line for line in choices.splitlines()}
    for group, name in (
        ("task", "echo"),
        ("screen", "to_first"),
        ("control", "neighbours"),
        ("model", "my_checkpoint"),
    ):
        assert name in lines[group]
    (tmp_path / "mine" / "task").mkdir(parents=True)
    (tmp_path / "mine" / "task" / "broken.py").write_text("import os\n\n1 / 0\n")
    done = run(f"--config-dir={tmp_path / 'mine'}", "task=ioi")
    assert done.returncode == 2 and "Traceback" not in done.stderr
    assert "broken.py:3" in done.stderr and "ZeroDivisionError" in done.stderr


def test_misspelt_config_folder_is_refused(run: Any) -> None:
    done = run("--config-dir", "nowhere")
    assert done.returncode == 2 and "nowhere\n  Where: --config-dir" in done.stderr


def test_plugins_of_installed_packages(run: Any, tmp_path: Path) -> None:
    """An entry point of group ``mechexp`` is found and loaded, in a process that sees such a package."""
    package = tmp_path / "site"
    (package / "own_task-1.dist-info").mkdir(parents=True)
    (package / "own_task-1.dist-info" / "METADATA").write_text(
        "Metadata-Version: 2.1\nName: own-task\nVersion: 1\n"
    )
    (package / "own_task-1.dist-info" / "entry_points.txt").write_text("[mechexp]\necho = own_task\n")
    shutil.copy(EXAMPLES / "task" / "echo.py", package / "own_task.py")
    done = run("--help", PYTHONPATH=str(package))
    assert done.returncode == 0, done.stderr
    assert "echo" in next(line for line in done.stdout.splitlines() if line.startswith("task:"))
