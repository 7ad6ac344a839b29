"""Effect and null against the number of heads removed: the knee, and where the null itself breaks the model.

Shapes: K head count, M matched set.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from mechexp.findings.config import TaxonomyConfig
from mechexp.findings.effects import Effect
from mechexp.findings.evidence import Evidence
from mechexp.findings.null import summarise_null
from mechexp.findings.rules import is_destructive

COLUMNS = (
    "k", "delta", "null_mean", "null_std", "null_min", "null_max", "null_sets", "p_harm", "p_help", "z",
    "specificity", "destructive",
)  # fmt: skip
LEAST_BEND = 0.05  # a curve that never rises further than this above its chord has no knee (ours)


@dataclass(frozen=True)
class HeadCountCurve:
    """One screen's effect against the number of its best heads that are removed.

    Attributes:
        table: One row a count, ``COLUMNS``, by k.
        knee: The k after which further heads add least: |Δ| against k is farthest above the straight line
            from (0, 0) to its last point; None where it is not above it (no saturation within the counts).
        destructive_from: Smallest k at which the null itself is destructive; None if it never is.
    """

    table: pd.DataFrame
    knee: int | None
    destructive_from: int | None


def head_count_curve(
    counts: Sequence[int],
    deltas_K: ArrayLike,
    nulls_KM: Sequence[ArrayLike],
    *,
    metric: str,
    clean: float,
    cfg: TaxonomyConfig,
) -> HeadCountCurve:
    """Put nested circuits of growing size beside their nulls.

    Args:
        counts: Numbers of heads, all different.
        deltas_K: Δ of each circuit.
        nulls_KM: Δ of the matched sets of each; may be empty.
        metric: ``top1`` or ``logit_diff``.
        clean: Clean value of the metric.
        cfg: Thresholds of a destructive null.
    """
    deltas = np.asarray(deltas_K, dtype=np.float64)
    rows = []
    for k, delta, null_M in zip(counts, deltas, nulls_KM, strict=True):
        null = summarise_null(float(delta), null_M, metric=metric, clean=clean)
        evidence = Evidence("", "", metric, (), Effect(clean, clean + float(delta), float(delta)), null=null)
        numbers = (null.mean, null.std, null.min, null.max, null.sets, null.p_harm, null.p_help, null.z)
        destructive = bool(null.sets and clean and is_destructive(evidence, cfg))
        rows.append((int(k), float(delta), *numbers, null.specificity, destructive))
    table = pd.DataFrame(rows, columns=list(COLUMNS)).sort_values("k", ignore_index=True)
    broken = table.loc[table["destructive"], "k"]
    return HeadCountCurve(table, knee(table["k"], table["delta"]), int(broken.min()) if len(broken) else None)


def knee(counts: ArrayLike, deltas_K: ArrayLike) -> int | None:
    """The count farthest above the chord of |Δ| against k (the Kneedle criterion), from (0, 0) on.

    Args:
        counts: Numbers of heads, rising.
        deltas_K: Δ of each.
    """
    k = np.concatenate([[0.0], np.asarray(counts, dtype=np.float64)])
    size = np.concatenate([[0.0], np.abs(np.asarray(deltas_K, dtype=np.float64))])
    if len(k) < 3 or not np.isfinite(size).all() or size.max() == 0:
        return None
    # measured against the largest effect: past the peak a curve may fall again
    above = size / size.max() - (size[-1] / size.max()) * k / k[-1]
    best = int(above.argmax())
    return int(k[best]) if above[best] > LEAST_BEND and 0 < best < len(k) - 1 else None
