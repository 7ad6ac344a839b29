"""The table and the plots of a benchmark."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from benchmarks.run import Row

TITLES = {"single": "single-head sweep", "nulls": "5 screens × matched sets", "nested": "nested head sets",
          "end": "end-position patching"}  # fmt: skip


def _peers(rows: Sequence[Row]) -> list[str]:
    return list(dict.fromkeys(name for row in rows for name in row.ratios))


def markdown(rows: Sequence[Row], machine: str, clock: str) -> str:
    """The table, with what it was taken on and what did not run."""
    peers = _peers(rows)
    head = ["model", "workload", "conditions × prompts", "seconds", "share of matmul peak",
            "FLOPs saved (end / all logits)", *(f"faster than {p}" for p in peers)]  # fmt: skip
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    for row in rows:
        cells = [
            row.model,
            TITLES.get(row.workload, row.workload),
            f"{row.conditions} × {row.prompts}",
            f"{row.seconds:.1f}",
            f"{row.share_of_peak:.0%}",
            f"{row.flops_ratio_end:.1f}× / {row.flops_ratio_all:.1f}×",
            *(f"{row.ratios[p]:.1f}×" if p in row.ratios else "–" for p in peers),
        ]
        lines.append("| " + " | ".join(cells) + " |")
    gap = max((gap for row in rows for gap in row.errors.values()), default=0.0)
    notes = sorted({f"{name}: {why}" for row in rows for name, why in row.missing.items()})
    taken = f"{machine}; {clock} time; prompts of {rows[0].length} tokens."
    lines += ["", f"{taken} Results were compared first: logits differ by at most {gap:.1g}."]
    lines += [f"Not run where marked –: {note}." for note in notes]
    return "\n".join(lines) + "\n"


def plot_ratios(rows: Sequence[Row], path: Path) -> None:
    """How many times faster than each peer, beside what counted FLOPs allow; and the share of matmul peak."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    peers = _peers(rows)
    figure, (left, right) = plt.subplots(1, 2, figsize=(12, 1.2 + 0.7 * len(rows)), width_ratios=(3, 1))
    names = [f"{row.model}\n{TITLES.get(row.workload, row.workload)}" for row in rows]
    height = 0.8 / max(1, len(peers))
    for k, peer in enumerate(peers):
        at = [i + (k - (len(peers) - 1) / 2) * height for i, row in enumerate(rows) if peer in row.ratios]
        left.barh(at, [row.ratios[peer] for row in rows if peer in row.ratios], height, label=peer)
    for i, row in enumerate(rows):
        style = {"color": "black", "lw": 1.5, "ls": ":"}
        left.plot([row.flops_ratio_end] * 2, [i - 0.4, i + 0.4], **style,
                  label="bound: needed FLOPs against end logits" if i == 0 else None)  # fmt: skip
    left.set(xscale="log", xlabel="times faster", yticks=range(len(rows)), yticklabels=names)
    left.axvline(1, color="grey", lw=0.8)
    left.invert_yaxis()
    left.legend(fontsize=7)
    right.barh(range(len(rows)), [100 * row.share_of_peak for row in rows], 0.6, color="grey")
    right.axvline(70, color="black", lw=1, ls="--")
    right.set(xlabel="% of matmul peak on needed FLOPs", yticks=[], xlim=(0, 100))
    right.invert_yaxis()
    figure.tight_layout()
    figure.savefig(path, dpi=150)
    plt.close(figure)


def plot_growth(curves: dict[str, dict[str, list[tuple[float, float]]]], path: Path) -> None:
    """Cost against conditions, prompts, and layers above the change."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    labels = {"conditions": "conditions", "prompts": "prompts", "layers": "layers from the change upwards"}
    figure, axes = plt.subplots(1, 3, figsize=(12, 3.5))
    for axis, (kind, label) in zip(axes, labels.items(), strict=True):
        for model, curve in curves.items():
            xs, ys = zip(*sorted(curve[kind]), strict=True)
            axis.plot(xs, ys, "o-", label=model)
        axis.set(xlabel=label, ylabel="seconds a condition" if kind == "layers" else "seconds")
        axis.set_ylim(bottom=0)
        axis.set_xlim(left=0)
    axes[0].legend()
    figure.tight_layout()
    figure.savefig(path, dpi=150)
    plt.close(figure)
