"""Where the finished cells are: an index of results by ``cell_key``, so that none is measured twice.

One small file a result, under a folder a key: nothing is ever changed in place, so any number of processes
may write at once, and a damaged entry costs its own result only. An entry is a hint: a result is used after
its own files have been checked.
"""

import logging
import re
from dataclasses import dataclass
from pathlib import Path

from mechexp.errors import UserError
from mechexp.screens.circuit import Circuit
from mechexp.tracking.files import read_json, write_json
from mechexp.tracking.mirror import result_id
from mechexp.tracking.results import CONDITIONS, CONFIG, HEADS, PROMPTS, CellFiles, read_cell

log = logging.getLogger(__name__)
SCHEMA = "mechexp.known/1"
FOLDER = "cells"
NEEDED = (CONFIG, CONDITIONS, HEADS, PROMPTS)
KEY = re.compile(r"[0-9a-f]{16,64}\Z")
LARGEST = 1 << 16  # bytes of an entry; what is larger is none


@dataclass(frozen=True)
class Known:
    """What the index says about one cell.

    Attributes:
        files: The newest result whose files are whole; None where there is none.
        circuits: Its circuits, as ``circuits/*.json`` hold them.
        why: Where the result is, or why there is none to take.
    """

    files: CellFiles | None
    circuits: tuple[Circuit, ...]
    why: str


def remember(root: Path | str, folder: Path) -> None:
    """Enter a finished cell into the index; where that fails, the result is only not found again.

    Args:
        root: ``tracking.root``.
        folder: The folder with the cell's ``result.json``.
    """
    try:
        digest = result_id(folder)
        key = _checked(str(read_json(folder / "result.json", "result file")["cell_key"]))
        entry = {"schema": SCHEMA, "cell_key": key, "result_id": digest, "folder": str(folder.resolve())}
        write_json(_place(root, key) / f"{digest}.json", entry)
    except (UserError, KeyError) as error:
        log.warning("this result will not be found by resume=true: %s", error)


def look_up(root: Path | str, key: str) -> Known:
    """The newest whole result of a cell.

    Args:
        root: ``tracking.root``.
        key: The cell's ``cell_key``.
    """
    reasons = []
    for path in _newest_first(_place(root, _checked(key))):
        try:
            files, circuits = _read(path, key)
        except UserError as error:
            reason = str(error).splitlines()[0]
            log.info("a known result is not taken: %s (%s)", reason, path)
            reasons.append(reason)
        else:
            return Known(files, circuits, str(files.folder))
    return Known(None, (), f"not whole any more: {reasons[0]}" if reasons else "no result yet")


def _read(path: Path, key: str) -> tuple[CellFiles, tuple[Circuit, ...]]:
    """The result that an entry names, every file of it checked.

    Raises:
        UserError: Damaged, changed or moved: the entry, or anything it leads to.
    """
    if path.stat().st_size > LARGEST:
        raise UserError("the entry is too large", where=str(path))
    entry = read_json(path, "entry")
    if entry.get("schema") != SCHEMA or not isinstance(entry.get("folder"), str) or "\0" in entry["folder"]:
        raise UserError("not an entry of the index", where=str(path))
    folder = Path(entry["folder"])
    if result_id(folder) != entry.get("result_id"):
        raise UserError("result.json was changed since", where=str(folder))
    files = read_cell(folder)
    if files.result["cell_key"] != key:
        raise UserError("the result is of another cell", where=str(folder))
    digests = files.result.get("files")
    if not isinstance(digests, dict) or any(name not in digests for name in NEEDED):
        raise UserError("the result does not say which files belong to it", where=str(folder))
    circuits = tuple(Circuit.load(p) for p in sorted((folder / "circuits").glob("[!.]*.json")))
    _check_circuits(files, circuits)
    return files, circuits


def _check_circuits(files: CellFiles, circuits: tuple[Circuit, ...]) -> None:
    """Circuit files carry no digest: what they pick must be what ``result.json`` says was picked."""
    picked = {c.screen: [[h.layer, h.head] for h in c.heads] for c in circuits}
    for name, row in files.screens.items():
        if name in picked and sorted(picked[name]) != sorted(row["heads"]):
            raise UserError(f"circuits/{name}.json holds other heads", where=str(files.folder))
    if missing := [name for name in files.screens if name not in picked]:
        raise UserError(f"circuits/{missing[0]}.json is missing", where=str(files.folder))


def _place(root: Path | str, key: str) -> Path:
    return Path(root).expanduser() / FOLDER / key


def _checked(key: str) -> str:
    if not KEY.match(key):
        raise UserError(f"{key[:80]!r} is no cell key", expected="hexadecimal digits")
    return key


def _newest_first(folder: Path) -> list[Path]:
    found = []
    for path in folder.glob("[!.]*.json") if folder.is_dir() else ():
        try:
            found.append((path.stat().st_mtime_ns, path))
        except OSError:  # removed by another process since it was listed
            continue
    return [path for _, path in sorted(found, reverse=True)]
