"""The published grid (Xu 2026, arXiv 2606.05378) as a frame, and measured cells beside it.

Changes of top-1 are fractions here, as everywhere (the paper gives percentage points).
"""

import json
from importlib import resources
from math import sqrt
from typing import Any

import pandas as pd

from mechexp.findings.differences import Estimate, difference
from mechexp.findings.effects import Effect
from mechexp.findings.evidence import Evidence
from mechexp.findings.null import TIE, NullSummary, summarise_moments
from mechexp.models.heads import parse_heads

NAN = float("nan")
PROMPTS = {"ioi": 500, "gt": 500, "succ": 118, "vb": 500}
TEN = 10
GENERAL = ("prev_token", "induction")
WRONG_HEADS = "wrong heads"
NORMAL_95 = 1.959963984540054


def load_published() -> pd.DataFrame:
    """The published effects, one row a task × model × screen.

    Returns:
        ``task, model, screen, heads`` (text), ``clean_top1, clean_frac_correct, clean_logit_diff, delta_top1,
        delta_logit_diff, null_mean, null_std, null_sets, rounding`` (half a unit of the last digit that was
        published), ``prompts, primary`` (what the paper calls the cell's primary), ``faults`` (text).
    """
    text = resources.files("mechexp.findings").joinpath("published", "xu2026.json").read_text("utf-8")
    data = json.loads(text)
    return pd.DataFrame([_row(data, entry) for entry in data["delta_top1_pp"]])


def published_evidence(row: pd.Series) -> Evidence:
    """What a published row says on top-1, for the taxonomy; p-values, intervals and singles are unknown.

    Heads are the circuit's own only where the paper measured them: a row with the wrong heads is refused.

    Raises:
        ValueError: The row was measured on another model's heads.
    """
    if WRONG_HEADS in row["faults"]:
        raise ValueError(f"{row['task']} · {row['model']} · {row['screen']} was measured on the wrong heads")
    clean, delta, sets = float(row["clean_top1"]), float(row["delta_top1"]), int(row["null_sets"])
    mean, std = float(row["null_mean"]), float(row["null_std"])
    effect = Effect(clean, clean + delta, delta, excess=delta - mean)
    null = NullSummary()
    if sets:
        null = summarise_moments(delta, mean=mean, std=std, sets=sets, metric="top1", clean=clean)
    return Evidence(
        cell=f"{row['model']} · {row['task']}",
        screen=str(row["screen"]),
        metric="top1",
        heads=parse_heads(str(row["heads"])),
        effect=effect,
        clean_top1=clean,
        clean_frac_correct=float(row["clean_frac_correct"]),
        control="paper" if sets == TEN else "published",
        null=null,
    )


def compare_with_published(measured: pd.DataFrame) -> pd.DataFrame:
    """Measured cells beside the published ones.

    Args:
        measured: One row a screen: ``model`` (pythia, olmo, olmoe), ``task, screen`` and metrics under their
            usual names, measured with zero ablation, as the published figures were.

    Returns:
        Every published row with the measured ``delta_top1, delta_top1_low, delta_top1_high, null_top1_mean,
        null_top1_std, null_sets`` (NaN where not measured), published ones with the suffix ``_published``,
        and ``agree_delta``, ``agree_null``: yes or no, whether the 95 % interval of the difference holds 0
        (give or take the rounding of the published figure), or unknown.
    """
    names = [
        "delta_top1",
        "delta_top1_low",
        "delta_top1_high",
        "null_top1_mean",
        "null_top1_std",
        "null_sets",
    ]
    keys = ["task", "model", "screen"]
    published = load_published().rename(
        columns={c: f"{c}_published" for c in ("delta_top1", "null_mean", "null_std", "null_sets", "heads")}
    )
    joined = published.merge(measured[[*keys, *names]], on=keys, how="left", validate="one_to_one")
    joined["agree_delta"] = [_agree_delta(row) for _, row in joined.iterrows()]
    joined["agree_null"] = [_agree_null(row) for _, row in joined.iterrows()]
    return joined


def published_delta(clean: float, delta: float, prompts: int) -> Estimate:
    """A published Δ of top-1 with a 95 % interval (ours).

    The paper gives none, and its pairs are unknown. Variances of clean and ablated are added as if they came
    from different prompts, which is too wide where the two runs agree, never too narrow then.
    """
    ablated = clean + delta
    half = NORMAL_95 * sqrt(max(clean * (1 - clean) + ablated * (1 - ablated), 0) / prompts)
    return delta, delta - half, delta + half


def _agree_delta(row: pd.Series) -> str:
    measured: Estimate = (row["delta_top1"], row["delta_top1_low"], row["delta_top1_high"])
    published = published_delta(row["clean_top1"], row["delta_top1_published"], row["prompts"])
    return _holds_zero(difference(measured, published), row["rounding"])


def _agree_null(row: pd.Series) -> str:
    """Means of the two nulls, by their standard errors."""
    estimates = []
    for mean, std, sets in (
        (row["null_top1_mean"], row["null_top1_std"], row["null_sets"]),
        (row["null_mean_published"], row["null_std_published"], row["null_sets_published"]),
    ):
        half = NORMAL_95 * std / sqrt(sets) if sets and sets == sets else NAN
        estimates.append((mean, mean - half, mean + half))
    return _holds_zero(difference(estimates[0], estimates[1]), 0.0005)


def _holds_zero(estimate: Estimate, rounding: float) -> str:
    _, low, high = estimate
    if low != low or high != high:
        return "unknown"
    return "yes" if low - rounding <= TIE and high + rounding >= -TIE else "no"


def _row(data: dict[str, Any], entry: dict[str, Any]) -> dict[str, Any]:
    task, model, screen = entry["task"], entry["model"], entry["screen"]
    clean, null = data["clean"][task][model], entry["null"] or {"mean": None, "sd": None, "m": 0}
    return {
        "task": task,
        "model": model,
        "screen": screen,
        "heads": ",".join(data["circuits"][screen][model]),
        "clean_top1": clean["top1"] / 100,
        "clean_frac_correct": _share(clean.get("frac_correct")),
        "clean_logit_diff": clean.get("logit_diff", NAN),
        "delta_top1": entry["delta"] / 100,
        "delta_logit_diff": entry.get("delta_logit_diff", NAN),
        "null_mean": _share(null["mean"]),
        "null_std": _share(null["sd"]),
        "null_sets": null["m"],
        "rounding": 0.005 if isinstance(entry["delta"], int) else 0.0005,
        "prompts": PROMPTS[task],
        "primary": data["published_primary"][task][model],
        "faults": "; ".join(_faults(entry, null["m"])),
    }


def _faults(entry: dict[str, Any], sets: int) -> list[str]:
    """Known faults of a published row."""
    faults = [entry["fault"]] if "fault" in entry else []
    if sets < 2:
        faults.append("no null" if not sets else "a null of one set")
    if entry["screen"] in GENERAL:
        faults.append("picked from fp16 attention, whose underflow inflates selectivities")
    return faults


def _share(percent: float | None) -> float:
    return NAN if percent is None else percent / 100
