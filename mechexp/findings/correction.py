"""Many tests at once: Benjamini–Hochberg, and how many matched sets a test would have needed.

Shapes: N test.
"""

from dataclasses import dataclass
from math import ceil

import numpy as np
from numpy.typing import ArrayLike, NDArray
from statsmodels.stats.multitest import multipletests

NAN = float("nan")
ROUNDING = 1e-9  # 1/20 must pass at .05, whatever the last bit says


@dataclass(frozen=True)
class Tested:
    """How one screen's test against the null came out, on one metric.

    Attributes:
        harm: Whether the circuit harms more than the null does, after correction.
        help: Whether it helps more.
        p_harm: p_harm, adjusted where the test belongs to a sweep.
        p_help: p_help, likewise.
        needed: Sets with which the p of the circuit's own direction, now at its floor, would pass as long as
            no set is as extreme; 0 where the test is not short of sets.
        family: Number of tests corrected for; 1 = not corrected.
    """

    harm: bool
    help: bool
    p_harm: float
    p_help: float
    needed: int = 0
    family: int = 1


def benjamini_hochberg(p_N: ArrayLike, alpha: float) -> tuple[NDArray[np.bool_], NDArray[np.float64]]:
    """Which tests pass at false discovery rate ``alpha``, and adjusted p; NaN p are no tests and stay NaN."""
    p = np.asarray(p_N, dtype=np.float64)
    known = ~np.isnan(p)
    reject, adjusted = np.zeros(p.shape, dtype=bool), np.full(p.shape, NAN)
    if known.any():
        reject[known], adjusted[known] = multipletests(
            p[known], alpha=alpha * (1 + ROUNDING), method="fdr_bh"
        )[:2]
    return reject, adjusted


def sets_to_settle(p_N: ArrayLike, short_N: ArrayLike, alpha: float) -> int:
    """Matched sets with which the tests marked ``short`` would pass Benjamini–Hochberg (ours).

    Supposes that further sets are no more extreme than those drawn, for all of the marked tests together, and
    that the other tests keep their p. Then the marked tests have the smallest p of the family; the largest k
    with p_(k) ≤ kα/N gives the threshold t that they must reach, and 1/(m + 1) ≤ t gives m.

    Args:
        p_N: p of the whole family; NaN are no tests.
        short_N: Tests at their floor that do not pass.
        alpha: False discovery rate.

    Returns:
        m; 0 where nothing is marked.
    """
    p, short = np.asarray(p_N, dtype=np.float64), np.asarray(short_N, dtype=bool)
    if not short.any():
        return 0
    p = np.sort(np.where(short, 0.0, p)[~np.isnan(p)])
    thresholds = alpha * (1 + ROUNDING) * np.arange(1, p.size + 1) / p.size
    threshold = float(thresholds[np.flatnonzero(p <= thresholds)[-1]])
    return ceil(1 / threshold - 1 - 1e-9)
