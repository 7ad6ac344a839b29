"""Loading from folders: what comes back, what is kept, and what is refused."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from micro_models import FAMILIES
from safetensors.torch import load_file, save_file

from mechexp.config import ModelConfig
from mechexp.errors import UserError
from mechexp.models import load_from_config, load_model, release_models
from mechexp.models.loading import KEPT_MODELS

IDS = torch.arange(3, 11)[None]


@pytest.fixture(autouse=True)
def _nothing_kept():
    release_models()
    yield
    release_models()


@pytest.fixture
def folder(micro_folder, tmp_path) -> Path:
    """A saved Llama that the test may damage."""
    return Path(shutil.copytree(micro_folder("llama"), tmp_path / "model"))


def change_weights(folder: Path, change) -> None:
    weights = load_file(folder / "model.safetensors")
    change(weights)
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})


@pytest.mark.parametrize("family", FAMILIES)
def test_every_family_comes_back_as_it_was_saved(micro_folder, micro_model, family):
    loaded = load_model(micro_folder(family), device="cpu")
    shared = micro_model(family)
    assert loaded.weights_hash == shared.weights_hash
    assert loaded.geometry == shared.geometry
    with torch.no_grad():
        mine, theirs = (m.model(input_ids=IDS, use_cache=False).logits for m in (loaded, shared))
    torch.testing.assert_close(mine, theirs, atol=1e-6, rtol=0)
    assert loaded.tokenizer.decode(loaded.tokenizer("the store").input_ids) == "the store"


def test_a_config_and_a_path_give_the_same_object(folder):
    by_path = load_model(folder)
    cfg = ModelConfig(name="model", source="local", path=str(folder))
    assert load_from_config(cfg) is by_path
    assert load_model(folder) is by_path
    assert load_model(folder, dtype="bfloat16") is not by_path


def test_precision_is_what_was_asked_and_is_part_of_the_fingerprint(folder):
    full, half = load_model(folder), load_model(folder, dtype="bfloat16")
    assert {p.dtype for p in full.model.parameters()} == {torch.float32}
    assert {p.dtype for p in half.model.parameters()} == {torch.bfloat16}
    assert full.weights_hash != half.weights_hash


def test_precision_does_not_come_from_the_checkpoint(folder):
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | {"dtype": "float16"}))
    assert {p.dtype for p in load_model(folder).model.parameters()} == {torch.float32}


def test_a_changed_file_is_another_model(folder):
    before = load_model(folder)
    change_weights(folder, lambda w: w["model.norm.weight"].add_(1))
    after = load_model(folder)
    assert after is not before
    assert after.weights_hash != before.weights_hash


def test_only_a_few_models_are_kept(micro_folder):
    first = load_model(micro_folder("llama"))
    others = [load_model(micro_folder(f)) for f in ("gpt2", "gpt_neox", "olmo")[:KEPT_MODELS]]
    assert load_model(micro_folder("gpt_neox" if KEPT_MODELS > 1 else "gpt2")) is others[-1]
    assert load_model(micro_folder("llama")) is not first


def test_large_models_are_not_kept_beside_another(micro_folder, monkeypatch):
    monkeypatch.setattr("mechexp.models.loading.LARGE", 0)
    first = load_model(micro_folder("llama"))
    load_model(micro_folder("gpt2"))
    assert load_model(micro_folder("llama")) is not first


def test_the_fingerprint_is_the_same_in_another_process(folder):
    code = f"from mechexp.models import load_model; print(load_model({str(folder)!r}).weights_hash)"
    root = Path(__file__).resolve().parents[3]
    run = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
        env=os.environ | {"PYTHONPATH": str(root), "PYTHONHASHSEED": "7"},
    )
    assert run.stdout.strip() == load_model(folder).weights_hash
    assert run.stderr == ""  # no progress bars or advice of other libraries


def test_a_device_map_places_the_model(folder):
    loaded = load_model(folder, device_map="auto")
    assert loaded.weights_hash == load_model(folder, device="cpu").weights_hash
    with pytest.raises(UserError, match="device_map=sideways"):
        load_model(folder, device_map="sideways")


@pytest.mark.parametrize("number", [float("nan"), float("inf")])
def test_weights_that_are_not_finite_are_refused(folder, number):
    name = "model.layers.1.mlp.up_proj.weight"
    change_weights(folder, lambda w: w[name].view(-1)[5:7].fill_(number))
    with pytest.raises(UserError, match=f"2 of 2048 numbers of weight {name}"):
        load_model(folder)


def test_missing_weights_are_refused_instead_of_made_up(folder):
    change_weights(folder, lambda w: w.pop("model.layers.0.self_attn.q_proj.weight"))
    with pytest.raises(UserError, match=r"1 weights are missing.*layers\.0\.self_attn\.q_proj"):
        load_model(folder)


def test_weights_of_another_shape_are_refused(folder):
    def narrow(weights):
        weights["model.norm.weight"] = weights["model.norm.weight"][:5].clone()

    change_weights(folder, narrow)
    with pytest.raises(UserError, match=r"model\.norm\.weight"):
        load_model(folder)


def test_a_truncated_file_is_refused(folder):
    whole = (folder / "model.safetensors").read_bytes()
    (folder / "model.safetensors").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(UserError, match="weights cannot be read"):
        load_model(folder)


def test_pickled_weights_are_never_read(folder):
    torch.save(load_file(folder / "model.safetensors"), folder / "pytorch_model.bin")
    (folder / "model.safetensors").unlink()
    with pytest.raises(UserError, match="holds no whole model") as caught:
        load_model(folder)
    assert "pickled weights are never read" in str(caught.value)


def test_a_missing_tokenizer_is_refused(folder):
    for file in folder.glob("tokenizer*"):
        file.unlink()
    with pytest.raises(UserError, match="no tokenizer could be loaded"):
        load_model(folder)


def test_a_folder_that_holds_no_model_is_refused(tmp_path):
    with pytest.raises(UserError, match="is not a model folder"):
        load_model(tmp_path)
    with pytest.raises(UserError, match="no folder"):
        load_model("local", path=str(tmp_path / "none"))
    with pytest.raises(UserError, match=r"model\.path=FOLDER"):
        load_model("local")


def test_a_family_that_is_not_known_is_refused_before_its_weights_are_read(folder):
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, "model_type": "bloom"}))
    (folder / "model.safetensors").write_bytes(b"not read")
    with pytest.raises(UserError, match="model type 'bloom'"):
        load_model(folder)


def test_a_device_that_is_not_there_is_refused(folder):
    with pytest.raises(UserError, match=r"model\.device=cuda:93"):
        load_model(folder, device="cuda:93")
    with pytest.raises(UserError, match=r"model\.device=gpu"):
        load_model(folder, device="gpu")


def test_an_attention_implementation_the_model_lacks_is_refused(micro_folder):
    with pytest.raises(UserError, match=r"attn_implementation=sdpa"):
        load_model(micro_folder("gemma2"), attn_implementation="sdpa")


def test_unknown_shipped_model_is_refused():
    with pytest.raises(UserError, match="no shipped model 'tiny_nobody'"):
        load_model("tiny_pythia", id="tiny_nobody")


def test_loading_leaves_random_state_and_progress_bars_as_they_were(folder):
    from huggingface_hub.utils import are_progress_bars_disabled
    from transformers.utils import logging

    torch.manual_seed(5)
    before = torch.get_rng_state(), logging.is_progress_bar_enabled(), logging.get_verbosity()
    hub_before = are_progress_bars_disabled()
    load_model(folder)
    after = torch.get_rng_state(), logging.is_progress_bar_enabled(), logging.get_verbosity()
    assert torch.equal(before[0], after[0])
    assert before[1:] == after[1:]
    assert are_progress_bars_disabled() == hub_before


def test_a_failed_load_keeps_nothing(folder):
    change_weights(folder, lambda w: w["model.norm.weight"].fill_(float("nan")))
    from mechexp.models import loading

    for _ in range(3):
        with pytest.raises(UserError):
            load_model(folder)
    assert not loading._kept


def test_settings_are_the_fields_of_the_config_with_its_defaults():
    from dataclasses import MISSING, fields

    from mechexp.config import ModelConfig
    from mechexp.models.settings import ModelSettings, from_config

    assert [f.name for f in fields(ModelSettings)] == [f.name for f in fields(ModelConfig)]
    frozen = from_config(ModelConfig(name="x"))
    for field in fields(ModelSettings):
        if field.default is not MISSING:
            assert getattr(frozen, field.name) == field.default, field.name


def test_a_checkpoint_that_a_shipped_model_lacks_is_refused():
    with pytest.raises(UserError, match="has no checkpoint 'step_7'"):
        load_model("tiny_olmo", revision="step_7")
