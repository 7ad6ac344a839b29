"""Every family of the adapter table, on small stock models: heads are where the table says.

Shapes: B batch, T position, H query head, D head dim, E residual, V vocabulary.
"""

import copy

import pytest
import torch
from micro_models import FAMILIES, GROUPED, HEADS, KV_HEADS, LAYERS, VOCAB, WIDTH

from mechexp.models.attention import attention_rows
from mechexp.models.hooks import capture_z, edit_z
from mechexp.models.layouts import LAYOUTS, submodule
from mechexp.models.weights import head_values, ov, project_head

WIDE_HEADS = ("qwen3", "qwen3_moe", "gemma2", "gemma3_text", "gpt_oss")  # head_dim is not width / heads
POST_NORM = ("olmo2", "olmo3", "gemma2", "gemma3_text")
MOE = ("olmoe", "mixtral", "qwen2_moe", "qwen3_moe", "gpt_oss")

# Output projection of layer l, spelled out by family instead of read from the table under test.
WRITTEN_OUT = {"gpt2": "transformer.h.{}.attn.c_proj", "gpt_neox": "gpt_neox.layers.{}.attention.dense"}


def ids(batch: int = 2, length: int = 12, seed: int = 1) -> torch.Tensor:
    return torch.randint(VOCAB, (batch, length), generator=torch.Generator().manual_seed(seed))


@torch.no_grad()
def logits_of(model, input_ids):
    return model(input_ids=input_ids, use_cache=False).logits


def zeroing(*heads):
    def edit(z_BTHD):
        z_BTHD = z_BTHD.clone()
        z_BTHD[:, :, list(heads)] = 0
        return z_BTHD

    return edit


def without_head_weights(model, family, layer, head, head_dim):
    """A copy whose output projection ignores one head: a reference that knows no hooks."""
    edited = copy.deepcopy(model)
    projection = edited.get_submodule(
        WRITTEN_OUT.get(family, "model.layers.{}.self_attn.o_proj").format(layer)
    )
    features = slice(head * head_dim, (head + 1) * head_dim)
    with torch.no_grad():
        if family == "gpt2":
            projection.weight[features] = 0
        else:
            projection.weight[:, features] = 0
    return edited


def test_the_table_has_every_family_that_is_tested():
    assert set(FAMILIES) == set(LAYOUTS)


@pytest.mark.parametrize("family", FAMILIES)
def test_geometry_and_parts(micro_model, family):
    loaded = micro_model(family)
    assert (loaded.n_layers, loaded.n_heads, loaded.d_model) == (LAYERS, HEADS, WIDTH)
    assert loaded.head_dim == (16 if family in WIDE_HEADS else WIDTH // HEADS)
    assert loaded.n_kv_heads == (KV_HEADS if family in GROUPED else HEADS)
    assert loaded.arch == family
    assert len(loaded.layers()) == LAYERS
    assert (loaded.post_attention_norm(0) is not None) == (family in POST_NORM)
    assert loaded.is_moe == (family in MOE)
    assert loaded.is_parallel == (family == "gpt_neox")
    assert (loaded.input_norm(0) is None) == (family in ("olmo2", "olmo3"))
    assert loaded.unembed().weight.shape == (VOCAB, WIDTH)
    assert (loaded.softcap is not None) == (family == "gemma2")
    assert not loaded.model.training
    assert not any(p.requires_grad for p in loaded.model.parameters())


def test_dense_layers_of_a_mixed_model_have_no_router(micro_model):
    loaded = micro_model("qwen3_moe")
    assert [loaded.router(layer) is not None for layer in range(LAYERS)] == [True, False, True]


@pytest.mark.parametrize("family", FAMILIES)
def test_hooks_that_change_nothing_change_nothing(micro_model, family):
    loaded = micro_model(family)
    plain = logits_of(loaded.model, ids())
    with edit_z(loaded, {layer: lambda z: z for layer in range(LAYERS)}), capture_z(loaded):
        hooked = logits_of(loaded.model, ids())
    assert torch.equal(plain, hooked)


@pytest.mark.parametrize("family", FAMILIES)
def test_zeroing_any_head_equals_editing_the_weights(micro_model, family):
    loaded = micro_model(family)
    plain = logits_of(loaded.model, ids())
    for layer in range(LAYERS):
        for head in range(HEADS):
            with edit_z(loaded, {layer: zeroing(head)}):
                hooked = logits_of(loaded.model, ids())
            reference = without_head_weights(loaded.model, family, layer, head, loaded.head_dim)
            error = (hooked - logits_of(reference, ids())).abs().max()
            assert error <= 1e-5, (layer, head)
            # every query head matters, those that share keys and values included
            assert (hooked - plain).abs().max() > 1e-3, (layer, head)


@pytest.mark.parametrize("family", FAMILIES)
def test_query_heads_of_a_layer_are_not_copies_of_each_other(micro_model, family):
    loaded = micro_model(family)
    for layer in range(LAYERS):
        outputs = []
        for head in range(HEADS):
            with edit_z(loaded, {layer: zeroing(head)}):
                outputs.append(logits_of(loaded.model, ids()))
        for a in range(HEADS):
            for b in range(a):
                assert (outputs[a] - outputs[b]).abs().max() > 1e-4, (layer, a, b)


@pytest.mark.parametrize("family", FAMILIES)
def test_a_lone_token_reads_exactly_its_own_value(micro_model, family):
    """One token attends to itself with weight 1: its z is the value vector, whatever the pattern code."""
    loaded = micro_model(family)
    alone = ids(batch=3, length=1)
    streams = {}
    handles = [
        module.register_forward_pre_hook(
            lambda _m, args, kwargs, layer=layer: streams.update(
                {layer: (args or (kwargs["hidden_states"],))[0]}
            ),
            with_kwargs=True,
        )
        for layer, module in enumerate(loaded.layers())
    ]
    with capture_z(loaded) as z:
        logits_of(loaded.model, alone)
    for handle in handles:
        handle.remove()
    weight_PLH = attention_rows(loaded, alone)[..., 0]
    for layer in range(LAYERS):
        for head in range(HEADS):
            x_BE, z_BD = streams[layer][:, 0], z[layer][:, 0, head]
            value_BD = head_values(loaded, layer, head, x_BE)
            share_B1 = weight_PLH[:, layer, head, None]
            torch.testing.assert_close(z_BD, share_B1 * value_BD, atol=1e-5, rtol=1e-5)
            written_BE = ov(loaded, layer, head, x_BE)
            expected_BE = project_head(loaded, layer, head, z_BD / share_B1)
            torch.testing.assert_close(written_BE, expected_BE, atol=1e-5, rtol=1e-4)
            assert value_BD.abs().max() > 1e-2


def test_clipped_values_are_clipped(micro_model):
    """OLMo 1 clips queries, keys and values; the small model's limit is low enough to bite."""
    loaded = micro_model("olmo")
    x_BE = 3 * torch.randn(64, WIDTH, generator=torch.Generator().manual_seed(0))
    values = torch.cat([head_values(loaded, 0, head, x_BE) for head in range(HEADS)])
    assert values.abs().max() == loaded.model.config.clip_qkv


@pytest.mark.parametrize("family", FAMILIES)
def test_head_writes_add_up_to_the_attention_output(micro_model, family):
    loaded = micro_model(family)
    outputs = {}
    handle = loaded.out_proj(1).register_forward_hook(lambda _m, _a, out: outputs.update(out=out))
    with capture_z(loaded, [1]) as z:
        logits_of(loaded.model, ids())
    handle.remove()
    written = sum(project_head(loaded, 1, head, z[1][:, -1, head]) for head in range(HEADS))
    bias = getattr(loaded.out_proj(1), "bias", None)
    if bias is not None:
        written = written + bias
    torch.testing.assert_close(written, outputs["out"][:, -1], atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("family", FAMILIES)
def test_attention_rows_are_the_models_own_patterns(micro_model, family):
    loaded = micro_model(family)
    asked = copy.deepcopy(loaded.model)  # output_attentions leaves hooks of transformers' own on a model
    own = asked(input_ids=ids(), use_cache=False, output_attentions=True).attentions
    assert len(own) == LAYERS
    for query in (-1, 5):
        rows_PLHT = attention_rows(loaded, ids(), query=query)
        assert rows_PLHT.dtype == torch.float32
        assert rows_PLHT.shape == (2, LAYERS, HEADS, 12)
        for layer in range(LAYERS):
            torch.testing.assert_close(rows_PLHT[:, layer], own[layer][:, :, query], atol=1e-6, rtol=0)
    assert (attention_rows(loaded, ids(), query=5)[..., 6:] == 0).all()
    total = rows_PLHT.sum(dim=-1)
    if family == "gpt_oss":  # attention sinks take a share that is in no column
        assert (total < 0.999).all()
    else:
        torch.testing.assert_close(total, torch.ones_like(total))


def test_submodule_paths():
    root = torch.nn.ModuleDict({"a": torch.nn.ModuleDict({"b": torch.nn.Linear(1, 1)})})
    assert submodule(root, "a.b") is root["a"]["b"]
    assert submodule(root, "a.c") is None
    assert submodule(root, "") is None
