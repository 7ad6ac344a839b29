"""Result folders of made-up but realistic cells, for tests of tracking, compare and report.

Numbers hang together: the null's summary is computed from the null conditions that are written beside it.
"""

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from mechexp.models.heads import Head, format_heads
from mechexp.tracking.results import CellFiles, write_cell
from mechexp.tracking.validate import SCHEMA

CLASSES = ("prev_token", "induction", "duplicate_token", "bos", "self", "local")
SCREENS = ("prev_token", "induction", "name_mover")


@dataclass(frozen=True)
class Effect:
    """What a screen's ablation does in a made-up cell, in units of the metric."""

    top1: float = 0.0
    logit_diff: float = 0.0
    null_sd: float = 0.1
    label: str = "null"
    flags: tuple[str, ...] = ()


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


STRONG = Effect(-0.62, -3.1, 0.15, "primary")
WEAK = Effect(-0.04, -0.55, 0.1, "secondary", ("weak", "margin_only"))
NONE = Effect(-0.002, -0.05, 0.1, "null")
HELPS = Effect(0.05, 0.9, 0.1, "interferer", ("bos_confound",))


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
    status: str = "complete",
    **result: Any,
) -> dict[str, Any]:
    """Arguments of ``write_cell`` for one cell; ``result`` overrides top-level fields of ``result.json``."""
    rng = np.random.default_rng([seed, *f"{model}/{task}".encode()])
    effects = dict(zip(SCREENS, (STRONG, NONE, WEAK), strict=True)) if effects is None else effects
    clean = {"top1": 0.97, "logit_diff": 5.2, "frac_correct": 0.99, "prob_diff": 0.8, "target_rank": 0.1}
    frame = _heads(rng, layers, heads)
    rows: list[dict[str, Any]] = []
    screens, circuits = {}, []
    for name, effect in effects.items():
        order = rng.choice(layers * heads, size=4, replace=False)
        picked = [Head(int(i) // heads, int(i) % heads) for i in sorted(order)]
        row, conditions = _screen(rng, name, picked, effect, clean, sets, heads, layers)
        screens[name] = row
        rows += conditions
        circuits.append(SavedCircuit(name, tuple(picked), model, layers, heads))
    single = {r["heads"]: r for r in rows if r["role"] == "single"}
    for delta, metric in (("single_delta_top1", "top1"), ("single_delta_logit_diff", "logit_diff")):
        frame[delta] = [
            single[f"L{a}H{b}"][metric] - clean[metric] if f"L{a}H{b}" in single else np.nan
            for a, b in zip(frame["layer"], frame["head"], strict=True)
        ]
    identity = f"{model}/{task}/{seed}"
    content = {
        "schema": SCHEMA,
        "mechexp_version": "0.1.0",
        "status": status,
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
        "control": "matched_random",
        "ablation": "mean",
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


def _screen(
    rng: np.random.Generator,
    name: str,
    picked: list[Head],
    effect: Effect,
    clean: dict[str, float],
    sets: int,
    heads: int,
    layers: int,
) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    def condition(role: str, index: int, which: list[Head], top1: float, logit_diff: float) -> dict[str, Any]:
        return {
            "screen": name,
            "role": role,
            "set_index": index,
            "heads": format_heads(which),
            "kind": "mean",
            "top1": clean["top1"] + top1,
            "logit_diff": clean["logit_diff"] + logit_diff,
            "frac_correct": 0.9,
        }

    rows = [condition("circuit", 0, picked, effect.top1, effect.logit_diff)]
    rows += [
        condition(
            "single",
            i,
            [h],
            effect.top1 / 4 + rng.normal(0, 0.01),
            effect.logit_diff / 4 + rng.normal(0, 0.1),
        )
        for i, h in enumerate(picked)
    ]
    null_top1 = rng.normal(-0.01, effect.null_sd / 10, sets)
    null_logit = rng.normal(-0.1, effect.null_sd, sets)
    for i in range(sets):
        others = [Head(h.layer, int(rng.integers(heads))) for h in picked]
        rows.append(condition("null", i, others, null_top1[i], null_logit[i]))
    metrics: dict[str, Any] = {"null_sets": sets}
    for m, delta, null in (("top1", effect.top1, null_top1), ("logit_diff", effect.logit_diff, null_logit)):
        mean, sd = float(null.mean()), float(null.std(ddof=1))
        half = 0.1 * abs(delta) + 0.01
        metrics |= {
            f"clean_{m}": clean[m],
            f"ablated_{m}": clean[m] + delta,
            f"delta_{m}": delta,
            f"delta_{m}_low": delta - half,
            f"delta_{m}_high": delta + half,
            f"null_{m}_mean": mean,
            f"null_{m}_std": sd,
            f"null_{m}_min": float(null.min()),
            f"null_{m}_max": float(null.max()),
            f"p_harm_{m}": (int((null <= delta).sum()) + 1) / (sets + 1),
            f"p_help_{m}": (int((null >= delta).sum()) + 1) / (sets + 1),
            f"z_{m}": (delta - mean) / max(sd, 0.005),
            f"specificity_{m}": abs(delta) / max(abs(mean), 0.01),
        }
    row = {
        "heads": [[h.layer, h.head] for h in picked],
        "n_heads": len(picked),
        "metrics": metrics,
        "taxonomy": effect.label,
        "taxonomy_top1": effect.label,
        "taxonomy_logit_diff": effect.label,
        "flags": list(effect.flags),
        "evidence": {},
        "rules": [f"Δ = {effect.logit_diff:+.2f} against the null"],
        "notes": [],
    }
    return row, rows
