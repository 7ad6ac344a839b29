"""The hypothesis that previous-token heads are primary in MoE models on gt, succ and vb, and not on ioi.

From Xu 2026. It is tested, not assumed: every MoE cell supports it, contradicts it or leaves it undecided,
and dense models are listed beside, since a pattern that dense models show too would not be about MoE.
"""

from dataclasses import dataclass

import numpy as np
import pandas as pd
from scipy import stats

from mechexp.findings.cells import cell_primary, check_frame, has_flag

SCREEN = "prev_token"
CLAIM = {"gt": True, "succ": True, "vb": True, "ioi": False}
STATEMENT = "In MoE models prev_token is primary on gt, succ and vb, and not on ioi."
FALSIFIER = (
    "One competent MoE cell would falsify it: prev_token not primary on gt, succ or vb although its effect "
    "is decided, or primary on ioi."
)
ROUTER_COLUMNS = ("router_topk_change", "router_entropy_change")


@dataclass(frozen=True)
class PrimacyReport:
    """The hypothesis against the cells that were run.

    Attributes:
        verdict: ``supported`` (every MoE model, all four tasks), ``contradicted``, ``undecided`` or
            ``untested`` (no MoE model).
        reason: Why, in a sentence.
        cells: One row a model × task: ``model, moe, task, primary, label`` (of prev_token), ``status``
            (supports, contradicts, undecided), ``reason`` and the router columns where measured.
        fisher_p: Two-sided Fisher test that prev_token is primary as often in MoE as in dense cells on gt,
            succ and vb; NaN unless both kinds have decided cells.
    """

    verdict: str
    reason: str
    cells: pd.DataFrame
    fisher_p: float


def moe_primacy(frame: pd.DataFrame) -> PrimacyReport:
    """Test the hypothesis.

    Args:
        frame: One row a screen, see ``mechexp.findings.cells``, with ``moe``; routing changes under the
            ablation of prev_token in ``ROUTER_COLUMNS`` where measured.
    """
    check_frame(frame, "moe")
    rows = frame[frame["task"].isin(CLAIM)]
    cells = [_judge(group) for _, group in rows.groupby(["model", "task"], sort=True)]
    columns = ["model", "moe", "task", "primary", "label", "status", "reason", *ROUTER_COLUMNS]
    table = pd.DataFrame(cells, columns=columns)
    table = table.drop(columns=[c for c in ROUTER_COLUMNS if table[c].isna().all()])
    verdict, reason = _verdict([c for c in cells if c["moe"]])
    return PrimacyReport(verdict, reason, table, _fisher(cells))


def _judge(rows: pd.DataFrame) -> dict[str, object]:
    """One cell: does it fit the pattern that the hypothesis expects of MoE models?"""
    task = str(rows["task"].iloc[0])
    own = rows[rows["screen"] == SCREEN]
    primary, reason = _is_primary(own, rows)
    status = "undecided" if primary is None else "supports" if primary == CLAIM[task] else "contradicts"
    return {
        "model": rows["model"].iloc[0],
        "moe": bool(rows["moe"].iloc[0]),
        "task": task,
        "primary": ",".join(cell_primary(rows).screens),
        "label": own["taxonomy"].iloc[0] if len(own) else "",
        "status": status,
        "reason": reason,
        **{c: own[c].iloc[0] if c in own.columns and len(own) else None for c in ROUTER_COLUMNS},
    }


def _is_primary(own: pd.DataFrame, rows: pd.DataFrame) -> tuple[bool | None, str]:
    """Whether prev_token is primary in a cell; None where that is open."""
    if not len(own):
        return None, f"{SCREEN} was not run"
    row = own.iloc[0]
    label = str(row["taxonomy"])
    if label == "not_evaluated":
        return None, "the model is not competent"
    if label == "indeterminate" or has_flag(row, "primary_open"):
        return None, f"{SCREEN} is {label}: too little evidence"
    if label == "null" and has_flag(row, "null_destructive"):
        return None, "the null is itself destructive"
    others = ", ".join(cell_primary(rows).screens) or "none"
    return label == "primary", f"{SCREEN} is {label}, primary: {others}"


def _verdict(moe: list[dict[str, object]]) -> tuple[str, str]:
    if not moe:
        return "untested", "no MoE model was run"
    names = {s: [f"{c['model']} · {c['task']}" for c in moe if c["status"] == s] for s in _STATUSES}
    if names["contradicts"]:
        return "contradicted", f"contradicted by {', '.join(names['contradicts'])}"
    models = {c["model"] for c in moe}
    lacking = [
        f"{m} · {t}" for m in sorted(map(str, models)) for t in CLAIM if f"{m} · {t}" not in names["supports"]
    ]
    if lacking:
        return "undecided", f"open or not run: {', '.join(lacking)}"
    return "supported", f"supported on all four tasks by {', '.join(sorted(map(str, models)))}"


_STATUSES = ("supports", "contradicts", "undecided")


def _fisher(cells: list[dict[str, object]]) -> float:
    counts = []
    for moe in (True, False):
        decided = [
            c for c in cells if c["moe"] is moe and CLAIM[str(c["task"])] and c["status"] != "undecided"
        ]
        primary = sum(c["status"] == "supports" for c in decided)
        counts.append([primary, len(decided) - primary])
    return float(stats.fisher_exact(np.array(counts)).pvalue) if all(map(sum, counts)) else float("nan")
