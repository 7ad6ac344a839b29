"""The spectral signal: ranks, integrals, what it selects, and the trajectory over checkpoints."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mechexp.config import ModelConfig, ScreenConfig, SpectralConfig
from mechexp.errors import UserError
from mechexp.models.checkpoints import checkpoints_of
from mechexp.models.hooks import capture_z
from mechexp.screens.inputs import ScreenInputs, read_last, read_rows
from mechexp.screens.run import run_screens
from mechexp.screens.spectral import (
    entropy_rank,
    entropy_ranks,
    n_top,
    participation_ratio,
    trajectory_integral,
)
from mechexp.tasks.prompts import PromptSet

GOLDEN = json.loads((Path(__file__).parents[2] / "golden" / "data" / "golden.json").read_text())
NO_PROMPTS = PromptSet("none", (), (), (), (), (), (), ())


@pytest.mark.parametrize("head", ["L1H5", "L0H14"])
def test_published_integrals(head: str) -> None:
    golden = GOLDEN["spectral_integral"]
    found = trajectory_integral(golden[head]["entropy_rank"], golden["tokens_billion"])
    assert found == pytest.approx(golden[head]["integral"], abs=1e-5)


def test_ranks_of_matrices_whose_rank_is_known() -> None:
    rng = np.random.default_rng(0)
    q, _ = np.linalg.qr(rng.normal(size=(12, 5)))
    assert entropy_rank(np.outer(rng.normal(size=9), rng.normal(size=4))) == pytest.approx(1)
    assert entropy_rank(q) == pytest.approx(5)
    assert participation_ratio(q) == pytest.approx(5)
    assert entropy_rank(np.zeros((3, 4))) == participation_ratio(np.zeros((3, 4))) == 0
    p = np.array([9, 4, 1]) / 14  # singular values 3, 2, 1
    assert entropy_rank(np.diag([3.0, 2, 1])) == pytest.approx(np.exp(-(p * np.log(p)).sum()))
    assert participation_ratio(np.diag([3.0, 2, 1])) == pytest.approx(14**2 / 98)


def test_not_centred() -> None:
    """A constant output is one direction, not none."""
    assert entropy_rank(np.ones((20, 6))) == pytest.approx(1)


@settings(deadline=None)
@given(st.integers(1, 8), st.integers(1, 8), st.integers(0, 999), st.floats(1e-30, 1e30))
def test_bounds_scale_and_transpose(rows: int, columns: int, seed: int, scale: float) -> None:
    m = np.random.default_rng(seed).normal(size=(rows, columns))
    entropy, participation = entropy_rank(m), participation_ratio(m)
    assert 1 - 1e-9 <= participation <= entropy + 1e-9 <= min(rows, columns) + 1e-8
    assert entropy_rank(m * scale) == pytest.approx(entropy)
    assert entropy_rank(m.T) == pytest.approx(entropy)


def test_tensors_are_taken() -> None:
    torch = pytest.importorskip("torch")
    assert entropy_rank(torch.eye(4, dtype=torch.bfloat16, requires_grad=True)) == pytest.approx(4)


@pytest.mark.parametrize("bad", [np.zeros(3), np.zeros((0, 3)), np.array([[np.nan, 1.0]])])
def test_no_matrix_is_refused(bad: np.ndarray) -> None:
    with pytest.raises(ValueError, match=r"matrix"):
        entropy_rank(bad)


def test_integral_ignores_unit_and_order_and_clips_at_rank_one() -> None:
    ranks, tokens = np.array([3.0, 0.5, 7.0]), np.array([1.0, 10, 100])
    assert trajectory_integral(ranks, tokens) == pytest.approx(trajectory_integral(ranks, tokens * 1e9))
    assert trajectory_integral(ranks[::-1], tokens[::-1]) == pytest.approx(trajectory_integral(ranks, tokens))
    assert trajectory_integral(ranks, tokens) == pytest.approx(np.log(10) * ((2 + 0) / 2 + (0 + 6) / 2))


@pytest.mark.parametrize("tokens", [[1.0], [0.0, 1.0], [1.0, 1.0], [1.0, 2.0, 3.0], [1.0, np.nan]])
def test_impossible_trajectories_are_refused(tokens: list[float]) -> None:
    with pytest.raises(UserError):
        trajectory_integral([2.0] * min(len(tokens), 2), tokens)


def test_z_and_attention_of_one_pass_are_those_of_two(micro_model) -> None:
    loaded = micro_model("olmoe")
    ids = np.random.default_rng(0).integers(4, 150, size=(5, 12))
    rows, z_QPLHD = read_last(loaded, ids)
    import torch

    with torch.no_grad(), capture_z(loaded) as z:
        loaded.model(input_ids=torch.as_tensor(ids))
    for layer in range(loaded.n_layers):
        for q, at in enumerate((-1, -2)):
            np.testing.assert_allclose(z_QPLHD[q, :, layer], z[layer][:, at].numpy(), atol=1e-6)
    np.testing.assert_allclose(rows, read_rows(loaded, ids), atol=1e-6)


def test_chunks_keep_the_order_of_sequences(micro_model, monkeypatch: pytest.MonkeyPatch) -> None:
    loaded = micro_model("llama")
    ids = np.random.default_rng(0).integers(4, 150, size=(7, 12))
    _, whole = read_last(loaded, ids)
    monkeypatch.setattr("mechexp.screens.inputs.CHUNK_ELEMENTS", 2 * loaded.n_heads * 12 * 12)
    _, pieces = read_last(loaded, ids)
    np.testing.assert_allclose(pieces, whole, atol=1e-6)


def test_fallback_is_flagged_and_matches_its_definition(micro_model) -> None:
    loaded = micro_model("llama")
    inputs = ScreenInputs(loaded, NO_PROMPTS, ScreenConfig(sequences=8, length=24))
    found = inputs.spectral
    assert not found.integral_available and found.details()["integral_available"] is False
    rng = np.random.default_rng(inputs.cfg.seed)
    halves = [rng.choice(8, size=4, replace=False) for _ in range(inputs.cfg.spectral.subsamples)]
    for layer, head in ((0, 1), (2, 3)):
        z = inputs.random_z_QPLHD[0, :, layer, head]
        assert found.rank_LH[layer, head] == pytest.approx(entropy_rank(z))
        mean = np.mean([max(entropy_rank(z[half]) - 1, 0) for half in halves])
        assert found.signal_LH[layer, head] == pytest.approx(mean)
        before = np.mean([max(entropy_rank(inputs.random_z_QPLHD[1, h, layer, head]) - 1, 0) for h in halves])
        assert found.null_LH[layer, head] == pytest.approx(before)


def test_screen_picks_the_top_share_and_every_table_has_the_covariate(micro_model) -> None:
    loaded = micro_model("gpt_neox")
    cfg = ScreenConfig(name="spectral", sequences=8, length=24)
    screened = run_screens(loaded, NO_PROMPTS, cfg, ())
    (circuit,) = screened.circuits
    total = loaded.n_layers * loaded.n_heads
    assert len(circuit.heads) == n_top(total, 0.18) == 2
    best, top = screened.heads.nlargest(2, "spectral_signal"), screened.heads.query("spectral_top")
    assert set(circuit.heads) == set(zip(best["layer"], best["head"], strict=True))
    assert set(zip(top["layer"], top["head"], strict=True)) == set(circuit.heads)
    assert circuit.pattern != circuit.pattern  # it looks at no position
    assert circuit.details["integral_available"] is False


def test_filter_leaves_only_top_heads(micro_model) -> None:
    loaded = micro_model("gpt_neox")
    cfg = ScreenConfig(name="induction", k=4, sequences=8, length=24)
    free = run_screens(loaded, NO_PROMPTS, cfg, ()).circuits[0]
    spectral = SpectralConfig(share=0.5)
    screened = run_screens(loaded, NO_PROMPTS, replace(cfg, filter="spectral", spectral=spectral), ())
    filtered = screened.circuits[0]
    top = screened.heads.query("spectral_top").sort_values("induction_score", ascending=False)
    assert list(filtered.heads) == list(zip(top["layer"], top["head"], strict=True))[:4]
    assert filtered.heads != free.heads
    assert "spectral" in filtered.details["rule"]


@pytest.fixture
def save_micro():
    """``save_micro(family, seed, folder)``: a saved micro model of other weights."""
    import importlib.util

    spec = importlib.util.spec_from_file_location("root_conftest", Path(__file__).parents[2] / "conftest.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)

    def save(family: str, seed: int, folder: Path) -> None:
        module.micro_stock_model(family, seed=seed).save_pretrained(folder)
        module.micro_tokenizer().save_pretrained(folder)

    return save


@pytest.fixture
def run_folder(micro_folder, save_micro, tmp_path: Path) -> Path:
    """Two checkpoints of other weights, and the end of training in the folder itself."""
    import shutil

    folder = tmp_path / "run"
    shutil.copytree(micro_folder("llama"), folder)
    for step, seed in ((10, 1), (20, 2)):
        save_micro("llama", seed, folder / "checkpoints" / f"step_{step}")
    seen = {"step_10": 1_000, "step_20": 2_000, "step_30": 3_000}
    (folder / "recipe.json").write_text(json.dumps({"tokens_seen": seen}))
    return folder


def test_trajectory_over_a_folders_checkpoints(run_folder: Path) -> None:
    from mechexp.models import load_from_config

    model = ModelConfig(name="local", source="local", path=str(run_folder), screen_length=24)
    points = checkpoints_of(model)
    assert [p.tokens for p in points] == pytest.approx([1e-6, 2e-6, 3e-6])
    inputs = ScreenInputs(load_from_config(model), NO_PROMPTS, ScreenConfig(sequences=8), points)
    found = inputs.spectral
    assert found.integral_available
    ranks = []
    for point in points:
        _, z = read_last(point.load(), inputs.batch.ids_PT)
        ranks.append(entropy_rank(z[0, :, 1, 2]))
    assert len(set(ranks)) == 3  # three different models were read
    assert ranks[-1] == pytest.approx(found.rank_LH[1, 2])
    expected = trajectory_integral(ranks, [1, 2, 3])
    assert found.signal_LH[1, 2] == pytest.approx(expected)


def test_a_table_names_hub_revisions() -> None:
    points = checkpoints_of(ModelConfig(name="m", id="a/b", checkpoints={"step9": 9.0, "step1": 0.5}))
    assert [(p.revision, p.tokens) for p in points] == [("step1", 0.5), ("step9", 9.0)]


def test_missing_checkpoints_are_told(run_folder: Path, micro_folder) -> None:
    with pytest.raises(UserError, match=r"model\.checkpoints"):
        checkpoints_of(ModelConfig(name="local", source="local", path=str(micro_folder("llama"))))
    table = {"step_1": 1.0, "step_20": 2.0}
    with pytest.raises(UserError, match="step_1"):
        checkpoints_of(ModelConfig(name="local", source="local", path=str(run_folder), checkpoints=table))


def test_stacked_ranks_are_those_of_each_matrix() -> None:
    stack = np.random.default_rng(1).normal(size=(3, 2, 6, 4))
    ranks = entropy_ranks(stack)
    assert ranks.shape == (3, 2)
    assert ranks[2, 1] == pytest.approx(entropy_rank(stack[2, 1]))


@pytest.mark.parametrize(
    ("changes", "key"),
    [
        ({"filter": "psychic"}, "screen.filter"),
        ({"filter": "spectral", "name": "spectral"}, "screen.filter"),
        ({"filter": "spectral", "name": "heads"}, "screen.filter"),
        ({"spectral": SpectralConfig(share=0)}, "share"),
        ({"spectral": SpectralConfig(subsamples=1)}, "subsamples"),
    ],
)
def test_options_that_cannot_be_are_refused(changes: dict, key: str) -> None:
    from mechexp.schema import Config, validate

    with pytest.raises(UserError, match=key):
        validate(Config(screen=ScreenConfig(**changes)))
