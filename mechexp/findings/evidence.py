"""All that a label rests on: one screen, one metric, in numbers.

Shapes: P prompt, B bootstrap resample, M matched set, K head of the circuit removed alone.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import ArrayLike

from mechexp.findings.effects import Effect, Floats, measure_effect, null_deltas, share_that_helps
from mechexp.findings.null import METRICS, NullSummary, summarise_null

NAN = float("nan")


@dataclass(frozen=True)
class Evidence:
    """One screen judged on one metric; what is unknown is NaN.

    Attributes:
        cell: Which model × task × control × ablation it belongs to.
        screen: The screen.
        metric: ``top1`` or ``logit_diff``.
        heads: The circuit, as (layer, head), sorted.
        effect: Δ and Δ − μ with intervals.
        null: The null and the circuit's place in it.
        clean_top1: Top-1 of the clean model (competence).
        clean_frac_correct: Share of prompts with a positive logit difference (competence).
        singles_help: Share of the heads that raise the metric when removed alone.
        bos: Share of the heads whose best general class is ``bos``.
        pattern: Share of the heads that show the screen's attention pattern on the task.
        direct: Summed direct logit attribution of the heads, as a share of the clean logit difference.
        control: Name of the control that drew the null.
        null_total: Distinct matched sets that exist; 0 = unknown or none.
        null_short: Heads by which the matched sets are smaller than the circuit.
        other_kinds: Effect of the circuit under other kinds of ablation.
    """

    cell: str
    screen: str
    metric: str
    heads: tuple[tuple[int, int], ...]
    effect: Effect
    null: NullSummary = field(default_factory=NullSummary)
    clean_top1: float = NAN
    clean_frac_correct: float = NAN
    singles_help: float = NAN
    bos: float = NAN
    pattern: float = NAN
    direct: float = NAN
    control: str = "matched_random"
    null_total: int = 0
    null_short: int = 0
    other_kinds: Mapping[str, Effect] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.metric not in METRICS:
            raise ValueError(f"no rules for metric {self.metric!r}")
        object.__setattr__(self, "heads", tuple(sorted((int(l), int(h)) for l, h in self.heads)))

    @property
    def n_heads(self) -> int:
        """Heads of the circuit."""
        return len(self.heads)

    def share_of_clean(self, amount: float) -> float:
        """``amount`` as a share of the clean metric; NaN where clean is 0."""
        return amount / abs(self.effect.clean) if self.effect.clean else NAN


def measure_evidence(
    clean_P: ArrayLike,
    ablated_P: ArrayLike,
    null_MP: ArrayLike | None,
    counts_BP: Floats,
    *,
    cell: str,
    screen: str,
    metric: str,
    heads: Iterable[tuple[int, int]],
    singles_KP: ArrayLike | None = None,
    level: float = 0.95,
    clean_top1: float = NAN,
    clean_frac_correct: float = NAN,
    bos: float = NAN,
    pattern: float = NAN,
    direct: float = NAN,
    control: str = "matched_random",
    null_total: int = 0,
    null_short: int = 0,
    other_kinds: Mapping[str, ArrayLike] | None = None,
) -> Evidence:
    """Evidence from per-prompt values of one metric.

    Args:
        clean_P: The metric of each prompt, clean.
        ablated_P: The same with the circuit ablated.
        null_MP: The same with each matched set ablated; None without a null.
        counts_BP: From ``bootstrap_counts``, the same for the whole cell.
        cell: See :class:`Evidence`; so for all that follow.
        screen: The screen.
        metric: ``top1`` or ``logit_diff``.
        heads: The circuit.
        singles_KP: The metric with each head of the circuit removed alone; None where not measured.
        level: Confidence level of the intervals.
        clean_top1: Top-1 of the clean model.
        clean_frac_correct: Its share of positive logit differences.
        bos: Share of BOS-class heads.
        pattern: Share of heads that show the pattern.
        direct: Direct logit attribution as a share of the clean logit difference.
        control: The control.
        null_total: Distinct matched sets.
        null_short: Heads that the matched sets lack.
        other_kinds: The metric of each prompt with the circuit ablated in another way, by kind.
    """
    effect = measure_effect(clean_P, ablated_P, null_MP, counts_BP, level)
    nulls = np.empty(0) if null_MP is None or not len(np.asarray(null_MP)) else null_deltas(clean_P, null_MP)
    singles = np.empty(0) if singles_KP is None else null_deltas(clean_P, singles_KP)
    return Evidence(
        cell=cell,
        screen=screen,
        metric=metric,
        heads=tuple(heads),
        effect=effect,
        null=summarise_null(effect.delta, nulls, metric=metric, clean=effect.clean),
        clean_top1=clean_top1,
        clean_frac_correct=clean_frac_correct,
        singles_help=share_that_helps(singles),
        bos=bos,
        pattern=pattern,
        direct=direct,
        control=control,
        null_total=null_total,
        null_short=null_short,
        other_kinds={
            kind: measure_effect(clean_P, other_P, None, counts_BP, level)
            for kind, other_P in (other_kinds or {}).items()
        },
    )


def empty_evidence(
    cell: str, screen: str, metric: str, clean: float, *, clean_top1: float, clean_frac_correct: float
) -> Evidence:
    """Evidence of a screen that picked no head, or of a cell whose model is not competent."""
    effect = Effect(clean, NAN, NAN)
    return Evidence(
        cell, screen, metric, (), effect, clean_top1=clean_top1, clean_frac_correct=clean_frac_correct
    )
