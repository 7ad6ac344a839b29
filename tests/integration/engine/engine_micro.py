"""Micro models of every family in the adapter table, with random weights, and prompts for them."""

from functools import cache
from typing import Any

import numpy as np
import torch
from transformers import AutoConfig, AutoModelForCausalLM

from mechexp.models.heads import Head
from mechexp.models.layouts import LAYOUTS, geometry_of, layout_of
from mechexp.models.loaded import LoadedModel
from mechexp.tasks.prompts import PromptSet, TextPrompt

VOCAB = 131
GQA = {"num_attention_heads": 4, "num_key_value_heads": 2}
BASE = {"vocab_size": VOCAB, "hidden_size": 48, "intermediate_size": 64, "num_hidden_layers": 3, **GQA,
        "max_position_embeddings": 64, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}  # fmt: skip
MOE = {"num_experts": 6, "num_experts_per_tok": 2, "moe_intermediate_size": 32}
WINDOW = {"sliding_window": 4}
MIXED = {"layer_types": ["sliding_attention", "full_attention", "sliding_attention"], **WINDOW}

FAMILIES: dict[str, dict[str, Any]] = {
    "gpt2": {"vocab_size": VOCAB, "n_embd": 48, "n_layer": 3, "n_head": 4, "n_positions": 64},
    "gpt_neox": {**BASE, "rotary_pct": 0.5},
    "gpt_neox_serial": {**BASE, "model_type": "gpt_neox", "use_parallel_residual": False},
    "llama": BASE,
    "mistral": {**BASE, **WINDOW},
    "qwen2": BASE,
    "qwen3": {**BASE, "head_dim": 16},
    "olmo": BASE,
    "phi3": BASE,
    "gemma2": {**BASE, "head_dim": 16, **MIXED},
    "gemma3_text": {**BASE, "head_dim": 16, **MIXED},
    "olmo2": BASE,
    "olmo3": {**BASE, **MIXED},
    "olmoe": {**BASE, "num_experts": 6, "num_experts_per_tok": 2},
    "mixtral": {**BASE, "num_local_experts": 4, "num_experts_per_tok": 2},
    "qwen2_moe": {**BASE, **MOE, "shared_expert_intermediate_size": 32},
    "qwen3_moe": {**BASE, **MOE, "head_dim": 16},
    "gpt_oss": {**BASE, "head_dim": 16, "num_local_experts": 4, "num_experts_per_tok": 2, **MIXED},
}


def test_families_cover_the_adapter_table() -> None:
    assert {FAMILIES[f].get("model_type", f) for f in FAMILIES} == set(LAYOUTS)


@cache
def micro(family: str, dtype: str = "float32", attention: str = "eager", seed: int = 0) -> LoadedModel:
    """A micro model with weights large enough that every head matters."""
    settings = dict(FAMILIES[family])
    config = AutoConfig.for_model(settings.pop("model_type", family), **settings)
    torch.manual_seed(seed)
    model = AutoModelForCausalLM.from_config(
        config, attn_implementation=attention, dtype=getattr(torch, dtype)
    )
    generator = torch.Generator().manual_seed(seed + 1)
    with torch.no_grad():
        for parameter in model.parameters():
            noise = torch.randn(parameter.shape, generator=generator).to(parameter.dtype)
            if parameter.ndim > 1:
                parameter.copy_(noise * (1.5 / parameter.shape[-1] ** 0.5))
            else:
                parameter.add_(noise * 0.1)
    model.eval().requires_grad_(False)
    geometry, n_kv = geometry_of(model.config)
    return LoadedModel(
        model=model, tokenizer=None, name=f"micro-{family}", id=family, revision="",
        arch=model.config.model_type, dtype=dtype, weights_hash=f"micro-{family}-{dtype}-{seed}",
        geometry=geometry, n_kv_heads=n_kv,
        layout=layout_of(model.config),
    )  # fmt: skip


def prompts(
    lengths: tuple[int, ...] = (9,) * 5 + (6,) * 4 + (12,),
    *,
    seed: int = 0,
    half: str = "test",
    counterfactual: bool = True,
) -> PromptSet:
    """Random token prompts of mixed length, with ragged answers and a named position."""
    rng = np.random.default_rng(seed)
    ids = [tuple(int(i) for i in rng.integers(3, VOCAB, size=n)) for n in lengths]
    others = [
        tuple(int(i) for i in rng.integers(3, VOCAB, size=n)) if counterfactual else None for n in lengths
    ]
    answers = [rng.permutation(np.arange(3, VOCAB))[:7].tolist() for _ in lengths]
    return PromptSet(
        task="micro",
        texts=tuple(TextPrompt(str(i), ("a",), ("b",)) for i in range(len(lengths))),
        ids=tuple(ids),
        positions=tuple({"end": n - 1, "subject": 1 + k % 3} for k, n in enumerate(lengths)),
        targets=tuple(tuple(a[: 1 + k % 3]) for k, a in enumerate(answers)),
        distractors=tuple(tuple(a[3 : 4 + k % 4]) for k, a in enumerate(answers)),
        counterfactual_ids=tuple(others),
        half=(half,) * len(lengths),
    )


def reference_prompts(lengths: tuple[int, ...] = (6, 9, 12), seed: int = 7) -> PromptSet:
    """Reference prompts, nine of each length."""
    return prompts(tuple(n for n in lengths for _ in range(9)), seed=seed, half="screen")


def heads_of(loaded: LoadedModel) -> list[Head]:
    """All heads of a model."""
    return [Head(layer, head) for layer in range(loaded.n_layers) for head in range(loaded.n_heads)]
