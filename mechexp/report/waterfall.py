"""Waterfall of a screen's heads removed one at a time: do they add up to what the group does?"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from mechexp.report.numbers import known, plain_number, signed

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SUPPORTS, INTERFERES, GROUP, SUM = "#E69F00", "#56B4E9", "#222222", "#9a9a9a"
LEAST_SHARE = (
    0.05  # the axis shows at least this share of clean, so that rounding does not look like an effect
)


def waterfall(
    figure: "Figure",
    heads: Sequence[str],
    deltas: Sequence[float],
    *,
    group: float | None,
    clean: float | None,
    screen: str,
) -> "Figure":
    """Draw each head's Δ of the logit difference from where the last one ended, then their sum and the group.

    Args:
        figure: An empty figure.
        heads: Names, e.g. ``L1H3``.
        deltas: Δ of each head removed alone.
        group: Δ of all removed together; None where unknown.
        clean: The clean logit difference.
        screen: Name of the screen.
    """
    order = np.argsort(deltas)
    values = np.asarray(deltas, dtype=float)[order]
    axes, n, total = figure.subplots(), len(values), float(values.sum())
    starts = np.concatenate([[0.0], np.cumsum(values)[:-1]])
    colours = [SUPPORTS if v < 0 else INTERFERES for v in values]
    axes.bar(range(n), values, bottom=starts, color=colours, edgecolor=GROUP, linewidth=0.5)
    for i, end in enumerate(starts + values):
        axes.plot([i - 0.4, i + 1.4], [end, end], color=GROUP, linewidth=0.6, linestyle=":")
    axes.bar(n, total, color=SUM)
    ticks, places = [str(heads[i]) for i in order] + ["sum"], list(range(n + 1))
    if group is not None and known(group):
        axes.bar(n + 1, group, color=GROUP)
        ticks, places = [*ticks, "removed\ntogether"], [*places, n + 1]
    axes.set_xticks(places, ticks, fontsize=8, rotation=90 if n > 8 else 0)
    axes.axhline(0.0, color=GROUP, linewidth=0.8)
    least = LEAST_SHARE * abs(clean) if clean is not None and known(clean) else 0.0
    low, high = axes.get_ylim()
    axes.set_ylim(min(low, -least) if total <= 0 else low, max(high, least) if total > 0 else high)
    axes.set_ylabel("Δ logit difference", fontsize=9)
    axes.set_title(
        f"sum of singles {signed(total)}, group {signed(group)}, clean {plain_number(clean)}", fontsize=9
    )
    figure.suptitle(f"{screen}: one head at a time (< 0 supports, > 0 interferes)", fontsize=10)
    axes.spines[["top", "right"]].set_visible(False)
    axes.tick_params(labelsize=9)
    return figure
