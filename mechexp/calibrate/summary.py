"""``calibration.json``: all rates of one calibration, under the default settings and under others."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, is_dataclass
from typing import Any

from mechexp.calibrate import statistics as stat
from mechexp.calibrate.verdicts import Case, cases
from mechexp.findings import TaxonomyConfig

SCHEMA = "mechexp.calibration/1"
SETS = ("paper", 10, 19, 99, "all")
Rows = Sequence[Mapping[str, Any]]


def summarise(rows: Rows, *, taxonomy: TaxonomyConfig | None = None) -> dict[str, Any]:
    """Everything that calibration found, ready to be written as JSON.

    Args:
        rows: From ``run_model``.
        taxonomy: Thresholds of the headline; the defaults.
    """
    own = cases(rows, taxonomy=taxonomy)
    clear = [c for c in own if stat.is_clear(c)]
    fpr = stat.false_positives(own)
    found: dict[str, Any] = {
        "schema": SCHEMA,
        "models": len(rows),
        "screens": len(own),
        "not_competent": sum(row["runs"]["default"]["status"] != "complete" for row in rows),
        "circuits_found": stat.rate(c.found for c in own),
        "false_positive_rate": fpr["any"].rate,
        "recall": {k: r.rate for k, r in stat.recall(clear).items() if r.of},
        "confusion": stat.confusion(own),
        "confusion_clear": stat.confusion(clear),
        "false_positives": fpr,
        "recall_clear": stat.recall(clear),
        "recall_all": stat.recall(own),
        "recall_by_role_clear": stat.recall_by_role(clear),
        "precision": stat.precision(own),
        "by_strength": {r: stat.by_strength(own, r) for r in ("primary", "secondary", "interferer")},
        "flags": flag_rates(own),
        "p": stat.p_calibration(own, stat.sets_needed(rows)),
        "p_values": stat.p_values(own),
        "coverage": stat.coverage(rows),
        "rules": rules(rows),
        "sets": {str(s): _short(cases(rows, sets=s, taxonomy=taxonomy)) for s in SETS},
        "settings": settings(rows, taxonomy),
        "wrong": [_wrong(c) for c in clear if not c.right],
    }
    plain: dict[str, Any] = _plain(found)
    return plain


def rules(rows: Rows) -> dict[str, Any]:
    """Rules for interferers and levels of the test, side by side."""
    chosen = {
        "p, specificity of causes only": TaxonomyConfig(interferer_specificity=0.0, min_z=0.0),
        "p, specificity of both": TaxonomyConfig(min_z=0.0),
        "p, specificity of both, |z| >= 2": TaxonomyConfig(min_z=2.0),
        "p, specificity of both, |z| >= 2.5": TaxonomyConfig(min_z=2.5),
        "p, specificity of both, |z| >= 3 (default)": TaxonomyConfig(),
        "p, specificity of both, |z| >= 4": TaxonomyConfig(min_z=4.0),
        "alpha 0.025, specificity of both": TaxonomyConfig(alpha=0.025, min_z=0.0),
    }
    return {name: _short(cases(rows, taxonomy=cfg)) for name, cfg in chosen.items()}


def settings(rows: Rows, taxonomy: TaxonomyConfig | None) -> dict[str, Any]:
    """Other kinds of ablation and numbers of prompts, each with the default on the very same models."""
    out: dict[str, Any] = {}
    for name in dict.fromkeys(name for row in rows for name in row["runs"]):
        same = [row for row in rows if name in row["runs"]]
        own = cases(same, setting=name, taxonomy=taxonomy)
        base = cases(same, taxonomy=taxonomy)
        out[name] = {
            "models": len(same),
            **_short(own),
            "default_on_the_same_models": _short(base),
            "constant_interferer_labels": _labels(own, "constant_interferer"),
            "constant_interferer_labels_default": _labels(base, "constant_interferer"),
        }
    return out


def flag_rates(own: Sequence[Case]) -> dict[str, stat.Rate]:
    """How often a flag is raised where it should be, and where it should not."""

    def share(flag: str, among: list[Case]) -> stat.Rate:
        return stat.rate(flag in c.flags for c in among)

    correlates = [c for c in own if c.role == "correlate"]
    repaired = [c for c in own if c.role == "repaired"]
    heavy = [c for c in own if c.role == "null" and c.share >= 0.28]
    light = [c for c in own if c.role != "null"]
    suppress = [c for c in own if c.role == "secondary" and c.screen == "bos" and c.share >= stat.CLEAR]
    return {
        "repaired where self-repair is planted": share("repaired", repaired),
        "repaired where nothing is written": share("repaired", correlates),
        "null_destructive where all heads answer together": share("null_destructive", heavy),
        "null_destructive elsewhere": share("null_destructive", light),
        "margin_only where only the wrong answer is suppressed": share("margin_only", suppress),
    }


def _short(own: Sequence[Case]) -> dict[str, Any]:
    """The rates that are compared across settings."""
    clear = [c for c in own if stat.is_clear(c)]
    fpr = stat.false_positives(own)
    return {
        "false_positive_rate": fpr["any"],
        "false_positive_cause": fpr["cause"],
        "false_positive_interferer": fpr["interferer"],
        "recall": stat.recall(clear),
        "recall_all": stat.recall(own),
        "indeterminate": stat.rate(c.label == "indeterminate" for c in own),
    }


def _labels(own: Sequence[Case], role: str) -> dict[str, int]:
    labels = [c.label for c in own if c.role == role]
    return {label: labels.count(label) for label in sorted(set(labels))}


def _wrong(c: Case) -> dict[str, Any]:
    keep = ("seed", "screen", "role", "label", "share", "delta", "specificity", "p_harm", "p_help", "found")
    return {k: getattr(c, k) for k in keep} | {"flags": list(c.flags)}


def _plain(value: Any) -> Any:
    """JSON values; unknown numbers become null."""
    if is_dataclass(value) and not isinstance(value, type):
        return _plain(asdict(value))
    if isinstance(value, Mapping):
        return {str(k): _plain(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(v) for v in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
