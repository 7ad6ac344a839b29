"""What a protocol hands over: numbers and tables, ready to be written down."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pandas as pd

from mechexp.screens.circuit import Circuit


@dataclass(frozen=True)
class Cell:
    """The findings of one model on one task.

    Attributes:
        result: The protocol's part of ``result.json``: status, reason, clean metrics, screens, notes.
        heads: One row a head.
        conditions: One row a condition.
        circuits: The circuits, to be saved.
        timing: Seconds by step, conditions measured and known before, FLOPs.
        patterns: Attention patterns to look at, the content of ``patterns.json``; None keeps none.
    """

    result: Mapping[str, Any]
    heads: pd.DataFrame
    conditions: pd.DataFrame
    circuits: tuple[Circuit, ...]
    timing: Mapping[str, float]
    patterns: Mapping[str, Any] | None = None
