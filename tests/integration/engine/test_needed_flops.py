"""The counted work: against a count of the multiplications that a forward pass really makes, and by hand."""

import engine_micro as em
import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from mechexp.engine import Condition, EngineConfig, run
from mechexp.engine.fast import FastRoute
from mechexp.engine.flops import forward_flops, needed_flops
from mechexp.engine.sites import end_logits
from mechexp.engine.values import Values
from mechexp.models.heads import Head


@pytest.mark.parametrize("family", ["llama", "gpt_neox", "qwen3", "olmo2", "gemma3_text"])
@pytest.mark.parametrize("every_logit", [True, False])
def test_a_forward_pass_counts_what_torch_counts(family, every_logit):
    loaded, prompts = em.micro(family), em.prompts((9,) * 4)
    ids = torch.tensor(prompts.ids)
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        if every_logit:
            loaded.model(input_ids=ids)
        else:
            end_logits(loaded, ids)
    # torch counts scores of the positions that causal attention masks too
    unseen = loaded.n_layers * 4 * loaded.n_heads * loaded.head_dim * 4 * (9 * 9 - 9 * 10 / 2)
    rotary = 3 * 2 * 9 * loaded.head_dim  # frequencies times positions
    counted = counter.get_total_flops()
    assert abs(counted - unseen - forward_flops(loaded, prompts, every_logit=every_logit)) <= rotary


@pytest.mark.parametrize("family", ["llama", "gpt_neox"])
def test_the_engine_does_little_more_than_it_needs(family):
    loaded, prompts = em.micro(family), em.prompts((9,) * 4)
    conditions = [Condition((h,), "zero", p) for h in em.heads_of(loaded) for p in ("all", "end")]
    values = Values(loaded, prompts, None, conditions, seed=0, tokens=999)
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        FastRoute(loaded, 1e9).run(prompts, conditions, values, lambda *_: None)
    needed = needed_flops(loaded, prompts, conditions)
    assert needed < counter.get_total_flops() < 1.3 * needed


def test_a_sweep_over_a_shallow_parallel_model_needs_a_fraction_of_plain_passes():
    from transformers import AutoConfig, AutoModelForCausalLM

    from mechexp.models.layouts import geometry_of, layout_of
    from mechexp.models.loaded import LoadedModel

    config = AutoConfig.for_model(
        "gpt_neox", vocab_size=50304, hidden_size=512, intermediate_size=2048, num_hidden_layers=6,
        num_attention_heads=8,
    )  # fmt: skip
    with torch.device("meta"):
        model = AutoModelForCausalLM.from_config(config)
    geometry, n_kv = geometry_of(config)
    loaded = LoadedModel(
        model=model, tokenizer=None, name="x", id="x", revision="", arch="gpt_neox", dtype="float32",
        weights_hash="", geometry=geometry, n_kv_heads=n_kv, layout=layout_of(config),
    )  # fmt: skip
    prompts = em.prompts((16,) * 4)
    conditions = [Condition((Head(layer, head),), "zero") for layer in range(6) for head in range(8)]
    needed = needed_flops(loaded, prompts, conditions)
    assert len(conditions) * forward_flops(loaded, prompts, every_logit=True) / needed > 4.5
    assert len(conditions) * forward_flops(loaded, prompts, every_logit=False) / needed > 2.1


def test_known_outcomes_need_nothing(tmp_path):
    loaded, prompts = em.micro("llama"), em.prompts()
    config = EngineConfig(store=str(tmp_path))
    assert run(loaded, prompts, [Condition()], config=config).needed_flops > 0
    assert run(loaded, prompts, [Condition()], config=config).needed_flops == 0
