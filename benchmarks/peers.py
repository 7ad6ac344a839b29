"""The ways people run ablations today; each gives end-position logits of one condition on a block of prompts.

Legend: P prompt, T position, H head, D head dim, V vocabulary.
"""

import copy
import os
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from typing import Any

import torch

from mechexp.engine import Condition
from mechexp.models.loaded import LoadedModel

EndLogits = Callable[[torch.Tensor, Condition, Mapping[str, torch.Tensor]], torch.Tensor]
"""(ids_PT, condition, value of each edit by key) → logits (P, V)."""


def _put(
    z_PTHD: torch.Tensor, edits: list[Any], values: Mapping[str, torch.Tensor], *, clone: bool = True
) -> torch.Tensor:
    z_PTHD = z_PTHD.clone() if clone else z_PTHD
    for edit in edits:
        if edit.positions == "end":
            z_PTHD[:, -1, edit.head] = values[edit.key]
        else:
            z_PTHD[:, :, edit.head] = values[edit.key]
    return z_PTHD


def _by_layer(condition: Condition) -> dict[int, list[Any]]:
    found: dict[int, list[Any]] = {}
    for edit in condition.all_edits:
        found.setdefault(edit.layer, []).append(edit)
    return found


def plain_hooks(loaded: LoadedModel, *, end_only: bool) -> EndLogits:
    """Forward pre-hooks on the output projections of the stock model, one full pass a condition."""

    def run(ids_PT: torch.Tensor, condition: Condition, values: Mapping[str, torch.Tensor]) -> torch.Tensor:
        def hook_for(edits: list[Any]) -> Callable[..., Any]:
            def hook(_: torch.nn.Module, args: tuple[torch.Tensor, ...]) -> tuple[torch.Tensor, ...]:
                z_PTHD = args[0].unflatten(-1, (loaded.n_heads, loaded.head_dim))
                return (_put(z_PTHD, edits, values).flatten(2),)

            return hook

        with ExitStack() as stack:
            for layer, edits in _by_layer(condition).items():
                handle = loaded.out_proj(layer).register_forward_pre_hook(hook_for(edits))
                stack.callback(handle.remove)
            keep = {}
            if end_only:
                # else the strided slice of last positions is multiplied row by row: a fair baseline avoids it
                handle = loaded.unembed().register_forward_pre_hook(lambda _, args: (args[0].contiguous(),))
                stack.callback(handle.remove)
                keep = {"logits_to_keep": 1}
            return loaded.model(input_ids=ids_PT, use_cache=False, **keep).logits[:, -1]

    return run


def transformer_lens(loaded: LoadedModel) -> EndLogits:
    """The bridge of transformer-lens 4, on a copy of the model (it wraps its modules)."""
    os.environ.setdefault("WANDB_MODE", "disabled")
    from transformer_lens.model_bridge import TransformerBridge

    bridge = TransformerBridge.boot_transformers(
        loaded.model.config._name_or_path or loaded.id,
        hf_model=copy.deepcopy(loaded.model),
        tokenizer=loaded.tokenizer,
        device=str(loaded.device),
    )

    def run(ids_PT: torch.Tensor, condition: Condition, values: Mapping[str, torch.Tensor]) -> torch.Tensor:
        def hook_for(edits: list[Any]) -> Callable[..., torch.Tensor]:
            def hook(z: torch.Tensor, hook: Any) -> torch.Tensor:
                z_PTHD = z.reshape(*z.shape[:2], loaded.n_heads, loaded.head_dim)
                return _put(z_PTHD, edits, values).reshape(z.shape)

            return hook

        hooks = [(f"blocks.{k}.attn.hook_z", hook_for(v)) for k, v in _by_layer(condition).items()]
        logits: torch.Tensor = bridge.run_with_hooks(ids_PT, return_type="logits", fwd_hooks=hooks)
        return logits[:, -1]

    return run


def nnsight_traces(loaded: LoadedModel) -> EndLogits:
    """One nnsight trace a condition, full logits as its users run it."""
    import nnsight

    traced = nnsight.NNsight(loaded.model)
    names = {id(module): name for name, module in loaded.model.named_modules()}

    def envoy(layer: int) -> Any:
        found = traced
        for part in names[id(loaded.out_proj(layer))].split("."):
            found = found[int(part)] if part.isdigit() else getattr(found, part)
        return found

    def run(ids_PT: torch.Tensor, condition: Condition, values: Mapping[str, torch.Tensor]) -> torch.Tensor:
        points = [(envoy(layer), edits) for layer, edits in sorted(_by_layer(condition).items())]
        heads, dim = loaded.n_heads, loaded.head_dim
        with traced.trace(ids_PT, use_cache=False):
            for point, edits in points:
                z_PTHD = point.input.clone().unflatten(-1, (heads, dim))
                point.input = _put(z_PTHD, edits, values, clone=False).flatten(2)
            logits_PTV = traced.output.logits.save()
        return logits_PTV[:, -1]

    return run


def head_gating(loaded: LoadedModel) -> EndLogits:
    """nam-causal-head-gating with hard gates: zero ablation at all positions."""
    from causal_head_gating import CHG

    gates = CHG(loaded.model)

    def run(ids_PT: torch.Tensor, condition: Condition, values: Mapping[str, torch.Tensor]) -> torch.Tensor:
        if any(edit.positions != "all" or edit.value != "zero" for edit in condition.all_edits):
            raise NotImplementedError("gates whole heads only")
        mask = torch.ones(loaded.n_layers, loaded.n_heads, device=loaded.device)
        for edit in condition.all_edits:
            mask[edit.layer, edit.head] = 0.0
        logits: torch.Tensor = gates(ids_PT, mask)
        return logits[:, -1]

    return run


PEERS: dict[str, Callable[[LoadedModel], EndLogits]] = {
    "plain hooks, end logits": lambda loaded: plain_hooks(loaded, end_only=True),
    "plain hooks, all logits": lambda loaded: plain_hooks(loaded, end_only=False),
    "transformer-lens": transformer_lens,
    "nnsight": nnsight_traces,
    "causal-head-gating": head_gating,
}
