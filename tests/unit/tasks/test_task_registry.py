"""Tasks are found, cheap to import, and configured alike from Python and from conf/."""

import subprocess
import sys
from dataclasses import asdict
from pathlib import Path

import pytest
import yaml

from mechexp.config import TaskConfig
from mechexp.tasks import TASKS

CONF = Path(__file__).parents[3] / "conf" / "task"


def test_all_tasks_are_found() -> None:
    assert {"ioi", "gt", "succ", "vb", "custom"} <= set(TASKS)
    for name, task in TASKS.items():
        assert task.name == name == task.config_class().name
        assert issubclass(task.config_class, TaskConfig)


def test_importing_tasks_loads_nothing_heavy() -> None:
    heavy = ["torch", "transformers", "hydra", "mlflow", "nnsight", "pandas", "scipy", "tokenizers"]
    code = f"import sys, mechexp.tasks; print([m for m in {heavy!r} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize("name", ["ioi", "gt", "succ", "vb", "custom"])
def test_conf_and_class_have_the_same_defaults(name: str) -> None:
    options = yaml.safe_load((CONF / f"{name}.yaml").read_text(encoding="utf-8"))
    assert {"/schema/task@_here_": name} in options.pop("defaults"), "every key is checked against the class"
    defaults = asdict(TASKS[name].config_class())
    assert {**defaults, **options} == defaults


def test_conf_files_start_with_a_comment() -> None:
    files = sorted(CONF.glob("*.yaml"))
    assert files
    for file in files:
        assert file.read_text(encoding="utf-8").startswith("# "), file.name
