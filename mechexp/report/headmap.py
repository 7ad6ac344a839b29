"""The head map of the HTML report: inline SVG squares that tell each head's numbers on hover."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from mechexp.report.numbers import known, plain_number, signed
from mechexp.report.plots import CLASS_COLOURS, PALE

ID_COLUMNS = ("layer", "head", "best_class")
SINGLE = "single_delta_logit_diff"
# The ends of PuOr, as in the plots: orange where removing the head harms, purple where it helps.
_HARM, _HELP, _MID = np.array([179, 88, 6]), np.array([84, 39, 136]), np.array([247, 247, 247])


@dataclass(frozen=True)
class HeadCell:
    """One square of a map.

    Attributes:
        layer: Layer.
        head: Head.
        fill: Colour.
        title: Text shown on hover.
        picked: Names of the screens that picked it.
    """

    layer: int
    head: int
    fill: str
    title: str
    picked: tuple[str, ...]


def class_map(frame: pd.DataFrame, screens: dict[str, dict[str, Any]]) -> list[HeadCell]:
    """Squares coloured by best attention class."""
    fills = [CLASS_COLOURS.get(str(c), PALE) for c in _column(frame, "best_class")]
    return _cells(frame, screens, fills)


def single_map(frame: pd.DataFrame, screens: dict[str, dict[str, Any]]) -> list[HeadCell]:
    """Squares coloured by the effect of removing the head alone; hatched where it was not measured."""
    values = pd.to_numeric(pd.Series(_column(frame, SINGLE)), errors="coerce").to_numpy(float)
    finite = np.abs(values[np.isfinite(values)])
    limit = float(finite.max()) if len(finite) and finite.max() > 0 else 1.0
    return _cells(frame, screens, [_diverging(v / limit) for v in values])


def classes_shown(frame: pd.DataFrame) -> dict[str, str]:
    """Colour of each attention class that a head of the model has, and of none."""
    seen = {str(c) for c in _column(frame, "best_class")}
    return {**{c: colour for c, colour in CLASS_COLOURS.items() if c in seen}, "no class": PALE}


def _column(frame: pd.DataFrame, name: str) -> Iterable[Any]:
    return list(frame[name]) if name in frame else [None] * len(frame)


def _diverging(share: float) -> str:
    if not np.isfinite(share):
        return "url(#unmeasured)"
    mixed = _MID + (_HELP if share > 0 else _HARM) * abs(share) - _MID * abs(share)
    return "#" + "".join(f"{round(c):02x}" for c in mixed)


def _cells(frame: pd.DataFrame, screens: dict[str, dict[str, Any]], fills: list[str]) -> list[HeadCell]:
    picked: dict[tuple[int, int], list[str]] = {}
    for name, screen in screens.items():
        for layer, head in screen["heads"]:
            picked.setdefault((layer, head), []).append(name)
    cells = []
    for fill, record in zip(fills, frame.to_dict("records"), strict=True):
        row = {str(k): v for k, v in record.items()}
        place = (int(row["layer"]), int(row["head"]))
        names = tuple(picked.get(place, ()))
        cells.append(HeadCell(*place, fill, _title(row, names), names))
    return cells


def _title(row: dict[str, Any], picked: tuple[str, ...]) -> str:
    lines = [f"L{row['layer']}H{row['head']}  {row.get('best_class') or ''}".rstrip()]
    if picked:
        lines.append("picked by " + ", ".join(picked))
    for name, value in row.items():
        number = value if isinstance(value, int | float) and not isinstance(value, bool) else None
        if name in ID_COLUMNS or not known(number):
            continue
        lines.append(f"{name}: {signed(number, 3) if 'delta' in str(name) else plain_number(number, 3)}")
    return "\n".join(lines)
