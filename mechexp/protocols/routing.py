"""What an ablation does to the expert routing of a mixture-of-experts model.

Shapes: P prompts of a block, T positions, N = P·T tokens, X experts.
"""

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from mechexp.engine.blocks import make_block, split
from mechexp.engine.condition import Condition
from mechexp.engine.memory import tokens_per_pass
from mechexp.engine.reference import plain_logits
from mechexp.engine.values import Values
from mechexp.models import LoadedModel
from mechexp.tasks.prompts import PromptSet


@dataclass(frozen=True)
class RoutingChange:
    """Routing under one ablation, against the clean model, on the same tokens.

    Averages are over tokens and over the routed layers from the first ablated one on; before it nothing can
    change.

    Attributes:
        topk_change: Share of tokens whose set of chosen experts changes.
        entropy_clean: Entropy of the router's softmax over all experts, clean, in nats.
        entropy_ablated: The same under the ablation.
        topk_change_by_layer: By routed layer, all of them.
    """

    topk_change: float
    entropy_clean: float
    entropy_ablated: float
    topk_change_by_layer: Mapping[int, float]

    def as_row(self) -> dict[str, Any]:
        """Plain data for result files."""
        return {
            "topk_change": self.topk_change,
            "entropy_clean": self.entropy_clean,
            "entropy_ablated": self.entropy_ablated,
            "entropy_change": self.entropy_ablated - self.entropy_clean,
            "topk_change_by_layer": {f"L{layer}": v for layer, v in self.topk_change_by_layer.items()},
        }


@dataclass(frozen=True)
class _Choice:
    """Routing of the tokens of one pass in one layer: chosen experts (N, X) bool, entropy (N,)."""

    chosen_NX: torch.Tensor
    entropy_N: torch.Tensor


def routing_changes(
    loaded: LoadedModel,
    prompts: PromptSet,
    conditions: Mapping[str, Condition],
    *,
    reference: PromptSet,
    seed: int,
    memory_gb: float,
) -> dict[str, RoutingChange]:
    """Measure the routing under each condition by full forward passes; {} for a dense model.

    Args:
        loaded: The model.
        prompts: The test half.
        conditions: Ablations by name.
        reference: The screen half, source of mean values.
        seed: Seed of resampling donors, as for the effects.
        memory_gb: Memory beside the weights.
    """
    routed = [layer for layer in range(loaded.n_layers) if loaded.router(layer) is not None]
    if not routed or not conditions:
        return {}
    longest = max(len(ids) for ids in prompts.ids)
    tokens = tokens_per_pass(loaded, memory_gb * 1e9, longest)
    changed = {name: dict.fromkeys(routed, 0.0) for name in conditions}
    entropy = {name: dict.fromkeys(routed, 0.0) for name in ("", *conditions)}
    n_tokens = 0
    with torch.no_grad():
        values = Values(loaded, prompts, reference, conditions.values(), seed=seed, tokens=tokens)
        names = {e.positions for c in conditions.values() for e in c.all_edits}
        for indices in split(prompts, {t: max(1, tokens // t) for t in prompts.buckets()}):
            block = make_block(prompts, indices, names, loaded.device)
            n_tokens += block.ids_PT.numel()
            with _routing(loaded, routed) as clean:
                plain_logits(loaded, Condition(), block, {})
            _add(entropy[""], clean)
            for name, condition in conditions.items():
                known = values.of(condition.all_edits, block)
                with _routing(loaded, routed) as ablated:
                    plain_logits(loaded, condition, block, known)
                _add(entropy[name], ablated)
                for layer in routed:
                    other_N = (clean[layer].chosen_NX != ablated[layer].chosen_NX).any(dim=1)
                    changed[name][layer] += float(other_N.sum())
    return {
        name: _summary(changed[name], entropy[""], entropy[name], n_tokens, min(h.layer for h in c.heads))
        for name, c in conditions.items()
    }


@contextmanager
def _routing(loaded: LoadedModel, routed: list[int]) -> Iterator[dict[int, _Choice]]:
    """Record every router's choices while the context is open."""
    seen: dict[int, _Choice] = {}

    def keep(layer: int) -> Any:
        def hook(_module: torch.nn.Module, _args: Any, output: Any) -> None:
            logits, _, indices = output  # stock routers give logits, weights and indices of the experts
            logits_NX = logits.reshape(-1, logits.shape[-1]).float()
            chosen_NX = torch.zeros_like(logits_NX, dtype=torch.bool)
            chosen_NX.scatter_(1, indices.reshape(len(logits_NX), -1), True)
            log_p = logits_NX.log_softmax(dim=-1)
            seen[layer] = _Choice(chosen_NX, -(log_p.exp() * log_p).sum(dim=-1))

        return hook

    with ExitStack() as stack:
        for layer in routed:
            router = loaded.router(layer)
            assert router is not None
            stack.callback(router.register_forward_hook(keep(layer)).remove)
        yield seen
    if sorted(seen) != routed:
        raise RuntimeError(f"routers of layers {sorted(seen)} ran, not of {routed}")


def _add(total: dict[int, float], seen: Mapping[int, _Choice]) -> None:
    for layer, choice in seen.items():
        total[layer] += float(choice.entropy_N.double().sum())


def _summary(
    changed: Mapping[int, float],
    clean: Mapping[int, float],
    ablated: Mapping[int, float],
    n_tokens: int,
    first: int,
) -> RoutingChange:
    later = [layer for layer in changed if layer >= first]

    def mean(total: Mapping[int, float]) -> float:
        return float(np.mean([total[layer] for layer in later])) / n_tokens if later else float("nan")

    by_layer = {layer: n / n_tokens for layer, n in changed.items()}
    return RoutingChange(mean(changed), mean(clean), mean(ablated), by_layer)
