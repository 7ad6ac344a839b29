"""The null of one circuit: what matched random head sets do, and how far the circuit stands out.

Shapes: M matched set.
"""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike

NAN = float("nan")
METRICS = ("top1", "logit_diff")
TIE = 1e-9  # differences below this are rounding, and count as ties


@dataclass(frozen=True)
class NullSummary:
    """Δ of the matched sets in numbers, and the circuit's Δ against them.

    Attributes:
        sets: Number of sets m; all else is NaN where it is 0.
        mean: μ.
        std: σ, with ddof 1; NaN for a single set.
        min: Smallest Δ.
        max: Largest Δ.
        median: Median Δ.
        p_harm: (#{Δ_null ≤ Δ} + 1) / (m + 1).
        p_help: (#{Δ_null ≥ Δ} + 1) / (m + 1).
        z: (Δ − μ) / max(σ, floor_z).
        specificity: |Δ| / max(|μ|, floor_r, σ/√m).
    """

    sets: int = 0
    mean: float = NAN
    std: float = NAN
    min: float = NAN
    max: float = NAN
    median: float = NAN
    p_harm: float = NAN
    p_help: float = NAN
    z: float = NAN
    specificity: float = NAN

    @property
    def floor(self) -> float:
        """The smallest p that this many sets can give."""
        return 1 / (self.sets + 1)

    def at_floor(self, p: float) -> bool:
        """Whether not one set is as extreme as the circuit."""
        return self.sets > 0 and p <= self.floor + TIE


def floors(metric: str, clean: float) -> tuple[float, float]:
    """Least denominators of z and of the specificity, in units of the metric (ours).

    0.5 and 1 percentage points for top-1, 1 % and 2 % of the clean value for the logit difference.
    """
    if metric not in METRICS:
        raise ValueError(f"no floors for metric {metric!r}")
    return (0.005, 0.01) if metric == "top1" else (0.01 * abs(clean), 0.02 * abs(clean))


def summarise_null(delta: float, null_deltas_M: ArrayLike, *, metric: str, clean: float) -> NullSummary:
    """Compare Δ of a circuit with Δ of its matched sets.

    Args:
        delta: Δ of the circuit.
        null_deltas_M: Δ of each matched set.
        metric: ``top1`` or ``logit_diff``.
        clean: Clean value of the metric.
    """
    nulls = np.asarray(null_deltas_M, dtype=np.float64)
    m = nulls.size
    if not m:
        return NullSummary()
    moments = summarise_moments(
        delta, mean=float(nulls.mean()), std=_std(nulls), sets=m, metric=metric, clean=clean
    )
    return replace(
        moments,
        min=float(nulls.min()),
        max=float(nulls.max()),
        median=float(np.median(nulls)),
        p_harm=float((np.count_nonzero(nulls <= delta + TIE) + 1) / (m + 1)),
        p_help=float((np.count_nonzero(nulls >= delta - TIE) + 1) / (m + 1)),
    )


def summarise_moments(
    delta: float, *, mean: float, std: float, sets: int, metric: str, clean: float
) -> NullSummary:
    """The same from a published mean and standard deviation alone; p, range and median are unknown (NaN).

    Where σ is unknown (one set), z is NaN and the specificity leaves out its σ/√m.
    """
    floor_z, floor_r = floors(metric, clean)
    spread = 0.0 if np.isnan(std) else std / np.sqrt(sets)
    return NullSummary(
        sets=sets,
        mean=mean,
        std=std,
        z=_ratio(delta - mean, NAN if np.isnan(std) else max(std, floor_z)),
        specificity=_ratio(abs(delta), max(abs(mean), floor_r, spread)),
    )


def _std(nulls: np.ndarray) -> float:
    return float(nulls.std(ddof=1)) if nulls.size > 1 else NAN


def _ratio(a: float, b: float) -> float:
    """A / b; NaN where b is 0, which only a clean value of exactly 0 brings about."""
    return float(a / b) if b else NAN
