"""The table at the end of a run: one row a screen, readable at 100 columns."""

from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from mechexp.report.numbers import (
    harm_or_help,
    interval,
    null_text,
    p_value,
    percent,
    plain_number,
    points,
    ratio,
    signed,
)
from mechexp.report.rows import NOT_EVALUATED, ScreenRow, rows_of

STYLES = {
    "primary": "bold green",
    "secondary": "green",
    "interferer": "bold magenta",
    "correlate": "cyan",
    "null": "dim",
    "indeterminate": "yellow",
    NOT_EVALUATED: "dim italic",
    "empty": "dim italic",
    "failed": "bold red",
}
WIDTH = 100
HEADS_SHOWN = 12


def result_table(rows: Iterable[ScreenRow], title: str = "") -> Table:
    """Lay out rows: task over model, screen over heads, Δ over its interval, label over flags.

    Δtop-1 is in percentage points; null, p and ratio belong to the metric that the headline label comes
    from, the logit difference. p is the one of the side to which Δ points (harm or help).

    Args:
        rows: One a screen.
        title: Line above the table.
    """
    table = Table(
        title=title or None, box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), title_justify="left", pad_edge=False
    )
    table.add_column("task\nmodel", overflow="fold", max_width=13)
    table.add_column("screen\nheads", overflow="fold", min_width=14, max_width=24, ratio=1)
    table.add_column("Δtop-1\n(pp)", justify="right", no_wrap=True)
    table.add_column("Δlogit-diff\n[95 % CI]", justify="right", no_wrap=True)
    table.add_column("null mean\n± sd", justify="right", no_wrap=True)
    table.add_column("p", justify="right", no_wrap=True)
    table.add_column("ratio", justify="right", no_wrap=True)
    table.add_column("label\nflags", overflow="fold", min_width=13, max_width=24, ratio=2)
    for (task, model), group in groupby(rows, key=lambda r: (r.task, r.model)):
        for index, row in enumerate(group):
            table.add_row(Text(f"{task}\n{model}" if index == 0 else ""), *_cells(row))
        table.add_section()
    return table


def _cells(row: ScreenRow) -> list[Text]:
    m = row.metrics
    style = STYLES.get(row.taxonomy, "")
    label = Text(row.taxonomy, style=style)
    if row.taxonomy_top1 not in ("", row.taxonomy):
        label.append(f"\ntop-1: {row.taxonomy_top1}", style="dim")
    if row.flags:
        label.append("\n" + ", ".join(map(_flag, row.flags)), style="dim")
    screen = Text(row.screen or "–", style="bold")
    if row.heads:
        screen.append("\n" + _heads(row.heads), style="dim")
    mean, _, sd = null_text(m, "logit_diff").partition(" ± ")
    return [
        screen,
        Text(points(m.get("delta_top1"))),
        _two(signed(m.get("delta_logit_diff")), interval(m, "logit_diff").replace(", ", " ")),
        _two(mean, f"± {sd}" if sd else ""),
        Text(p_value(harm_or_help(m, "logit_diff"))),
        Text(ratio(m.get("specificity_logit_diff"))),
        label,
    ]


def _flag(name: str) -> str:
    """A flag of the other metric, broken where a narrow column can break it."""
    return f"{name.removesuffix('_top1')} (top-1)" if name.endswith("_top1") else name


def _heads(text: str) -> str:
    heads = text.split(",")
    more = len(heads) - HEADS_SHOWN
    return " ".join(heads[:HEADS_SHOWN]) + (f" … {more} more" if more > 0 else "")


def _two(first: str, second: str) -> Text:
    text = Text(first)
    return text.append(f"\n{second}", style="dim") if second else text


def print_results(results: Sequence[Mapping[str, Any]], console: Console | None = None) -> None:
    """Print the table of one or more ``result.json`` contents, with the reasons of cells not evaluated.

    Args:
        results: Contents of result files, in the order to show.
        console: Where to; by default the terminal, 100 columns wide where there is none.
    """
    console = console or make_console()
    rows = [row for result in results for row in rows_of(result)]
    if rows:
        console.print(result_table(rows))
    for result in results:
        for line in remarks(result):
            console.print(Text(line))


def make_console() -> Console:
    """A console on standard output: the terminal's width, or 100 columns where there is no terminal."""
    console = Console(highlight=False)
    return console if console.is_terminal else Console(highlight=False, width=WIDTH)


def remarks(result: Mapping[str, Any]) -> list[str]:
    """Lines below the table: the clean model, why a cell was not evaluated, notes."""
    clean = result["clean"]
    head = f"{result['task']['name']} · {result['model']['name']}"
    lines = [
        f"{head}: clean model top-1 {percent(clean.get('top1'))}, logit difference "
        f"{plain_number(clean.get('logit_diff'))}, correct {percent(clean.get('frac_correct'))}"
    ]
    if result["status"] == NOT_EVALUATED:
        lines.append(f"  not evaluated: {result.get('reason') or 'the clean model is not competent'}")
    return lines + [f"  note: {note}" for note in result.get("notes") or ()]
