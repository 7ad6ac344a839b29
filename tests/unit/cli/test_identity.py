"""The key of a cell: whatever changes its numbers makes another cell, and nothing else does."""

import copy
import hashlib
from collections.abc import Callable, Iterator
from dataclasses import fields, is_dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mechexp import describe, plugins
from mechexp.errors import UserError
from mechexp.schema import Config
from mechexp.tasks.prompts import PromptSet, TextPrompt

ELSEWHERE = {"model.path", "model.device", "model.device_map", "screen.file"}


def leaves(value: Any, path: str = "") -> Iterator[str]:
    for f in fields(value):
        name, inner = f"{path}{f.name}", getattr(value, f.name)
        if is_dataclass(inner):
            yield from leaves(inner, f"{name}.")
        else:
            yield name


def is_identity(name: str) -> bool:
    return name.split(".")[0] not in describe.NOT_IDENTITY and name not in ELSEWHERE


def changed(cfg: Config, name: str) -> Config:
    """The config with one option set to another value of its type."""
    cfg = copy.deepcopy(cfg)
    *groups, last = name.split(".")
    at: Any = cfg
    for group in groups:
        at = getattr(at, group)
    old = getattr(at, last)
    match old:
        case bool():
            new: Any = not old
        case int() | float():
            new = old + 1
        case str():
            new = f"{old}x"
        case list():
            new = [*old, "x"]
        case dict():
            new = {**old, "x": 1}
    setattr(at, last, new)
    return cfg


OPTIONS = sorted(leaves(Config()))


def prompts(**changes: Any) -> PromptSet:
    texts = tuple(TextPrompt(t, (" Bob",), (" Ann",), spans={"io": (0, 3)}) for t in ("Ann gave", "Bob gave"))
    given: dict[str, Any] = {
        "task": "ioi", "texts": texts, "ids": ((1, 2), (3, 2)), "positions": ({"io": 0}, {"io": 0}),
        "targets": ((4,), (4,)), "distractors": ((5,), (5,)), "counterfactual_ids": (None, None),
        "half": ("screen", "test"),
    }  # fmt: skip
    return PromptSet(**{**given, **changes})


@pytest.fixture(scope="module")
def loaded(micro_model: Callable[[str], Any]) -> Any:
    return micro_model("llama")


@settings(max_examples=60, deadline=None)
@given(names=st.lists(st.sampled_from(OPTIONS), min_size=1, max_size=4, unique=True))
def test_options_that_change_numbers_make_another_cell_and_no_others(names: list[str], loaded: Any) -> None:
    cfg, other = Config(), Config()
    for name in names:
        other = changed(other, name) if name != "screen.file" else other
    same = describe.cell_key(cfg, loaded, prompts()) == describe.cell_key(other, loaded, prompts())
    assert same == (not any(is_identity(name) for name in names))


@pytest.mark.parametrize("name", [n for n in OPTIONS if n != "screen.file"])
def test_every_single_option(name: str, loaded: Any) -> None:
    keys = {describe.cell_key(c, loaded, prompts()) for c in (Config(), changed(Config(), name))}
    assert len(keys) == (2 if is_identity(name) else 1)


def test_other_weights_config_prompts_halves_or_schema_are_another_cell(
    loaded: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    texts = prompts().texts
    variants: list[tuple[Any, PromptSet]] = [
        (loaded, prompts()),
        (replace(loaded, weights_hash=hashlib.sha256(b"other").hexdigest()), prompts()),
        (loaded, prompts(ids=((1, 2), (3, 9)))),
        (loaded, prompts(targets=((4,), (6,)))),
        (loaded, prompts(half=("test", "screen"))),
        (loaded, prompts(texts=(texts[0], replace(texts[1], spans={"io": (4, 8)})))),
        (loaded, prompts().take([1, 0])),
    ]
    keys = [describe.cell_key(Config(), *v) for v in variants]
    monkeypatch.setattr(describe, "SCHEMA", "mechexp.result/2")
    keys.append(describe.cell_key(Config(), *variants[0]))
    assert len(set(keys)) == len(variants) + 1


def test_a_circuit_file_counts_by_its_content(loaded: Any, tmp_path: Path) -> None:
    def key(name: str, text: str) -> str:
        cfg = Config()
        cfg.screen.file = str(tmp_path / name)
        (tmp_path / name).write_text(text)
        return describe.cell_key(cfg, loaded, prompts())

    assert key("a", "one") == key("b", "one") != key("a", "two")
    cfg = Config()
    cfg.screen.file = str(tmp_path / "missing")
    with pytest.raises(UserError, match="circuit file"):
        describe.cell_key(cfg, loaded, prompts())


def test_code_of_the_users_own_counts(loaded: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(plugins, "_sources", {})
    keys = [describe.cell_key(Config(), loaded, prompts())]
    for text in ("ONE = 1\n", "ONE = 2\n"):
        folder = tmp_path / str(len(keys)) / "task"
        folder.mkdir(parents=True)
        (folder / "own.py").write_text(text)
        monkeypatch.setattr(plugins, "_sources", {})
        plugins.load_folder(folder.parent)
        keys.append(describe.cell_key(Config(), loaded, prompts()))
    assert len(set(keys)) == 3
