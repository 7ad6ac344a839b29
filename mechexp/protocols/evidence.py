"""From measured conditions to the evidence that labels rest on."""

from collections.abc import Mapping
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from mechexp.controls import MatchedSets
from mechexp.engine.condition import Outcome
from mechexp.engine.edit import KINDS
from mechexp.findings import bootstrap_counts, measure_evidence
from mechexp.findings.evidence import Evidence, empty_evidence
from mechexp.protocols.conditions import CIRCUIT, NULL, Measured
from mechexp.schema import Config
from mechexp.screens import Screened
from mechexp.screens.circuit import Circuit

CELL = "cell"
NAN = float("nan")


class Witness:
    """Everything known of one cell, ready to be asked about one circuit and one metric.

    Args:
        screened: Circuits and head table.
        nulls: Matched sets by screen.
        measured: Outcomes on the test half.
        direct_PLH: Direct logit attribution on the test half; None where it was not measured.
        cfg: Settings.
    """

    def __init__(
        self,
        screened: Screened,
        nulls: Mapping[str, MatchedSets],
        measured: Measured,
        direct_PLH: NDArray[np.float64] | None,
        cfg: Config,
    ) -> None:
        self._screened, self._nulls, self._measured, self._cfg = screened, nulls, measured, cfg
        self._direct_LH = None if direct_PLH is None else direct_PLH.mean(axis=0)

    @cached_property
    def _counts(self) -> NDArray[np.float64]:
        p = self._cfg.protocol
        return bootstrap_counts(len(self._measured.clean.top1), p.bootstrap, self._cfg.seed)

    def evidence(self, circuit: Circuit, metric: str) -> Evidence:
        """Evidence of one circuit on ``top1`` or ``logit_diff``."""
        measured, kind, clean = self._measured, self._cfg.ablation.name, self._measured.clean
        summary = clean.summary()
        competence = {"clean_top1": summary["top1"], "clean_frac_correct": summary["frac_correct"]}
        if not circuit.heads:
            return empty_evidence(CELL, circuit.screen, metric, summary[metric], **competence)
        null, sinks = self._nulls[circuit.screen], self._screened.sinks
        singles = measured.singles()
        return measure_evidence(
            _values(clean, metric),
            _values(measured.of(circuit.screen, CIRCUIT, kind)[0], metric),
            _stack(measured.of(circuit.screen, NULL, kind), metric),
            self._counts,
            cell=CELL,
            screen=circuit.screen,
            metric=metric,
            heads=circuit.heads,
            singles_KP=_stack([singles[h] for h in circuit.heads if h in singles], metric),
            level=self._cfg.protocol.level,
            **competence,
            bos=float(np.mean([h in sinks for h in circuit.heads])),
            pattern=circuit.pattern,
            direct=self._direct(circuit),
            control=self._cfg.control.name,
            null_total=null.total,
            null_short=null.short,
            other_kinds={
                other: _values(found[0], metric)
                for other in KINDS
                if other != kind and (found := measured.of(circuit.screen, CIRCUIT, other))
            },
        )

    def _direct(self, circuit: Circuit) -> float:
        """What the circuit writes to the logit difference directly, as a share of the clean one."""
        clean = self._measured.clean.summary()["logit_diff"]
        if self._direct_LH is None or not clean:
            return NAN
        return float(sum(self._direct_LH[h] for h in circuit.heads) / abs(clean))


def _values(outcome: Outcome, metric: str) -> NDArray[np.float64]:
    values: NDArray[np.float64] = np.asarray(getattr(outcome, metric), dtype=np.float64)
    return values


def _stack(outcomes: list[Outcome], metric: str) -> NDArray[np.float64] | None:
    return np.stack([_values(o, metric) for o in outcomes]) if outcomes else None
