"""The engine's question and answer: a Condition goes in, an Outcome per prompt comes out."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from mechexp.engine.edit import KINDS, Edit
from mechexp.errors import UserError
from mechexp.models.heads import Head, format_heads

POSITIONS = ("all", "end")


@dataclass(frozen=True)
class Condition:
    """Which heads are replaced, by what, and where; no heads and no edits = the clean model.

    Attributes:
        heads: Heads whose z is replaced, sorted, each once.
        kind: ``zero``; ``mean`` (per position and prompt length, over the reference prompts); ``mean_all``
            (over reference prompts and positions); ``resample`` (z of the counterfactual prompt, else of
            another prompt of the same length).
        positions: ``all`` positions, the ``end`` position only, or the name of a position that every prompt
            has.
        edits: Further interventions beyond ablation; a site may be named once in a condition.
    """

    heads: tuple[Head, ...] = ()
    kind: str = "mean"
    positions: str = "all"
    edits: tuple[Edit, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "heads", tuple(sorted({Head(*h) for h in self.heads})))
        object.__setattr__(self, "edits", tuple(self.edits))
        if self.kind not in KINDS:
            raise UserError(f"unknown ablation kind {self.kind!r}", expected=f"one of {', '.join(KINDS)}")
        if not self.positions:
            raise UserError("empty ablation positions", expected="all, end, or the name of a position")
        sites = [e.site for e in self.all_edits]
        twice = sorted({s for s in sites if sites.count(s) > 1})
        if twice:
            raise UserError(
                f"changed twice in one condition: {', '.join(twice)}",
                expected="each head or stream once: the order of two changes would matter",
            )

    @cached_property
    def all_edits(self) -> tuple[Edit, ...]:
        """Ablations and further interventions as one list of edits, by layer; streams before heads."""
        edits = [Edit(h.layer, h.head, self.kind, self.positions) for h in self.heads]
        edits.extend(self.edits)
        return tuple(sorted(edits, key=lambda e: (e.layer, -1 if e.head is None else e.head)))

    @cached_property
    def key(self) -> str:
        """What is done to the model, and nothing else: equal keys give equal outcomes."""
        return ";".join(e.key for e in self.all_edits) or "clean"

    def __str__(self) -> str:
        parts = [f"{self.kind}[{self.positions}]({format_heads(self.heads)})"] if self.heads else []
        return " + ".join([*parts, *map(str, self.edits)]) or "clean"


@dataclass(frozen=True)
class Outcome:
    """What the model answered under one condition; arrays have one entry a prompt.

    Attributes:
        condition: The condition measured.
        top1: Whether the argmax over the whole vocabulary is a target (bool).
        logit_diff: Mean logit of the targets − mean logit of the distractors.
        prob_diff: Σ P(targets) − Σ P(distractors).
        target_rank: Rank of the best target in the vocabulary, 0 = first.
        edited: Number of activation elements changed, summed over prompts; proves that the hooks acted.
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
            "logit_diff": float(self.logit_diff.mean(dtype=np.float64)),
            "frac_correct": float((self.logit_diff > 0).mean()),
            "prob_diff": float(self.prob_diff.mean(dtype=np.float64)),
            "target_rank": float(self.target_rank.mean()),
        }


def expected_edits(condition: Condition, lengths: Sequence[int], head_dim: int, d_model: int = 0) -> int:
    """Elements that ``condition`` must change over prompts of these lengths.

    Args:
        condition: The condition.
        lengths: Prompt lengths.
        head_dim: Width of a head's z.
        d_model: Width of the residual stream; needed only where the condition edits it.
    """
    total = 0
    for edit in condition.all_edits:
        width = d_model if edit.head is None else head_dim
        total += width * (sum(lengths) if edit.positions == "all" else len(lengths))
    return total
