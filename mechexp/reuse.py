"""Cells that need no work: found by their key, put into the new job's folder, or listed (``plan=true``)."""

import logging
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from mechexp.describe import cell_key
from mechexp.models import LoadedModel
from mechexp.report.html import render_cell
from mechexp.schema import Config
from mechexp.tasks.prompts import PromptSet
from mechexp.tracking.known import Known, look_up
from mechexp.tracking.results import CellFiles, write_cell

log = logging.getLogger(__name__)
RUN, SKIP = "run", "skip"


@dataclass(frozen=True)
class Planned:
    """What a job would do.

    Attributes:
        model: The model.
        task: The task.
        varied: What else the sweep varies, as ``key=value``.
        key: The cell's key.
        does: ``run`` or ``skip``.
        why: The reason; for a skip, where the result is.
    """

    model: str
    task: str
    varied: str
    key: str
    does: str
    why: str


def known_cell(cfg: Config, loaded: LoadedModel, prompts: PromptSet) -> Known:
    """The cell's result from an earlier job; with ``resume=false`` none is looked for."""
    if not cfg.resume:
        return Known(None, (), "resume=false")
    return look_up(cfg.tracking.root, cell_key(cfg, loaded, prompts))


def plan_cell(cfg: Config, loaded: LoadedModel, prompts: PromptSet, swept: Mapping[str, str]) -> Planned:
    """Say whether a job would run its cell, and why."""
    known = known_cell(cfg, loaded, prompts)
    varied = ", ".join(f"{k}={v}" for k, v in swept.items() if k not in ("model", "task"))
    does = SKIP if known.files else RUN
    key = cell_key(cfg, loaded, prompts)
    return Planned(cfg.model.name, cfg.task.name, varied, key, does, known.why)


def take(known: Known, folder: Path, config: str, **changed: Any) -> dict[str, Any]:
    """Put a known result into a new job's folder, as if it had been measured there.

    Args:
        known: A result whose files are whole.
        folder: The new job's folder.
        config: The new job's resolved config.
        changed: Fields of ``result.json`` that belong to the new job: its sweep, its command.

    Returns:
        The new ``result.json``; ``reused`` says where it is from.
    """
    old = known.files
    assert old is not None
    result = {
        **old.result,
        **changed,
        "reused": {"folder": str(old.folder), "finished_at": _finished(old)},
        # the run in MLflow is this sweep's own, made now; the seconds are those that measuring took
        "timing": {**old.result["timing"], "finished_at": time.time()},
    }
    result.pop("files", None)
    write_cell(
        folder,
        result,
        heads=old.heads,
        conditions=old.conditions,
        prompts=old.prompts,
        config=config,
        circuits=known.circuits,
        patterns=old.patterns,
        before_commit=render_cell,
    )
    log.info("nothing to measure: the result is known, from %s", old.folder)
    return result


def _finished(files: CellFiles) -> Any:
    """When it was measured, however often it has been taken over since."""
    earlier = files.result.get("reused")
    if isinstance(earlier, Mapping) and "finished_at" in earlier:
        return earlier["finished_at"]
    return files.result["timing"].get("finished_at")


def print_plan(planned: list[Planned], console: Console | None = None) -> None:
    """Print one row a cell and how many would be run; a cell that comes twice is run once."""
    console = console or Console()
    table = Table(title="What would be run; nothing was", title_justify="left", box=SIMPLE_HEAD)
    for name in ("model", "task", "varied", "cell", "does", "why"):
        table.add_column(name, overflow="fold")
    for p in planned:
        table.add_row(p.model, p.task, p.varied, p.key[:8], p.does, p.why)
    console.print(table)
    skipped = sum(p.does == SKIP for p in planned)
    console.print(f"{len(planned) - skipped} to run, {skipped} to skip.", highlight=False)
