"""Plot of a head-count sweep: effect and null against the number of heads removed."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from matplotlib.figure import Figure

CIRCUIT, NULL = "#D55E00", "#7f7f7f"
METRICS = {"logit_diff": ("logit difference", 1.0), "top1": ("top-1 (percentage points)", 100.0)}


def head_count_plot(figure: "Figure", curves: Mapping[str, Any], title: str) -> "Figure":
    """Draw Δ of the k best heads with the null's mean ± sd and range, knee and destructive null marked.

    Args:
        figure: An empty figure.
        curves: ``diagnostics.head_counts`` of a screen, by metric.
        title: What it shows.
    """
    for axes, metric in zip(figure.subplots(1, 2), METRICS, strict=True):
        name, scale = METRICS[metric]
        found = curves[metric]
        points = {key: _column(found["curve"], key) for key in (
            "k", "delta", "null_mean", "null_std", "null_min", "null_max")}  # fmt: skip
        k, mean = points["k"], points["null_mean"] * scale
        axes.fill_between(
            k, points["null_min"] * scale, points["null_max"] * scale, color=NULL, alpha=0.15, linewidth=0,
            label="null: range",
        )  # fmt: skip
        axes.errorbar(
            k, mean, yerr=points["null_std"] * scale, color=NULL, marker="s", markersize=4, linewidth=1,
            capsize=3, label="null: mean ± sd",
        )  # fmt: skip
        axes.plot(k, points["delta"] * scale, color=CIRCUIT, marker="o", linewidth=2, label="best k heads")
        axes.axhline(0.0, color="#222222", linewidth=0.8, linestyle=":")
        for at, style, label in (
            (found["knee"], "--", "knee"),
            (found["null_destructive_from"], "-.", "null destructive from here"),
        ):
            if at is not None:
                axes.axvline(at, color="#0072B2", linestyle=style, linewidth=1.2, label=f"{label} ({at})")
        axes.set_xlabel("heads removed", fontsize=9)
        axes.set_ylabel(f"Δ {name}", fontsize=9)
        axes.set_xticks(k)
        axes.spines[["top", "right"]].set_visible(False)
        axes.tick_params(labelsize=9)
        axes.legend(fontsize=7, frameon=False)
    figure.suptitle(title, fontsize=11)
    return figure


def _column(curve: list[Mapping[str, Any]], key: str) -> np.ndarray:
    return np.array([np.nan if point[key] is None else float(point[key]) for point in curve])
