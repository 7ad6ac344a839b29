"""Cells read back from MLflow: paged searches, newest first, one entry a model × task × setting."""

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from mechexp.errors import UserError
from mechexp.models.heads import parse_heads
from mechexp.tracking.describe import (
    CELL_KEY,
    EVIDENCE,
    LEVEL,
    PARENT,
    ROW,
    SCREEN,
    SCREENS,
    SWEEP_ID,
    THRESHOLDS,
)  # fmt: skip
from mechexp.tracking.mirror import quote
from mechexp.tracking.store import Store, search_all

NOT_SETTING = ("model", "task", "screen", "n_heads", "n_prompts", "dtype", "k")
PAGE = 1000


@dataclass(frozen=True)
class TrackedCell:
    """A cell as its runs in MLflow tell it.

    Attributes:
        run_id: The cell's run.
        model: Model name.
        task: Task name.
        setting: What else was chosen: control, ablation, seed, swept keys.
        screens: Rows by screen, as in ``result.json``, with ``k``; ``evidence`` is empty where it is not
            known.
        status: ``complete`` or ``not_evaluated``.
        reason: Why it was not evaluated.
        arch: Architecture.
        moe: Whether the model is a mixture of experts.
        started: When the run started, ms since 1970.
        thresholds: The taxonomy's thresholds that are not the default ones.
        key: ``cell_key`` of the result; "" where a run does not carry one.
    """

    run_id: str
    model: str
    task: str
    setting: Mapping[str, str]
    screens: Mapping[str, Mapping[str, Any]]
    status: str = "complete"
    reason: str = ""
    arch: str = ""
    moe: bool = False
    started: int = 0
    thresholds: Mapping[str, Any] = field(default_factory=dict)
    key: str = ""

    @property
    def identity(self) -> tuple[object, ...]:
        """What a later run of the same cell replaces: the cell's key, which covers every setting."""
        return (self.key,) if self.key else self.shown

    @property
    def shown(self) -> tuple[object, ...]:
        """The settings that a table shows."""
        ks = tuple(sorted({str(row.get("k", "")) for row in self.screens.values()}))
        return (self.model, self.task, tuple(sorted(self.setting.items())), ks)


def find_cells_in_store(store: Store, sweep: str = "") -> list[TrackedCell]:
    """All cells of an experiment, newest first.

    A cell's run carries its screens' rows; where it does not (runs made by other means), its screens' runs
    are read instead.

    Args:
        store: Open store.
        sweep: Only cells of this sweep, by its id or by the id of its run.

    Raises:
        UserError: No such sweep.
    """
    scope = _scope(store, sweep)
    runs = list(search_all(store, f"tags.`{LEVEL}` = 'cell'{scope}", page=PAGE))
    cells = [_from_cell(r) for r in runs if SCREENS in r.data.tags]
    if len(cells) < len(runs) or not runs:
        have = {c.run_id for c in cells}
        screens = search_all(store, f"tags.`{LEVEL}` = 'screen'{scope}", page=PAGE)
        cells += _from_screens(r for r in screens if r.data.tags.get(PARENT) not in have)
    if sweep and not cells and not runs:
        raise UserError(
            f"sweep {sweep!r} holds no finished cell", todo="see the sweep's folder for what failed"
        )
    return sorted(cells, key=lambda c: -c.started)


def newest(cells: Iterable[TrackedCell]) -> tuple[list[TrackedCell], int]:
    """The newest run of each cell, and how many older ones were left out."""
    kept: dict[tuple[object, ...], TrackedCell] = {}
    older = 0
    for cell in cells:
        older += cell.identity in kept
        kept.setdefault(cell.identity, cell)
    return list(kept.values()), older


def told_apart(cells: Iterable[TrackedCell]) -> list[TrackedCell]:
    """Cells that differ only in settings not shown get their key shown, so that none hides another."""
    cells = list(cells)
    alike = Counter(c.shown for c in cells)
    return [
        replace(c, setting={**c.setting, "cell": c.key[:6]}) if alike[c.shown] > 1 and c.key else c
        for c in cells
    ]


def _scope(store: Store, sweep: str) -> str:
    if not sweep:
        return ""
    runs = search_all(store, f"tags.`{LEVEL}` = 'sweep'", page=PAGE)
    known = {str(r.data.tags.get(SWEEP_ID)): str(r.info.run_id) for r in runs}
    for sweep_id, run_id in known.items():
        if sweep in (sweep_id, run_id):
            return f" and tags.`{SWEEP_ID}` = '{quote(sweep_id)}'"
    some = ", ".join(list(known)[:10]) or "none in this experiment"
    raise UserError(f"there is no sweep {sweep!r}", expected=f"the id of a sweep or of its run: {some}")


def _from_cell(run: Any) -> TrackedCell:
    tags = run.data.tags
    names = [n for n in tags[SCREENS].split(",") if n]
    rows = {n: _stored(tags[f"{ROW}{n}"], n) for n in names if f"{ROW}{n}" in tags}
    return _cell(run, str(run.info.run_id), rows)


def _stored(text: str, screen: str) -> dict[str, Any]:
    try:
        row: dict[str, Any] = json.loads(text)
        row["heads"] = [list(h) for h in parse_heads(row["heads"])]
        row["n_heads"] = len(row["heads"])
        return row
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise UserError(
            f"cannot read the stored row of screen {screen!r} ({error})", todo="python -m mechexp.sync"
        ) from error


def _from_screens(runs: Iterable[Any]) -> list[TrackedCell]:
    """Cells put together from screen runs alone: by parent, else by cell key, else by their params."""
    groups: dict[str, list[Any]] = {}
    for run in runs:
        tags, params = run.data.tags, run.data.params
        own = "|".join(f"{k}={v}" for k, v in sorted(params.items()) if k not in ("screen", "n_heads"))
        groups.setdefault(tags.get(PARENT) or tags.get(CELL_KEY) or own, []).append(run)
    return [
        _cell(group[0], key, {_screen_name(r): _screen_row(r) for r in group})
        for key, group in groups.items()
    ]


def _screen_name(run: Any) -> str:
    return str(run.data.params.get("screen") or run.data.tags.get(SCREEN, ""))


def _screen_row(run: Any) -> dict[str, Any]:
    tags = run.data.tags
    try:
        evidence = json.loads(tags.get(EVIDENCE, "{}"))
    except ValueError:
        evidence = {}
    heads = [list(h) for h in parse_heads(tags.get("heads", ""), where=f"run {run.info.run_id}")]
    return {
        "heads": heads,
        "n_heads": len(heads),
        "metrics": dict(run.data.metrics),
        "evidence": evidence,
        "k": run.data.params.get("k", ""),
        "flags": [f for f in tags.get("flags", "").split(",") if f],
        **{t: tags.get(t, "") for t in ("taxonomy", "taxonomy_top1", "taxonomy_logit_diff")},
    }


def _cell(run: Any, run_id: str, screens: Mapping[str, Mapping[str, Any]]) -> TrackedCell:
    tags, params = run.data.tags, run.data.params
    labels = {str(row.get("taxonomy")) for row in screens.values()}
    status = tags.get("status") or ("not_evaluated" if labels == {"not_evaluated"} else "complete")
    try:
        thresholds = json.loads(tags.get(THRESHOLDS, "{}"))
    except ValueError:
        thresholds = {}
    return TrackedCell(
        run_id=run_id,
        model=params.get("model", ""),
        task=params.get("task", ""),
        setting={k: v for k, v in params.items() if k not in NOT_SETTING},
        screens=screens,
        status=status,
        reason=tags.get("reason", ""),
        arch=tags.get("arch", ""),
        moe=tags.get("moe") == "true",
        started=int(run.info.start_time or 0),
        thresholds=thresholds,
        key=tags.get(CELL_KEY, ""),
    )
