"""``python -m mechexp.compare``: all results of an experiment or a sweep in one table, labelled jointly."""

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

from mechexp.errors import UserError
from mechexp.findings.config import TaxonomyConfig
from mechexp.findings.moe_primacy import ROUTER_COLUMNS
from mechexp.findings.published import compare_with_published
from mechexp.findings.rows import labels_of, relabel
from mechexp.models.heads import Head, format_heads
from mechexp.report.grid import Grid, grids
from mechexp.tracking.config import TrackingConfig
from mechexp.tracking.files import plain
from mechexp.tracking.joint import metric_names, to_csv
from mechexp.tracking.query import TrackedCell, find_cells_in_store, newest, told_apart
from mechexp.tracking.store import open_store

FORMATS = ("table", "csv", "json", "md")
PAIRS_LISTED = 500
PUBLISHED_MODELS = ("pythia", "olmo", "olmoe")


@dataclass(frozen=True)
class Comparison:
    """Cells side by side.

    Attributes:
        rows: One flat row a screen, with joint labels.
        grids: Models × tasks, one a setting.
        notes: What a reader must know: runs left out, thresholds used, labels that could not be given anew.
        published: Measured beside published figures; None unless asked for.
    """

    rows: tuple[dict[str, Any], ...]
    grids: tuple[Grid, ...]
    notes: tuple[str, ...]
    published: pd.DataFrame | None = None


def main(arguments: Sequence[str] | None = None) -> int:
    """Parse, compare, print; returns the exit code."""
    from mechexp.report import comparison

    args = _parser().parse_args(arguments)
    try:
        found = compare(tracking_of(args), sweep=args.sweep, published=args.against == "published")
    except UserError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    if args.format == "json":
        print(json.dumps(plain(as_json(found)), indent=1, allow_nan=False, ensure_ascii=False))
    elif args.format == "csv":
        published = found.published
        print(to_csv(found.rows) if published is None else published.to_csv(index=False), end="")
    elif args.format == "md":
        print(comparison.markdown(found.rows, found.grids, found.notes, found.published))
    else:
        comparison.show(found.rows, found.grids, found.notes, found.published)
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m mechexp.compare",
        description="All results of an experiment or a sweep in one table, labelled jointly: "
        "Benjamini–Hochberg over all of them, and models × tasks by primary cause.",
    )
    parser.add_argument("--experiment", default="mechexp", help="MLflow experiment (default: mechexp)")
    parser.add_argument("--sweep", default="", help="only this sweep: its id, or the id of its run")
    parser.add_argument("--against", choices=["published"], help="beside the published figures")
    parser.add_argument("--format", choices=FORMATS, default="table", help="default: table")
    parser.add_argument("--root", default="mlruns", help="folder of the local store (default: mlruns)")
    parser.add_argument("--uri", default="", help="address of a tracking server, instead of --root")
    return parser


def tracking_of(args: argparse.Namespace) -> TrackingConfig:
    """The store that ``--uri`` or ``--root`` names."""
    mode = "server" if args.uri else "local"
    return TrackingConfig(mode=mode, uri=args.uri, experiment=args.experiment, root=args.root)


def compare(tracking: TrackingConfig, *, sweep: str = "", published: bool = False) -> Comparison:
    """Read cells from MLflow and label them jointly.

    Args:
        tracking: Which store and experiment.
        sweep: Only this sweep.
        published: Put the published figures beside.

    Raises:
        UserError: No store, no experiment, no such sweep, no results.
    """
    with open_store(tracking, create=False) as store:
        cells, older = newest(find_cells_in_store(store, sweep))
    if not cells:
        raise UserError(
            f"no results in experiment {tracking.experiment!r}", where=store.uri,
            todo="run a job, or send results that are only on disk: python -m mechexp.sync",
        )  # fmt: skip
    cells = told_apart(cells)
    cells.sort(key=lambda c: (c.task, c.model, sorted(c.setting.items())))
    notes = [f"{older} older runs of the same cells are left out"] if older else []
    cfg = _thresholds(cells, notes)
    rows = joint_rows(cells, cfg, notes)
    beside = beside_published(rows, notes) if published else None
    return Comparison(tuple(rows), tuple(grids(rows)), tuple(notes), beside)


def _thresholds(cells: Sequence[TrackedCell], notes: list[str]) -> TaxonomyConfig:
    """The thresholds the cells were labelled with; the default ones where they differ."""
    used = {json.dumps(c.thresholds, sort_keys=True) for c in cells}
    if len(used) > 1:
        notes.append("the runs were labelled under different thresholds; the default ones are used here")
        return TaxonomyConfig()
    if cells[0].thresholds:
        changed = ", ".join(f"{k}={v}" for k, v in cells[0].thresholds.items())
        notes.append(f"thresholds of these runs: {changed}")
    try:
        return TaxonomyConfig(**cells[0].thresholds)
    except TypeError as error:
        raise UserError(f"unknown thresholds in the stored runs ({error})") from error


def joint_rows(cells: Sequence[TrackedCell], cfg: TaxonomyConfig, notes: list[str]) -> list[dict[str, Any]]:
    """One flat row a screen; labels given anew where the stored numbers allow it."""
    places = [(i, name) for i, cell in enumerate(cells) for name in cell.screens]
    known = [(i, name) for i, name in places if cells[i].screens[name].get("evidence")]
    findings = dict(
        zip(known, relabel([(str(i), n, cells[i].screens[n]) for i, n in known], cfg), strict=True)
    )
    if len(known) < len(places):
        notes.append(
            f"{len(places) - len(known)} of {len(places)} screens keep the label they had: their runs do not "
            "hold the numbers for a joint one"
        )
    rows = []
    for i, name in places:
        cell, stored = cells[i], cells[i].screens[name]
        labels = labels_of(findings[i, name]) if (i, name) in findings else stored
        rows.append(_row(cell, name, stored, labels))
    return rows


def _row(
    cell: TrackedCell, screen: str, stored: Mapping[str, Any], labels: Mapping[str, Any]
) -> dict[str, Any]:
    k = str(stored.get("k", ""))
    swept = {key: v for key, v in cell.setting.items() if key not in ("control", "ablation", "seed")}
    setting = {**cell.setting, **({"k": k} if k not in ("", "0") else {})}
    return {
        "model": cell.model,
        "task": cell.task,
        "screen": screen,
        "control": cell.setting.get("control", ""),
        "ablation": cell.setting.get("ablation", ""),
        "seed": cell.setting.get("seed", ""),
        "k": k,
        "n_heads": stored["n_heads"],
        "heads": format_heads(Head(*h) for h in stored["heads"]),
        **{t: labels.get(t, "") for t in ("taxonomy", "taxonomy_top1", "taxonomy_logit_diff")},
        "taxonomy_cell": stored.get("taxonomy", ""),
        "flags": ",".join(labels.get("flags", ())),
        **swept,
        **{m: stored["metrics"].get(m) for m in metric_names()},
        **{c: stored["metrics"][c] for c in ROUTER_COLUMNS if c in stored["metrics"]},
        "setting": ", ".join(f"{key}={v}" for key, v in sorted(setting.items())),
        "arch": cell.arch,
        "moe": cell.moe,
        "reason": cell.reason,
        "run_id": cell.run_id,
    }


def beside_published(rows: Sequence[Mapping[str, Any]], notes: list[str]) -> pd.DataFrame:
    """Published effects with those measured here; the published ones come from zero ablation."""
    usable = [r for r in rows if r["ablation"] == "zero" and r["model"] in PUBLISHED_MODELS]
    settings = list(dict.fromkeys(r["setting"] for r in usable))
    if not usable:
        notes.append("nothing here can be set against the published figures: they need ablation=zero and "
                     f"model={','.join(PUBLISHED_MODELS)}")  # fmt: skip
    if len(settings) > 1:
        notes.append(
            f"set against the published figures: {settings[0]} ({len(settings) - 1} other settings not)"
        )
    names = ["model", "task", "screen", *metric_names()]
    measured = pd.DataFrame(
        [r for r in usable if r["setting"] == settings[0]] if usable else [], columns=names
    )
    numbers = {m: pd.to_numeric(measured[m], errors="coerce").astype(float) for m in metric_names()}
    return compare_with_published(measured.assign(**numbers))


def as_json(found: Comparison) -> dict[str, Any]:
    """The comparison as plain data."""
    published = found.published
    return {
        "rows": list(found.rows),
        "grids": [
            {
                "setting": g.setting,
                "primary": {str(model): row.dropna().to_dict() for model, row in g.table.iterrows()},
                "shared_primary": {
                    "verdict": g.claim.verdict,
                    "reason": g.claim.reason,
                    "n_pairs": len(g.claim.evidence),
                    "pairs": g.claim.evidence.head(PAIRS_LISTED).to_dict("records"),
                },
                "sentences": list(g.sentences),
            }
            for g in found.grids
        ],
        "notes": list(found.notes),
        **({"published": published.to_dict("records")} if published is not None else {}),
    }


if __name__ == "__main__":
    sys.exit(main())
