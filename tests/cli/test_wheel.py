"""From a wheel, in an empty folder: configuration and shipped data travel with the package."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

REPOSITORY = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, built from the sources and unpacked by pip into a folder of its own."""
    wheels, target = tmp_path_factory.mktemp("wheels"), tmp_path_factory.mktemp("installed")
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "-q"]
    build = ["wheel", "--no-deps", "--no-build-isolation", "-w", str(wheels), str(REPOSITORY)]
    subprocess.run([*pip, *build], check=True, capture_output=True, timeout=300)
    (wheel,) = wheels.glob("mechexp-*.whl")
    subprocess.run(
        [*pip, "install", "--no-deps", "--target", str(target), str(wheel)], check=True, timeout=300
    )
    return target


def test_a_job_runs_from_the_wheel(
    installed: Path, cli_model: Path, small: list[str], tmp_path: Path
) -> None:
    env = {**os.environ, "PYTHONPATH": str(installed), "OMP_NUM_THREADS": "1"}

    def go(*arguments: str) -> Any:
        return subprocess.run(
            [sys.executable, *arguments],
            cwd=tmp_path,
            env=env,
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )

    where = go("-c", "import mechexp, mechexp.paths; print(mechexp.__file__, mechexp.paths.conf_dir())")
    assert where.stdout.count(str(installed)) == 2, where
    done = go("-m", "mechexp", *small, "screen.k=1", "singles=none", "tracking=off")
    assert done.returncode == 0, done.stderr
    (result,) = tmp_path.glob("multirun/*/*/0/result.json")
    assert json.loads(result.read_text())["status"] == "complete"


def test_the_console_script_is_declared(installed: Path) -> None:
    (entry,) = installed.glob("mechexp-*.dist-info/entry_points.txt")
    assert "mechexp = mechexp.__main__:main" in entry.read_text()
