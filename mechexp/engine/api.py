"""The engine's door: conditions in, one Outcome a condition out."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from mechexp.engine.blocks import Block, check_positions
from mechexp.engine.checks import check_self_patch
from mechexp.engine.condition import Condition, Outcome, expected_edits
from mechexp.engine.config import EngineConfig, validate
from mechexp.engine.memory import tokens_per_pass
from mechexp.engine.metrics import Answers, Scores, score
from mechexp.engine.plain import PlainRoute
from mechexp.engine.values import Values
from mechexp.models.loaded import LoadedModel
from mechexp.tasks.prompts import PromptSet

if TYPE_CHECKING:
    import pandas as pd

Progress = Callable[[int, int], None]
"""Called with (done, total), counted in conditions × prompts."""


@dataclass(frozen=True)
class Measurement:
    """Outcomes, and how they came about.

    Attributes:
        outcomes: One a condition, in the order asked.
        route: ``fast``, ``plain`` or ``nnsight``.
        cached: Conditions whose outcome was already known.
        notes: What a reader must know, such as why the fast route was not taken.
    """

    outcomes: tuple[Outcome, ...]
    route: str
    cached: int = 0
    notes: tuple[str, ...] = ()


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
    memory_bytes = config.memory_gb * 1e9
    with _threads(config.threads), torch.no_grad():
        tokens = tokens_per_pass(loaded, memory_bytes, max(len(i) for i in prompts.ids))
        values = Values(loaded, prompts, reference, unique, seed=seed, tokens=tokens)
        collector = _Collector(loaded, prompts, unique, progress)
        if unique:
            check_self_patch(loaded, prompts)
            PlainRoute(loaded, memory_bytes).run(prompts, unique, values, collector.take)
        found = collector.outcomes()
    return Measurement(tuple(_named(found[c.key], c) for c in conditions), route="plain")


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


class _Collector:
    """Turns blocks of logits into outcomes, and holds every condition to what it was asked to change."""

    def __init__(
        self,
        loaded: LoadedModel,
        prompts: PromptSet,
        conditions: Sequence[Condition],
        progress: Progress | None,
    ) -> None:
        self._loaded, self._prompts, self._progress = loaded, prompts, progress
        self._conditions = {c.key: c for c in conditions}
        self._answers: dict[torch.device, Answers] = {"cpu": Answers.of(prompts)}  # type: ignore[dict-item]
        self._parts: dict[str, list[tuple[np.ndarray, Scores]]] = {key: [] for key in self._conditions}
        self._edited = dict.fromkeys(self._conditions, 0)
        self._done, self._total = 0, len(conditions) * len(prompts)
        if progress is not None and conditions:
            progress(0, self._total)

    def take(self, condition: Condition, block: Block, logits_PV: torch.Tensor, edited: int) -> None:
        """Judge one condition's answers to one block."""
        if logits_PV.device not in self._answers:
            self._answers[logits_PV.device] = Answers.of(self._prompts, logits_PV.device)
        rows = torch.as_tensor(block.indices, device=logits_PV.device)
        scores = score(logits_PV, self._answers[logits_PV.device].take(rows))
        self._parts[condition.key].append((block.indices, scores))
        self._edited[condition.key] += edited
        self._done += block.size
        if self._progress is not None:
            self._progress(self._done, self._total)

    def outcomes(self) -> dict[str, Outcome]:
        """Outcomes by condition key.

        Raises:
            RuntimeError: A condition missed a prompt, or changed more or fewer elements than asked.
        """
        return {key: self._outcome(key, condition) for key, condition in self._conditions.items()}

    def _outcome(self, key: str, condition: Condition) -> Outcome:
        size = len(self._prompts)
        order = np.concatenate([indices for indices, _ in self._parts[key]])
        if sorted(order.tolist()) != list(range(size)):
            raise RuntimeError(f"{condition}: {len(order)} answers for {size} prompts")
        lengths = [len(ids) for ids in self._prompts.ids]
        asked = expected_edits(condition, lengths, self._loaded.head_dim, self._loaded.d_model)
        if self._edited[key] != asked:
            raise RuntimeError(f"{condition}: changed {self._edited[key]} elements, asked for {asked}")
        back = np.argsort(order)
        column = {
            name: np.concatenate([getattr(scores, name) for _, scores in self._parts[key]])[back]
            for name in ("top1", "logit_diff", "prob_diff", "target_rank")
        }
        return Outcome(condition, **column, edited=self._edited[key])


def _named(outcome: Outcome, condition: Condition) -> Outcome:
    """The outcome under the caller's own condition (two may do the same to the model)."""
    return Outcome(
        condition, outcome.top1, outcome.logit_diff, outcome.prob_diff, outcome.target_rank, outcome.edited
    )


@contextmanager
def _threads(count: int) -> Iterator[None]:
    before = torch.get_num_threads()
    if count:
        torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)
