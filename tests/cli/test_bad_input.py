"""What a user can get wrong: one clear message, an exit code that is not 0, no traceback."""

import json
from pathlib import Path
from typing import Any

import pytest


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["model=nosuch"], ["Could not find 'model/nosuch'", "smollm2"]),
        (["task=nosuch"], ["Could not find 'task/nosuch'", "ioi"]),
        (["task.nn=3"], ["Key 'nn' not in"]),
        (["task.separator=x"], ["Key 'separator' not in 'IoiConfig'"]),
        (["task.n=many"], ["could not be converted to Integer"]),
        (["model=[smollm2,hub]"], ["would merge", "-m model=smollm2,hub"]),
        (["singles=some"], ["singles=some", "picked, all, none"]),
        (["control=paper", "control.max_sets=20"], ["10 sets", "control.max_sets"]),
        (["control=exact", "control.adaptive=true"], ["control.adaptive", "cannot grow"]),
        (["engine.memory_gb=-1"], ["engine.memory_gb=-1", "positive"]),
        (["taxonomy.alpha=2"], ["taxonomy.alpha", "between 0 and 1"]),
        (["model=pythia"], ["EleutherAI/pythia-1b", "smollm2"]),
        (["model=local", "model.path=/no/such/folder"], ["no folder /no/such/folder"]),
        (["screen.k=-1", "model=local", "model.path={model}"], ["screen.k=-1"]),
        (["screen=heads", "model=local", "model.path={model}"], ["screen.heads=[L1H3,L2H1]"]),
        (
            ["screen=heads", "screen.heads=[L99H0]", "model=local", "model.path={model}"],
            ["L99H0", "3 layers × 4 heads"],
        ),
        (["screen.heads=[L1H1]", "model=local", "model.path={model}"], ["the screen is 'all'"]),
        (["screen=gt_specific", "model=local", "model.path={model}"], ["does not fit this task"]),
        (["task.n=0", "model=local", "model.path={model}"], ["task.n=0", "too few"]),
    ],
)
def test_one_clear_message(run: Any, cli_model: Path, arguments: list[str], words: list[str]) -> None:
    filled = [a.format(model=cli_model) for a in arguments]
    done = run(*filled, "tracking=off", HF_HUB_OFFLINE="1")
    assert done.returncode != 0
    for word in words:
        assert word in done.stderr, done.stderr
    assert "Traceback" not in done.stderr + done.stdout


def test_circuit_of_another_model_is_refused(run: Any, cli_model: Path, tmp_path: Path) -> None:
    circuit = {
        "schema": "mechexp.circuit/1",
        "screen": "prev_token",
        "heads": ["L1H3"],
        "model": {"id": "allenai/OLMoE", "revision": "", "n_layers": 16, "n_heads": 16, "head_dim": 128},
    }
    path = tmp_path / "circuit.json"
    path.write_text(json.dumps(circuit))
    done = run("screen=file", f"screen.file={path}", "model=local", f"model.path={cli_model}", "tracking=off")
    assert done.returncode != 0
    assert "belongs to another model: allenai/OLMoE" in done.stderr
    assert "do not carry over" in done.stderr


def test_custom_line_is_named(run: Any, cli_model: Path, tmp_path: Path) -> None:
    path = tmp_path / "prompts.jsonl"
    path.write_text(
        '{"prompt": "Mary went to", "target": " Paris", "distractor": " Rome"}\n{"prompt": "Mary"}\n'
    )
    done = run("task=custom", f"task.path={path}", "model=local", f"model.path={cli_model}", "tracking=off")
    assert done.returncode != 0
    assert "prompts.jsonl" in done.stderr and "2" in done.stderr and "target" in done.stderr


def test_unwritable_store_is_told_before_the_work(run: Any, cli_model: Path, tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("not a folder")
    done = run("model=local", f"model.path={cli_model}", f"tracking.root={blocked}/mlruns")
    assert done.returncode != 0
    assert str(blocked) in done.stderr and "Traceback" not in done.stderr


def test_debug_shows_the_traceback(run: Any) -> None:
    done = run("model=local", "model.path=/no/such/folder", "tracking=off", "debug=true")
    assert done.returncode != 0 and "Traceback" in done.stderr
