"""``python -m mechexp.survival FOLDER``: which labels survived the settings of a sweep."""

import argparse
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from mechexp.errors import UserError
from mechexp.findings.survival import surviving_labels
from mechexp.models.heads import Head, format_heads
from mechexp.tracking.notes import name_of
from mechexp.tracking.results import find_cells, read_result

BASE = ("model", "task")


def main(arguments: Sequence[str] | None = None) -> int:
    """Read a sweep's cells from disk, print a table; returns the exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m mechexp.survival",
        description="Which labels survive a change of prompts, nulls or ablation: each screen's labels over "
        "the settings of a sweep (experiment=robustness), and the settings they depend on.",
    )
    parser.add_argument("folder", type=Path, help="a sweep's folder (multirun/<date>/<time>)")
    parser.add_argument("--format", choices=["table", "csv"], default="table", help="default: table")
    args = parser.parse_args(arguments)
    try:
        table = survival(args.folder)
    except UserError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    print(table.to_csv(index=False) if args.format == "csv" else _text(table), end="")
    return 0


def survival(folder: Path) -> pd.DataFrame:
    """Labels over the settings of the cells under a folder, see ``findings.survival``.

    Raises:
        UserError: No finished cells, or only one setting.
    """
    results = [read_result(cell) for cell in find_cells(folder)]
    if not results:
        raise UserError("no finished cells", where=str(folder), todo="name the folder of a sweep")
    settings = [_setting(r) for r in results]
    keys = list(dict.fromkeys(k for s in settings for k in s))
    varied = [k for k in keys if len({s.get(k, "") for s in settings}) > 1]
    if not varied:
        raise UserError(
            "all cells have the same settings",
            where=str(folder),
            expected="a sweep that varies prompts, seeds, control or ablation",
            todo="python -m mechexp experiment=robustness",
        )
    rows = [row for r, s in zip(results, settings, strict=True) for row in _rows(r, s, varied)]
    return surviving_labels(pd.DataFrame(rows), varied)


def _setting(result: Mapping[str, Any]) -> dict[str, str]:
    """What may differ between cells of one model and task."""
    swept = {k: str(v) for k, v in (result.get("swept") or {}).items() if k not in BASE}
    fixed = {"ablation": name_of(result["ablation"]), "control": name_of(result["control"])}
    return {**fixed, "seed": str(result["seed"]), **swept}


def _rows(
    result: Mapping[str, Any], setting: Mapping[str, str], varied: Iterable[str]
) -> Iterable[dict[str, Any]]:
    for screen, row in result["screens"].items():
        yield {
            "model": result["model"]["name"],
            "task": result["task"]["name"],
            "screen": screen,
            "heads": format_heads(Head(*h) for h in row["heads"]),
            "taxonomy": row["taxonomy"],
            **{k: setting.get(k, "") for k in varied},
        }


def _text(table: pd.DataFrame) -> str:
    shown = table.assign(share=[f"{share:.0%}" for share in table["share"]])
    return str(shown.to_string(index=False)) + "\n"


if __name__ == "__main__":
    sys.exit(main())
