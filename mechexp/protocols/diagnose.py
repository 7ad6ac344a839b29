"""All diagnostics of a cell, put together for ``result.json``; see ``diagnostics`` for what they mean."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mechexp.findings import METRICS, bootstrap_counts
from mechexp.findings.evidence import Evidence
from mechexp.findings.seed_robustness import redrawn_labels
from mechexp.protocols.conditions import NULL, Measured
from mechexp.protocols.diagnostics import Diagnosis, overlaps, spectral_recall
from mechexp.protocols.head_counts import head_count_rows
from mechexp.protocols.routing import RoutingChange
from mechexp.schema import Config
from mechexp.screens import Screened


@dataclass(frozen=True)
class Diagnosed:
    """Diagnostics as plain data.

    Attributes:
        cell: Of the cell as a whole.
        screens: Of each screen.
        metrics: Numbers that belong beside a screen's metrics: changes of the expert routing.
    """

    cell: Mapping[str, Any]
    screens: Mapping[str, Mapping[str, Any]]
    metrics: Mapping[str, Mapping[str, float]] = field(default_factory=dict)


def diagnose(
    screened: Screened,
    measured: Measured,
    evidence: Sequence[Evidence],
    direct_PLH: NDArray[np.float64] | None,
    routing: Mapping[str, RoutingChange],
    cfg: Config,
) -> Diagnosed:
    """Read every diagnostic that was asked for; of a cell without effects, only what needs none.

    Args:
        screened: Circuits and head table.
        measured: Outcomes on the test half; none but the clean one where the model is not competent.
        evidence: What the labels rest on.
        direct_PLH: Direct logit attribution on the test half; None where nothing was ablated.
        routing: Changes of the expert routing by screen; empty for dense models.
        cfg: Settings.
    """
    recall = spectral_recall(screened)
    rows: dict[str, dict[str, Any]] = {c.screen: {} for c in screened.circuits}
    for screen, shares in recall.items():
        rows[screen]["spectral"] = shares
    if direct_PLH is None:
        return Diagnosed({"overlap": overlaps(screened.circuits)}, rows)
    counts = bootstrap_counts(len(measured.clean.top1), cfg.protocol.bootstrap, cfg.seed)
    found = Diagnosis(screened, measured, direct_PLH, counts, cfg.ablation, cfg.protocol.level)
    robust = _robustness(measured, evidence, cfg)
    counted = head_count_rows([c.screen for c in screened.circuits], measured, cfg)
    for circuit in screened.circuits:
        row = rows[circuit.screen]
        row |= found.of_screen(circuit)
        if circuit.screen in routing:
            row["routing"] = routing[circuit.screen].as_row()
        if circuit.screen in robust:
            row["seed_robustness"] = robust[circuit.screen]
        if circuit.screen in counted:
            row["head_counts"] = counted[circuit.screen]
    metrics = {
        screen: {
            "router_topk_change": change.topk_change,
            "router_entropy_change": change.entropy_ablated - change.entropy_clean,
        }
        for screen, change in routing.items()
    }
    return Diagnosed(found.of_cell(), rows, metrics)


def _robustness(measured: Measured, evidence: Sequence[Evidence], cfg: Config) -> dict[str, dict[str, Any]]:
    """Labels over redrawn nulls, by our rules and by the paper's, which ask for no p."""
    deltas, clean = {}, measured.clean.summary()
    for screen in {e.screen for e in evidence if e.heads}:
        summaries = [o.summary() for o in measured.of(screen, NULL, cfg.ablation.name)]
        for metric in METRICS:
            deltas[screen, metric] = np.array([s[metric] - clean[metric] for s in summaries])
    size, often = cfg.protocol.redraw_sets, cfg.protocol.redraws
    rows: dict[str, dict[str, Any]] = {}
    for name, taxonomy in (
        ("rules", cfg.taxonomy),
        ("strict_paper", replace(cfg.taxonomy, strict_paper=True)),
    ):
        found = redrawn_labels(evidence, deltas, taxonomy, sets=size, redraws=often, seed=cfg.seed)
        for screen, spread in found.items():
            rows.setdefault(screen, {"sets": size, "redraws": often})[name] = asdict(spread)
    return rows
