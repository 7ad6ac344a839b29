"""The check at load refuses every wrong adapter entry, with the reason."""

from dataclasses import replace

import pytest
import torch
from micro_models import FAMILIES, micro_stock_model, micro_tokenizer

from mechexp.errors import UserError
from mechexp.models.heads import Geometry
from mechexp.models.layouts import LAYOUTS, layout_of
from mechexp.models.loading import wrap
from mechexp.models.settings import ModelSettings
from mechexp.models.sources import StockModel
from mechexp.models.verify import verify


def wrong(loaded, **changes):
    return replace(loaded, layout=replace(loaded.layout, **changes))


def refused(loaded, match):
    with pytest.raises(UserError, match=match) as caught:
        verify(loaded)
    assert f"LAYOUTS[{loaded.arch!r}]" in str(caught.value)


def test_values_at_the_wrong_place_of_a_fused_projection_are_refused(micro_model):
    interleaved, blocks = LAYOUTS["gpt_neox"].value_start, LAYOUTS["gpt2"].value_start
    refused(wrong(micro_model("gpt_neox"), value_start=blocks), "attention × values")
    refused(wrong(micro_model("gpt2"), value_start=interleaved), "attention × values")
    refused(wrong(micro_model("phi3"), value_start=LAYOUTS["llama"].value_start), "attention × values")


def test_values_of_the_wrong_group_are_refused(micro_model):
    refused(
        wrong(micro_model("llama"), value_start=lambda g, n_kv, h: (h % n_kv) * g.head_dim),
        "attention × values",
    )


def test_another_split_into_heads_is_refused(micro_model):
    """Twice the heads of half the width fit the projection's input, and are not heads."""
    refused(replace(micro_model("gpt2"), geometry=Geometry(3, 8, 4), n_kv_heads=8), "heads")
    refused(replace(micro_model("qwen3"), geometry=Geometry(3, 4, 8)), "takes 64 features, not 4 heads × 8")


def test_a_missing_norm_is_refused(micro_model):
    refused(wrong(micro_model("llama"), input_norm=""), "attention × values")


def test_an_output_projection_that_is_not_one_is_refused(micro_model):
    refused(wrong(micro_model("llama"), out_proj="q_proj"), "heads")
    refused(wrong(micro_model("llama"), out_proj="no_such_module"), "no_such_module")


def test_wrong_paths_are_refused_with_a_message(micro_model):
    refused(wrong(micro_model("llama"), layers="model.blocks"), "heads of this model")
    refused(replace(micro_model("llama"), geometry=Geometry(5, 4, 8)), "heads of this model")


def test_heads_that_do_nothing_are_refused(own_micro_model):
    """A projection of zeros would pass every comparison; then no experiment on its heads can say anything."""
    loaded = own_micro_model("llama")
    with torch.no_grad():
        loaded.out_proj(1).weight.zero_()
    refused(loaded, "changed no logit")


def test_a_family_that_is_not_in_the_table_is_refused_by_name():
    from transformers import AutoConfig

    with pytest.raises(UserError, match="'bloom'") as caught:
        layout_of(AutoConfig.for_model("bloom"))
    assert "LAYOUTS['bloom'] = Layout(" in str(caught.value)


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_every_family_passes_in_half_precision(family, dtype):
    model = micro_stock_model(family).to(getattr(torch, dtype))
    loaded = wrap(StockModel(model, None, id=family), ModelSettings(name=family, dtype=dtype))
    assert loaded.dtype == dtype


def test_half_precision_does_not_hide_a_wrong_entry(micro_model):
    model = micro_stock_model("gpt_neox").to(torch.bfloat16)
    loaded = wrap(StockModel(model, None, id="x"), ModelSettings(name="x", dtype="bfloat16"))
    refused(wrong(loaded, value_start=LAYOUTS["gpt2"].value_start), "attention × values")


@pytest.mark.parametrize(
    "family", [f for f in FAMILIES if f not in ("gemma2", "gpt_oss")]
)  # these have no sdpa
def test_models_without_patterns_are_verified_too(family):
    model = micro_stock_model(family)
    model.set_attn_implementation("sdpa")
    loaded = wrap(StockModel(model, None, id=family), ModelSettings(name=family, attn_implementation="sdpa"))
    assert loaded.model.config._attn_implementation == "sdpa"


@pytest.mark.parametrize("family", FAMILIES)
def test_offloaded_models_are_verified_and_hashed_alike(micro_model, tmp_path, family):
    from accelerate import disk_offload

    model = disk_offload(micro_stock_model(family), str(tmp_path), execution_device=torch.device("cpu"))
    assert next(model.parameters()).is_meta
    loaded = wrap(StockModel(model, micro_tokenizer(), id=family), ModelSettings(name=family))
    assert loaded.weights_hash == micro_model(family).weights_hash
    assert loaded.device == torch.device("cpu")


def test_loading_leaves_random_numbers_and_hooks_alone(micro_model):
    torch.manual_seed(3)
    before = torch.get_rng_state()
    verify(micro_model("llama"))
    assert torch.equal(torch.get_rng_state(), before)
    modules = micro_model("llama").model.modules()
    assert not any(m._forward_hooks or m._forward_pre_hooks for m in modules)
