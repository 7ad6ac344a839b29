"""Models that the benchmarks run on: SmolLM2 itself, and random weights in the shapes of others."""

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from mechexp.models.layouts import geometry_of, layout_of
from mechexp.models.loaded import LoadedModel


def random_model(name: str, hub_id: str, device: str, dtype: str, kind: str, **settings: Any) -> LoadedModel:
    """A stock model with random weights; timing does not depend on what it knows."""
    from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer

    config = AutoConfig.for_model(kind, **settings)
    torch.manual_seed(0)
    with torch.device(device):
        model = AutoModelForCausalLM.from_config(
            config, attn_implementation="eager", dtype=getattr(torch, dtype)
        )
    model.eval().requires_grad_(False)
    folder = Path(tempfile.gettempdir()) / f"mechexp-bench-{name}"
    model.config.save_pretrained(folder)  # transformer-lens reads the config from where the model came from
    _tokenizer().save_pretrained(folder)
    tokenizer = AutoTokenizer.from_pretrained(folder)
    model.config._name_or_path = str(folder)
    geometry, n_kv = geometry_of(model.config)
    return LoadedModel(
        model=model, tokenizer=tokenizer, name=name, id=hub_id, revision="", arch=kind, dtype=dtype,
        weights_hash=f"random-{name}-{dtype}", geometry=geometry, n_kv_heads=n_kv,
        layout=layout_of(model.config),
    )  # fmt: skip


def _tokenizer() -> Any:
    """A tokenizer that peers can be handed; no text is read."""
    from tokenizers import Tokenizer
    from tokenizers.models import WordLevel
    from transformers import PreTrainedTokenizerFast

    words = Tokenizer(WordLevel({"<unk>": 0, "<eos>": 1}, unk_token="<unk>"))
    return PreTrainedTokenizerFast(
        tokenizer_object=words, unk_token="<unk>", eos_token="<eos>", bos_token="<eos>", pad_token="<eos>"
    )


def smollm2(device: str, dtype: str) -> LoadedModel:
    """The pretrained 135M model of the default job."""
    from mechexp.models import load_model

    return load_model("smollm2", device=device, dtype=dtype)


def tiny_neox(device: str, dtype: str) -> LoadedModel:
    """Six GPT-NeoX layers, the shape of pythia-70m."""
    return random_model(
        "tiny_neox", "EleutherAI/pythia-70m", device, dtype, "gpt_neox", vocab_size=50304, hidden_size=512,
        intermediate_size=2048, num_hidden_layers=6, num_attention_heads=8, max_position_embeddings=2048,
    )  # fmt: skip


def pythia(device: str, dtype: str) -> LoadedModel:
    """The shape of pythia-1b."""
    return random_model(
        "pythia", "EleutherAI/pythia-1b", device, dtype, "gpt_neox", vocab_size=50304, hidden_size=2048,
        intermediate_size=8192, num_hidden_layers=16, num_attention_heads=8, max_position_embeddings=2048,
    )  # fmt: skip


def olmo(device: str, dtype: str) -> LoadedModel:
    """The shape of OLMo-1B."""
    return random_model(
        "olmo", "allenai/OLMo-1B-0724-hf", device, dtype, "olmo", vocab_size=50304, hidden_size=2048,
        intermediate_size=8192, num_hidden_layers=16, num_attention_heads=16, num_key_value_heads=16,
        max_position_embeddings=4096,
    )  # fmt: skip


def olmoe(device: str, dtype: str) -> LoadedModel:
    """The shape of OLMoE-1B-7B."""
    return random_model(
        "olmoe", "allenai/OLMoE-1B-7B-0924", device, dtype, "olmoe", vocab_size=50304, hidden_size=2048,
        intermediate_size=1024, num_hidden_layers=16, num_attention_heads=16, num_key_value_heads=16,
        num_experts=64, num_experts_per_tok=8, max_position_embeddings=4096,
    )  # fmt: skip


MODELS: dict[str, Callable[[str, str], LoadedModel]] = {
    "smollm2": smollm2,
    "tiny_neox": tiny_neox,
    "pythia": pythia,
    "olmo": olmo,
    "olmoe": olmoe,
}
