"""The training loop: a recipe in, a trained stock model, its curves and its checkpoints out.

Shapes: B rows, T positions, V vocabulary.
"""

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

import torch
from torch import Tensor, nn

from mechexp.zoo import documents
from mechexp.zoo.architectures import config_for
from mechexp.zoo.evaluation import TASKS, accuracies, held_out_prompts
from mechexp.zoo.firstweights import prepare
from mechexp.zoo.muon import Muon
from mechexp.zoo.packing import Batch, batches
from mechexp.zoo.pools import make_pools, shares_of
from mechexp.zoo.recipe import Recipe
from mechexp.zoo.tokenizer import build_tokenizer

FINAL_RATE = 0.05

Losses = tuple[float, float, float]
"""Weighted loss, mean over answers, mean over copies; NaN where a batch has none."""


@dataclass
class Trained:
    """What a training leaves.

    Attributes:
        model: The model after the last step.
        tokenizer: Its tokenizer.
        recipe: How it was trained.
        curves: One row every ``recipe.curve_every`` steps: step, tokens, losses, held-out accuracies.
        checkpoints: Weights after each of ``recipe.checkpoints``, by step.
        tokens: Tokens seen after each step that is a checkpoint, and after the last.
    """

    model: Any
    tokenizer: Any
    recipe: Recipe
    curves: list[dict[str, float]] = field(default_factory=list)
    checkpoints: dict[int, dict[str, Tensor]] = field(default_factory=dict)
    tokens: dict[int, int] = field(default_factory=dict)


def train(recipe: Recipe, *, tell: Callable[[str], None] = print) -> Trained:
    """Train a model from scratch.

    Args:
        recipe: Model, seed, steps and all other settings.
        tell: Gets one line at every point of the curves.
    """
    from transformers import AutoModelForCausalLM

    tokenizer = build_tokenizer()
    pools = make_pools(recipe, tokenizer)
    held = held_out_prompts(tokenizer, 200)
    torch.manual_seed(recipe.seed)
    config = config_for(recipe.name, len(tokenizer), tokenizer.pad_token_id)
    model = AutoModelForCausalLM.from_config(config, attn_implementation="sdpa")
    prepare(model, recipe)
    optimizers = make_optimizers(model, recipe)
    trained = Trained(model, tokenizer, recipe)
    stream = batches(
        pools, shares_of(recipe), rows=recipe.rows, length=recipe.length,
        pad=tokenizer.pad_token_id, seed=recipe.seed,
    )  # fmt: skip
    tokens, start = 0, time.monotonic()
    losses: list[Losses] = []
    model.train()
    for step, batch in enumerate(islice(stream, recipe.steps), start=1):
        losses.append(_step(model, batch, optimizers, recipe, step))
        tokens += batch.tokens
        last = step == recipe.steps
        if step in recipe.checkpoints or last:
            trained.tokens[step] = tokens
        if step in recipe.checkpoints:
            trained.checkpoints[step] = {k: v.detach().clone() for k, v in model.state_dict().items()}
        if step % recipe.curve_every == 0 or last:
            row = _curve_row(step, tokens, losses, accuracies(model, held))
            trained.curves.append(row)
            losses.clear()
            tell(_line(recipe, row, time.monotonic() - start))
    model.eval()
    return trained


def rate_at(step: int, recipe: Recipe) -> float:
    """Share of the learning rates at ``step`` (from 1): linear warm-up, then a cosine down to a twentieth."""
    if step <= recipe.warmup:
        return step / recipe.warmup
    done = (step - recipe.warmup) / max(1, recipe.steps - recipe.warmup)
    return FINAL_RATE + (1 - FINAL_RATE) * (1 + math.cos(math.pi * done)) / 2


def make_optimizers(model: Any, recipe: Recipe) -> list[torch.optim.Optimizer]:
    """Muon for the matrices inside the layers, experts' too; AdamW for embeddings, norms and biases."""
    outer = {
        id(p) for m in (model.get_input_embeddings(), model.get_output_embeddings()) for p in m.parameters()
    }
    inner = [p for p in model.parameters() if p.ndim >= 2 and id(p) not in outer]
    taken = {id(p) for p in inner}
    rest = [p for p in model.parameters() if id(p) not in taken]
    muon = Muon(inner, lr=recipe.muon_rate, weight_decay=recipe.weight_decay)
    adamw = torch.optim.AdamW(rest, lr=recipe.adamw_rate, betas=recipe.betas, weight_decay=0.0, fused=True)
    return [muon, adamw]


def _step(
    model: Any, batch: Batch, optimizers: list[torch.optim.Optimizer], recipe: Recipe, step: int
) -> Losses:
    """One update; returns the losses before it."""
    share = rate_at(step, recipe)
    for optimizer, rate in zip(optimizers, (recipe.muon_rate, recipe.adamw_rate), strict=True):
        optimizer.param_groups[0]["lr"] = rate * share
        optimizer.zero_grad(set_to_none=True)
    logits_BTV, balance = _forward(model, batch)
    loss, losses = weighted_loss(logits_BTV, batch)
    total = loss + recipe.router_loss * balance
    total.backward()  # type: ignore[no-untyped-call]
    nn.utils.clip_grad_norm_(model.parameters(), recipe.clip)
    for optimizer in optimizers:
        optimizer.step()
    return losses


def weighted_loss(logits_BTV: Tensor, batch: Batch) -> tuple[Tensor, Losses]:
    """Mean cross-entropy under the batch's weights, and the plain means over answers and over copies."""
    weights = batch.weights_BT[:, 1:].flatten()
    each = nn.functional.cross_entropy(
        logits_BTV[:, :-1].flatten(0, 1).float(), batch.ids_BT[:, 1:].flatten(), reduction="none"
    )
    loss = (each * weights).sum() / weights.sum()
    answers, copies = (_mean(each[weights == kind]) for kind in (documents.ANSWER, documents.COPY))
    return loss, (loss.item(), answers, copies)


def _mean(values: Tensor) -> float:
    return values.mean().item() if len(values) else math.nan


def _forward(model: Any, batch: Batch) -> tuple[Tensor, Tensor | float]:
    """Logits, and the load-balancing loss (Fedus et al. 2021) where experts are chosen, else 0."""
    given = {"input_ids": batch.ids_BT, "attention_mask": batch.mask_B1TT}
    if getattr(model.config, "num_experts", 1) == 1:
        return model(**given).logits, 0.0
    from transformers.models.olmoe.modeling_olmoe import load_balancing_loss_func

    # Not by the causal class: it would take the mask that keeps documents apart for one of padding.
    out = model.model(**given, output_router_logits=True)
    config = model.config
    balance = load_balancing_loss_func(out.router_logits, config.num_experts, config.num_experts_per_tok)
    return model.lm_head(out.last_hidden_state), balance


def _curve_row(step: int, tokens: int, losses: list[Losses], found: dict[str, float]) -> dict[str, float]:
    """One row: means of the losses since the last row, accuracies now."""
    means = [
        _average([value for value in column if not math.isnan(value)]) for column in zip(*losses, strict=True)
    ]
    names = ("loss", "loss_answers", "loss_copies")
    return {"step": step, "tokens": tokens, **dict(zip(names, means, strict=True)), **found}


def _average(values: list[float]) -> float:
    return round(sum(values) / len(values), 5) if values else math.nan


def _line(recipe: Recipe, row: dict[str, float], seconds: float) -> str:
    skills = " ".join(f"{task} {row[task]:.2f}" for task in TASKS)
    losses = f"answers {row['loss_answers']:.3f} copies {row['loss_copies']:.3f}"
    return f"{recipe.name} step {row['step']}/{recipe.steps} {losses} {skills} {seconds:.0f} s"
