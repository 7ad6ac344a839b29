"""The engine's question and answer: a Condition goes in, an Outcome per prompt comes out."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from mechexp.errors import UserError
from mechexp.models.heads import Head, format_heads

KINDS = ("zero", "mean", "mean_all", "resample")
POSITIONS = ("all", "end")


@dataclass(frozen=True)
class Condition:
    """Which heads are replaced, by what, and where; no heads = the clean model.

    Attributes:
        heads: Heads whose z is replaced, sorted, each once.
        kind: ``zero``; ``mean`` (per position and prompt length, over the reference prompts); ``mean_all``
            (over reference prompts and positions); ``resample`` (z of the counterfactual prompt, else of
            another prompt of the same length).
        positions: ``all`` positions or the ``end`` position only.
    """

    heads: tuple[Head, ...] = ()
    kind: str = "mean"
    positions: str = "all"

    def __post_init__(self) -> None:
        object.__setattr__(self, "heads", tuple(sorted({Head(*h) for h in self.heads})))
        for name, allowed in (("kind", KINDS), ("positions", POSITIONS)):
            if getattr(self, name) not in allowed:
                raise UserError(
                    f"unknown ablation {name} {getattr(self, name)!r}", expected=f"one of {', '.join(allowed)}"
                )

    def __str__(self) -> str:
        return f"{self.kind}[{self.positions}]({format_heads(self.heads)})" if self.heads else "clean"


@dataclass(frozen=True)
class Outcome:
    """What the model answered under one condition; arrays have one entry a prompt.

    Attributes:
        condition: The condition measured.
        top1: Whether the argmax over the whole vocabulary is a target (bool).
        logit_diff: Mean logit of the targets − mean logit of the distractors.
        prob_diff: Σ P(targets) − Σ P(distractors).
        target_rank: Rank of the best target in the vocabulary, 0 = first.
        edited: Number of z elements replaced, summed over prompts; proves that the hooks acted.
    """

    condition: Condition
    top1: np.ndarray
    logit_diff: np.ndarray
    prob_diff: np.ndarray
    target_rank: np.ndarray
    edited: int

    def summary(self) -> dict[str, float]:
        """Means over prompts: top1, logit_diff, frac_correct, prob_diff, target_rank."""
        return {
            "top1": float(self.top1.mean()),
            "logit_diff": float(self.logit_diff.mean()),
            "frac_correct": float((self.logit_diff > 0).mean()),
            "prob_diff": float(self.prob_diff.mean()),
            "target_rank": float(self.target_rank.mean()),
        }


def expected_edits(condition: Condition, lengths: Sequence[int], head_dim: int) -> int:
    """Elements of z that ``condition`` must replace over prompts of these lengths."""
    positions = sum(lengths) if condition.positions == "all" else len(lengths)
    return len(condition.heads) * head_dim * positions
