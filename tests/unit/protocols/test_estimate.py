"""Costs told before a job runs, against what jobs then measure."""

import io
from pathlib import Path

import pytest
from rich.console import Console
from test_diagnostics import config, prompts

from mechexp.config import ModelConfig, ProtocolConfig, ScreenConfig, TaskConfig
from mechexp.controls.config import ControlConfig
from mechexp.errors import UserError
from mechexp.progress import JobProgress
from mechexp.protocols import estimate as module
from mechexp.protocols.estimate import SHAPES, estimate_cell, shape_of
from mechexp.protocols.screen_ablate import screen_ablate
from mechexp.report.estimate import print_estimates
from mechexp.schema import Config


@pytest.fixture
def no_benchmark(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "measure_speed", lambda device, dtype: (1e12, "a device"))


@pytest.mark.parametrize("head_counts", [[], [1, 4]])
@pytest.mark.parametrize("diagnostics", [True, False])
def test_conditions_are_those_that_the_job_measures(
    micro_model,
    monkeypatch: pytest.MonkeyPatch,
    no_benchmark: None,
    head_counts: list[int],
    diagnostics: bool,
) -> None:
    loaded, given = micro_model("llama"), prompts()
    monkeypatch.setattr(module, "shape_of", lambda cfg: (loaded, []))
    monkeypatch.setattr(module, "make_prompts", lambda cfg, tokenizer: given)
    protocol = ProtocolConfig(bootstrap=200, redraws=0, diagnostics=diagnostics)
    cfg = config(
        screen=ScreenConfig(name="heads", heads=["L0H1", "L2H3"], sequences=8, length=24),
        protocol=protocol, task=TaskConfig(name="custom"),
    )  # fmt: skip
    if head_counts:  # a user's list of heads has no ranking: the screen's own circuits, of a size given by k
        protocol.head_counts = head_counts
        cfg.screen = ScreenConfig(name="induction", k=5, sequences=8, length=24)
    told = estimate_cell(cfg)
    ran = screen_ablate(loaded, given, cfg, JobProgress("test"))
    if not head_counts:
        assert told.conditions == ran.timing["conditions"]
        assert told.forwards > 1
        assert not told.notes
    else:  # where the heads lie is not known beforehand, and with it how many matched sets there are
        assert told.conditions == pytest.approx(ran.timing["conditions"], rel=0.5)
        assert told.notes == ("circuits of 5 heads are assumed",)


@pytest.mark.parametrize("name", list(SHAPES))
def test_the_papers_models_have_their_size_without_weights(name: str) -> None:
    loaded, _ = shape_of(Config(model=ModelConfig(name="m", id=name)))
    parameters = sum(p.numel() for p in loaded.model.parameters())
    billions = {"pythia-1b": 1.01, "OLMo-1B-0724-hf": 1.28, "OLMoE-1B-7B-0924": 6.92}[name.split("/")[1]]
    assert parameters / 1e9 == pytest.approx(billions, abs=0.01)
    assert all(p.is_meta for p in loaded.model.parameters())
    heads, width = (8, 256) if "pythia" in name else (16, 128)
    assert (loaded.n_layers, loaded.n_heads, loaded.head_dim) == (16, heads, width)


def grid_cell(**control) -> Config:
    return Config(
        model=ModelConfig(name="pythia", id="EleutherAI/pythia-1b"), task=TaskConfig(name="ioi"),
        control=ControlConfig(**control),
    )  # fmt: skip


def test_more_sets_cost_more_and_hours_follow_the_work(no_benchmark: None) -> None:
    few, many = (estimate_cell(grid_cell(max_sets=m)) for m in (10, 199))
    circuits = 6  # four general, two of ioi
    assert many.conditions - few.conditions == pytest.approx(189 * circuits, rel=0.01)
    assert many.forwards > 5 * few.forwards
    assert many.hours == pytest.approx(many.flops / (1e12 * module.UTILISATION) / 3600)
    assert many.forwards < many.conditions  # shared parts are counted once
    assert few.gigabytes == pytest.approx(1.01 * 4 + 2.0, abs=0.05)
    assert any("assumed" in note for note in few.notes)


def test_a_model_that_does_not_fit_is_told(monkeypatch: pytest.MonkeyPatch, no_benchmark: None) -> None:
    assert module.device_memory("cpu") > 0.1
    monkeypatch.setattr(module, "device_memory", lambda device: 30.0)
    assert not any("not fit" in note for note in estimate_cell(grid_cell(max_sets=10)).notes)
    monkeypatch.setattr(module, "device_memory", lambda device: 3.0)
    notes = estimate_cell(grid_cell(max_sets=10)).notes
    assert "pythia needs 6 GB, the device has 3 GB: it will not fit" in notes


def test_unknown_hub_model_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    from transformers import AutoConfig

    def no_network(*_args, **_kwargs):
        raise OSError("offline")

    monkeypatch.setattr(AutoConfig, "from_pretrained", no_network)
    with pytest.raises(UserError, match="hub can be reached"):
        shape_of(Config(model=ModelConfig(name="m", id="a/b")))


def test_speed_is_measured_on_a_device_that_is_there() -> None:
    speed, device = module.measure_speed("cpu", "float32")
    assert speed > 1e7 and device.startswith("CPU")


def test_table_adds_up(no_benchmark: None) -> None:
    cells = [estimate_cell(grid_cell(max_sets=10)), estimate_cell(grid_cell(name="paper", max_sets=10))]
    out = io.StringIO()
    print_estimates(cells, Console(file=out, width=100))
    text = out.getvalue()
    assert "nothing was run" in text and "paper (10)" in text and "a device" in text
    assert f"{sum(c.conditions for c in cells):,}" in text


def test_a_job_only_tells_its_cost(micro_folder, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from mechexp.jobs import run_job, tell_estimates

    cfg = grid_cell(max_sets=10)
    cfg.estimate = True
    run_job(cfg, tmp_path, None, [], {})
    run_job(cfg, tmp_path, None, [], {})
    tell_estimates()
    text = capsys.readouterr().out
    assert text.count("Estimated cost") == 1 and text.count("pythia") == 2 and "all" in text
    tell_estimates()
    assert capsys.readouterr().out == ""  # told once
    assert list(tmp_path.iterdir()) == []
