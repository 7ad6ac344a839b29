"""The configuration made without Hydra is the one that Hydra makes, for every choice of every group."""

from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from mechexp.compose import compose
from mechexp.errors import UserError
from mechexp.paths import conf_dir
from mechexp.schema import Config, register

GROUPS = sorted(p.name for p in conf_dir().iterdir() if p.is_dir() and p.name not in ("hydra", "experiment"))
CHOICES = [(g, p.stem) for g in GROUPS for p in sorted((conf_dir() / g).glob("*.yaml"))]


@pytest.fixture(scope="module")
def by_hydra() -> Iterator[Any]:
    from hydra import compose as hydra_compose
    from hydra import initialize_config_dir
    from omegaconf import OmegaConf

    register()
    with initialize_config_dir(config_dir=str(conf_dir()), version_base="1.3"):

        def go(*overrides: str) -> Config:
            cfg = OmegaConf.to_object(hydra_compose("config", overrides=list(overrides)))
            assert isinstance(cfg, Config)
            return cfg

        yield go


@pytest.mark.parametrize(("group", "choice"), CHOICES)
def test_every_choice_is_as_hydra_composes_it(by_hydra: Any, group: str, choice: str) -> None:
    ours, theirs = compose({group: choice}), by_hydra(f"{group}={choice}")
    assert type(ours.task) is type(theirs.task)
    assert asdict(ours) == asdict(theirs)


def test_defaults_and_options_are_as_on_the_command_line(by_hydra: Any) -> None:
    assert asdict(compose({})) == asdict(by_hydra())
    options = {"task.n": 64, "control.max_sets": None, "screen.heads": ["L1H3"], "taxonomy.alpha": 0.01}
    theirs = by_hydra("task.n=64", "control.max_sets=null", "screen.heads=[L1H3]", "taxonomy.alpha=0.01")
    assert asdict(compose({}, options)) == asdict(theirs)


@pytest.mark.parametrize(
    ("choices", "options", "words"),
    [
        ({}, {"task.nn": 1}, "task.nn"),
        ({}, {"task.n": "many"}, "task.n"),
        ({}, {"singles": "some"}, "singles"),
        ({}, {"seeed": 1}, "seeed"),
        ({"task": "ioii"}, {}, "ioi, planted"),
        ({"tusk": "ioi"}, {}, "tusk"),
        ({"task": "ioi"}, {"task.length": 3}, "task.length"),
    ],
)
def test_bad_options_are_refused(choices: dict[str, str], options: dict[str, Any], words: str) -> None:
    with pytest.raises(UserError) as error:
        compose(choices, options)
    assert words in str(error.value)


def test_files_of_a_folder_go_first_and_are_checked(tmp_path: Path) -> None:
    (tmp_path / "control").mkdir()
    (tmp_path / "control" / "few.yaml").write_text("name: matched_random\nmax_sets: 3\n")
    assert compose({"control": "few"}, folders=[tmp_path]).control.max_sets == 3
    (tmp_path / "control" / "few.yaml").write_text("name: matched_random\nmax_set: 3\n")
    with pytest.raises(UserError, match="max_set"):
        compose({"control": "few"}, folders=[tmp_path])
    (tmp_path / "control" / "few.yaml").write_text("- a list\n")
    with pytest.raises(UserError, match=r"few\.yaml"):
        compose({"control": "few"}, folders=[tmp_path])
