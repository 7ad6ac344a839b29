"""Files that are either whole or not there: written aside, flushed to the disk, then renamed into place."""

import errno
import hashlib
import json
import math
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np

from mechexp.errors import UserError

_REASONS = {
    errno.ENOSPC: ("the disk is full", "free some space, then run the same command with resume=true"),
    errno.EDQUOT: (
        "the disk quota is used up",
        "free some space, then run the same command with resume=true",
    ),
    errno.EFBIG: (
        "the file would exceed the size limit set for this process",
        "raise the limit (ulimit -f), then run the same command with resume=true",
    ),
    errno.EACCES: ("no permission to write here", "choose another folder, or have its permissions changed"),
    errno.EROFS: ("the file system is read-only", "choose another folder"),
    errno.ENOTDIR: ("a part of this path is a file, not a folder", "choose another folder"),
    errno.EEXIST: ("a file stands where a folder is needed", "choose another folder, or move that file away"),
}


def io_error(error: OSError, path: Path | str, doing: str) -> UserError:
    """Tell an operating-system error as a user error.

    Args:
        error: What was raised.
        path: File or folder concerned.
        doing: What failed, e.g. ``"write the result"``.
    """
    reason, todo = _REASONS.get(
        error.errno or 0, (error.strerror or str(error), "check the path, then run the command again")
    )
    return UserError(f"cannot {doing}: {reason}", where=str(path), todo=todo)


@contextmanager
def told(path: Path | str, doing: str) -> Iterator[None]:
    """Turn any ``OSError`` of the block into a ``UserError`` about ``path``."""
    try:
        yield
    except OSError as error:
        raise io_error(error, path, doing) from error


class Staging:
    """Files written aside first and put into place together, in the order in which they were written.

    Use as a context manager: leaving it puts them into place, an error inside it removes them again, and the
    files that were there before stay. What can fail for want of space has then happened before the first file
    is replaced.
    """

    def __init__(self) -> None:
        self._staged: list[tuple[Path, Path]] = []

    def write(self, path: Path, write: Callable[[Path], object]) -> str:
        """Let ``write`` fill a file next to ``path``.

        Args:
            path: Final place; missing folders are made.
            write: Called with the temporary path.

        Returns:
            SHA-256 of what was written.

        Raises:
            UserError: Full disk, no permission and other errors of the operating system.
        """
        aside = path.with_name(f".{path.name}.{os.getpid()}.tmp")
        self._staged.append((aside, path))
        with told(path, f"write {path.name}"):
            path.parent.mkdir(parents=True, exist_ok=True)
            write(aside)
            with aside.open("rb+") as handle:
                os.fsync(handle.fileno())
            return hashlib.sha256(aside.read_bytes()).hexdigest()

    def write_text(self, path: Path, text: str) -> str:
        """``write`` for UTF-8 text."""
        return self.write_bytes(path, text.encode("utf-8"))

    def write_bytes(self, path: Path, content: bytes) -> str:
        """``write`` for bytes."""
        return self.write(path, lambda aside: aside.write_bytes(content))

    def __enter__(self) -> "Staging":
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        try:
            if error is None:
                for aside, path in self._staged:
                    with told(path, f"write {path.name}"):
                        aside.replace(path)
                for folder in {path.parent for _, path in self._staged}:
                    _flush_folder(folder)
        finally:
            for aside, _ in self._staged:
                with suppress(OSError):
                    aside.unlink(missing_ok=True)


def write_whole(path: Path, write: Callable[[Path], object]) -> None:
    """Write one file in one step: a reader sees the old file or the new one, never a part."""
    with Staging() as staging:
        staging.write(path, write)


def _flush_folder(folder: Path) -> None:
    """Make the rename itself survive a power cut, where the file system can."""
    with suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def write_text(path: Path, text: str) -> None:
    """Write UTF-8 text as a whole (see ``write_whole``)."""
    write_whole(path, lambda aside: aside.write_text(text, encoding="utf-8"))


def write_json(path: Path, value: Any) -> None:
    """Write strict JSON as a whole: NaN and infinities become null."""
    write_text(path, to_json(value))


def to_json(value: Any) -> str:
    """Strict JSON: NaN and infinities become null."""
    return json.dumps(plain(value), indent=1, allow_nan=False, ensure_ascii=False) + "\n"


def plain(value: Any) -> Any:
    """Reduce numpy, paths, tuples, sets and mappings to what strict JSON holds.

    Raises:
        TypeError: A value of another kind; storing its text would lose it silently.
    """
    if value is None or isinstance(value, str | bool):
        return str(value) if isinstance(value, str) else value
    if isinstance(value, np.generic):
        return plain(value.item())
    if isinstance(value, int):
        return int(value)
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {str(k): plain(v) for k, v in value.items()}
    if isinstance(value, np.ndarray):
        return plain(value.tolist())
    if isinstance(value, list | tuple):
        return [plain(v) for v in value]
    if isinstance(value, set | frozenset):
        return sorted((plain(v) for v in value), key=str)
    if isinstance(value, Path):
        return str(value)
    raise TypeError(f"cannot store a {type(value).__name__} in JSON: {value!r}")


def read_json(path: Path, what: str) -> dict[str, Any]:
    """Read a JSON object.

    Args:
        path: The file.
        what: What it should be, for the message, e.g. ``"result file"``.

    Raises:
        UserError: The file is missing, unreadable, cut short, or not a JSON object.
    """
    try:
        row = json.loads(path.read_text(encoding="utf-8"), parse_constant=_no_constant)
    except OSError as error:
        raise UserError(f"cannot read the {what}: {error.strerror or error}", where=str(path)) from error
    except (ValueError, RecursionError) as error:
        raise UserError(
            f"the {what} is not JSON, or is cut short ({error})",
            where=str(path),
            todo="delete the file and run its job again",
        ) from error
    if not isinstance(row, dict):
        raise UserError(f"the {what} holds a {type(row).__name__}", where=str(path), expected="a JSON object")
    return row


def _no_constant(name: str) -> float:
    raise ValueError(f"{name} is not allowed in JSON")
