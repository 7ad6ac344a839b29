"""Which conditions protocol 1 measures, and the part each one plays."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import pandas as pd

from mechexp.config import AblationConfig
from mechexp.controls import MatchedSets
from mechexp.engine.condition import Condition, Outcome
from mechexp.models.heads import Geometry, Head, format_heads
from mechexp.screens.circuit import Circuit

CIRCUIT, SINGLE, NULL, UNION, UPPER_BOUND = "circuit", "single", "null", "union", "upper_bound"


@dataclass(frozen=True)
class Part:
    """A condition and what it is measured for.

    Attributes:
        screen: The screen it belongs to; "" where it belongs to the whole cell.
        role: ``circuit``, ``single``, ``null``, ``union`` or ``upper_bound``.
        index: Number of the matched set or of the head, 0 where there is one only.
        condition: What is done to the model.
    """

    screen: str
    role: str
    index: int
    condition: Condition


def group_parts(
    circuits: Sequence[Circuit],
    nulls: Mapping[str, MatchedSets],
    ablation: AblationConfig,
    other_kinds: Sequence[str],
    *,
    unions: bool,
) -> list[Part]:
    """Circuits, their nulls, their upper bounds (all heads of the picked layers) and the union of the cell.

    Every circuit is also measured under ``other_kinds`` of ablation: does its label hang on the kind?
    """
    parts = []
    for circuit in circuits:
        if not circuit.heads:
            continue
        name = circuit.screen
        parts.append(Part(name, CIRCUIT, 0, _ablate(circuit.heads, ablation)))
        parts += null_parts(circuit, nulls[name], ablation)
        if unions:
            layers = [Head(layer, h) for layer in circuit.layers() for h in range(circuit.geometry.n_heads)]
            parts.append(Part(name, UPPER_BOUND, 0, _ablate(layers, ablation)))
        parts += [
            Part(name, CIRCUIT, 0, Condition(circuit.heads, kind, ablation.positions)) for kind in other_kinds
        ]
    union = {h for circuit in circuits for h in circuit.heads}
    if unions and union:
        parts.append(Part("", UNION, 0, _ablate(union, ablation)))
    return parts


def null_parts(circuit: Circuit, null: MatchedSets, ablation: AblationConfig, start: int = 0) -> list[Part]:
    """The matched sets of a circuit, from number ``start`` on."""
    return [
        Part(circuit.screen, NULL, i, _ablate(heads, ablation))
        for i, heads in enumerate(null.sets)
        if i >= start
    ]


def single_parts(
    circuits: Sequence[Circuit], geometry: Geometry, ablation: AblationConfig, which: str
) -> list[Part]:
    """One head at a time: of the ``picked`` heads, of ``all`` heads of the model, or ``none``."""
    parts = [
        Part(circuit.screen, SINGLE, i, _ablate([head], ablation))
        for circuit in circuits
        if which != "none"
        for i, head in enumerate(circuit.heads)
    ]
    if which == "all":
        picked = {h for circuit in circuits for h in circuit.heads}
        every = (Head(layer, h) for layer in range(geometry.n_layers) for h in range(geometry.n_heads))
        parts += [Part("", SINGLE, i, _ablate([h], ablation)) for i, h in enumerate(every) if h not in picked]
    return parts


def _ablate(heads: Iterable[Head], ablation: AblationConfig) -> Condition:
    return Condition(tuple(heads), ablation.name, ablation.positions)


@dataclass(frozen=True)
class Measured:
    """Parts with their outcomes; looked up by the part they play.

    Attributes:
        clean: The clean model's outcome on the same prompts.
        pairs: Every part with its outcome.
    """

    clean: Outcome
    pairs: tuple[tuple[Part, Outcome], ...]

    def of(self, screen: str, role: str, kind: str) -> list[Outcome]:
        """Outcomes of one role under one kind of ablation, by index."""
        found = [
            (part.index, outcome)
            for part, outcome in self.pairs
            if (part.screen, part.role, part.condition.kind) == (screen, role, kind)
        ]
        return [outcome for _, outcome in sorted(found, key=lambda pair: pair[0])]

    def singles(self) -> dict[Head, Outcome]:
        """Single-head outcomes by head."""
        return {p.condition.heads[0]: outcome for p, outcome in self.pairs if p.role == SINGLE}

    def frame(self) -> pd.DataFrame:
        """``conditions.parquet``: one row a part, the clean model first."""
        clean = {"screen": "", "role": "clean", "set_index": 0, "heads": "", "kind": "", "positions": ""}
        rows = [{**clean, **self.clean.summary(), "edited": 0}]
        rows += [dict(_rows(part, outcome)) for part, outcome in self.pairs]
        return pd.DataFrame(rows)


def _rows(part: Part, outcome: Outcome) -> Iterator[tuple[str, object]]:
    yield from (("screen", part.screen), ("role", part.role), ("set_index", part.index))
    yield from (("heads", format_heads(part.condition.heads)), ("kind", part.condition.kind))
    yield ("positions", part.condition.positions)
    yield from outcome.summary().items()
    yield ("edited", outcome.edited)
