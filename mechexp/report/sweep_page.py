"""``report.html`` of a sweep: models × tasks by primary cause, all screens, failures; linked to its cells."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from mechexp.findings.labels import FLAGS, LABELS
from mechexp.findings.published import compare_with_published
from mechexp.report.grid import Grid, grids
from mechexp.report.html import environment
from mechexp.report.rows import rows_of
from mechexp.tracking.files import write_text
from mechexp.tracking.joint import Joint, JointCell, joint_rows, metric_names
from mechexp.tracking.results import REPORT

PUBLISHED_MODELS = ("pythia", "olmo", "olmoe")
SHARED = ("control", "ablation", "seed", "k")


def render_sweep(joint: Joint) -> Path:
    """Write a sweep's ``report.html``; the hook for ``close_sweep(render=…)``.

    Args:
        joint: The sweep's cells with their joint labels, and its failures.
    """
    path = joint.folder / REPORT
    write_text(path, sweep_page(joint))
    return path


def sweep_page(joint: Joint) -> str:
    """The page of a sweep as text."""
    flat = flat_rows(joint)
    page: str = (
        environment()
        .get_template("sweep.html")
        .render(
            name=joint.folder.name,
            n_cells=len(joint.cells),
            failures=[{"job": f.folder.name, "error": f.error} for f in joint.failures],
            grids=[_grid(grid, flat) for grid in grids(flat)] if flat else [],
            rows=[(row, _link(joint, cell)) for cell in joint.cells for row in rows_of(cell.result)],
            published=published_rows(flat),
            labels=LABELS,
            flags=FLAGS,
        )
    )
    return page


def flat_rows(joint: Joint) -> list[dict[str, Any]]:
    """One flat row a screen of every cell, with the setting that cells must share to be compared."""
    return [row for cell in joint.cells for row in _flat(cell)]


def _flat(cell: JointCell) -> list[dict[str, Any]]:
    """Rows for the grid: the flat rows with a setting, so that only like is set beside like."""
    result = cell.result
    swept = {str(k): str(v) for k, v in (result.get("swept") or {}).items() if k not in ("model", "task")}
    rows = []
    for row in joint_rows([result]):
        shared = {k: str(row.get(k, "")) for k in SHARED} | {"seed": str(result["seed"])}
        setting = {k: v for k, v in {**shared, **swept}.items() if not (k == "k" and v in ("", "0"))}
        text = ", ".join(f"{k}={v}" for k, v in sorted(setting.items()))
        arch, moe = result["model"].get("arch", ""), bool(result["model"].get("moe", False))
        rows.append(
            {**row, "setting": text, "arch": arch, "moe": moe, "link": f"{cell.folder.name}/{REPORT}"}
        )
    return _newest(rows)


def _newest(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return list({(r["model"], r["task"], r["screen"], r["setting"]): r for r in rows}.values())


def _grid(grid: Grid, flat: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """A grid with each primary's effect and interval, and a link to its cell."""
    rows = [r for r in flat if r["setting"] == grid.setting]
    lines = []
    for model, places in grid.table.iterrows():
        entries = [_entry(str(model), str(task), value, rows) for task, value in places.items()]
        lines.append({"model": str(model), "entries": entries})
    return {
        "setting": grid.setting, "tasks": [str(t) for t in grid.table.columns], "lines": lines,
        "sentences": grid.sentences,
    }  # fmt: skip


def _entry(model: str, task: str, value: Any, rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    own = [r for r in rows if (r["model"], r["task"]) == (model, task)]
    return {
        "text": "" if pd.isna(value) else str(value),
        "link": own[0]["link"] if own else "",
        "primary": [r for r in own if r["taxonomy"] == "primary"],
    }


def _link(joint: Joint, cell: JointCell) -> str:
    page = cell.folder / REPORT
    return page.relative_to(joint.folder).as_posix() if page.is_file() else ""


def published_rows(flat: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Published beside measured effects, where a cell was measured as they were (zero ablation)."""
    rows = [r for r in flat if r["ablation"] == "zero" and r["model"] in PUBLISHED_MODELS]
    unique = {(r["model"], r["task"], r["screen"]): r for r in rows}
    if not unique:
        return []
    frame = pd.DataFrame(list(unique.values()), columns=["model", "task", "screen", *metric_names()])
    numbers = {m: pd.to_numeric(frame[m], errors="coerce").astype(float) for m in metric_names()}
    found = compare_with_published(frame.assign(**numbers)).dropna(subset=["delta_top1"])
    records = [{str(k): v for k, v in r.items()} for r in found.to_dict("records")]
    return [{k: None if isinstance(v, float) and pd.isna(v) else v for k, v in r.items()} for r in records]
