"""Plots of one cell, from its result files: head map, null distributions, effects, single heads.

Colours are Okabe and Ito's and matplotlib's ``PuOr``: told apart by people with any colour vision, and in
grey by lightness. Figures are built without pyplot, so that no global state or window system is touched.
"""

import io
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from mechexp.report.head_count import head_count_plot
from mechexp.report.histogram import edges
from mechexp.report.numbers import known, p_value, points, signed
from mechexp.report.waterfall import waterfall
from mechexp.tracking.files import write_whole
from mechexp.tracking.results import CellFiles

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

BLACK, GREY, PALE = "#222222", "#7f7f7f", "#e4e4e4"
CLASS_COLOURS = {
    "prev_token": "#0072B2", "induction": "#E69F00", "duplicate_token": "#009E73", "bos": "#CC79A7",
    "self": "#F0E442", "local": "#56B4E9",
}  # fmt: skip
LABEL_COLOURS = {
    "primary": "#D55E00", "secondary": "#E69F00", "interferer": "#CC79A7", "correlate": "#56B4E9",
    "null": GREY,
}  # fmt: skip
METRICS = {"logit_diff": ("logit difference", 1.0), "top1": ("top-1 (percentage points)", 100.0)}
DPI = 130


def save_plots(files: CellFiles) -> list[Path]:
    """Draw and write every plot of a cell into ``plots/``.

    Args:
        files: The cell; only its frames and ``result`` are read.

    Returns:
        The files written, cell-wide ones first; those of one screen end in ``__<screen>.png``.
    """
    paths = []
    for name, figure in figures(files):
        path = files.folder / "plots" / f"{name}.png"
        buffer = png(figure)
        write_whole(path, lambda aside, buffer=buffer: aside.write_bytes(buffer))  # type: ignore[misc]
        paths.append(path)
    return paths


def png(figure: "Figure") -> bytes:
    """A figure as PNG, without a date, so that the same result gives the same bytes."""
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=DPI, metadata={"Software": None})
    return buffer.getvalue()


def figures(files: CellFiles) -> Iterator[tuple[str, "Figure"]]:
    """All plots that this cell has the data for, by file name."""
    yield "heads", head_map(files)
    if any(known(row["metrics"].get("delta_logit_diff")) for row in files.screens.values()):
        yield "effects", effects(files)
    for screen in files.screens:
        null = null_values(files, screen)
        if len(null):
            yield f"null__{screen}", null_distribution(files, screen)
        if len(single_values(files, screen)):
            yield f"singles__{screen}", singles(files, screen)
        if curves := (files.screens[screen].get("diagnostics") or {}).get("head_counts"):
            title = f"{files.result['model']['name']} · {files.result['task']['name']} · {screen}"
            yield f"head_count__{screen}", head_count_plot(_figure(9.0, 3.3), curves, title)


def _figure(width: float, height: float) -> "Figure":
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(figure)
    return figure


def _bare(axes: "Axes") -> None:
    axes.spines[["top", "right"]].set_visible(False)
    axes.tick_params(labelsize=9)


def grid(frame: pd.DataFrame, column: str, n_layers: int, n_heads: int) -> np.ndarray:
    """One column of ``heads.parquet`` as an array (layers, heads); NaN where there is no row."""
    values = np.full((n_layers, n_heads), np.nan)
    if column in frame:
        values[frame["layer"], frame["head"]] = pd.to_numeric(frame[column], errors="coerce")
    return values


def head_map(files: CellFiles) -> "Figure":
    """Layer × head: best attention class on the left, effect of removing the head alone on the right."""
    from matplotlib.colors import ListedColormap
    from matplotlib.patches import Patch

    model = files.result["model"]
    n_layers, n_heads = model["n_layers"], model["n_heads"]
    panel = min(max(2.4, 0.3 * n_heads + 0.6), 9.0)
    figure = _figure(2 * panel + 3.2, min(max(2.8, 0.24 * n_layers + 1.3), 11.0))
    left, right = figure.subplots(1, 2, sharey=True)
    classes = list(CLASS_COLOURS)
    codes = np.full((n_layers, n_heads), -1.0)
    if "best_class" in files.heads:
        index = files.heads["best_class"].map({c: i for i, c in enumerate(classes)}).fillna(-1)
        codes[files.heads["layer"], files.heads["head"]] = index
    colours = ListedColormap([PALE, *CLASS_COLOURS.values()])
    left.imshow(codes, cmap=colours, vmin=-1.5, vmax=len(classes) - 0.5, aspect="auto", origin="lower")
    seen = [(c, CLASS_COLOURS[c]) for i, c in enumerate(classes) if (codes == i).any()]
    handles = [Patch(facecolor=colour, label=c) for c, colour in [*seen, ("no class", PALE)]]
    handles.append(Patch(facecolor="none", edgecolor=BLACK, linewidth=1.6, label="picked"))
    left.legend(handles=handles, loc="upper right", bbox_to_anchor=(-0.2, 1.02), frameon=False, fontsize=8)
    left.set_title("attention class", fontsize=10)
    _single_panel(figure, right, files, n_layers, n_heads)
    for axes in (left, right):
        _outline(axes, files)
        axes.set_xlabel("head", fontsize=9)
        axes.tick_params(labelsize=8)
        axes.xaxis.get_major_locator().set_params(integer=True)
        axes.yaxis.get_major_locator().set_params(integer=True)
    left.set_ylabel("layer", fontsize=9)
    figure.suptitle(f"{model['name']} · {files.result['task']['name']}: heads", fontsize=11)
    return figure


def _single_panel(figure: "Figure", axes: "Axes", files: CellFiles, n_layers: int, n_heads: int) -> None:
    effect = grid(files.heads, "single_delta_logit_diff", n_layers, n_heads)
    limit = float(np.nanmax(np.abs(effect))) if np.isfinite(effect).any() else 1.0
    axes.set_facecolor(PALE)
    axes.patch.set(hatch="////", edgecolor="#bdbdbd", linewidth=0.0)  # not to be taken for an effect of 0
    image = axes.imshow(
        effect, cmap="PuOr", vmin=-(limit or 1), vmax=limit or 1, aspect="auto", origin="lower"
    )
    bar = figure.colorbar(image, ax=axes, shrink=0.9)
    bar.set_label("Δ logit difference, head removed alone", fontsize=8)
    bar.ax.tick_params(labelsize=8)
    missing = "" if np.isfinite(effect).all() else " (hatched: not measured)"
    axes.set_title(f"single-head effect{missing}", fontsize=10)


def _outline(axes: "Axes", files: CellFiles) -> None:
    from matplotlib.patches import Rectangle

    picked = {(layer, head) for row in files.screens.values() for layer, head in row["heads"]}
    for layer, head in sorted(picked):
        axes.add_patch(
            Rectangle((head - 0.5, layer - 0.5), 1, 1, fill=False, edgecolor=BLACK, linewidth=1.6, zorder=3)
        )


def null_values(files: CellFiles, screen: str) -> pd.DataFrame:
    """Δ of every null set of a screen: columns ``top1, logit_diff``, under the cell's own ablation kind."""
    return _deltas(files, screen, "null")


def single_values(files: CellFiles, screen: str) -> pd.DataFrame:
    """Δ of each picked head removed alone: columns ``heads, top1, logit_diff``."""
    return _deltas(files, screen, "single")


def _deltas(files: CellFiles, screen: str, role: str) -> pd.DataFrame:
    frame = files.conditions
    choice = files.result["ablation"]
    kind = choice if isinstance(choice, str) else choice.get("name")
    rows = frame[(frame["screen"] == screen) & (frame["role"] == role) & (frame["kind"] == kind)]
    clean = files.result["clean"]
    deltas = {m: rows[m] - clean[m] for m in METRICS if known(clean.get(m))}
    return pd.DataFrame({"heads": rows["heads"], **deltas}).dropna()


def null_distribution(files: CellFiles, screen: str) -> "Figure":
    """Histogram of the matched-random Δ with the circuit's Δ marked, for both metrics."""
    figure = _figure(9.0, 3.3)
    null, row = null_values(files, screen), files.screens[screen]
    for axes, metric in zip(figure.subplots(1, 2), METRICS, strict=True):
        title, scale = METRICS[metric]
        m, delta = row["metrics"], row["metrics"].get(f"delta_{metric}")
        values = null[metric].to_numpy() * scale if metric in null else np.array([])
        bins = edges(values, [0.0, delta * scale if known(delta) else 0.0], least=0.01 * scale)
        axes.hist(
            values,
            bins=bins,
            color=GREY,
            edgecolor="white",
            linewidth=0.5,
            label=f"{len(values)} matched sets",
        )
        if known(delta):
            axes.axvline(delta * scale, color="#D55E00", linewidth=2.2, label="circuit")
            low, high = m.get(f"delta_{metric}_low"), m.get(f"delta_{metric}_high")
            if known(low) and known(high):
                axes.axvspan(low * scale, high * scale, color="#D55E00", alpha=0.18, linewidth=0)
        axes.axvline(0.0, color=BLACK, linewidth=0.8, linestyle=":", label="clean")
        p = f"p harm {p_value(m.get(f'p_harm_{metric}'))} · p help {p_value(m.get(f'p_help_{metric}'))}"
        axes.set_title(p, fontsize=9)
        axes.set_xlabel(f"Δ {title}", fontsize=9)
        axes.set_ylabel("sets", fontsize=9)
        axes.yaxis.get_major_locator().set_params(integer=True)
        _bare(axes)
    handles, labels = figure.axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=3, fontsize=8, frameon=False)
    model, task = files.result["model"]["name"], files.result["task"]["name"]
    figure.suptitle(f"{model} · {task} · {screen}: {row['taxonomy']}", fontsize=11)
    return figure


def effects(files: CellFiles) -> "Figure":
    """Δ of every screen with its interval, the null's mean ± sd beside it, coloured by label."""
    screens = files.screens
    figure = _figure(10.0, 1.4 + 0.52 * len(screens))
    panels = figure.subplots(1, 2, sharey=True)
    for axes, metric in zip(panels, METRICS, strict=True):
        title, scale = METRICS[metric]
        for y, row in enumerate(screens.values()):
            _effect(axes, y, row, metric, scale)
        axes.axvline(0.0, color=BLACK, linewidth=0.8)
        axes.margins(x=0.16)
        axes.set_ylim(len(screens) - 0.5, -0.5)
        axes.set_yticks(
            range(len(screens)), [f"{n}\n{r['taxonomy']}" for n, r in screens.items()], fontsize=9
        )
        axes.set_xlabel(f"Δ {title}", fontsize=9)
        axes.grid(axis="x", color=PALE, linewidth=0.8)
        axes.set_axisbelow(True)
        _bare(axes)
    _effect_legend(figure)
    figure.suptitle(
        f"{files.result['model']['name']} · {files.result['task']['name']}: effects of ablation", fontsize=11
    )
    return figure


def _effect(axes: "Axes", y: int, row: dict[str, Any], metric: str, scale: float) -> None:
    m = row["metrics"]
    mean, sd, delta = m.get(f"null_{metric}_mean"), m.get(f"null_{metric}_std"), m.get(f"delta_{metric}")
    if known(mean):
        error = sd * scale if known(sd) else 0.0
        axes.errorbar(
            mean * scale, y + 0.18, xerr=error, fmt="|", color=GREY, elinewidth=6, alpha=0.55, markersize=9
        )
    if not known(delta):
        return
    colour = LABEL_COLOURS.get(row[f"taxonomy_{metric}"], BLACK)
    low, high = m.get(f"delta_{metric}_low"), m.get(f"delta_{metric}_high")
    error = None
    if known(low) and known(high):
        error = np.maximum([[(delta - low) * scale], [(high - delta) * scale]], 0.0)
    axes.errorbar(
        delta * scale, y - 0.1, xerr=error, fmt="o", color=colour, markersize=7, capsize=3, linewidth=1.6
    )
    text = points(delta) if metric == "top1" else signed(delta)
    axes.annotate(
        text, (delta * scale, y - 0.1), xytext=(0, 7), textcoords="offset points", ha="center", fontsize=8
    )


def _effect_legend(figure: "Figure") -> None:
    from matplotlib.lines import Line2D

    handles = [
        Line2D([], [], marker="o", color=c, linestyle="none", label=name) for name, c in LABEL_COLOURS.items()
    ]
    handles.append(Line2D([], [], marker="o", color=BLACK, linestyle="none", label="other"))
    handles.append(Line2D([], [], color=GREY, linewidth=6, alpha=0.55, label="null mean ± sd"))
    figure.legend(handles=handles, loc="outside lower center", ncols=7, fontsize=8, frameon=False)


def singles(files: CellFiles, screen: str) -> "Figure":
    """Waterfall of single-head effects of a screen, strongest supporter first, with the group's beside it."""
    frame = single_values(files, screen)
    return waterfall(
        _figure(min(max(5.6, 0.42 * len(frame) + 2.8), 14.0), 3.4),
        list(frame["heads"]),
        list(frame["logit_diff"]),
        group=files.screens[screen]["metrics"].get("delta_logit_diff"),
        clean=files.result["clean"].get("logit_diff"),
        screen=screen,
    )
