"""Result folders of made-up but realistic cells, for tests of tracking, compare and report.

Numbers hang together: the null's summary is computed from the null conditions that are written beside it.
"""

import hashlib
import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from mechexp.findings import TaxonomyConfig, judge, summarise_null, to_row
from mechexp.findings.effects import Effect as EffectRow
from mechexp.findings.evidence import Evidence, empty_evidence
from mechexp.models.heads import Head, format_heads
from mechexp.tracking.results import CellFiles, write_cell
from mechexp.tracking.validate import SCHEMA

CLASSES = ("prev_token", "induction", "duplicate_token", "bos", "self", "local")
SCREENS = ("prev_token", "induction", "name_mover")


@dataclass(frozen=True)
class Effect:
    """What a screen's ablation does in a made-up cell; the label follows from it by the real rules."""

    top1: float = 0.0
    logit_diff: float = 0.0
    null_sd: float = 0.1
    bos: float = 0.0


@dataclass(frozen=True)
class SavedCircuit:
    """Writes what ``Circuit.save`` writes, without importing the screens (and torch with them)."""

    screen: str
    heads: tuple[Head, ...]
    model: str
    layers: int
    n_heads: int

    def save(self, path: Path) -> None:
        model = {
            "id": f"org/{self.model}",
            "revision": "main",
            "weights_hash": "ab" * 32,
            "n_layers": self.layers,
            "n_heads": self.n_heads,
            "head_dim": 64,
        }
        row = {
            "schema": "mechexp.circuit/1",
            "screen": self.screen,
            "heads": [str(h) for h in self.heads],
            "scores": [1.0] * len(self.heads),
            "pattern": None,
            "model": model,
            "details": {},
            "notes": [],
        }
        path.write_text(json.dumps(row), encoding="utf-8")


STRONG = Effect(-0.62, -3.1, 0.15)  # primary
WEAK = Effect(-0.01, -0.55, 0.1)  # secondary, weak, where it stands beside a strong one
NONE = Effect(-0.002, -0.05, 0.1)  # null
HELPS = Effect(0.02, 0.9, 0.1, bos=1.0)  # interferer, bos_confound


def cell_parts(
    model: str = "smollm2",
    task: str = "ioi",
    effects: dict[str, Effect] | None = None,
    *,
    layers: int = 12,
    heads: int = 8,
    sets: int = 19,
    n: int = 16,
    seed: int = 0,
    competent: bool = True,
    **result: Any,
) -> dict[str, Any]:
    """Arguments of ``write_cell`` for one cell; ``result`` overrides top-level fields of ``result.json``."""
    rng = np.random.default_rng([seed, *f"{model}/{task}".encode()])
    effects = dict(zip(SCREENS, (STRONG, NONE, WEAK), strict=True)) if effects is None else effects
    clean = {"top1": 0.97, "logit_diff": 5.2, "frac_correct": 0.99, "prob_diff": 0.8, "target_rank": 0.1}
    if not competent:
        clean |= {"top1": 0.14, "logit_diff": 0.3, "frac_correct": 0.55}
    frame = _heads(rng, layers, heads)
    rows: list[dict[str, Any]] = [_condition("", "clean", 0, [], clean, 0.0, 0.0)]
    evidence: list[Evidence] = []
    picks: dict[str, list[Head]] = {}
    for name, effect in effects.items():
        order = rng.choice(layers * heads, size=min(4, layers * heads), replace=False)
        picks[name] = [Head(int(i) // heads, int(i) % heads) for i in order]
        if not competent:
            evidence += [_unable(name, metric, clean) for metric in ("top1", "logit_diff")]
            continue
        pair, conditions = _screen(rng, name, picks[name], effect, clean, sets, heads)
        evidence += pair
        rows += conditions
    screens = _judged(evidence, picks)
    circuits = [SavedCircuit(name, tuple(picked), model, layers, heads) for name, picked in picks.items()]
    single = {r["heads"]: r for r in rows if r["role"] == "single"}
    for delta, metric in (("single_delta_top1", "top1"), ("single_delta_logit_diff", "logit_diff")):
        frame[delta] = [
            single[f"L{a}H{b}"][metric] - clean[metric] if f"L{a}H{b}" in single else np.nan
            for a, b in zip(frame["layer"], frame["head"], strict=True)
        ]
    asked = {k: result[k] for k in ("control", "ablation", "screen", "taxonomy", "swept") if k in result}
    identity = f"{model}/{task}/{seed}/{json.dumps(asked, sort_keys=True)}"
    content = {
        "schema": SCHEMA,
        "mechexp_version": "0.1.0",
        "status": "complete" if competent else "not_evaluated",
        "reason": ""
        if competent
        else "the clean model cannot do the task: top1 0.14 < 0.2 (taxonomy.min_top1)",
        "cell_key": hashlib.sha256(identity.encode()).hexdigest()[:24],
        "sweep_id": None,
        "model": {
            "name": model,
            "id": f"org/{model}",
            "revision": "main",
            "weights_hash": "ab" * 32,
            "arch": "llama",
            "n_layers": layers,
            "n_heads": heads,
            "head_dim": 64,
            "dtype": "float32",
        },
        "task": {"name": task, "n": n, "prompts_hash": hashlib.sha256(task.encode()).hexdigest()},
        "control": {"name": "matched_random", "max_sets": sets},
        "ablation": {"name": "mean", "positions": "all"},
        "screen": {"name": "all", "k": 0},
        "taxonomy": asdict(TaxonomyConfig()),
        "seed": seed,
        "clean": clean,
        "screens": screens,
        "timing": {
            "load_s": 2.5,
            "clean_s": 1.0,
            "screen_s": 3.0,
            "ablate_s": 20.0,
            "findings_s": 0.5,
            "conditions": len(rows),
            "cached_conditions": 0,
            "needed_flops": 1.0e12,
        },
        "notes": ["two screens share heads"],
        **result,
    }
    return {
        "result": content,
        "heads": frame,
        "conditions": pd.DataFrame(
            rows,
            columns=["screen", "role", "set_index", "heads", "kind", "top1", "logit_diff", "frac_correct"],
        ),
        "prompts": [
            {
                "prompt": f"When Ann and Bob went to the {task} shop, Ann gave a pen ({i}) to",
                "target": [" Bob"],
                "distractor": [" Ann"],
                "spans": {"io": [13, 16]},
                "half": ("screen", "test")[i % 2],
            }
            for i in range(n)
        ],
        "config": {
            "model": {"name": model},
            "task": {"name": task, "n": n},
            "screen": {"name": "all", "k": 0},
            "tracking": {"uri": ""},
        },
        "circuits": circuits,
    }


def make_cell(folder: Path, *args: Any, before_commit: Any = None, **kwargs: Any) -> CellFiles:
    """Write a made-up cell into ``folder``; arguments as in ``cell_parts``."""
    return write_cell(folder, before_commit=before_commit, **cell_parts(*args, **kwargs))


def _heads(rng: np.random.Generator, layers: int, heads: int) -> pd.DataFrame:
    layer, head = np.divmod(np.arange(layers * heads), heads)
    scores = {c: rng.lognormal(1.0, 1.5, layers * heads) for c in CLASSES}
    frame = pd.DataFrame({"layer": layer, "head": head, **scores})
    best = frame[list(CLASSES)].max(axis=1)
    frame["best_class"] = frame[list(CLASSES)].idxmax(axis=1).where(best >= 5, "none")
    return frame


def _condition(
    screen: str,
    role: str,
    index: int,
    which: list[Head],
    clean: dict[str, float],
    top1: float,
    logit_diff: float,
) -> dict[str, Any]:
    return {
        "screen": screen,
        "role": role,
        "set_index": index,
        "heads": format_heads(which),
        "kind": "" if role == "clean" else "mean",
        "top1": clean["top1"] + top1,
        "logit_diff": clean["logit_diff"] + logit_diff,
        "frac_correct": 0.9,
    }


def _screen(
    rng: np.random.Generator,
    name: str,
    picked: list[Head],
    effect: Effect,
    clean: dict[str, float],
    sets: int,
    heads: int,
) -> tuple[list[Evidence], list[dict[str, Any]]]:
    """Evidence on both metrics, and the conditions it comes from."""
    rows = [_condition(name, "circuit", 0, picked, clean, effect.top1, effect.logit_diff)]
    for i, h in enumerate(picked):
        share = rng.uniform(0.15, 0.35)
        single = (effect.top1 * share, effect.logit_diff * share)
        rows.append(_condition(name, "single", i, [h], clean, *single))
    null_top1 = rng.normal(-0.01, effect.null_sd / 10, sets)
    null_logit_diff = rng.normal(-0.1, effect.null_sd, sets)
    for i in range(sets):
        others = [Head(h.layer, int(rng.integers(heads))) for h in picked]
        rows.append(_condition(name, "null", i, others, clean, null_top1[i], null_logit_diff[i]))
    evidence = [
        _evidence(name, "top1", picked, effect.top1, null_top1, clean, effect.bos),
        _evidence(name, "logit_diff", picked, effect.logit_diff, null_logit_diff, clean, effect.bos),
    ]
    return evidence, rows


def _evidence(
    screen: str, metric: str, picked: list[Head], delta: float, null: Any, clean: dict[str, float], bos: float
) -> Evidence:
    half = 0.1 * abs(delta) + 0.001
    mean = float(null.mean()) if len(null) else float("nan")
    excess = delta - mean
    effect = EffectRow(
        clean[metric],
        clean[metric] + delta,
        delta,
        delta - half,
        delta + half,
        excess,
        excess - half,
        excess + half,
    )
    return Evidence(
        cell="cell",
        screen=screen,
        metric=metric,
        heads=tuple(picked),
        effect=effect,
        null=summarise_null(delta, null, metric=metric, clean=clean[metric]),
        clean_top1=clean["top1"],
        clean_frac_correct=clean["frac_correct"],
        singles_help=float(delta > 0),
        bos=bos,
        null_total=5000,
    )


def _unable(screen: str, metric: str, clean: dict[str, float]) -> Evidence:
    known = {"clean_top1": clean["top1"], "clean_frac_correct": clean["frac_correct"]}
    return empty_evidence("cell", screen, metric, clean[metric], **known)


def _judged(evidence: list[Evidence], picks: dict[str, list[Head]]) -> dict[str, dict[str, Any]]:
    """Rows of ``result.json`` by the real rules."""
    if not evidence:
        return {}
    by_screen = {(e.screen, e.metric): e for e in evidence}
    rows = {}
    for finding in judge(evidence, TaxonomyConfig()):
        name = finding.screen
        row = to_row(by_screen[name, "top1"], by_screen[name, "logit_diff"], finding)
        row["heads"] = [[h.layer, h.head] for h in picks[name]]
        row["n_heads"] = len(picks[name])
        row["notes"] = []
        rows[name] = row
    return rows
