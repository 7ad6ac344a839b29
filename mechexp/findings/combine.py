"""One finding a screen: the verdicts on both metrics put together, the logit difference's as the headline."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from mechexp.findings.config import TaxonomyConfig
from mechexp.findings.evidence import Evidence
from mechexp.findings.labels import SHARED_FLAGS
from mechexp.findings.null import TIE
from mechexp.findings.sensitivity import direction
from mechexp.findings.taxonomy import Verdict, judge_cell, judge_sweep
from mechexp.findings.wording import amount


@dataclass(frozen=True)
class Finding:
    """What a cell says about one screen.

    Attributes:
        cell: The cell.
        screen: The screen.
        label: The headline: the label on the logit difference.
        taxonomy_top1: The label on top-1.
        taxonomy_logit_diff: The label on the logit difference.
        flags: Flags of the headline, of both metrics together, and of top-1 alone (suffix ``_top1``).
        rules: Why, in sentences, the headline's first.
        top1: The verdict on top-1.
        logit_diff: The verdict on the logit difference.
    """

    cell: str
    screen: str
    label: str
    taxonomy_top1: str
    taxonomy_logit_diff: str
    flags: tuple[str, ...]
    rules: tuple[str, ...]
    top1: Verdict
    logit_diff: Verdict


def judge(evidence: Sequence[Evidence], cfg: TaxonomyConfig, *, joint: bool = False) -> list[Finding]:
    """Label screens on both metrics.

    Args:
        evidence: Two entries a screen, one a metric.
        cfg: Thresholds.
        joint: Whether the cells are one sweep, tested jointly; else the entries are those of one cell.

    Returns:
        One finding a screen, in the order in which screens first appear.
    """
    verdicts = judge_sweep(evidence, cfg) if joint else judge_cell(evidence, cfg)
    screens: dict[tuple[str, str], dict[str, tuple[Evidence, Verdict]]] = defaultdict(dict)
    for e, v in zip(evidence, verdicts, strict=True):
        screens[e.cell, e.screen][e.metric] = (e, v)
    return [combine(*both["top1"], *both["logit_diff"], cfg) for both in screens.values()]


def combine(
    e_top1: Evidence, top1: Verdict, e_logit_diff: Evidence, logit_diff: Verdict, cfg: TaxonomyConfig
) -> Finding:
    """Put the verdicts of one screen on both metrics together."""
    both = []
    if logit_diff.label not in ("not_evaluated", "empty"):
        if is_margin_only(e_top1, e_logit_diff, cfg):
            both.append("margin_only")
        if is_conflict(e_top1, e_logit_diff):
            both.append("metric_conflict")
    of_top1 = [
        flag if flag in SHARED_FLAGS else f"{flag}_top1"
        for flag in top1.flags
        if flag not in logit_diff.flags
    ]
    rules = [f"logit_diff — {r}" for r in logit_diff.rules] + [f"top1 — {r}" for r in top1.rules]
    if both:
        changes = (amount(e, e.effect.delta) for e in (e_top1, e_logit_diff))
        rules.append(f"{' and '.join(both)}: Δ of top-1 and logit difference are {' and '.join(changes)}.")
    return Finding(
        cell=e_top1.cell,
        screen=e_top1.screen,
        label=logit_diff.label,
        taxonomy_top1=top1.label,
        taxonomy_logit_diff=logit_diff.label,
        flags=(*logit_diff.flags, *both, *of_top1),
        rules=tuple(rules),
        top1=top1,
        logit_diff=logit_diff,
    )


def is_margin_only(e_top1: Evidence, e_logit_diff: Evidence, cfg: TaxonomyConfig) -> bool:
    """Margin, not argmax: top-1 stays while the logit difference moves, beyond the null."""
    moved = abs(e_logit_diff.share_of_clean(e_logit_diff.effect.delta))
    return (
        abs(e_top1.effect.delta) <= cfg.margin_top1 + TIE
        and moved >= cfg.margin_logit_diff - TIE
        and e_logit_diff.null.specificity >= cfg.min_specificity
    )


def is_conflict(e_top1: Evidence, e_logit_diff: Evidence) -> bool:
    """The metrics move in opposite directions, each beyond its interval where it has one (ours)."""
    return direction(e_top1.effect) * direction(e_logit_diff.effect) < 0
