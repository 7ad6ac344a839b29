"""The engine's door: conditions in, one Outcome a condition out."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import torch

from mechexp.engine.blocks import check_positions
from mechexp.engine.checks import check_self_patch, has_hooks
from mechexp.engine.collect import Collector, Progress
from mechexp.engine.condition import Condition, Outcome
from mechexp.engine.config import EngineConfig, validate
from mechexp.engine.flops import needed_flops
from mechexp.engine.memory import tokens_per_pass
from mechexp.engine.routes import follow
from mechexp.engine.store import Store
from mechexp.engine.values import Values
from mechexp.models.loaded import LoadedModel
from mechexp.tasks.prompts import PromptSet

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class Measurement:
    """Outcomes, and how they came about.

    Attributes:
        outcomes: One a condition, in the order asked.
        route: ``fast``, ``plain`` or ``nnsight``; ``cached`` where nothing was left to measure.
        cached: Conditions whose outcome was already known.
        notes: What a reader must know, such as why the fast route was not taken.
        needed_flops: Floating-point operations that the conditions measured need at least.
    """

    outcomes: tuple[Outcome, ...]
    route: str
    cached: int = 0
    notes: tuple[str, ...] = ()
    needed_flops: float = 0.0


def run(
    loaded: LoadedModel,
    prompts: PromptSet,
    conditions: Sequence[Condition],
    *,
    reference: PromptSet | None = None,
    seed: int = 0,
    config: EngineConfig | None = None,
    resume: bool = True,
    progress: Progress | None = None,
) -> Measurement:
    """Measure what a model answers to every prompt under every condition.

    Args:
        loaded: The model.
        prompts: Prompts to answer (the test half).
        conditions: What is done to the model; repeats are computed once.
        reference: Where mean values come from (the screen half); None takes the screen half of ``prompts``.
        seed: Seed of the choice of resampling donors.
        config: Options; they change speed and memory, never a number.
        resume: Whether outcomes in ``config.store`` may be used.
        progress: Called as work gets done.

    Returns:
        The outcomes, in the order of ``conditions``.

    Raises:
        UserError: Heads, positions or sources that do not fit; a baseline that cannot be computed.
        RuntimeError: An intervention did not act exactly as asked, or putting a model's own activations back
            changed its answer.
    """
    config = config or EngineConfig()
    validate(config)
    names = {edit.positions for c in conditions for edit in c.all_edits}
    check_positions(prompts, names, where=f"conditions measured on task {prompts.task}")
    unique = list({c.key: c for c in conditions}.values())
    notes: list[str] = []
    store = _store(config, loaded, prompts, reference, seed, notes)
    found = store.load(unique) if store is not None and resume else {}
    left = [c for c in unique if c.key not in found]
    cached, name = len(found), "cached"
    with _threads(config.threads), torch.no_grad():
        if left:
            memory_bytes = config.memory_gb * 1e9
            tokens = tokens_per_pass(loaded, memory_bytes, max(len(i) for i in prompts.ids))
            values = Values(loaded, prompts, reference, left, seed=seed, tokens=tokens)
            collector = Collector(loaded, prompts, left, store, progress)
            check_self_patch(loaded, prompts)
            name = follow(config, loaded, prompts, left, values, collector.take, notes)
            found |= collector.outcomes()
    flops = needed_flops(loaded, prompts, left)
    outcomes = tuple(replace(found[c.key], condition=c) for c in conditions)
    return Measurement(outcomes, route=name, cached=cached, notes=tuple(notes), needed_flops=flops)


def _store(
    config: EngineConfig,
    loaded: LoadedModel,
    prompts: PromptSet,
    reference: PromptSet | None,
    seed: int,
    notes: list[str],
) -> Store | None:
    """The outcome store, unless hooks on the model mean that its weights do not decide its answers."""
    if not config.store:
        return None
    if config.backend != "hooks" or config.route != "auto":
        notes.append("another way of measuring was asked for by name: the outcome store is left alone")
        return None
    if has_hooks(loaded):
        notes.append("the model carries hooks of its user's own: the outcome store is left alone")
        return None
    return Store(config.store, loaded, prompts, reference, seed)


def measure(
    loaded: LoadedModel,
    prompts: PromptSet,
    conditions: Sequence[Condition],
    *,
    reference: PromptSet | None = None,
    seed: int = 0,
    resume: bool = True,
    progress: Progress | None = None,
    **settings: Any,
) -> list[Outcome]:
    """``run`` with options as keywords (fields of ``EngineConfig``); returns the outcomes alone."""
    config = EngineConfig(**settings)
    return list(
        run(
            loaded, prompts, conditions, reference=reference, seed=seed, config=config, resume=resume,
            progress=progress,
        ).outcomes
    )  # fmt: skip


def evaluate(
    loaded: LoadedModel, prompts: PromptSet, conditions: Sequence[Condition], **settings: Any
) -> "pd.DataFrame":
    """Measure conditions and average over prompts; arguments as for ``measure``.

    Returns:
        One row a condition, in the order asked: ``heads`` (text), ``kind``, ``positions``, ``top1``,
        ``logit_diff``, ``frac_correct``, ``prob_diff``, ``target_rank``, ``edited``.
    """
    import pandas as pd

    from mechexp.models.heads import format_heads

    rows = [
        {
            "heads": format_heads(o.condition.heads),
            "kind": o.condition.kind,
            "positions": o.condition.positions,
            **o.summary(),
            "edited": o.edited,
        }
        for o in measure(loaded, prompts, conditions, **settings)
    ]
    columns = ["heads", "kind", "positions", "top1", "logit_diff", "frac_correct", "prob_diff", "target_rank",
               "edited"]  # fmt: skip
    return pd.DataFrame(rows, columns=columns)


@contextmanager
def _threads(count: int) -> Iterator[None]:
    before = torch.get_num_threads()
    if count:
        torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)
