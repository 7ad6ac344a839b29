"""Many models, several at a time, each kept in a file of its own as soon as it is done."""

import hashlib
import json
import os
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import asdict
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from mechexp import __version__
from mechexp.calibrate.cell import Ask, config, run_model
from mechexp.errors import UserError
from mechexp.progress import Advance

SCHEMA = "mechexp.calibration-model/1"


def run_all(asks: list[Ask], folder: Path, jobs: int, advance: Advance) -> list[dict[str, Any]]:
    """Run every model that has no file yet; return the rows of all, in the order of ``asks``.

    Args:
        asks: The models.
        folder: Where their files are; made where it is not there.
        jobs: Processes.
        advance: Told how many are done.

    Raises:
        UserError: A file that cannot be read or written, or one of a model that was asked other questions.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(f"cannot make the folder: {error}", where=str(folder)) from error
    paths = [folder / f"{ask.options.seed:06d}.json" for ask in asks]
    rows: dict[int, dict[str, Any]] = {}
    for i, (ask, path) in enumerate(zip(asks, paths, strict=True)):
        if path.is_file():
            rows[i] = _read(path, ask)
    advance(len(rows), len(asks))
    todo = [i for i in range(len(asks)) if i not in rows]
    for i, row in _finished(asks, todo, jobs):
        rows[i] = {"schema": SCHEMA, "asked": identity(asks[i]), **row}
        _write(paths[i], rows[i])
        advance(len(rows), len(asks))
    return [rows[i] for i in range(len(asks))]


def identity(ask: Ask) -> str:
    """Digest of all that a model's row depends on: the question, the default settings, the version.

    Thresholds of the taxonomy are left out: labels are given anew from a row's numbers.
    """
    settings = [asdict(config(s, ask.options.seed)) for s in ask.settings]
    for cfg in settings:
        for group in ("taxonomy", "tracking", "engine"):
            del cfg[group]
    text = json.dumps([__version__, asdict(ask), settings], sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def _finished(asks: list[Ask], todo: list[int], jobs: int) -> Iterator[tuple[int, dict[str, Any]]]:
    """Rows as they get done, in whatever order."""
    if jobs == 1 or len(todo) < 2:
        yield from ((i, run_model(asks[i])) for i in todo)
        return
    with ProcessPoolExecutor(jobs, mp_context=get_context("spawn"), initializer=_one_thread) as pool:
        futures = {pool.submit(run_model, asks[i]): i for i in todo}
        try:
            for future in as_completed(futures):
                yield futures[future], future.result()
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise


def _one_thread() -> None:
    import torch

    torch.set_num_threads(1)


def _read(path: Path, ask: Ask) -> dict[str, Any]:
    try:
        row: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise UserError(
            f"cannot read a finished model: {error}", where=str(path), todo="delete it"
        ) from error
    if row.get("asked") != identity(ask):
        raise UserError(
            "this folder holds models that were run with other settings or another version",
            where=str(path),
            todo="choose another --output, or delete the folder",
        )
    return row


def _write(path: Path, row: dict[str, Any]) -> None:
    """Whole or not at all."""
    part = path.with_suffix(f".{os.getpid()}.part")
    part.write_text(json.dumps(row), encoding="utf-8")
    part.replace(path)
