"""Edges of histograms."""

from collections.abc import Sequence

import numpy as np

BARS, OF_THE_WHOLE = 15, 60  # bars of a histogram; the least width of one is a 60th of the axis


def edges(values: np.ndarray, marks: Sequence[float], *, least: float) -> np.ndarray | int:
    """Edges of a histogram whose bars stay visible beside marks that stand far away from it.

    Args:
        values: What is counted.
        marks: Other places on the same axis.
        least: Least width of a bar, so that rounding is not drawn as spread.
    """
    if not len(values):
        return 1
    low, high = float(values.min()), float(values.max())
    whole = max(high, *marks) - min(low, *marks)
    width = max((high - low) / BARS, whole / OF_THE_WHOLE, least)
    n = max(1, int(np.ceil((high - low) / width - 1e-9)))
    middle = (low + high) / 2
    return np.linspace(middle - n * width / 2, middle + n * width / 2, n + 1)
