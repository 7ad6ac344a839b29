"""The table that a calibration prints."""

from collections.abc import Mapping
from typing import Any

from rich.console import Console
from rich.table import Table

from mechexp.findings.labels import LABELS


def show(summary: Mapping[str, Any], console: Console) -> None:
    """Print confusion, rates and intervals."""
    console.print(_confusion(summary))
    console.print(_rates(summary))


def _confusion(summary: Mapping[str, Any]) -> Table:
    title = f"{summary['models']} planted models, {summary['screens']} circuits: role by label"
    table = Table(title=title, title_justify="left")
    used = [k for k in LABELS if any(row[k] for row in summary["confusion"].values())]
    table.add_column("planted role")
    for label in used:
        table.add_column(label, justify="right")
    for role, row in summary["confusion"].items():
        table.add_row(role, *(str(row[k] or "·") for k in used))
    return table


def _rates(summary: Mapping[str, Any]) -> Table:
    table = Table(title="Rates with 95 % intervals", title_justify="left")
    for name in ("what", "rate", "interval", "of"):
        table.add_column(name, justify="left" if name == "what" else "right")
    for label, found in summary["recall_clear"].items():
        _add(table, f"recall of {label}, clear strength", found)
    for label, found in summary["precision"].items():
        _add(table, f"precision of {label}", found)
    for name, found in summary["false_positives"].items():
        _add(table, f"true nulls called {name.replace('any', 'anything causal').replace('_', ': ')}", found)
    for metric, found in summary["coverage"].items():
        _add(table, f"95 % interval of Δ covers, {metric}", found)
    for direction, found in summary["p"].items():
        _add(
            table,
            f"true nulls with p_{direction} ≤ .05 (KS p = {found['ks_p']:.2g})",
            found["at_or_under_05"],
        )
    return table


def _add(table: Table, name: str, found: Mapping[str, Any]) -> None:
    if found["of"]:
        interval = f"{found['low']:.1%} – {found['high']:.1%}"
        table.add_row(name, f"{found['rate']:.1%}", interval, str(found["of"]))
