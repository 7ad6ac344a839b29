"""One row a screen: the same row for the end-of-run table, the report and ``compare``."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from mechexp.models.heads import Head, format_heads

NOT_EVALUATED = "not_evaluated"


@dataclass(frozen=True)
class ScreenRow:
    """What one screen of one cell came to.

    Attributes:
        model: Model name.
        task: Task name.
        screen: Screen name; "" for a cell without screens.
        heads: Picked heads as ``L1H3,L2H1``.
        metrics: Metrics under the names of ``result.json``; fractions, not percent. Missing or None: unknown.
        taxonomy: Headline label.
        taxonomy_top1: Label by top-1.
        taxonomy_logit_diff: Label by logit difference.
        flags: Flags of the label.
        cell: Everything that tells the cell apart: control, ablation, seed, dtype, swept keys.
        reason: Why it was not evaluated.
    """

    model: str
    task: str
    screen: str
    heads: str = ""
    metrics: Mapping[str, float | None] = field(default_factory=dict)
    taxonomy: str = ""
    taxonomy_top1: str = ""
    taxonomy_logit_diff: str = ""
    flags: tuple[str, ...] = ()
    cell: Mapping[str, str] = field(default_factory=dict)
    reason: str = ""

    @property
    def n_heads(self) -> int:
        """Number of picked heads."""
        return self.heads.count(",") + 1 if self.heads else 0


def rows_of(result: Mapping[str, Any]) -> list[ScreenRow]:
    """The rows of one ``result.json``; a cell without screens gives one row that says why."""
    model, task = result["model"]["name"], result["task"]["name"]
    choice = {
        k: v if isinstance(v, str) else v.get("name", "")
        for k in ("control", "ablation")
        for v in [result[k]]
    }
    cell = {
        **choice,
        "seed": str(result["seed"]),
        **{k: str(v) for k, v in (result.get("swept") or {}).items()},
    }
    reason = str(result.get("reason") or "")
    rows = [
        ScreenRow(
            model=model,
            task=task,
            screen=name,
            heads=format_heads(Head(*h) for h in screen["heads"]),
            metrics=screen["metrics"],
            taxonomy=screen["taxonomy"],
            taxonomy_top1=screen["taxonomy_top1"],
            taxonomy_logit_diff=screen["taxonomy_logit_diff"],
            flags=tuple(screen["flags"]),
            cell=cell,
            reason=reason,
        )
        for name, screen in result["screens"].items()
    ]
    clean = {f"clean_{k}": v for k, v in result["clean"].items()}
    return rows or [
        ScreenRow(model, task, "", metrics=clean, taxonomy=result["status"], cell=cell, reason=reason)
    ]
