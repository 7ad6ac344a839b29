"""``report.html`` of a sweep: models × tasks by primary cause, all screens, failures; linked to its cells."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from mechexp.findings.labels import FLAGS, LABELS
from mechexp.findings.published import compare_with_published
from mechexp.report.grid import Grid, grids
from mechexp.report.html import environment
from mechexp.report.rows import ScreenRow, rows_of
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
    same, told = tell_apart([setting_of(cell.result) for cell in joint.cells])
    rows = [
        (row, _link(joint, cell), setting)
        for cell, setting in zip(joint.cells, told, strict=True)
        for row in rows_of(cell.result)
    ]
    shown = [_grid(grid, flat, same) for grid in grids(flat)] if flat else []
    page: str = (
        environment()
        .get_template("sweep.html")
        .render(
            name=joint.folder.name,
            n_cells=len(joint.cells),
            failures=[{"job": f.folder.name, "error": f.error} for f in joint.failures],
            same=same,
            grids=_once(shown),
            rows=rows,
            published=published_rows(flat),
            labels={k: v for k, v in LABELS.items() if any(k == row.taxonomy for row, _, _ in rows)},
            flags={k: v for k, v in FLAGS.items() if any(k in _flags(row) for row, _, _ in rows)},
        )
    )
    return page


def flat_rows(joint: Joint) -> list[dict[str, Any]]:
    """One flat row a screen of every cell, with the setting that cells must share to be compared."""
    return [row for cell in joint.cells for row in _flat(cell)]


def setting_of(result: Mapping[str, Any]) -> dict[str, str]:
    """What cells must share to be set beside each other: control, ablation, seed, k, swept keys."""
    swept = {str(k): str(v) for k, v in (result.get("swept") or {}).items() if k not in ("model", "task")}
    first = next(iter(joint_rows([result])), {})
    shared = {k: str(first.get(k, "")) for k in SHARED} | {"seed": str(result["seed"])}
    return {k: v for k, v in {**shared, **swept}.items() if not (k == "k" and v in ("", "0"))}


def tell_apart(settings: Sequence[Mapping[str, str]]) -> tuple[str, list[str]]:
    """Split settings into what all have in common, and what tells each apart; both as text."""
    keys = sorted({key for setting in settings for key in setting})
    varied = [key for key in keys if len({setting.get(key, "") for setting in settings}) > 1]
    same = {key: settings[0][key] for key in keys if key not in varied} if settings else {}
    return _text(same), [_text({k: s[k] for k in varied if k in s}) for s in settings]


def _text(setting: Mapping[str, str]) -> str:
    return ", ".join(f"{k}={v}" for k, v in sorted(setting.items()))


def _flags(row: ScreenRow) -> set[str]:
    return {flag.removesuffix("_top1") for flag in row.flags}


def _flat(cell: JointCell) -> list[dict[str, Any]]:
    """Rows for the grid: the flat rows with a setting, so that only like is set beside like."""
    result = cell.result
    text = _text(setting_of(result))
    arch, moe = result["model"].get("arch", ""), bool(result["model"].get("moe", False))
    link = f"{cell.folder.name}/{REPORT}"
    extra = {"setting": text, "arch": arch, "moe": moe, "link": link}
    return _newest([{**row, **extra} for row in joint_rows([result])])


def _newest(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return list({(r["model"], r["task"], r["screen"], r["setting"]): r for r in rows}.values())


def _grid(grid: Grid, flat: Sequence[Mapping[str, Any]], same: str) -> dict[str, Any]:
    """A grid with each primary's effect and interval, and a link to its cell."""
    rows = [r for r in flat if r["setting"] == grid.setting]
    lines = []
    for model, places in grid.table.iterrows():
        entries = [_entry(str(model), str(task), value, rows) for task, value in places.items()]
        lines.append({"model": str(model), "entries": entries})
    setting = ", ".join(part for part in grid.setting.split(", ") if part not in same.split(", "))
    return {
        "setting": setting,
        "tasks": [str(t) for t in grid.table.columns],
        "lines": lines,
        "sentences": grid.sentences,
    }


def _once(shown: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Grids that all come to the same sentences say them once, under the last."""
    if len({tuple(grid["sentences"]) for grid in shown}) > 1:
        return shown
    return [{**grid, "sentences": ()} for grid in shown[:-1]] + shown[-1:]


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
