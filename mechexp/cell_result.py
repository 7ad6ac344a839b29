"""What ``mechexp.run_cell`` gives back: findings to look at in a notebook, and to save as a job would."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import pandas as pd

from mechexp.describe import prompt_rows
from mechexp.errors import UserError
from mechexp.schema import Config
from mechexp.screens.circuit import Circuit
from mechexp.tasks.prompts import PromptSet
from mechexp.tracking.results import write_cell

TABLE = ("taxonomy", "flags", "n_heads")
TABLE_METRICS = (
    "delta_logit_diff", "delta_logit_diff_low", "delta_logit_diff_high", "null_logit_diff_mean",
    "null_logit_diff_std", "p_harm_logit_diff", "p_help_logit_diff", "z_logit_diff", "specificity_logit_diff",
    "delta_top1",
)  # fmt: skip


@dataclass(frozen=True)
class CellResult:
    """What ``run_cell`` found.

    Attributes:
        result: The content of ``result.json``: verdicts with their rules, metrics, notes.
        heads: One row a head: scores, class, single-head effects.
        conditions: One row a condition: heads removed, what for, metrics.
        circuits: The picked circuits.
        prompts: The prompts, with halves and token positions.
        config: The configuration that was run.
        patterns: Attention patterns of some picked heads on a few prompts (docs/files.md).
    """

    result: Mapping[str, Any]
    heads: pd.DataFrame = field(repr=False)
    conditions: pd.DataFrame = field(repr=False)
    circuits: tuple[Circuit, ...] = field(repr=False)
    prompts: PromptSet = field(repr=False)
    config: Config = field(repr=False)
    patterns: Mapping[str, Any] | None = field(default=None, repr=False)

    @property
    def table(self) -> pd.DataFrame:
        """One row a screen: label, flags, and the numbers behind them (fractions, not percent)."""
        rows = {
            name: {key: row[key] for key in TABLE} | {m: row["metrics"].get(m) for m in TABLE_METRICS}
            for name, row in self.result["screens"].items()
        }
        frame = pd.DataFrame.from_dict(rows, orient="index", columns=[*TABLE, *TABLE_METRICS])
        return frame.rename_axis("screen")

    def circuit(self, screen: str) -> Circuit:
        """The circuit of one screen.

        Raises:
            UserError: There was no such screen.
        """
        found = {c.screen: c for c in self.circuits}
        if screen not in found:
            raise UserError(f"no screen {screen!r} in this cell", expected=f"one of {', '.join(found)}")
        return found[screen]

    def save(self, folder: str | Path) -> Path:
        """Write the files of a job: ``result.json``, tables, prompts, circuits, plots, ``report.html``.

        ``python -m mechexp.sync FOLDER`` sends them to MLflow.

        Returns:
            The report.
        """
        from mechexp.report.html import render_cell

        write_cell(
            Path(folder),
            self.result,
            heads=self.heads,
            conditions=self.conditions,
            prompts=prompt_rows(self.prompts),
            config=asdict(self.config),
            circuits=self.circuits,
            patterns=self.patterns,
            before_commit=render_cell,
        )
        return Path(folder) / "report.html"

    def _repr_html_(self) -> str:
        """How a notebook shows it: the table, and why nothing was evaluated where that is so."""
        import html

        reason = html.escape(str(self.result.get("reason") or ""))
        return f"{f'<p>{reason}</p>' if reason else ''}{self.table.to_html(float_format='{:.3g}'.format)}"
