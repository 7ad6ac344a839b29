"""Experiments as a user starts them: each composes, sweeps what it says, and lets the command line win."""

from itertools import product
from pathlib import Path

import pytest
from omegaconf import OmegaConf

from mechexp.cli import prefer_given
from mechexp.paths import conf_dir
from mechexp.schema import Config, register, validate

EXPERIMENTS = sorted(p.stem for p in (conf_dir() / "experiment").glob("*.yaml"))
NEEDED = {"paper_grid", "head_count_sweep", "bos_diagnostics", "moe_primacy", "robustness"}


def compose(*overrides: str) -> Config:
    from hydra import compose as hydra_compose
    from hydra import initialize_config_dir

    register()
    with initialize_config_dir(str(conf_dir()), version_base="1.3"):
        cfg = OmegaConf.to_object(hydra_compose("config", list(overrides)))
    assert isinstance(cfg, Config)
    validate(cfg)
    return cfg


def sweep_of(name: str) -> dict[str, str]:
    raw = OmegaConf.load(conf_dir() / "experiment" / f"{name}.yaml")
    return {str(k): str(v) for k, v in (OmegaConf.select(raw, "hydra.sweeper.params") or {}).items()}


def test_the_experiments_are_there() -> None:
    assert set(EXPERIMENTS) >= NEEDED


@pytest.mark.parametrize("name", sorted(NEEDED))
def test_every_job_of_an_experiment_is_a_valid_config(name: str) -> None:
    params = sweep_of(name)
    jobs = list(product(*([f"{k}={v}" for v in values.split(",")] for k, values in params.items())))
    for job in jobs:
        cfg = compose(f"experiment={name}", *job)
        assert not cfg.estimate
    raw = OmegaConf.load(conf_dir() / "experiment" / f"{name}.yaml")
    assert (OmegaConf.select(raw, "hydra.mode") == "MULTIRUN") == bool(params)


def test_the_papers_grid_is_the_papers() -> None:
    cfgs = [
        compose("experiment=paper_grid", f"control={c}") for c in sweep_of("paper_grid")["control"].split(",")
    ]
    assert [(c.control.name, c.control.max_sets) for c in cfgs] == [("paper", 10), ("matched_random", 199)]
    assert all(c.ablation.name == "zero" and c.task.split is False for c in cfgs)
    assert sweep_of("paper_grid")["model"] == "pythia,olmo,olmoe"
    assert sweep_of("paper_grid")["task"] == "ioi,gt,succ,vb"


def test_experiments_change_what_the_root_config_sets() -> None:
    assert compose("experiment=bos_diagnostics").singles == "all"
    cfg = compose("experiment=head_count_sweep")
    assert cfg.singles == "picked" and cfg.protocol.head_counts == [1, 2, 5, 10, 20]
    assert compose("experiment=head_count_sweep", "singles=none").singles == "none"


def test_the_command_line_wins_over_the_experiments_own_sweep() -> None:
    given = ["experiment=paper_grid", "model=olmo", "task=ioi,vb"]
    assert prefer_given(given) == [*given, "hydra.sweeper.params=null", "control=paper,matched_199"]
    dotted = prefer_given(["experiment=bos_diagnostics", "control.match_on=layer"])
    assert dotted == ["experiment=bos_diagnostics", "control.match_on=layer", "hydra.sweeper.params=null"]


@pytest.mark.parametrize(
    "arguments",
    [["experiment=paper_grid"], ["experiment=paper_grid", "seed=3"], ["model=olmo"], ["experiment=nothing"],
     ["-m", "experiment=head_count_sweep", "task=ioi,vb"], []],
)  # fmt: skip
def test_other_command_lines_stay_as_they_are(arguments: list[str]) -> None:
    assert prefer_given(arguments) == arguments


@pytest.mark.slow
def test_an_experiment_runs_and_its_survivors_are_told(cli_micro: Path, tmp_path: Path) -> None:
    import subprocess
    import sys

    sweep = tmp_path / "sweep"
    options = [
        "model=local", f"model.path={cli_micro}", "model.screen_length=32", "task.n=48",
        "taxonomy.min_top1=0", "taxonomy.min_frac_correct=0", "tracking=off", "control.max_sets=5",
        "screen=name_mover",
        "experiment=robustness", "task.seed=0", "seed=0", "ablation=zero,mean",
        f"hydra.sweep.dir={sweep}",
    ]  # fmt: skip
    ran = subprocess.run(
        [sys.executable, "-m", "mechexp", *options], cwd=tmp_path, capture_output=True, text=True
    )
    assert ran.returncode == 0, ran.stderr
    told = subprocess.run(
        [sys.executable, "-m", "mechexp.survival", str(sweep), "--format", "csv"], cwd=tmp_path,
        capture_output=True, text=True,
    )  # fmt: skip
    assert told.returncode == 0, told.stderr
    assert "local,ioi,name_mover,2," in told.stdout


@pytest.fixture
def cli_micro(tmp_path: Path) -> Path:
    """A saved micro Llama whose tokenizer has the words of the tasks."""
    import importlib.util

    spec = importlib.util.spec_from_file_location(
        "cli_conftest", Path(__file__).parents[2] / "cli" / "conftest.py"
    )
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)

    class Factory:
        def mktemp(self, name: str) -> Path:
            folder = tmp_path / name
            folder.mkdir()
            return folder

    return Path(module.cli_model.__wrapped__(Factory()))
