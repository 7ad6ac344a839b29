"""Collects blocks of logits into outcomes, and holds every condition to what it was asked to change.

Legend: P prompt, V vocabulary.
"""

import time
from collections.abc import Callable, Sequence

import numpy as np
import torch

from mechexp.engine.blocks import Block
from mechexp.engine.condition import Condition, Outcome, expected_edits
from mechexp.engine.metrics import Answers, Scores, score
from mechexp.engine.store import Store
from mechexp.models.loaded import LoadedModel
from mechexp.tasks.prompts import PromptSet

SAVE_EVERY_S = 20.0

Progress = Callable[[int, int], None]
"""Called with (done, total), counted in conditions × prompts."""


class Collector:
    """Turns blocks of logits into outcomes, and holds every condition to what it was asked to change."""

    def __init__(
        self,
        loaded: LoadedModel,
        prompts: PromptSet,
        conditions: Sequence[Condition],
        store: Store | None,
        progress: Progress | None,
    ) -> None:
        self._loaded, self._prompts = loaded, prompts
        self._store, self._progress = store, progress
        self._lengths = [len(ids) for ids in prompts.ids]
        self._missing = {c.key: len(prompts) for c in conditions}
        self._known: dict[str, Outcome] = {}
        self._unsaved: dict[str, Outcome] = {}
        self._saved = time.monotonic()
        self._conditions = {c.key: c for c in conditions}
        self._answers = {torch.device("cpu"): Answers.of(prompts)}
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
        self._missing[condition.key] -= block.size
        if self._missing[condition.key] == 0:
            self._finish(condition)
        self._done += block.size
        if self._progress is not None:
            self._progress(self._done, self._total)

    def outcomes(self) -> dict[str, Outcome]:
        """Outcomes by condition key.

        Raises:
            RuntimeError: A condition missed a prompt.
        """
        self._save()
        short = [str(self._conditions[key]) for key, count in self._missing.items() if count]
        if short:
            raise RuntimeError(f"conditions without an answer to every prompt: {short[:3]}")
        return self._known

    def _finish(self, condition: Condition) -> None:
        key = condition.key
        order = np.concatenate([indices for indices, _ in self._parts[key]])
        if sorted(order.tolist()) != list(range(len(self._prompts))):
            raise RuntimeError(f"{condition}: prompts answered twice")
        asked = expected_edits(condition, self._lengths, self._loaded.head_dim, self._loaded.d_model)
        if self._edited[key] != asked:
            raise RuntimeError(f"{condition}: changed {self._edited[key]} elements, asked for {asked}")
        back = np.argsort(order)
        column = {
            name: np.concatenate([getattr(scores, name) for _, scores in self._parts[key]])[back]
            for name in ("top1", "logit_diff", "prob_diff", "target_rank")
        }
        del self._parts[key]
        self._known[key] = self._unsaved[key] = Outcome(condition, **column, edited=self._edited[key])
        if time.monotonic() - self._saved > SAVE_EVERY_S:
            self._save()

    def _save(self) -> None:
        """Send finished outcomes to the store now and then, so that a crash loses little."""
        if self._store is not None and self._unsaved:
            self._store.save(self._unsaved)
        self._unsaved, self._saved = {}, time.monotonic()
