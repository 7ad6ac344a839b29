"""How much a label owes to the luck of the draw: labels over redrawn nulls of fewer sets (ours).

Shapes: M matched set.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mechexp.findings.combine import judge
from mechexp.findings.config import TaxonomyConfig
from mechexp.findings.evidence import Evidence
from mechexp.findings.null import summarise_null

Key = tuple[str, str]  # (screen, metric)


@dataclass(frozen=True)
class LabelSpread:
    """Labels of one screen over redrawn nulls.

    Attributes:
        label: The label with all sets.
        shares: Share of the redraws by label, largest first.
        other: Share of the redraws that gave another label than all sets do.
    """

    label: str
    shares: Mapping[str, float]
    other: float


def redrawn_labels(
    evidence: Sequence[Evidence],
    deltas: Mapping[Key, ArrayLike],
    cfg: TaxonomyConfig,
    *,
    sets: int = 10,
    redraws: int = 200,
    seed: int = 0,
) -> dict[str, LabelSpread]:
    """Label the screens of a cell again and again, each time with ``sets`` of the matched sets.

    The same sets are drawn for both metrics of a screen, without replacement, and all screens are judged
    together each time, since which one is primary depends on the others.

    Args:
        evidence: Two entries a screen, one a metric, with all matched sets.
        deltas: Δ of each matched set, by screen and metric, (M,).
        cfg: Thresholds. Under ``alpha`` = 0.05, ten sets can make no cause (their smallest p is 1/11); with
            ``strict_paper`` the size of the effect decides, as in the paper.
        sets: Sets of each redrawn null.
        redraws: How often.
        seed: Seed of the redraws.

    Returns:
        By screen; screens with no more than ``sets`` matched sets are left out, but judged along.
    """
    nulls: dict[Key, NDArray[np.float64]] = {
        key: np.asarray(d, dtype=np.float64) for key, d in deltas.items()
    }
    redrawn = [
        e.screen for e in evidence if len(nulls.get((e.screen, e.metric), ())) > sets and e.metric == "top1"
    ]
    if not redrawn or redraws < 1:
        return {}
    rng = np.random.default_rng(seed)
    counts: dict[str, Counter[str]] = {screen: Counter() for screen in redrawn}
    for _ in range(redraws):
        picks = {s: rng.choice(len(nulls[s, "top1"]), size=sets, replace=False) for s in redrawn}
        again = [
            with_null(e, nulls[e.screen, e.metric][picks[e.screen]]) if e.screen in picks else e
            for e in evidence
        ]
        for finding in judge(again, cfg):
            if finding.screen in counts:
                counts[finding.screen][finding.label] += 1
    full = {f.screen: f.label for f in judge(list(evidence), cfg)}
    return {screen: _spread(full[screen], counts[screen]) for screen in redrawn}


def with_null(e: Evidence, deltas_M: ArrayLike) -> Evidence:
    """The same evidence under another null; the interval of Δ − μ moves with μ, its width stays."""
    null = summarise_null(e.effect.delta, deltas_M, metric=e.metric, clean=e.effect.clean)
    shift = (e.effect.delta - null.mean) - e.effect.excess
    effect = replace(
        e.effect,
        excess=e.effect.delta - null.mean,
        excess_low=e.effect.excess_low + shift,
        excess_high=e.effect.excess_high + shift,
    )
    return replace(e, null=null, effect=effect)


def _spread(label: str, counts: Counter[str]) -> LabelSpread:
    total = sum(counts.values())
    shares = {name: n / total for name, n in counts.most_common()}
    return LabelSpread(label, shares, 1 - shares.get(label, 0.0))
