"""Protocol 1: screen heads by attention, ablate them, judge the effect against matched-random heads.

The steps are those of Xu 2026 (arXiv 2606.05378), corrected: heads are chosen on one half of the prompts and
measured on the other, every circuit has its null, and labels come from tests with their intervals.

Shapes: P prompts of the test half, L layers, H heads.
"""

import math
from collections.abc import Mapping

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from mechexp.controls import MatchedSets, draw, extend, next_sets
from mechexp.engine.condition import Outcome
from mechexp.findings import METRICS, judge, to_row
from mechexp.findings.evidence import Evidence, empty_evidence
from mechexp.models import LoadedModel
from mechexp.models.checkpoints import checkpoints_of
from mechexp.progress import JobProgress
from mechexp.protocols.cell import Cell
from mechexp.protocols.conditions import Measured, group_parts, null_parts, single_parts
from mechexp.protocols.diagnose import diagnose
from mechexp.protocols.diagnostics import circuit_conditions, diagnostic_parts
from mechexp.protocols.evidence import Witness
from mechexp.protocols.head_counts import head_count_notes, head_count_parts
from mechexp.protocols.meter import Meter
from mechexp.protocols.patterns import keep_patterns
from mechexp.protocols.routing import RoutingChange, routing_changes
from mechexp.schema import Config
from mechexp.screens import PatternRule, Screened, run_screens
from mechexp.screens.evidence import direct_logit_attribution
from mechexp.tasks.prompts import PromptSet
from mechexp.tasks.task import screens_for


def screen_ablate(loaded: LoadedModel, prompts: PromptSet, cfg: Config, progress: JobProgress) -> Cell:
    """Run the protocol on one model and one task.

    Args:
        loaded: The model.
        prompts: The task's prompts, halves assigned.
        cfg: Screen, control, ablation, taxonomy and protocol settings.
        progress: Told what is being measured.

    Raises:
        UserError: Settings that do not fit the model or the task.
    """
    screen_half, test_half = prompts.part("screen"), prompts.part("test")
    meter = Meter(loaded, test_half, screen_half, cfg, progress)

    # 1. Can the model do the task at all?
    clean = meter.clean()

    # 2. Which heads show the pattern? Chosen on the screen half.
    with progress.stage("screening heads", "screen_s"):
        pattern = PatternRule(cfg.taxonomy.pattern_attention, cfg.taxonomy.pattern_score)
        trajectory = checkpoints_of(cfg.model) if cfg.screen.spectral.checkpoints else ()
        screened = run_screens(loaded, screen_half, cfg.screen, screens_for(prompts), pattern, trajectory)

    reason = why_not_evaluated(clean, cfg)
    if reason:
        return _cell(loaded, prompts, screened, {}, Measured(clean, ()), cfg, meter, reason=reason)

    # 3. Against whom? Random heads, as many in each layer.
    nulls = draw_nulls(screened, cfg)

    # 4. Ablate circuits, matched sets and single heads; measured on the test half.
    singles = single_parts(screened.circuits, loaded.geometry, cfg.ablation, cfg.singles)
    kinds = meter.other_kinds()
    groups = group_parts(screened.circuits, nulls, cfg.ablation, kinds, unions=cfg.protocol.unions)
    groups += head_count_parts(screened, cfg)
    if cfg.protocol.diagnostics:
        groups += diagnostic_parts(screened, cfg.ablation, cfg.seed)
    measured = Measured(clean, meter.measure([*groups, *singles]))

    # 5. Where too few matched sets leave a label open, add some (control.adaptive=true).
    with progress.stage("direct logit attribution", "screen_s"):
        direct_PLH = direct_logit_attribution(loaded, test_half)
    if cfg.control.adaptive:
        nulls, measured = grow_nulls(screened, nulls, measured, direct_PLH, cfg, meter)

    # 6. Does an ablation act through the expert routing? (mixture-of-experts models)
    routing = {}
    if cfg.protocol.diagnostics and loaded.is_moe:
        with progress.stage("expert routing", "ablate_s"):
            routing = routing_changes(
                loaded,
                test_half,
                circuit_conditions(screened.circuits, cfg.ablation),
                reference=screen_half,
                seed=cfg.seed,
                memory_gb=cfg.engine.memory_gb,
            )

    # 7. Judge.
    return _cell(
        loaded, prompts, screened, nulls, measured, cfg, meter, direct_PLH=direct_PLH, routing=routing
    )


def why_not_evaluated(clean: Outcome, cfg: Config) -> str:
    """Why a model is not competent at the task; "" where it is."""
    summary, t = clean.summary(), cfg.taxonomy
    short = [
        f"{name} {summary[name]:.2f} < {least:g} (taxonomy.min_{name})"
        for name, least in (("frac_correct", t.min_frac_correct), ("top1", t.min_top1))
        if summary[name] < least
    ]
    return f"the clean model cannot do the task: {', '.join(short)}" if short else ""


def draw_nulls(screened: Screened, cfg: Config) -> dict[str, MatchedSets]:
    """Matched-random head sets of every circuit."""
    c = cfg.control
    return {
        circuit.screen: draw(
            circuit,
            control=c.name,
            max_sets=c.max_sets,
            exact_limit=c.exact_limit,
            match_on=c.match_on,
            seed=cfg.seed,
            bos_heads=screened.sinks,
        )
        for circuit in screened.circuits
    }


def grow_nulls(
    screened: Screened,
    nulls: Mapping[str, MatchedSets],
    measured: Measured,
    direct_PLH: NDArray[np.float64],
    cfg: Config,
    meter: Meter,
) -> tuple[dict[str, MatchedSets], Measured]:
    """Add matched sets where a label waits for them, until it is decided or the limit is met."""
    grown, c = dict(nulls), cfg.control
    for circuit in screened.circuits:
        while circuit.heads:
            findings = judge(_evidence(screened, grown, measured, direct_PLH, cfg), cfg.taxonomy)
            finding = next(f for f in findings if f.screen == circuit.screen)
            null = grown[circuit.screen]
            growth = next_sets(
                len(null.sets),
                total=null.total,
                exact_limit=c.exact_limit,
                decided="underpowered" not in finding.flags,
                needed=finding.logit_diff.tested.needed,
            )
            if growth.done:
                # said also where nothing grew: an option must not be ignored in silence
                meter.notes.append(f"{circuit.screen}: control.adaptive {growth.reason}")
                break
            grown[circuit.screen] = extend(
                null, circuit, growth.sets, seed=cfg.seed, match_on=c.match_on, bos_heads=screened.sinks
            )
            more = null_parts(circuit, grown[circuit.screen], cfg.ablation, start=len(null.sets))
            measured = Measured(measured.clean, (*measured.pairs, *meter.measure(more)))
    return grown, measured


def _evidence(
    screened: Screened,
    nulls: Mapping[str, MatchedSets],
    measured: Measured,
    direct_PLH: NDArray[np.float64] | None,
    cfg: Config,
) -> list[Evidence]:
    """Evidence of every circuit on both metrics."""
    witness = Witness(screened, nulls, measured, direct_PLH, cfg)
    return [witness.evidence(circuit, metric) for circuit in screened.circuits for metric in METRICS]


def _not_evaluated(screened: Screened, measured: Measured, cfg: Config) -> list[Evidence]:
    """Evidence of circuits that were not ablated because the clean model is not competent."""
    clean = measured.clean.summary()
    return [
        empty_evidence(
            "cell", c.screen, metric, clean[metric],
            clean_top1=clean["top1"], clean_frac_correct=clean["frac_correct"],
        )
        for c in screened.circuits
        for metric in METRICS
    ]  # fmt: skip


def _cell(
    loaded: LoadedModel,
    prompts: PromptSet,
    screened: Screened,
    nulls: Mapping[str, MatchedSets],
    measured: Measured,
    cfg: Config,
    meter: Meter,
    *,
    reason: str = "",
    direct_PLH: NDArray[np.float64] | None = None,
    routing: Mapping[str, RoutingChange] | None = None,
) -> Cell:
    """Judge, and put everything into rows."""
    with meter.progress.stage("judging", "findings_s"):
        if reason:
            evidence = _not_evaluated(screened, measured, cfg)
        else:
            evidence = _evidence(screened, nulls, measured, direct_PLH, cfg)
        findings = {f.screen: f for f in judge(evidence, cfg.taxonomy)}
        by_screen = {(e.screen, e.metric): e for e in evidence}
        diagnosed = diagnose(screened, measured, evidence, direct_PLH, routing or {}, cfg)
        screens = {}
        for circuit in screened.circuits:
            name = circuit.screen
            row = to_row(by_screen[name, "top1"], by_screen[name, "logit_diff"], findings[name])
            row["heads"] = [[h.layer, h.head] for h in circuit.heads]  # best first, not sorted
            row["n_heads"] = len(circuit.heads)
            row["notes"] = [*circuit.notes, *(nulls[name].notes if name in nulls else ())]
            row["details"] = dict(circuit.details)
            row["metrics"] |= diagnosed.metrics.get(name, {})
            row["diagnostics"] = dict(diagnosed.screens[name])
            screens[name] = row
    notes = [*prompts.notes, *screened.notes, *head_count_notes(screened, cfg), *meter.notes]
    if cfg.control.name == "paper":
        notes.append("ten matched sets cannot reach p < .05: the smallest p is 1/11")
    result = {
        "status": "not_evaluated" if reason else "complete",
        "reason": reason,
        "clean": measured.clean.summary(),
        "screens": screens,
        "diagnostics": dict(diagnosed.cell),
        "notes": notes,
    }
    return Cell(
        result=result,
        heads=_head_rows(screened, measured, direct_PLH),
        conditions=measured.frame(),
        circuits=screened.circuits,
        timing=meter.counts(),
        patterns=keep_patterns(loaded, prompts, screened.circuits),
    )


def _head_rows(
    screened: Screened, measured: Measured, direct_PLH: NDArray[np.float64] | None
) -> pd.DataFrame:
    """``heads.parquet``: the screens' table, with direct and single-head effects on the test half."""
    table = screened.heads.copy()
    direct_LH = None if direct_PLH is None else direct_PLH.mean(axis=0)
    table["direct_logit_attribution"] = math.nan if direct_LH is None else direct_LH.ravel()
    singles, clean = measured.singles(), measured.clean.summary()
    for metric in METRICS:
        table[f"single_delta_{metric}"] = [
            singles[h].summary()[metric] - clean[metric]
            if (h := (row.layer, row.head)) in singles
            else math.nan
            for row in table.itertuples()
        ]
    return table
