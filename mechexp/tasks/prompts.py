"""Prompts as data: text, token ids, named positions, answers — what tasks yield and all later rooms read."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np


@dataclass(frozen=True)
class TextPrompt:
    """One prompt before any tokenizer has seen it.

    Attributes:
        prompt: The text the model reads.
        target: Right answers, as they stand after the prompt (a leading space included).
        distractor: Wrong answers of the same type, likewise.
        counterfactual: The same prompt with the answer's information changed, or None.
        spans: Named stretches of ``prompt`` in characters, ``{name: (start, end)}``.
        template: Which wording this is, for robustness checks.
        operation: What is asked of the operands, by its family's name for it; "" outside families.
        operands: What the operation is asked of.
    """

    prompt: str
    target: tuple[str, ...]
    distractor: tuple[str, ...]
    counterfactual: str | None = None
    spans: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    template: str = ""
    operation: str = ""
    operands: tuple[str, ...] = ()

    def as_json(self) -> dict[str, Any]:
        """The fields of the custom-task JSONL format."""
        row: dict[str, Any] = {
            "prompt": self.prompt,
            "target": list(self.target),
            "distractor": list(self.distractor),
        }
        if self.counterfactual is not None:
            row["counterfactual"] = self.counterfactual
        row["spans"] = {k: list(v) for k, v in self.spans.items()}
        if self.template:
            row["template"] = self.template
        if self.operation:
            row["operation"] = self.operation
        if self.operands:
            row["operands"] = list(self.operands)
        return row


@dataclass(frozen=True)
class PromptSet:
    """Prompts of one task in one tokenizer; per-prompt fields all have the same length P.

    Attributes:
        task: Task name.
        texts: The prompts as text.
        ids: Token ids of each prompt; lengths may differ between prompts.
        positions: Named token positions of each prompt. ``end`` is always there: the last token, whose
            logits are read. A named span's position is the last token that overlaps it.
        targets: Token ids of the right answers.
        distractors: Token ids of the wrong answers.
        counterfactual_ids: Token ids of the counterfactual prompt; None where there is none or where its
            length differs from the prompt's (positions would not correspond).
        half: ``screen`` (heads are chosen on it) or ``test`` (effects are measured on it); ``both`` without
            a split.
        notes: What a reader must know: words dropped, form used.
        contract: Tokenization contract: special tokens added or not, leading-space policy, index read …
    """

    task: str
    texts: tuple[TextPrompt, ...]
    ids: tuple[tuple[int, ...], ...]
    positions: tuple[Mapping[str, int], ...]
    targets: tuple[tuple[int, ...], ...]
    distractors: tuple[tuple[int, ...], ...]
    counterfactual_ids: tuple[tuple[int, ...] | None, ...]
    half: tuple[str, ...]
    notes: tuple[str, ...] = ()
    contract: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        sizes = {
            name: len(getattr(self, name))
            for name in (
                "texts", "ids", "positions", "targets", "distractors", "counterfactual_ids", "half",
            )
        }  # fmt: skip
        if len(set(sizes.values())) != 1:
            raise ValueError(f"per-prompt fields differ in length: {sizes}")

    def __len__(self) -> int:
        return len(self.ids)

    @cached_property
    def prompts_hash(self) -> str:
        """SHA-256 over the token-free prompt list, its halves and order."""
        rows = [{**t.as_json(), "half": h} for t, h in zip(self.texts, self.half, strict=True)]
        return hashlib.sha256(json.dumps(rows, sort_keys=True, ensure_ascii=False).encode()).hexdigest()

    @cached_property
    def tokens_hash(self) -> str:
        """SHA-256 over token ids, answers and counterfactuals: what the model was actually fed."""
        rows = [self.ids, self.targets, self.distractors, self.counterfactual_ids]
        return hashlib.sha256(json.dumps(rows).encode()).hexdigest()

    def buckets(self) -> dict[int, np.ndarray]:
        """Prompt indices grouped by prompt length: ``{T: indices}``, shortest first."""
        lengths = np.array([len(i) for i in self.ids])
        return {int(t): np.flatnonzero(lengths == t) for t in np.unique(lengths)}

    def take(self, indices: Sequence[int] | np.ndarray) -> "PromptSet":
        """The prompts at ``indices``, in that order."""
        pick = [int(i) for i in indices]
        per_prompt = (
            "texts", "ids", "positions", "targets", "distractors", "counterfactual_ids", "half",
        )  # fmt: skip
        picked: dict[str, Any] = {n: tuple(getattr(self, n)[i] for i in pick) for n in per_prompt}
        return replace(self, **picked)

    def part(self, half: str) -> "PromptSet":
        """The ``screen`` or the ``test`` half; the whole set where the task was not split."""
        return self.take([i for i, h in enumerate(self.half) if h in (half, "both")])
