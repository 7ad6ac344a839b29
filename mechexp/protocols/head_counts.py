"""Head-count sweep inside a cell: the k best heads of every screen, for growing k, each with its own null."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from mechexp.controls import draw
from mechexp.engine.condition import Condition
from mechexp.errors import UserError
from mechexp.findings import METRICS
from mechexp.findings.head_count import head_count_curve
from mechexp.models.heads import Head
from mechexp.protocols.conditions import Measured, Part
from mechexp.schema import Config
from mechexp.screens import Screened
from mechexp.screens.circuit import Circuit


def role_of(k: int, *, null: bool = False) -> str:
    """Role in ``conditions.parquet``: ``head_count@5`` or ``head_count_null@5``."""
    return f"head_count{'_null' if null else ''}@{k}"


def ranking(screened: Screened, screen: str, *, filtered: bool) -> list[Head]:
    """All heads by a screen's score, best first, as ``screen.select=top_k`` ranks them: no threshold."""
    table = screened.heads[screened.heads["spectral_top"]] if filtered else screened.heads
    order = np.argsort(-table[f"{screen}_score"].to_numpy(), kind="stable")
    rows = table[["layer", "head"]].to_numpy()[order]
    return [Head(int(layer), int(head)) for layer, head in rows]


def head_count_parts(screened: Screened, cfg: Config) -> list[Part]:
    """Nested circuits of each screen and their matched sets; none without ``protocol.head_counts``.

    Raises:
        UserError: More heads than the screens rank.
    """
    parts: list[Part] = []
    for circuit in screened.circuits if cfg.protocol.head_counts else ():
        if f"{circuit.screen}_score" not in screened.heads:
            raise UserError(
                f"protocol.head_counts with screen={cfg.screen.name}",
                expected="a screen that ranks heads: the heads of this circuit were given, not scored",
                todo="leave protocol.head_counts out",
            )
        ranked = ranking(screened, circuit.screen, filtered=bool(cfg.screen.filter))
        for k in counts_within(len(ranked), cfg.protocol.head_counts):
            parts += _parts_of(circuit, ranked[:k], k, screened, cfg)
    return parts


def counts_within(heads: int, counts: Sequence[int]) -> list[int]:
    """The counts that a model has heads for, rising.

    Raises:
        UserError: None of them is.
    """
    within = sorted(k for k in counts if k <= heads)
    if counts and not within:
        raise UserError(
            f"protocol.head_counts={list(counts)}",
            expected=f"a count of at most {heads}, the heads that may be picked",
        )
    return within


def head_count_notes(screened: Screened, cfg: Config) -> list[str]:
    """Says which counts were left out because the model has fewer heads."""
    heads = int(screened.heads["spectral_top"].sum()) if cfg.screen.filter else len(screened.heads)
    left = [str(k) for k in sorted(cfg.protocol.head_counts) if k > heads]
    return [f"head counts {', '.join(left)} are left out: there are {heads} heads to pick"] if left else []


def _parts_of(circuit: Circuit, heads: list[Head], k: int, screened: Screened, cfg: Config) -> Iterable[Part]:
    ablation, control = cfg.ablation, cfg.control
    best = replace(circuit, heads=tuple(heads), scores=())
    null = draw(
        best,
        control=control.name,
        max_sets=control.max_sets,
        exact_limit=control.exact_limit,
        match_on=control.match_on,
        seed=cfg.seed,
        bos_heads=screened.sinks,
    )
    yield Part(circuit.screen, role_of(k), k, Condition(best.heads, ablation.name, ablation.positions))
    for i, drawn in enumerate(null.sets):
        if drawn:  # a layer that is taken whole leaves no head to draw
            condition = Condition(drawn, ablation.name, ablation.positions)
            yield Part(circuit.screen, role_of(k, null=True), i, condition)


def head_count_rows(screens: Sequence[str], measured: Measured, cfg: Config) -> dict[str, Any]:
    """Curves by screen and metric: a row a head count, the knee, and where the null gets destructive."""
    if not cfg.protocol.head_counts:
        return {}
    clean, kind = measured.clean.summary(), cfg.ablation.name
    rows: dict[str, Any] = {}
    for screen in screens:
        counts = [k for k in sorted(cfg.protocol.head_counts) if measured.of(screen, role_of(k), kind)]
        rows[screen] = {}
        for metric in METRICS:
            deltas = [
                measured.of(screen, role_of(k), kind)[0].summary()[metric] - clean[metric] for k in counts
            ]
            nulls = [
                [
                    o.summary()[metric] - clean[metric]
                    for o in measured.of(screen, role_of(k, null=True), kind)
                ]
                for k in counts
            ]
            curve = head_count_curve(
                counts, deltas, nulls, metric=metric, clean=clean[metric], cfg=cfg.taxonomy
            )
            rows[screen][metric] = {
                "curve": _records(curve.table),
                "knee": curve.knee,
                "null_destructive_from": curve.destructive_from,
            }
    return rows


def _records(table: pd.DataFrame) -> list[dict[str, Any]]:
    return [{str(k): v for k, v in row.items()} for row in table.to_dict("records")]
