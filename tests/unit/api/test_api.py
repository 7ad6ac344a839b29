"""The notebook door gives what the command line gives, and refuses what it cannot do."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from mechexp import CellResult, ablate, load_model, make_prompts, run_cell
from mechexp.errors import UserError
from mechexp.tracking.results import read_cell

EXACT = 1e-4  # logits; passes of other batch sizes differ by rounding
FEW = {"task.n": 40, "control.max_sets": 5, "protocol.bootstrap": 100}

WITHOUT = """
import sys
from importlib.machinery import PathFinder
find = PathFinder.find_spec
def without(name, path=None, target=None):
    return None if name.split(".")[0] in ("hydra", "mlflow") else find(name, path, target)
PathFinder.find_spec = without
from mechexp import run_cell
cell = run_cell("planted", "planted", screen="prev_token",
    options={"task.n": 40, "control.max_sets": 2, "protocol.bootstrap": 100})
print(cell.save(sys.argv[1]))
"""


@pytest.fixture(scope="module")
def cell() -> CellResult:
    return run_cell("planted", "planted", options=FEW)


def test_works_without_hydra_and_mlflow(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT, str(tmp_path / "cell")], capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr
    assert read_cell(tmp_path / "cell").result["status"] == "complete"


def test_numbers_are_those_of_the_command_line(cell: CellResult, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "mechexp", "model=planted", "task=planted", "tracking=off"]
        + [f"{k}={v}" for k, v in FEW.items()],
        cwd=tmp_path, capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    (path,) = tmp_path.glob("multirun/*/*/0/result.json")
    theirs = json.loads(path.read_text())
    assert cell.result["cell_key"] == theirs["cell_key"]
    for name, row in theirs["screens"].items():
        ours = cell.result["screens"][name]
        assert ours["taxonomy"] == row["taxonomy"] and ours["heads"] == row["heads"]
        for metric, value in row["metrics"].items():
            same = ours["metrics"][metric]
            assert (value is None and (same is None or same != same)) or same == pytest.approx(
                value, abs=1e-9
            )


def test_table_and_circuits(cell: CellResult) -> None:
    assert list(cell.table.index) == list(cell.result["screens"])
    assert cell.table.loc["prev_token", "taxonomy"] == cell.result["screens"]["prev_token"]["taxonomy"]
    pairs = cell.circuit("prev_token").pairs()
    assert [list(p) for p in pairs] == cell.result["screens"]["prev_token"]["heads"]
    assert "prev_token" in cell._repr_html_() and "<table" in cell._repr_html_()
    with pytest.raises(UserError, match="no screen 'prev'"):
        cell.circuit("prev")


def test_saved_cell_is_a_job_folder_that_can_be_run_again(cell: CellResult, tmp_path: Path) -> None:
    page = cell.save(tmp_path / "cell")
    files = read_cell(tmp_path / "cell")
    assert page.is_file() and len(files.heads) == len(cell.heads)
    command = ["--cfg", "job", *files.result["overrides"]]
    done = subprocess.run([sys.executable, "-m", "mechexp", *command], capture_output=True, text=True)
    assert done.returncode == 0 and "max_sets: 5" in done.stdout


def test_ablate_gives_the_cells_own_effects(cell: CellResult) -> None:
    circuit = cell.circuit("prev_token")
    frame = ablate(
        load_model("planted"), cell.prompts, {"circuit": circuit, "pairs": circuit.pairs(), "none": []}
    )
    assert list(frame.index) == ["clean", "circuit", "pairs", "none"]
    expected = cell.result["screens"]["prev_token"]["metrics"]["delta_logit_diff"]
    assert frame.loc["circuit", "delta_logit_diff"] == pytest.approx(expected, abs=EXACT)
    assert frame.loc["pairs", "logit_diff"] == frame.loc["circuit", "logit_diff"]
    assert frame.loc["none", "delta_logit_diff"] == frame.loc["clean", "delta_logit_diff"] == 0
    zero = ablate(load_model("planted"), cell.prompts, "L0H0", ablation="zero", positions="end")
    assert zero.loc["heads", "kind"] == "zero" and zero.loc["heads", "positions"] == "end"
    with pytest.raises(UserError, match="L99H0"):
        ablate(load_model("planted"), cell.prompts, [(99, 0)])


def test_loaded_model_and_made_prompts(cell: CellResult) -> None:
    loaded = load_model("planted")
    prompts = make_prompts("planted", loaded, n=40)
    assert prompts.prompts_hash == cell.prompts.prompts_hash
    again = run_cell(loaded, prompts, screen="prev_token", options={"control.max_sets": 2})
    ours, theirs = again.result["screens"]["prev_token"], cell.result["screens"]["prev_token"]
    expected = theirs["metrics"]["delta_logit_diff"]
    assert ours["metrics"]["delta_logit_diff"] == pytest.approx(expected, abs=EXACT)
    assert "overrides" not in again.result and "seed" not in again.result["task"]
    for option in ("model.dtype", "task.n", "tracking.root", "resume", "debug"):
        with pytest.raises(UserError, match=f"option '{option}' does nothing"):
            run_cell(loaded, prompts, options={option: 1})


def rows(n: int) -> list[dict[str, Any]]:
    from mechexp.tasks.planted import DISTRACTORS, TARGETS

    return [
        {"prompt": f"red {TARGETS[i]} blue", "target": f" {TARGETS[i]}", "distractor": f" {DISTRACTORS[i]}"}
        for i in range(n)
    ]


def test_prompts_from_python_and_from_a_file_are_the_same(tmp_path: Path) -> None:
    loaded = load_model("planted")
    made = make_prompts(rows(16), loaded, seed=3)
    path = tmp_path / "mine.jsonl"
    path.write_text("".join(json.dumps(r) + "\n" for r in rows(16)))
    assert make_prompts(path, loaded, seed=3).prompts_hash == made.prompts_hash
    assert make_prompts(str(path), loaded.tokenizer, seed=3).tokens_hash == made.tokens_hash
    assert make_prompts(rows(16), loaded, seed=4).prompts_hash != made.prompts_hash
    frame = ablate(loaded, made, "L0H0")
    assert isinstance(frame, pd.DataFrame) and len(frame) == 2


@pytest.mark.parametrize(
    ("bad", "words"),
    [
        ({"prompt": "red dog"}, "prompt 2"),
        ({"prompt": "red dog", "target": " cat", "distractor": " unheardof"}, "prompt 2"),
        ({"prompt": "red dog", "target": " cat", "distractor": " cow", "spans": {1, 2}}, "JSON"),
    ],
)
def test_bad_prompts_are_named(bad: dict[str, Any], words: str) -> None:
    with pytest.raises(UserError) as error:
        make_prompts([rows(1)[0], bad], load_model("planted"))
    assert words in str(error.value) and "/tmp" not in str(error.value)
