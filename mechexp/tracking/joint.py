"""A sweep on disk: its finished cells, labelled jointly, and what became of the others."""

import csv
import io
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mechexp.errors import UserError
from mechexp.findings.config import TaxonomyConfig
from mechexp.findings.rows import from_row, labels_of, relabel
from mechexp.models.heads import Head, format_heads
from mechexp.tracking.files import read_json, write_json, write_text
from mechexp.tracking.notes import name_of
from mechexp.tracking.results import CONFIG, ERROR, RESULT, read_result
from mechexp.tracking.validate import METRIC_NAMES, METRICS

SWEEP, JOINT, TABLE = "sweep.json", "joint.json", "joint.csv"
JOINT_SCHEMA = "mechexp.joint/1"
UNFINISHED = "stopped before it finished"
COLUMNS = (
    "model", "task", "screen", "control", "ablation", "k", "n_heads", "heads", "taxonomy", "taxonomy_top1",
    "taxonomy_logit_diff", "taxonomy_cell", "flags",
)  # fmt: skip


@dataclass(frozen=True)
class JointCell:
    """A finished cell of a sweep.

    Attributes:
        folder: Its job folder.
        result: Its ``result.json`` with the joint labels; each screen keeps its own as ``taxonomy_cell``.
    """

    folder: Path
    result: Mapping[str, Any]


@dataclass(frozen=True)
class Failure:
    """A job that left no result.

    Attributes:
        folder: Its job folder.
        error: The first line of what went wrong.
    """

    folder: Path
    error: str


@dataclass(frozen=True)
class Joint:
    """What a sweep came to.

    Attributes:
        folder: The sweep's folder.
        cells: Finished cells, in the order of their job numbers.
        failures: Jobs without a result.
    """

    folder: Path
    cells: tuple[JointCell, ...]
    failures: tuple[Failure, ...]


def judge_sweep_folder(folder: Path, taxonomy: TaxonomyConfig) -> Joint:
    """Read a sweep's jobs and label their screens jointly (Benjamini–Hochberg over the sweep).

    A job whose files cannot be read counts as failed; the others are judged without it.

    Args:
        folder: The sweep's folder; each job has a folder in it.
        taxonomy: Thresholds.
    """
    found: list[JointCell] = []
    failures: list[Failure] = []
    for job in _jobs(folder):
        try:
            if not (job / RESULT).is_file():
                failures.append(Failure(job, _why(job)))
                continue
            result = read_result(job)
            for name, row in result["screens"].items():
                from_row(job.name, name, row)  # one cell without its numbers must not stop the others
            found.append(JointCell(job, result))
        except UserError as error:
            failures.append(Failure(job, error.found))
    return Joint(folder, tuple(label_jointly(found, taxonomy)), tuple(failures))


def label_jointly(cells: Sequence[JointCell], taxonomy: TaxonomyConfig) -> list[JointCell]:
    """Give every screen of every cell its joint label and rules.

    Raises:
        UserError: A cell lacks the numbers that labels rest on.
    """
    places = [(i, name) for i, cell in enumerate(cells) for name in cell.result["screens"]]
    rows = [(str(i), name, cells[i].result["screens"][name]) for i, name in places]
    findings = relabel(rows, taxonomy) if rows else []
    screens: list[dict[str, Any]] = [{} for _ in cells]
    for (i, name), finding in zip(places, findings, strict=True):
        row = cells[i].result["screens"][name]
        joint = {**labels_of(finding), "rules": list(finding.rules), "taxonomy_cell": row["taxonomy"]}
        screens[i][name] = {**row, **joint}
    return [JointCell(c.folder, {**c.result, "screens": s}) for c, s in zip(cells, screens, strict=True)]


def write_joint(joint: Joint) -> None:
    """Leave ``joint.json`` and ``joint.csv`` in the sweep's folder.

    Raises:
        UserError: The disk is full or not writable.
    """
    rows = list(joint_rows(c.result for c in joint.cells))
    failures = [{"folder": str(f.folder), "error": f.error} for f in joint.failures]
    write_json(joint.folder / JOINT, {"schema": JOINT_SCHEMA, "rows": rows, "failures": failures})
    write_text(joint.folder / TABLE, to_csv(rows))


def joint_rows(results: Iterable[Mapping[str, Any]]) -> Iterable[dict[str, Any]]:
    """One flat row a screen: ``COLUMNS``, what the sweep varied, and the metrics."""
    for result in results:
        swept = {str(k): str(v) for k, v in (result.get("swept") or {}).items()}
        settings = result.get("screen")
        for name, row in result["screens"].items():
            yield {
                "model": result["model"]["name"],
                "task": result["task"]["name"],
                "screen": name,
                "control": name_of(result["control"]),
                "ablation": name_of(result["ablation"]),
                "k": settings.get("k", "") if isinstance(settings, Mapping) else "",
                "n_heads": row["n_heads"],
                "heads": format_heads(Head(*h) for h in row["heads"]),
                "taxonomy": row["taxonomy"],
                "taxonomy_top1": row["taxonomy_top1"],
                "taxonomy_logit_diff": row["taxonomy_logit_diff"],
                "taxonomy_cell": row.get("taxonomy_cell", row["taxonomy"]),
                "flags": ",".join(row["flags"]),
                **{k: v for k, v in swept.items() if k not in COLUMNS},
                **{m: row["metrics"].get(m) for m in metric_names()},
            }


def metric_names() -> list[str]:
    """Names of a screen's metrics, each once, in the order in which they are shown."""
    return list(dict.fromkeys(name.format(m=m) for m in METRICS for name in METRIC_NAMES))


def to_csv(rows: Sequence[Mapping[str, Any]]) -> str:
    """Rows as CSV with a header; columns in the order in which they first appear."""
    columns = list(dict.fromkeys(c for row in rows for c in row))
    text = io.StringIO()
    writer = csv.DictWriter(text, columns, restval="", lineterminator="\n")
    writer.writeheader()
    writer.writerows({k: "" if v is None else v for k, v in row.items()} for row in rows)
    return text.getvalue()


def _jobs(folder: Path) -> list[Path]:
    """Job folders of a sweep by number; a folder is one job's if it holds a config, a result or an error."""
    if not folder.is_dir():
        return []
    marks = (CONFIG, RESULT, ERROR, ".hydra")
    jobs = [p for p in folder.iterdir() if p.is_dir() and any((p / m).exists() for m in marks)]
    return sorted(jobs, key=lambda p: (not p.name.isdigit(), int(p.name) if p.name.isdigit() else 0, p.name))


def _why(job: Path) -> str:
    if not (job / ERROR).is_file():
        return UNFINISHED
    try:
        text = str(read_json(job / ERROR, "error file").get("error", ""))
    except UserError as error:
        text = error.found
    return text.strip().splitlines()[0] if text.strip() else UNFINISHED
