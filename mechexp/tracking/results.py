"""What a job leaves in its folder: written before anything else learns of it, ``result.json`` last.

A folder that holds a ``result.json`` is finished and whole; one that does not is not a result.
"""

import hashlib
import io
import json
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import pandas as pd
import yaml

from mechexp.errors import UserError
from mechexp.tracking.files import Staging, plain, read_json, to_json, told, write_json
from mechexp.tracking.masking import mask, mask_tree
from mechexp.tracking.validate import (
    CONDITION_COLUMNS,
    HEAD_COLUMNS,
    check_frame,
    check_patterns,
    check_result,
)

RESULT, HEADS, CONDITIONS, PROMPTS = "result.json", "heads.parquet", "conditions.parquet", "prompts.jsonl"
PATTERNS = "patterns.json"
CONFIG, ERROR, REPORT, MARKER = "config.yaml", "error.json", "report.html", "mlflow.json"
ERROR_SCHEMA = "mechexp.error/1"


class Savable(Protocol):
    """A circuit, as far as this file needs to know: it has a name and writes itself."""

    @property
    def screen(self) -> str:
        """Name of the screen."""

    def save(self, path: Path) -> None:
        """Write to ``path``."""


@dataclass(frozen=True)
class CellFiles:
    """The result files of one cell, read and validated.

    Attributes:
        folder: Where they lie.
        result: ``result.json``.
        heads: A row a head: ``layer, head``, scores, ``best_class``, single-head effects.
        conditions: A row a condition: ``screen, role, set_index, heads, kind``, metrics.
        prompts: The prompts, one mapping each.
        config: The resolved config, as text.
        patterns: Attention patterns to look at (docs/files.md); None where none were kept.
    """

    folder: Path
    result: dict[str, Any]
    heads: pd.DataFrame
    conditions: pd.DataFrame
    prompts: tuple[dict[str, Any], ...]
    config: str
    patterns: dict[str, Any] | None = None

    @property
    def screens(self) -> dict[str, dict[str, Any]]:
        """The rows of ``result.json`` by screen."""
        return dict(self.result["screens"])


def write_cell(
    folder: Path,
    result: Mapping[str, Any],
    *,
    heads: pd.DataFrame,
    conditions: pd.DataFrame,
    prompts: Iterable[Mapping[str, Any]],
    config: Mapping[str, Any] | str,
    circuits: Sequence[Savable] = (),
    patterns: Mapping[str, Any] | None = None,
    before_commit: Callable[[CellFiles], object] | None = None,
) -> CellFiles:
    """Write one cell's results: all files aside first, then into place together, ``result.json`` last.

    Args:
        folder: The job's output folder.
        result: The content of ``result.json``. ``timing.finished_at`` (seconds since 1970) and ``files``
            (digests of the other files) are added.
        heads: Frame of ``heads.parquet``.
        conditions: Frame of ``conditions.parquet``.
        prompts: Rows of ``prompts.jsonl``.
        config: The resolved config; credentials in it are masked.
        circuits: Saved as ``circuits/<screen>.json``.
        patterns: Content of ``patterns.json``; None writes none.
        before_commit: Called with the files just before ``result.json`` is written, to add plots and report.
            If it raises, ``result.json`` is written all the same (a broken plot loses no result), then the
            error goes on.

    Raises:
        UserError: The disk is full or not writable.
        ValueError: The result does not have the promised form (a fault of the caller).
    """
    timing = {"finished_at": time.time(), **result.get("timing", {})}
    row = plain(mask_tree({**result, "timing": timing}))
    rows = tuple(dict(plain(p)) for p in prompts)
    text = mask(config) if isinstance(config, str) else _yaml(config)
    try:
        check_result(row, "the result to be written")
        check_frame(heads, HEAD_COLUMNS, HEADS)
        check_frame(conditions, CONDITION_COLUMNS, CONDITIONS)
    except UserError as error:
        raise ValueError(str(error)) from error
    kept = None if patterns is None else dict(plain(patterns))
    files = CellFiles(folder, row, heads, conditions, rows, text, kept)
    with Staging() as staging:
        row["files"] = _stage(staging, files, circuits)
        failure: BaseException | None = None
        if before_commit is not None:
            try:
                before_commit(files)
            except Exception as error:
                failure = error
        staging.write_text(folder / RESULT, to_json(row))
    (folder / ERROR).unlink(missing_ok=True)
    if failure is not None:
        raise failure
    return files


def _stage(staging: Staging, files: CellFiles, circuits: Sequence[Savable]) -> dict[str, str]:
    """Write everything but ``result.json`` aside; returns the digest of each file."""
    folder = files.folder
    for circuit in circuits:
        staging.write(folder / "circuits" / f"{circuit.screen}.json", circuit.save)
    lines = (json.dumps(p, ensure_ascii=False, allow_nan=False) for p in files.prompts)
    digests = {CONFIG: staging.write_text(folder / CONFIG, files.config)}
    digests[PROMPTS] = staging.write_text(folder / PROMPTS, "".join(f"{line}\n" for line in lines))
    if files.patterns is not None:
        content = json.dumps(files.patterns, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
        digests[PATTERNS] = staging.write_text(folder / PATTERNS, content)
    for name, frame in ((HEADS, files.heads), (CONDITIONS, files.conditions)):
        buffer = io.BytesIO()
        frame.to_parquet(buffer, index=False)
        digests[name] = staging.write_bytes(folder / name, buffer.getvalue())
    return digests


def write_failure(folder: Path, error: BaseException, **where: object) -> Path:
    """Leave an ``error.json`` that says what failed.

    Args:
        folder: The job's output folder.
        error: What was raised.
        where: Whatever tells the job apart, e.g. ``model="pythia", task="ioi"``.
    """
    path = folder / ERROR
    row = {
        "schema": ERROR_SCHEMA,
        "status": "failed",
        "kind": type(error).__name__,
        "error": mask(str(error)) or type(error).__name__,
        "user_error": isinstance(error, UserError),
        "failed_at": time.time(),
        **mask_tree(plain(dict(where))),
    }
    write_json(path, row)
    return path


def read_cell(folder: Path) -> CellFiles:
    """Read and check a finished cell.

    Raises:
        UserError: A file is missing, cut short or not what it should be; the message names the file.
    """
    result = read_result(folder)
    _check_digests(folder, result.get("files"))
    with told(folder / CONFIG, f"read {CONFIG}"):
        config = (folder / CONFIG).read_text(encoding="utf-8", errors="replace")
    return CellFiles(
        folder=folder,
        result=result,
        heads=_read_frame(folder / HEADS, HEAD_COLUMNS),
        conditions=_read_frame(folder / CONDITIONS, CONDITION_COLUMNS),
        prompts=_read_lines(folder / PROMPTS),
        config=config,
        patterns=_read_patterns(folder / PATTERNS) if PATTERNS in result.get("files", {}) else None,
    )


def _read_patterns(path: Path) -> dict[str, Any]:
    """Attention patterns, checked."""
    row = read_json(path, "patterns file")
    check_patterns(row, str(path))
    return row


def _check_digests(folder: Path, digests: object) -> None:
    """Refuse files that this ``result.json`` was not written with: damaged, changed, or of another try."""
    for name, digest in (digests if isinstance(digests, dict) else {}).items():
        if name not in (CONFIG, PROMPTS, HEADS, CONDITIONS, PATTERNS):
            continue
        with told(folder / name, f"read {name}"):
            content = (folder / name).read_bytes()
        if hashlib.sha256(content).hexdigest() != digest:
            raise UserError(
                f"{name} is not the file that this result was written with: it was damaged or changed",
                where=str(folder / name),
                todo="run the job again, or put the original file back",
            )


def read_result(folder: Path) -> dict[str, Any]:
    """Read and check ``result.json`` alone."""
    row = read_json(folder / RESULT, "result file")
    check_result(row, str(folder / RESULT))
    return row


def find_cells(root: Path) -> Iterator[Path]:
    """Folders under ``root`` (itself included) that hold a finished cell, in the order of their names."""
    with told(root, "list the results"):
        found = sorted(root.rglob(RESULT))
    return (path.parent for path in found if not any(p.startswith(".") for p in path.relative_to(root).parts))


def find_failures(root: Path) -> list[dict[str, Any]]:
    """The ``error.json`` files under ``root``, each with its ``folder``; unreadable ones say so."""
    rows = []
    for path in sorted(root.rglob(ERROR)):
        try:
            row = read_json(path, "error file")
        except UserError as error:
            row = {"status": "failed", "error": str(error)}
        rows.append({**row, "folder": str(path.parent)})
    return rows


def _yaml(config: Mapping[str, Any]) -> str:
    return yaml.safe_dump(mask_tree(plain(config)), sort_keys=False, allow_unicode=True)


def _read_frame(path: Path, columns: Mapping[str, str]) -> pd.DataFrame:
    import pyarrow
    import pyarrow.parquet as pq

    try:
        # Not pandas.read_parquet: a stranger's file gets no say in which path or backend is used.
        frame: pd.DataFrame = pq.ParquetFile(path).read().to_pandas()
    except (OSError, ValueError, TypeError, KeyError, pyarrow.ArrowException) as error:
        raise UserError(
            f"cannot read {path.name} ({type(error).__name__}: {error})",
            where=str(path),
            todo="delete the folder's result.json and run its job again",
        ) from error
    check_frame(frame, columns, str(path))
    return frame


def _read_lines(path: Path) -> tuple[dict[str, Any], ...]:
    rows: list[dict[str, Any]] = []
    with told(path, f"read {path.name}"):
        text = path.read_text(encoding="utf-8", errors="replace")
    for number, line in enumerate(text.splitlines(), start=1):
        try:
            row = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise UserError(f"not JSON ({error})", where=f"{path}, line {number}") from error
        if not isinstance(row, dict) or not isinstance(row.get("prompt"), str):
            raise UserError(
                "a line without a prompt", where=f"{path}, line {number}", expected='{"prompt": "…", …}'
            )
        rows.append(row)
    return tuple(rows)
