"""How many floating-point operations a run needs at least: what the planned work multiplies and adds.

Counted are matrix products (a multiplication and an addition each), attention scores over the positions that
causal attention sees, and the experts that a token is routed to; norms, activations and softmaxes are not.
Every part that conditions share is counted once.
"""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from mechexp.engine.block_run import path_of
from mechexp.engine.condition import Condition
from mechexp.engine.plan import Path, trie, work
from mechexp.models.loaded import LoadedModel
from mechexp.tasks.prompts import PromptSet


@dataclass(frozen=True)
class LayerCost:
    """Operations of one layer for one token.

    Attributes:
        inputs: Projections to queries, keys and values.
        output: Output projection.
        rest: MLP, router and experts used.
        score: Attention between one query and one key, all heads, values included.
    """

    inputs: float
    output: float
    rest: float
    score: float


def layer_cost(loaded: LoadedModel, layer: int) -> LayerCost:
    """Operations of a layer, counted from the shapes of its weights."""
    config = loaded.model.config
    used = float(getattr(config, "num_experts_per_tok", 0) or 0)
    output = sum(p.numel() for p in loaded.out_proj(layer).parameters() if p.ndim == 2)
    attention = sum(p.numel() for p in loaded.attention(layer).parameters() if p.ndim == 2)
    rest = 0.0
    for parameter in loaded.layers()[layer].parameters():
        if parameter.ndim == 2:
            rest += parameter.numel()
        elif parameter.ndim == 3:  # experts side by side
            rest += parameter.numel() * used / parameter.shape[0]
    return LayerCost(
        inputs=2.0 * (attention - output),
        output=2.0 * output,
        rest=2.0 * (rest - attention),
        score=4.0 * loaded.n_heads * loaded.head_dim,
    )


def needed_flops(loaded: LoadedModel, prompts: PromptSet, conditions: Sequence[Condition]) -> float:
    """Operations that measuring ``conditions`` on ``prompts`` needs, the clean pass included.

    Conditions whose changes begin at a later position need only the positions from there on.
    """
    if not conditions:
        return 0.0
    costs = [layer_cost(loaded, layer) for layer in range(loaded.n_layers)]
    head = 2.0 * loaded.d_model * int(loaded.model.config.vocab_size)
    total = 0.0
    for length, indices in prompts.buckets().items():
        clean = sum(_part(costs, loaded, at, "whole", length, length) for at in range(loaded.n_layers))
        total += len(indices) * (clean + head)
        by_rows: dict[int, dict[int, Path]] = defaultdict(dict)
        for number, condition in enumerate(conditions):
            if path := path_of(condition):
                by_rows[_rows(condition, prompts, int(indices[0]))][number] = path
        for rows, paths in by_rows.items():
            for (at, part), count in work(trie(paths), loaded.n_layers).items():
                cost = head if part == "logits" else _part(costs, loaded, at, part, length, rows)
                total += len(indices) * count * cost
    return total


def forward_flops(loaded: LoadedModel, prompts: PromptSet, *, every_logit: bool) -> float:
    """Operations of one full forward pass over ``prompts``, with logits at every or only the end position."""
    costs = [layer_cost(loaded, layer) for layer in range(loaded.n_layers)]
    head = 2.0 * loaded.d_model * int(loaded.model.config.vocab_size)
    total = 0.0
    for length, indices in prompts.buckets().items():
        token = sum(c.inputs + c.output + c.rest for c in costs)
        scores = sum(c.score for c in costs) * length * (length + 1) / 2
        total += len(indices) * (length * token + scores + head * (length if every_logit else 1))
    return total


def _rows(condition: Condition, prompts: PromptSet, prompt: int) -> int:
    length = len(prompts.ids[prompt])
    places = [
        {"all": 0, "end": length - 1}.get(e.positions, prompts.positions[prompt].get(e.positions, 0))
        for e in condition.all_edits
    ]
    return length - min(places)


def _part(costs: list[LayerCost], loaded: LoadedModel, at: int, part: str, length: int, rows: int) -> float:
    """Operations of a part of a layer for one prompt, on its last ``rows`` positions."""
    cost = costs[at]
    last = at == loaded.n_layers - 1
    seen = sum(range(length - rows + 1, length + 1))  # keys that these queries see
    if part == "attention":
        return rows * cost.inputs + seen * cost.score
    out_rows = 1 if last else rows  # nothing above the last layer reads other positions
    after = out_rows * (cost.output + cost.rest)
    if part == "resumed":
        return out_rows * cost.output if loaded.is_parallel else after
    return rows * cost.inputs + (length if last else seen) * cost.score + after
