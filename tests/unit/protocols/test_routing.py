"""Expert routing under an ablation, against a plain reading of the routers."""

import numpy as np
import pytest
import torch

from mechexp.engine.condition import Condition
from mechexp.models.heads import Head
from mechexp.models.hooks import edit_z
from mechexp.protocols.routing import routing_changes
from mechexp.tasks.prompts import PromptSet, TextPrompt

HEADS = (Head(1, 0), Head(1, 2))


def prompts(n: int = 6, lengths: tuple[int, ...] = (7, 9)) -> PromptSet:
    rng = np.random.default_rng(0)
    ids = tuple(tuple(int(i) for i in rng.integers(4, 150, size=lengths[i % len(lengths)])) for i in range(n))
    return PromptSet(
        "none", tuple(TextPrompt(str(i), ("a",), ("b",)) for i in range(n)), ids,
        tuple({"end": len(i) - 1} for i in ids), ((5,),) * n, ((6,),) * n, (None,) * n, ("both",) * n,
    )  # fmt: skip


def choices(loaded, ids, heads=()):
    """Expert sets and entropies of every token, layer by layer, read from the routers' weights."""
    seen = {}

    def hook(layer):
        def keep(_module, args, _output):
            seen[layer] = args[0].detach().reshape(-1, loaded.d_model)

        return keep

    handles = [
        loaded.router(layer).register_forward_hook(hook(layer))
        for layer in range(loaded.n_layers)
        if loaded.router(layer) is not None
    ]

    def zero(layer):
        def edit(z):
            z = z.clone()
            z[:, :, [h.head for h in heads if h.layer == layer]] = 0
            return z

        return edit

    try:
        with torch.no_grad(), edit_z(loaded, {layer: zero(layer) for layer in {h.layer for h in heads}}):
            loaded.model(input_ids=torch.tensor([ids]))
    finally:
        for handle in handles:
            handle.remove()
    found = {}
    for layer, x in seen.items():
        router = loaded.router(layer)
        logits = x @ router.weight.T + (router.bias if getattr(router, "bias", None) is not None else 0)
        p = logits.softmax(-1)
        sets = [frozenset(row.topk(2).indices.tolist()) for row in logits]
        found[layer] = (sets, (-(p * p.log()).sum(-1)).tolist())
    return found


@pytest.mark.parametrize("family", ["olmoe", "mixtral", "qwen2_moe", "qwen3_moe", "gpt_oss"])
def test_change_and_entropy_are_those_of_the_routers(micro_model, family: str) -> None:
    loaded, given = micro_model(family), prompts()
    condition = Condition(HEADS, "zero")
    found = routing_changes(loaded, given, {"s": condition}, reference=given, seed=0, memory_gb=1.0)["s"]
    before, after = ([choices(loaded, ids, heads) for ids in given.ids] for heads in ((), HEADS))
    layers = sorted(before[0])
    assert sorted(found.topk_change_by_layer) == layers
    for layer in layers:
        pairs = [
            (x, y)
            for b, a in zip(before, after, strict=True)
            for x, y in zip(b[layer][0], a[layer][0], strict=True)
        ]
        assert found.topk_change_by_layer[layer] == pytest.approx(np.mean([x != y for x, y in pairs]))
    later = [layer for layer in layers if layer >= 1]
    clean, ablated = ([e for one in of for layer in later for e in one[layer][1]] for of in (before, after))
    assert found.entropy_clean == pytest.approx(np.mean(clean), rel=1e-4)
    assert found.entropy_ablated == pytest.approx(np.mean(ablated), rel=1e-4)
    assert found.topk_change > 0
    assert found.topk_change_by_layer.get(0, 0.0) == 0.0  # nothing changes below the ablation


def test_small_memory_gives_the_same(micro_model) -> None:
    loaded, given = micro_model("olmoe"), prompts(12)
    condition = {"s": Condition(HEADS, "mean_all")}
    large, small = (
        routing_changes(loaded, given, condition, reference=given, seed=0, memory_gb=gb)["s"]
        for gb in (1.0, 1e-5)
    )
    assert small.topk_change == pytest.approx(large.topk_change)
    assert small.entropy_ablated == pytest.approx(large.entropy_ablated, rel=1e-5)


def test_dense_models_have_no_routing(micro_model) -> None:
    given = prompts()
    condition = {"s": Condition(HEADS, "zero")}
    assert routing_changes(micro_model("llama"), given, condition, reference=given, seed=0, memory_gb=1) == {}
