"""The plots of a calibration: QQ of p under true nulls, recall by strength, what few matched sets cost."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

COLOURS = {"primary": "#1b6ca8", "secondary": "#3a9d6e", "interferer": "#c8553d"}


def draw_all(summary: Mapping[str, Any], folder: Path) -> list[Path]:
    """Draw every plot for which there are numbers; returns the files."""
    import matplotlib

    matplotlib.use("Agg")
    folder.mkdir(parents=True, exist_ok=True)
    plots = {"p_qq.png": _qq, "recall_by_strength.png": _strength, "matched_sets.png": _sets}
    return [_saved(folder / name, draw, summary) for name, draw in plots.items()]


def _saved(path: Path, draw: Any, summary: Mapping[str, Any]) -> Path:
    import matplotlib.pyplot as plt

    figure, axis = plt.subplots(figsize=(5, 3.4), layout="constrained")
    draw(axis, summary)
    axis.spines[["top", "right"]].set_visible(False)
    figure.savefig(path, dpi=110)
    plt.close(figure)
    return path


def _qq(axis: Any, summary: Mapping[str, Any]) -> None:
    import numpy as np

    for direction, p in summary["p_values"].items():
        at = (np.arange(len(p)) + 0.5) / max(len(p), 1)
        axis.plot(at, p, drawstyle="steps-post", label=f"p_{direction} (n = {len(p)})")
    axis.plot([0, 1], [0, 1], color="0.6", linestyle=":", label="uniform")
    axis.set(xlabel="expected quantile", ylabel="p", title="p of true nulls")
    axis.legend(frameon=False)


def _strength(axis: Any, summary: Mapping[str, Any]) -> None:
    for role, rows in summary["by_strength"].items():
        rows = [r for r in rows if r["of"] >= 3]
        x = [(r["low"] + r["high"]) / 2 for r in rows]
        y = [r["rate"] for r in rows]
        spread = [[r["rate"] - r["low_ci"] for r in rows], [r["high_ci"] - r["rate"] for r in rows]]
        axis.errorbar(x, y, yerr=spread, marker="o", capsize=2, color=COLOURS[role], label=role)
    axis.axvline(0.2, color="0.7", linestyle=":")
    axis.set(
        xlabel="planted effect, share of the clean logit difference", ylabel="share labelled right",
        ylim=(-0.03, 1.03), title="Recall by strength",
    )  # fmt: skip
    axis.legend(frameon=False)


def _sets(axis: Any, summary: Mapping[str, Any]) -> None:
    names = list(summary["sets"])
    for role in COLOURS:
        y = [summary["sets"][n]["recall"][role]["rate"] for n in names]
        axis.plot(range(len(names)), [float("nan") if v is None else v for v in y], marker="o",
                  color=COLOURS[role], label=f"recall of {role}")  # fmt: skip
    fpr = [summary["sets"][n]["false_positive_rate"]["rate"] for n in names]
    axis.plot(range(len(names)), [float("nan") if v is None else v for v in fpr], marker="s", color="0.3",
              linestyle="--", label="false positives")  # fmt: skip
    axis.set_xticks(range(len(names)), [f"{n} sets" if n.isdigit() else n for n in names])
    axis.set(ylim=(-0.03, 1.03), title="Matched sets")
    axis.legend(frameon=False, fontsize="small")
