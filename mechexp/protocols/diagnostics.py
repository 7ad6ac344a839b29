"""Diagnostics of a cell: what tells a circuit from an artefact of sinks, overlap or self-repair.

Nothing here changes a label. What is measured beyond the circuits has roles of its own in
``conditions.parquet``; what it says is under ``diagnostics`` in ``result.json``, for cell and screens.

Shapes: P prompts of the test half, B bootstrap resamples, L layers, H heads.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mechexp.config import AblationConfig
from mechexp.engine.condition import Condition, Outcome
from mechexp.findings import METRICS, additivity
from mechexp.findings.effects import Floats, mean_interval
from mechexp.findings.repair import self_repair
from mechexp.models.heads import Head
from mechexp.protocols.conditions import CIRCUIT, UNION, UPPER_BOUND, Measured, Part
from mechexp.protocols.sinks import reading, sink_and_other
from mechexp.screens import Screened
from mechexp.screens.circuit import Circuit

BOS_FILTERED, SINK_ONLY, OTHER_ONLY, END_ZERO = "bos_filtered", "sink_only", "other_only", "end_zero"
"""Roles: the circuit picked again without BOS-class heads; BOS-class heads alone and others alone, as many in
the same layers; the circuit zeroed at the end position (the total effect that self-repair is read from)."""


def diagnostic_parts(screened: Screened, ablation: AblationConfig, seed: int) -> list[Part]:
    """What is measured for the diagnostics of a cell, beside circuits, nulls and single heads."""
    parts = []
    for circuit in screened.circuits:
        if not circuit.heads:
            continue
        sets = {}
        if circuit.screen in screened.bos_filtered:
            sets[BOS_FILTERED] = screened.bos_filtered[circuit.screen]
            sets[SINK_ONLY], sets[OTHER_ONLY] = sink_and_other(circuit, screened.sinks, seed)
        parts += [
            Part(circuit.screen, role, 0, Condition(heads, ablation.name, ablation.positions))
            for role, heads in sets.items()
            if heads
        ]
        parts.append(Part(circuit.screen, END_ZERO, 0, Condition(circuit.heads, "zero", "end")))
    return parts


class Diagnosis:
    """Reads the diagnostics of one cell from what was measured.

    Args:
        screened: Circuits and head table.
        measured: Outcomes on the test half.
        direct_PLH: Direct logit attribution on the test half.
        counts_BP: Bootstrap counts of the cell.
        ablation: Kind and positions of the cell's ablation.
        level: Confidence level.
    """

    def __init__(
        self,
        screened: Screened,
        measured: Measured,
        direct_PLH: NDArray[np.float64],
        counts_BP: Floats,
        ablation: AblationConfig,
        level: float,
    ) -> None:
        self._screened, self._measured, self._direct_PLH = screened, measured, direct_PLH
        self._counts, self._kind, self._level = counts_BP, ablation.name, level
        self._singles = measured.singles()

    def of_screen(self, circuit: Circuit) -> dict[str, Any]:
        """Diagnostics of one screen; {} for an empty circuit."""
        if not circuit.heads:
            return {}
        group = self._one(circuit.screen, CIRCUIT)
        assert group is not None
        return {
            "singles": self._single_roles(circuit),
            "bos": self._bos(circuit),
            "additivity": self._additivity(circuit, group),
            "upper_bound": self._bound(circuit.screen, group),
            "self_repair": self._repair(circuit),
        }

    def of_cell(self) -> dict[str, Any]:
        """Diagnostics of the cell as a whole."""
        return {"overlap": overlaps(self._screened.circuits), "union": self._union()}

    def _one(self, screen: str, role: str, kind: str = "") -> Outcome | None:
        found = self._measured.of(screen, role, kind or self._kind)
        return found[0] if found else None

    def _delta_P(self, outcome: Outcome, metric: str) -> NDArray[np.float64]:
        after, before = (
            np.asarray(getattr(o, metric), dtype=np.float64) for o in (outcome, self._measured.clean)
        )
        return after - before

    def _effect(self, outcome: Outcome | None) -> dict[str, Any] | None:
        """Δ of both metrics with intervals, and which heads were removed."""
        if outcome is None:
            return None
        heads = outcome.condition.heads
        row: dict[str, Any] = {"heads": [[h.layer, h.head] for h in heads], "n_heads": len(heads)}
        for metric in METRICS:
            delta_P = self._delta_P(outcome, metric)
            low, high = mean_interval(delta_P, self._counts, self._level)
            row |= {
                f"delta_{metric}": float(delta_P.mean()),
                f"delta_{metric}_low": float(low[0]),
                f"delta_{metric}_high": float(high[0]),
            }
        return row

    def _single_roles(self, circuit: Circuit) -> dict[str, list[str]]:
        """Picked heads by what removing them alone does to the logit difference, beyond its interval."""
        roles: dict[str, list[str]] = {"supporters": [], "interferers": [], "unclear": []}
        for head in circuit.heads:
            if head not in self._singles:
                continue
            delta_P = self._delta_P(self._singles[head], "logit_diff")
            low, high = mean_interval(delta_P, self._counts, self._level)
            role = "supporters" if high[0] < 0 else "interferers" if low[0] > 0 else "unclear"
            roles[role].append(str(head))
        return roles

    def _bos(self, circuit: Circuit) -> dict[str, Any]:
        sinks = [h for h in circuit.heads if h in self._screened.sinks]
        row: dict[str, Any] = {"heads": [str(h) for h in sinks], "share": len(sinks) / len(circuit.heads)}
        if circuit.screen not in self._screened.bos_filtered:
            return row
        for role in (BOS_FILTERED, SINK_ONLY, OTHER_ONLY):
            row[role] = self._effect(self._one(circuit.screen, role))
        roles = self._single_roles(circuit)
        if any(roles.values()) and self._screened.bos_filtered[circuit.screen]:
            dropped = [str(h) for h in sinks]
            row["reading"] = reading(dropped, roles["supporters"], roles["interferers"])
        return row

    def _additivity(self, circuit: Circuit, group: Outcome) -> dict[str, Any]:
        """Δ of the group over the sum of its heads' own; needs every head removed alone."""
        if not all(h in self._singles for h in circuit.heads):
            return {}
        row = {}
        for metric in METRICS:
            alone = [float(self._delta_P(self._singles[h], metric).mean()) for h in circuit.heads]
            whole = float(self._delta_P(group, metric).mean())
            row[metric] = {"group": whole, "singles": sum(alone), "index": additivity(whole, alone)}
        return row

    def _bound(self, screen: str, group: Outcome) -> dict[str, Any] | None:
        """All heads of the picked layers, and the share of that effect which the circuit has."""
        bound = self._one(screen, UPPER_BOUND)
        row = self._effect(bound)
        if bound is None or row is None:
            return None
        for metric in METRICS:
            whole = row[f"delta_{metric}"]
            own = float(self._delta_P(group, metric).mean())
            row[f"share_{metric}"] = own / whole if whole else None
        return row

    def _repair(self, circuit: Circuit) -> dict[str, Any] | None:
        total = self._one(circuit.screen, END_ZERO, "zero")
        if total is None:
            return None
        written_P = sum(self._direct_PLH[:, h.layer, h.head] for h in circuit.heads)
        clean_P = self._measured.clean.logit_diff
        found = self_repair(clean_P, total.logit_diff, written_P, self._counts, self._level)
        return asdict(found)

    def _union(self) -> dict[str, Any] | None:
        """All screens' heads at once, against the sum of the distinct circuits' own effects."""
        union = self._one("", UNION)
        row = self._effect(union)
        if row is None:
            return None
        distinct: dict[frozenset[Head], Outcome] = {}
        for circuit in self._screened.circuits:
            outcome = self._one(circuit.screen, CIRCUIT)
            if outcome is not None:
                distinct[frozenset(circuit.heads)] = outcome
        for metric in METRICS:
            deltas = [float(self._delta_P(o, metric).mean()) for o in distinct.values()]
            row[f"additivity_{metric}"] = additivity(row[f"delta_{metric}"], deltas)
        return row


def overlaps(circuits: Sequence[Circuit]) -> list[dict[str, Any]]:
    """Pairs of screens that share heads, with Jaccard: screens that pick the same heads are one finding."""
    rows = []
    for a, b in combinations([c for c in circuits if c.heads], 2):
        shared, either = set(a.heads) & set(b.heads), set(a.heads) | set(b.heads)
        if shared:
            heads = [[h.layer, h.head] for h in sorted(shared)]
            rows.append({"a": a.screen, "b": b.screen, "shared": heads, "jaccard": len(shared) / len(either)})
    return rows


def spectral_recall(screened: Screened) -> dict[str, dict[str, float]]:
    """How many of each circuit's heads are in the top share by spectral signal; chance is that share."""
    top = screened.heads[screened.heads["spectral_top"]]
    best: set[tuple[int, int]] = set(zip(top["layer"], top["head"], strict=True))
    chance = len(best) / len(screened.heads)
    return {
        c.screen: {"recall": sum(h in best for h in c.heads) / len(c.heads), "chance": chance}
        for c in screened.circuits
        if c.heads
    }


def circuit_conditions(circuits: Sequence[Circuit], ablation: AblationConfig) -> Mapping[str, Condition]:
    """The circuits' own ablations by screen, for what is measured outside the engine (routing)."""
    return {c.screen: Condition(c.heads, ablation.name, ablation.positions) for c in circuits if c.heads}
