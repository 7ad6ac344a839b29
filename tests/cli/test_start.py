"""Questions about the configuration are answered without loading what only a job needs."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

HEAVY = ("torch", "transformers", "mlflow", "nnsight", "matplotlib")


@pytest.mark.parametrize("arguments", [["--help"], ["--cfg", "job"], ["--info", "config"]])
def test_no_heavy_import(arguments: list[str], tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-X", "importtime", "-m", "mechexp", *arguments],
        cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    imported = {line.rsplit("|", 1)[-1].strip() for line in done.stderr.splitlines() if "import time" in line}
    assert "mechexp.cli" in imported
    assert not imported & set(HEAVY)


def test_help_lists_the_choices(run: Any) -> None:
    done = run("--help")
    for word in ("smollm2", "ioi", "matched_random", "prev_token", "python -m mechexp.compare"):
        assert word in done.stdout


def test_doctor(run: Any) -> None:
    done = run(module="mechexp.doctor")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "model=smollm2" in done.stdout and "The default job runs here" in done.stdout


def test_doctor_fails_without_a_usable_store(run: Any, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    done = run("--root", str(tmp_path / "file" / "mlruns"), module="mechexp.doctor")
    assert done.returncode == 1 and "cannot run: tracking store" in done.stdout
