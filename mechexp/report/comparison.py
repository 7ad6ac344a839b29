"""A comparison on the terminal and in Markdown."""

from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd
from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from mechexp.report.grid import Grid
from mechexp.report.numbers import harm_or_help, interval, null_text, p_value, points, ratio, signed
from mechexp.report.rows import ScreenRow
from mechexp.report.table import make_console, result_table

ROWS_SHOWN = 500
Rows = Sequence[Mapping[str, Any]]


def show(
    rows: Rows,
    found: Sequence[Grid],
    notes: Sequence[str],
    published: pd.DataFrame | None,
    console: Console | None = None,
) -> None:
    """Print the joint table, the grid and what it shows, setting by setting."""
    console = console or make_console()
    for grid in found:
        if len(found) > 1:
            console.print(Text(grid.setting, style="bold underline"))
        own = [r for r in rows if r["setting"] == grid.setting]
        console.print(result_table(screen_rows(own[:ROWS_SHOWN])))
        if len(own) > ROWS_SHOWN:
            console.print(Text(f"… and {len(own) - ROWS_SHOWN} more rows: --format csv", style="dim"))
        show_grid(grid, console)
    if published is not None:
        console.print(published_table(published))
    for note in notes:
        console.print(Text(f"note: {note}", style="dim"))


def show_grid(grid: Grid, console: Console) -> None:
    """Print models × tasks by primary cause, and what that shows."""
    console.print(grid_table(grid))
    for sentence in grid.sentences:
        console.print(Text(sentence))
    console.print()


def screen_rows(rows: Rows) -> list[ScreenRow]:
    """Flat rows as the rows of the end-of-run table."""
    return [
        ScreenRow(
            model=r["model"],
            task=r["task"],
            screen=r["screen"],
            heads=r["heads"],
            metrics=r,
            taxonomy=r["taxonomy"],
            taxonomy_top1=r["taxonomy_top1"],
            taxonomy_logit_diff=r["taxonomy_logit_diff"],
            flags=tuple(f for f in r["flags"].split(",") if f),
            reason=r.get("reason", ""),
        )
        for r in rows
    ]


def grid_table(grid: Grid) -> Table:
    """Models × tasks with their primary causes."""
    table = Table(title="primary causes", title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False)
    for name in ("model", *map(str, grid.table.columns)):
        table.add_column(name, overflow="fold")
    for model, row in grid.table.iterrows():
        table.add_row(str(model), *(Text(entry(v)) for v in row))
    return table


def entry(value: Any) -> str:
    """A place of the grid; "" where there is no cell."""
    return "" if pd.isna(value) else str(value)


def published_table(frame: pd.DataFrame) -> Table:
    """Measured beside published: Δ top-1 in percentage points, null mean, and whether they agree."""
    table = Table(
        title="published figures (Xu 2026) and measured, Δ top-1 in pp",
        title_justify="left",
        box=box.SIMPLE_HEAD,
        pad_edge=False,
    )
    for name, justify in _PUBLISHED:
        table.add_column(name, justify=justify, overflow="fold")  # type: ignore[arg-type]
    for row in frame.to_dict("records"):
        table.add_row(*(Text(c) for c in _published_cells({str(k): v for k, v in row.items()})))
    return table


_PUBLISHED = (
    ("task", "left"),
    ("model", "left"),
    ("screen", "left"),
    ("published", "right"),
    ("measured", "right"),
    ("agree", "left"),
    ("null publ.", "right"),
    ("null meas.", "right"),
    ("agree", "left"),
    ("faults", "left"),
)


def _published_cells(row: Mapping[str, Any]) -> list[str]:
    measured = {f"delta_top1_{side}": _known(row[f"delta_top1_{side}"]) for side in ("low", "high")}
    return [
        row["task"],
        row["model"],
        row["screen"],
        points(row["delta_top1_published"]),
        f"{points(row['delta_top1'])} {interval(measured, 'top1', 100, 1)}".strip(),
        row["agree_delta"],
        points(row["null_mean_published"]),
        points(row["null_top1_mean"]),
        row["agree_null"],
        str(row["faults"]),
    ]


def _known(value: Any) -> float | None:
    return None if pd.isna(value) else float(value)


def markdown(rows: Rows, found: Sequence[Grid], notes: Sequence[str], published: pd.DataFrame | None) -> str:
    """The same as Markdown."""
    lines: list[str] = []
    for grid in found:
        lines += [f"## {grid.setting}", ""]
        table = [[str(model), *map(entry, row)] for model, row in grid.table.iterrows()]
        lines += _md(["model", *map(str, grid.table.columns)], table)
        lines += ["", *grid.sentences, ""]
        head = [
            "task",
            "model",
            "screen",
            "heads",
            "Δ top-1 (pp)",
            "Δ logit diff",
            "interval",
            "null mean ± sd",
            "p",
            "ratio",
            "label",
            "flags",
        ]
        lines += [*_md(head, [_md_cells(r) for r in rows if r["setting"] == grid.setting]), ""]
    if published is not None:
        records = [{str(k): v for k, v in r.items()} for r in published.to_dict("records")]
        lines += ["## Published", "", *_md([n for n, _ in _PUBLISHED], map(_published_cells, records)), ""]
    return "\n".join([*lines, *(f"- {note}" for note in notes)]).strip()


def _md_cells(r: Mapping[str, Any]) -> list[str]:
    return [
        r["task"],
        r["model"],
        r["screen"],
        r["heads"].replace(",", " "),
        points(r.get("delta_top1")),
        signed(r.get("delta_logit_diff")),
        interval(r, "logit_diff"),
        null_text(r, "logit_diff"),
        p_value(harm_or_help(r, "logit_diff")),
        ratio(r.get("specificity_logit_diff")),
        r["taxonomy"],
        r["flags"],
    ]


def _md(head: Sequence[str], rows: Any) -> list[str]:
    clean = ([" ".join(cell.split()).replace("|", "\\|") for cell in row] for row in rows)
    return [
        "| " + " | ".join(head) + " |",
        "|---" * len(head) + "|",
        *("| " + " | ".join(row) + " |" for row in clean),
    ]
