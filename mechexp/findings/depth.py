"""Agreement of two models on where in depth a screen finds its heads; layers are compared as shares of depth.

Shapes: L layer, H head, G point of a common grid of relative depths.
"""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import stats

NAN = float("nan")


@dataclass(frozen=True)
class DepthAgreement:
    """How alike two models are in depth, for one screen.

    Attributes:
        spearman: Rank correlation of the best score of each layer, on a common grid of relative depths.
        distance: Mean shift in relative depth (0 … 1) that turns one circuit's layers into the other's
            (Wasserstein-1); NaN if either circuit is empty.
    """

    spearman: float
    distance: float


def depth_agreement(
    scores_a_LH: ArrayLike,
    scores_b_LH: ArrayLike,
    circuit_a: Iterable[tuple[int, int]],
    circuit_b: Iterable[tuple[int, int]],
) -> DepthAgreement:
    """Compare one screen in two models (ours).

    Args:
        scores_a_LH: Its score of every head of the first model.
        scores_b_LH: The same of the second; the numbers of layers and heads may differ.
        circuit_a: Heads it picked in the first.
        circuit_b: Heads it picked in the second.
    """
    a, b = (np.asarray(s, dtype=np.float64) for s in (scores_a_LH, scores_b_LH))
    grid = np.linspace(0, 1, min(len(a), len(b)))
    profiles = [np.interp(grid, relative_depth(len(s)), s.max(axis=1)) for s in (a, b)]
    flat = len(grid) < 3 or any(np.ptp(p) == 0 for p in profiles)
    depths = [
        [float(relative_depth(len(s))[layer]) for layer, _ in circuit]
        for s, circuit in ((a, circuit_a), (b, circuit_b))
    ]
    return DepthAgreement(
        spearman=NAN if flat else float(stats.spearmanr(*profiles).statistic),
        distance=float(stats.wasserstein_distance(*depths)) if all(depths) else NAN,
    )


def relative_depth(n_layers: int) -> NDArray[np.float64]:
    """Layer indices as shares of depth, (L,): first layer 0, last layer 1; a single layer is at 0."""
    return np.arange(n_layers) / max(n_layers - 1, 1)
