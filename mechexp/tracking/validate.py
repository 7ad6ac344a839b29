"""The form of the result files; a file from elsewhere is checked before anything uses it."""

import re
from collections.abc import Mapping
from typing import Any

import pandas as pd

from mechexp.errors import UserError

SCHEMA = "mechexp.result/1"
PATTERNS_SCHEMA = "mechexp.patterns/1"
STATUSES = ("complete", "not_evaluated")
METRICS = ("top1", "logit_diff")
METRIC_NAMES = (
    "clean_{m}",
    "ablated_{m}",
    "delta_{m}",
    "delta_{m}_low",
    "delta_{m}_high",
    "null_{m}_mean",
    "null_{m}_std",
    "null_{m}_min",
    "null_{m}_max",
    "null_sets",
    "p_harm_{m}",
    "p_help_{m}",
    "z_{m}",
    "specificity_{m}",
)
HEAD_COLUMNS = {"layer": "integer", "head": "integer"}
CONDITION_COLUMNS = {
    "screen": "text",
    "role": "text",
    "heads": "text",
    "kind": "text",
    "top1": "number",
    "logit_diff": "number",
    "frac_correct": "number",
}
NAME = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9_.-]{0,99}\Z")
"""A name that becomes a file name or an MLflow key: no path separators, no leading dot."""

HEAD_NAME = re.compile(r"L\d{1,4}H\d{1,4}\Z")

_TOP: dict[str, type | tuple[type, ...]] = {
    "schema": str,
    "mechexp_version": str,
    "status": str,
    "cell_key": str,
    "model": dict,
    "task": dict,
    "control": (str, dict),
    "ablation": (str, dict),
    "seed": int,
    "clean": dict,
    "screens": dict,
    "timing": dict,
}
_MODEL: dict[str, type | tuple[type, ...]] = {
    "name": str,
    "id": str,
    "weights_hash": str,
    "n_layers": int,
    "n_heads": int,
}
_TASK: dict[str, type | tuple[type, ...]] = {"name": str, "n": int, "prompts_hash": str}
_SCREEN: dict[str, type | tuple[type, ...]] = {
    "heads": list,
    "n_heads": int,
    "metrics": dict,
    "taxonomy": str,
    "taxonomy_top1": str,
    "taxonomy_logit_diff": str,
    "flags": list,
}


def check_result(row: Mapping[str, Any], where: str) -> None:
    """Check the content of a ``result.json``.

    Raises:
        UserError: Another schema, a field missing or of the wrong type, a head outside the model.
    """
    if row.get("schema") != SCHEMA:
        raise UserError(
            f"schema is {row.get('schema')!r}",
            where=where,
            expected=repr(SCHEMA),
            todo="use the version of mechexp that wrote it, or run the job again",
        )
    _check(row, _TOP, where, "")
    _check(row["model"], _MODEL, where, "model.")
    _check(row["task"], _TASK, where, "task.")
    if row["status"] not in STATUSES:
        raise UserError(f"status is {row['status']!r}", where=where, expected=" or ".join(STATUSES))
    _check_name(row["task"]["name"], "task", where)
    _check_numbers(row["clean"], "clean", where)
    for name, screen in row["screens"].items():
        _check_name(name, "screen", where)
        _check_screen(screen, row["model"], f"screens.{name}", where)


def _check_screen(screen: Any, model: Mapping[str, Any], path: str, where: str) -> None:
    if not isinstance(screen, dict):
        raise UserError(f"{path} is a {type(screen).__name__}", where=where, expected="an object")
    _check(screen, _SCREEN, where, f"{path}.")
    _check_numbers(screen["metrics"], f"{path}.metrics", where)
    for head in screen["heads"]:
        good = isinstance(head, list) and len(head) == 2 and all(type(i) is int for i in head)
        if not good or not (0 <= head[0] < model["n_layers"] and 0 <= head[1] < model["n_heads"]):
            raise UserError(
                f"{path}.heads holds {str(head)[:60]}",
                where=where,
                expected=f"[layer, head] within {model['n_layers']} layers × {model['n_heads']} heads",
            )
    if not all(isinstance(f, str) for f in screen["flags"]):
        raise UserError(f"{path}.flags holds something that is not text", where=where)


def _check(row: Mapping[str, Any], types: Mapping[str, Any], where: str, prefix: str) -> None:
    for key, kind in types.items():
        if key not in row:
            raise UserError(f"field {prefix}{key} is missing", where=where)
        value = row[key]
        if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
            names = kind if isinstance(kind, tuple) else (kind,)
            raise UserError(
                f"field {prefix}{key} is a {type(value).__name__}",
                where=where,
                expected=" or ".join(k.__name__ for k in names),
            )


def _check_name(name: str, kind: str, where: str) -> None:
    if not NAME.match(name):
        raise UserError(
            f"{kind} name {name[:60]!r} cannot be used as a file name",
            where=where,
            expected="letters, digits, _ - . and at most 100 of them",
        )


def _check_numbers(row: Mapping[str, Any], path: str, where: str) -> None:
    for key, value in row.items():
        if value is not None and (isinstance(value, bool) or not isinstance(value, int | float)):
            raise UserError(
                f"{path}.{str(key)[:60]} is a {type(value).__name__}",
                where=where,
                expected="a number or null",
            )


def check_patterns(row: Mapping[str, Any], where: str) -> None:
    """Check the content of a ``patterns.json``: a triangle of thousandths for every head and prompt.

    Raises:
        UserError: Another schema, or parts that do not fit each other.
    """
    if row.get("schema") != PATTERNS_SCHEMA:
        raise UserError(f"schema is {row.get('schema')!r}", where=where, expected=repr(PATTERNS_SCHEMA))
    try:
        prompts, heads, patterns = row["prompts"], row["heads"], row["per_mille"]
        sizes = [len(p["tokens"]) for p in prompts]
        good = len(heads) == len(patterns) and all(HEAD_NAME.match(h) for h in heads)
        good &= all(isinstance(t, str) for p in prompts for t in p["tokens"])
        good &= all(
            type(at) is int and 0 <= at < n
            for p, n in zip(prompts, sizes, strict=True)
            for at in p["positions"].values()
        )
        for of_head in patterns:
            good &= [[len(r) for r in rows] for rows in of_head] == [list(range(1, n + 1)) for n in sizes]
            good &= all(type(v) is int and 0 <= v <= 1000 for rows in of_head for r in rows for v in r)
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        raise UserError(f"not attention patterns ({type(error).__name__}: {error})", where=where) from error
    if not good:
        raise UserError("attention patterns that do not fit their heads and prompts", where=where)


def check_frame(frame: pd.DataFrame, columns: Mapping[str, str], where: str) -> None:
    """Check that a frame has its columns, with numbers where numbers belong."""
    missing = [c for c in columns if c not in frame.columns]
    if missing:
        raise UserError(f"column {', '.join(missing)} is missing", where=where, expected=", ".join(columns))
    for column, kind in columns.items():
        types = pd.api.types
        good = {"integer": types.is_integer_dtype, "number": types.is_numeric_dtype}.get(kind)
        if len(frame) and good is not None and not good(frame[column]):
            raise UserError(f"column {column} holds {frame[column].dtype}", where=where, expected=kind)
