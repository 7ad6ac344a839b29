"""Effects of an ablation and their intervals, from per-prompt values.

Shapes: P prompt, B bootstrap resample, M matched set, X whatever is measured on the same prompts.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import stats

from mechexp.errors import UserError

NAN = float("nan")
Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Effect:
    """What an ablation changed, in the units of the metric.

    Attributes:
        clean: Mean over prompts of the clean model.
        ablated: Mean over prompts under the ablation.
        delta: Δ = ablated − clean.
        delta_low: Lower end of the interval of Δ.
        delta_high: Upper end.
        excess: Δ − μ, with μ the mean Δ of the matched sets; NaN without a null.
        excess_low: Lower end of the interval of Δ − μ.
        excess_high: Upper end.
    """

    clean: float
    ablated: float
    delta: float
    delta_low: float = NAN
    delta_high: float = NAN
    excess: float = NAN
    excess_low: float = NAN
    excess_high: float = NAN


def bootstrap_counts(prompts: int, resamples: int = 2000, seed: int = 0) -> Floats:
    """How often each resample holds each prompt, (B, P).

    Used for everything that is measured on these prompts, so that intervals are paired across conditions and
    no screen's interval depends on which others were measured.

    Raises:
        UserError: Fewer than 100 resamples: their 2.5 % quantile means nothing.
    """
    if resamples < 100:
        raise UserError(
            f"{resamples} bootstrap resamples",
            where="protocol.bootstrap",
            expected="100 or more (2000 is usual)",
        )
    rng = np.random.default_rng(seed)
    return rng.multinomial(prompts, np.full(prompts, 1 / prompts), size=resamples).astype(np.float64)


def mean_interval(values_XP: ArrayLike, counts_BP: Floats, level: float = 0.95) -> tuple[Floats, Floats]:
    """Bootstrap intervals of means over prompts.

    Expanded percentile intervals (Hesterberg 2015): the plain percentile interval is too narrow by
    √((n − 1)/n) and knows nothing of Student's t; quantiles further out make up for both.

    Args:
        values_XP: Values on the same prompts, (X, P) or (P,).
        counts_BP: From :func:`bootstrap_counts`.
        level: Confidence level.

    Returns:
        Lower and upper ends, (X,); NaN for fewer than two prompts.
    """
    values = np.atleast_2d(np.asarray(values_XP, dtype=np.float64))
    n = values.shape[1]
    if n < 2:
        return np.full(len(values), NAN), np.full(len(values), NAN)
    if not np.isfinite(values).all():
        raise ValueError("per-prompt values must be finite")
    means_BX = counts_BP @ values.T / n
    tail = stats.norm.cdf(np.sqrt(n / (n - 1)) * stats.t.ppf((1 - level) / 2, n - 1))
    low, high = np.quantile(means_BX, [tail, 1 - tail], axis=0)
    return low, high


def measure_effect(
    clean_P: ArrayLike,
    ablated_P: ArrayLike,
    null_MP: ArrayLike | None,
    counts_BP: Floats,
    level: float = 0.95,
) -> Effect:
    """Δ and Δ − μ of one group ablation, with paired bootstrap intervals over prompts.

    The matched sets are held fixed in the interval of Δ − μ: it says what other prompts might have given, the
    p-value says what other sets might have given.

    Args:
        clean_P: The metric of each prompt, clean.
        ablated_P: The same under the ablation.
        null_MP: The same under each matched set, (M, P); None or no rows without a null.
        counts_BP: From :func:`bootstrap_counts`.
        level: Confidence level.
    """
    clean, ablated = (np.asarray(a, dtype=np.float64) for a in (clean_P, ablated_P))
    delta_P = ablated - clean
    null = np.empty((0, len(clean))) if null_MP is None else np.asarray(null_MP, dtype=np.float64)
    excess_P = ablated - null.mean(axis=0) if len(null) else np.full_like(delta_P, NAN)
    rows = np.stack([delta_P, excess_P]) if len(null) else delta_P[None]
    low, high = mean_interval(rows, counts_BP, level)
    return Effect(
        clean=float(clean.mean()),
        ablated=float(ablated.mean()),
        delta=float(delta_P.mean()),
        delta_low=float(low[0]),
        delta_high=float(high[0]),
        excess=float(excess_P.mean()),
        excess_low=float(low[-1]) if len(null) else NAN,
        excess_high=float(high[-1]) if len(null) else NAN,
    )


def null_deltas(clean_P: ArrayLike, null_MP: ArrayLike) -> Floats:
    """Δ of each matched set, (M,)."""
    null = np.asarray(null_MP, dtype=np.float64)
    deltas: Floats = (null - np.asarray(clean_P, dtype=np.float64)).mean(axis=1)
    return deltas


def additivity(group_delta: float, single_deltas: ArrayLike) -> float:
    """Δ of the group over the sum of its heads' single Δ; 1 = independent heads, NaN if the sum is 0."""
    total = float(np.sum(np.asarray(single_deltas, dtype=np.float64)))
    return group_delta / total if total else NAN


def share_that_helps(single_deltas: ArrayLike) -> float:
    """Share of heads whose removal alone raises the metric (interferers); NaN without singles."""
    deltas = np.asarray(single_deltas, dtype=np.float64)
    return float((deltas > 0).mean()) if deltas.size else NAN
