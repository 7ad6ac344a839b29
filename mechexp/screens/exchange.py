"""Circuits from elsewhere and for elsewhere: bare lists of heads as pairs, JSON or CSV.

The forms are those in which heads are passed around in notebooks and papers' repositories:
``[(1, 3), (2, 1)]`` (TransformerLens style), ``["L1H3", "L2H1"]``, ``[{"layer": 1, "head": 3}]``, and CSV
with the columns ``layer,head``. Heads are counted from zero in all of them.
"""

import csv
import io
import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from mechexp.errors import UserError
from mechexp.models.heads import Head, parse_head, parse_heads
from mechexp.screens.circuit import Circuit

MAX_BYTES = 2**20
FORMS = '[[1, 3], [2, 1]], ["L1H3", "L2H1"], [{"layer": 1, "head": 3}], {"heads": …}, or CSV with layer,head'

HeadsLike = str | Circuit | Iterable[str | tuple[int, int] | list[int] | Mapping[str, Any]]


def as_heads(heads: HeadsLike, *, where: str = "a list of heads") -> tuple[Head, ...]:
    """Heads from any of the usual forms, in the order given.

    Args:
        heads: ``"L1H3,L2H1"``, a circuit, or a list of ``"L1H3"``, pairs or ``{"layer", "head"}``.
        where: What a message calls the list.

    Raises:
        UserError: Not heads, a negative index, or a head named twice.
    """
    if isinstance(heads, Circuit):
        return heads.heads
    if isinstance(heads, str):
        return parse_heads(heads, where=where)
    return parse_heads([str(_one(head, where)) for head in heads], where=where)


def _one(value: Any, where: str) -> Head:
    """One head of any form; a Python list may hold numpy integers."""
    if isinstance(value, str):
        return parse_head(value, where=where)
    if isinstance(value, Mapping) and {"layer", "head"} <= set(value):
        value = (value["layer"], value["head"])
    try:
        layer, head = (_index(part) for part in value)
    except (TypeError, ValueError):
        raise UserError(f"{str(value)[:60]!r} is not a head", where=where, expected=FORMS) from None
    return Head(layer, head)


def _index(part: Any) -> int:
    if isinstance(part, bool | float) or int(part) != part or part < 0:
        raise ValueError
    return int(part)


def read_heads(path: Path) -> tuple[Head, ...]:
    """Read a bare list of heads from a JSON or CSV file, in the order of the file.

    Raises:
        UserError: The file cannot be read or holds something else.
    """
    where = str(path)
    text = _text(path)
    if path.suffix.lower() == ".csv":
        return as_heads(_csv(text, where), where=where)
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise UserError(f"not JSON: {error}", where=where, expected=FORMS) from error
    value = value["heads"] if isinstance(value, dict) and "heads" in value else value
    if not isinstance(value, list):
        raise UserError(f"a JSON {type(value).__name__}, no list of heads", where=where, expected=FORMS)
    return as_heads(value, where=where)


def is_saved_circuit(path: Path) -> bool:
    """Whether a file is a circuit as mechexp saves it, bound to its model, rather than a bare list of heads.

    Raises:
        UserError: The file cannot be read.
    """
    text = _text(path)
    if path.suffix.lower() == ".csv":
        return False
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return True  # read as a circuit file: its message is about the whole form
    return isinstance(value, dict) and ("schema" in value or "model" in value or "heads" not in value)


def write_heads(circuit: HeadsLike, path: Path) -> None:
    """Write heads as pairs: ``.json`` gives ``[[1, 3], [2, 1]]``, ``.csv`` the columns ``layer,head``.

    The model they belong to is not written; ``Circuit.save`` writes it.

    Raises:
        UserError: Another suffix.
    """
    heads = as_heads(circuit)
    pairs = [(h.layer, h.head) for h in heads]
    if path.suffix.lower() == ".json":
        content = json.dumps(pairs) + "\n"
    elif path.suffix.lower() == ".csv":
        content = "layer,head\n" + "".join(f"{layer},{head}\n" for layer, head in pairs)
    else:
        raise UserError(
            f"cannot write heads as {path.suffix or 'a file without suffix'}",
            where=str(path),
            expected=".json or .csv",
        )
    path.write_text(content, encoding="utf-8")


def _text(path: Path) -> str:
    try:
        if path.stat().st_size > MAX_BYTES:
            raise UserError("too large for a list of heads", where=str(path), expected=f"{MAX_BYTES} bytes")
        return path.read_bytes().decode("utf-8-sig")
    except (OSError, ValueError) as error:
        raise UserError(f"cannot read the circuit file: {error}", where=str(path)) from error


def _csv(text: str, where: str) -> list[tuple[int, int]]:
    rows = csv.DictReader(io.StringIO(text), skipinitialspace=True)
    names = {str(n).strip().lower(): str(n) for n in rows.fieldnames or ()}
    if not {"layer", "head"} <= set(names):
        raise UserError(
            f"columns are {', '.join(names) or '(none)'}",
            where=where,
            expected="layer and head",
        )
    pairs = []
    for row in rows:
        try:
            pairs.append((int(row[names["layer"]]), int(row[names["head"]])))
        except (TypeError, ValueError):
            raise UserError(
                f"{row[names['layer']]!r}, {row[names['head']]!r} is not a head",
                where=f"{where}:{rows.line_num}",
                expected="two whole numbers from 0",
            ) from None
    return pairs
