from pathlib import Path
from typing import Any

import matplotlib.image
import numpy as np
import pytest
from factories import HELPS, NONE, STRONG, WEAK, make_cell
from hypothesis import given
from hypothesis import strategies as st

from mechexp.report import plots
from mechexp.report.histogram import edges
from mechexp.tracking.results import CellFiles

FOUR = {"prev_token": STRONG, "induction": NONE, "name_mover": WEAK, "bos": HELPS}


@pytest.fixture(scope="module")
def cell(tmp_path_factory: pytest.TempPathFactory) -> CellFiles:
    return make_cell(tmp_path_factory.mktemp("cell"), "pythia", "ioi", FOUR, sets=99)


def test_every_plot_is_a_readable_image_with_its_screens_name(cell: CellFiles) -> None:
    paths = plots.save_plots(cell)
    wanted = {"heads", "effects", *(f"{kind}__{s}" for s in FOUR for kind in ("null", "singles"))}
    assert {p.stem for p in paths} == wanted
    for path in paths:
        image = matplotlib.image.imread(path)
        assert image.shape[0] > 200 and image.shape[1] > 400
        assert image.std() > 0.01, f"{path.name} is blank"


def test_the_same_result_gives_the_same_bytes(cell: CellFiles) -> None:
    assert plots.png(plots.effects(cell)) == plots.png(plots.effects(cell))


def test_the_circuit_is_marked_where_its_effect_is(cell: CellFiles) -> None:
    left, right = plots.null_distribution(cell, "prev_token").axes[:2]
    metrics = cell.screens["prev_token"]["metrics"]
    for axes, metric, scale in ((left, "logit_diff", 1), (right, "top1", 100)):
        (circuit,) = [line for line in axes.lines if line.get_label() == "circuit"]
        assert circuit.get_xdata()[0] == pytest.approx(metrics[f"delta_{metric}"] * scale)
        bars = axes.containers[0]
        assert sum(bar.get_height() for bar in bars) == metrics["null_sets"]
        edges = [bar.get_x() for bar in bars] + [bars[-1].get_x() + bars[-1].get_width()]
        low, high = (metrics[f"null_{metric}_{end}"] * scale for end in ("min", "max"))
        assert low - bars[0].get_width() <= min(edges) <= low
        assert high <= max(edges) <= high + bars[0].get_width()


def test_effects_stand_at_their_value_with_their_interval(cell: CellFiles) -> None:
    left, right = plots.effects(cell).axes[:2]
    for axes, metric, scale in ((left, "logit_diff", 1), (right, "top1", 100)):
        points = [c for c in axes.containers if c.lines[0].get_marker() == "o"]
        shown = [float(c.lines[0].get_xdata()[0]) for c in points]
        rows = [s["metrics"] for s in cell.screens.values()]
        assert shown == pytest.approx([m[f"delta_{metric}"] * scale for m in rows])
        for container, m in zip(points, rows, strict=True):
            (segment,) = container.lines[2][0].get_segments()
            ends = [m[f"delta_{metric}_low"] * scale, m[f"delta_{metric}_high"] * scale]
            assert segment[:, 0] == pytest.approx(ends)


def test_the_head_map_has_each_head_at_its_place(cell: CellFiles) -> None:
    _, right = plots.head_map(cell).axes[:2]
    image = np.ma.filled(right.images[0].get_array().astype(float), np.nan)
    assert image.shape == (12, 8)
    frame = cell.heads.set_index(["layer", "head"])["single_delta_logit_diff"]
    for (layer, head), value in frame.items():
        np.testing.assert_allclose(image[layer, head], value)
    framed = {(round(p.get_y() + 0.5), round(p.get_x() + 0.5)) for p in right.patches}
    assert framed == {(layer, head) for s in cell.screens.values() for layer, head in s["heads"]}


def test_singles_are_sorted_and_stand_beside_the_group(cell: CellFiles) -> None:
    axes = plots.singles(cell, "prev_token").axes[0]
    bars = [bar for c in axes.containers for bar in c]
    frame = plots.single_values(cell, "prev_token").sort_values("logit_diff")
    assert [bar.get_height() for bar in bars[:-2]] == list(frame["logit_diff"])
    ends = [bar.get_y() + bar.get_height() for bar in bars[:-2]]
    assert ends == pytest.approx(list(frame["logit_diff"].cumsum()))  # each starts where the last ended
    assert bars[-2].get_height() == pytest.approx(frame["logit_diff"].sum())
    assert bars[-1].get_height() == STRONG.logit_diff
    assert [t.get_text() for t in axes.get_xticklabels()][:-2] == list(frame["heads"])


@pytest.mark.parametrize(
    "kwargs",
    [
        {"competent": False},
        {"effects": {}},
        {"sets": 0, "effects": {"prev_token": STRONG}},
        {"sets": 1, "effects": {"prev_token": STRONG}},
        {"layers": 1, "heads": 1, "effects": {"prev_token": NONE}},
        {"layers": 40, "heads": 40, "effects": {"prev_token": NONE}},
    ],
    ids=["not_evaluated", "no_screens", "no_null", "one_set", "one_head", "large"],
)
def test_cells_of_every_kind_can_be_drawn(tmp_path: Path, kwargs: dict[str, Any]) -> None:
    files = make_cell(tmp_path, **kwargs)
    names = {p.stem for p in plots.save_plots(files)}
    assert "heads" in names
    assert ("effects" in names) == (files.result["status"] == "complete" and bool(files.screens))


def test_other_kinds_of_ablation_are_not_mixed_into_the_null(cell: CellFiles) -> None:
    rows = cell.conditions[cell.conditions["role"] == "null"].assign(kind="zero")
    import pandas as pd

    mixed = CellFiles(**{**cell.__dict__, "conditions": pd.concat([cell.conditions, rows])})
    assert len(plots.null_values(mixed, "prev_token")) == 99


def test_the_text_of_a_plot_lies_inside_it(cell: CellFiles) -> None:
    for name, figure in plots.figures(cell):
        figure.draw_without_rendering()
        width, height = figure.get_size_inches() * figure.dpi
        for text in [
            *figure.texts,
            *(t for a in figure.axes for t in (a.title, a.xaxis.label, a.yaxis.label)),
        ]:
            if not text.get_text():
                continue
            box = text.get_window_extent()
            assert box.x0 > -1 and box.y0 > -1 and box.x1 < width + 1 and box.y1 < height + 1, (
                name,
                text.get_text(),
            )


@given(
    st.lists(st.floats(-5, 5), min_size=1, max_size=40),
    st.lists(st.floats(-50, 50), min_size=1, max_size=2),
)
def test_bars_hold_every_value_and_stay_visible(values: list[float], marks: list[float]) -> None:
    found = np.asarray(edges(np.array(values), marks, least=0.01))
    assert found[0] <= min(values) + 1e-9 and max(values) - 1e-9 <= found[-1]
    assert np.histogram(values, found)[0].sum() >= len(values) - 2  # the outermost may lie on an edge
    whole = max(*values, *marks) - min(*values, *marks)
    assert np.diff(found).min() >= max(whole / 60, 0.01) * (1 - 1e-6)


def test_rounding_is_not_drawn_as_an_effect() -> None:
    from mechexp.report.waterfall import waterfall

    figure = waterfall(plots._figure(5, 3), ["L0H0"], [1e-6], group=-2e-6, clean=5.0, screen="induction")
    low, high = figure.axes[0].get_ylim()
    assert high - low >= 0.25
