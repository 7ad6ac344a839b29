"""The cost of cells as a table on the terminal."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

if TYPE_CHECKING:
    from mechexp.protocols.estimate import Estimate


def print_estimates(estimates: Sequence["Estimate"], console: Console | None = None) -> None:
    """Print one row a cell, and the sum over all of them.

    Args:
        estimates: The cells so far; with several, the last row adds them up.
        console: Where to; the terminal by default.
    """
    console = console or Console()
    table = Table(title="Estimated cost; nothing was run", title_justify="left", box=SIMPLE_HEAD)
    for name in ("model", "task", "control"):
        table.add_column(name)
    for name in ("conditions", "forwards", "PFLOP", "GB", "hours"):
        table.add_column(name, justify="right", no_wrap=True)
    for e in estimates:
        cost = (f"{e.conditions:,}", f"{e.forwards:,.0f}", f"{e.flops / 1e15:,.3g}")
        table.add_row(e.model, e.task, e.control, *cost, f"{e.gigabytes:.1f}", _hours(e.hours))
    if len(estimates) > 1:
        sums = (sum(e.conditions for e in estimates), sum(e.forwards for e in estimates))
        flops = sum(e.flops for e in estimates) / 1e15
        most = max(e.gigabytes for e in estimates)
        table.add_section()
        table.add_row(
            "all", "", "", f"{sums[0]:,}", f"{sums[1]:,.0f}", f"{flops:,.3g}", f"≤ {most:.1f}",
            _hours(sum(e.hours for e in estimates)),
        )  # fmt: skip
    console.print(table)
    console.print("Forwards: the same work in full passes over the test half.", highlight=False)
    console.print(f"Device: {', '.join(dict.fromkeys(e.device for e in estimates))}.", highlight=False)
    for note in dict.fromkeys(note for e in estimates for note in e.notes):
        console.print(f"Note: {note}.", highlight=False)


def _hours(hours: float) -> str:
    return f"{hours:.2f}" if hours >= 0.01 else f"{hours * 3600:.0f} s"
