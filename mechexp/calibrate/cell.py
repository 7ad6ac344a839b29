"""One planted model through the normal protocol, under one or several settings; its results as plain data."""

import time
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import numpy as np

from mechexp.config import AblationConfig
from mechexp.models.heads import Head
from mechexp.planted.blueprint import PlantedOptions, draw_blueprint
from mechexp.progress import JobProgress
from mechexp.schema import Config
from mechexp.tasks.planted import PlantedConfig

POPULATION_SEED = 1_000_003  # prompts that stand for all prompts; never those of the run


@dataclass(frozen=True)
class Setting:
    """What is changed of the default settings.

    Attributes:
        name: Its name in the results.
        ablation: Kind of ablation.
        prompts: Prompts, both halves together.
    """

    name: str = "default"
    ablation: str = "mean"
    prompts: int = 64


@dataclass(frozen=True)
class Ask:
    """One model and what is asked of it.

    Attributes:
        options: Which model.
        settings: The settings it is run under; the first is the default.
        population: Fresh prompts that the intervals of the first setting are held against; 0 for none.
    """

    options: PlantedOptions
    settings: tuple[Setting, ...] = field(default_factory=lambda: (Setting(),))
    population: int = 0


def run_model(ask: Ask) -> dict[str, Any]:
    """Write a planted model, run the protocol on it, and keep what calibration needs.

    Returns:
        ``options``, ``truth`` by screen, ``profile``, ``noise``, ``spread``, and per setting the screens'
        rows (as in ``result.json``) with the values of every matched set; ``population``: true Δ by screen
        and metric.
    """
    from mechexp.models.loading import load_model, release_models

    start = time.monotonic()
    blueprint = draw_blueprint(ask.options)
    loaded = load_model("planted", options=asdict(ask.options), device="cpu")
    try:
        runs = {s.name: run_setting(loaded, s, ask.options.seed) for s in ask.settings}
        population = _population(loaded, ask, runs[ask.settings[0].name]["screens"])
    finally:
        release_models()
    return {
        "options": asdict(ask.options),
        "profile": blueprint.profile,
        "noise": blueprint.noise,
        "spread": blueprint.spread,
        "truth": {name: asdict(truth) for name, truth in blueprint.screens.items()},
        "weights_hash": loaded.weights_hash,
        "runs": runs,
        "population": population,
        "seconds": time.monotonic() - start,
    }


def config(setting: Setting, seed: int) -> Config:
    """The default configuration with the setting's changes."""
    cfg = Config(task=PlantedConfig(n=setting.prompts, seed=seed), seed=seed)
    cfg.ablation = AblationConfig(name=setting.ablation)
    cfg.engine.threads = 1
    return cfg


def run_setting(loaded: Any, setting: Setting, seed: int) -> dict[str, Any]:
    """The normal protocol under one setting."""
    from mechexp.protocols import screen_ablate
    from mechexp.tasks import make_prompts

    cfg = config(setting, seed)
    progress = JobProgress(f"{loaded.id} · {setting.name}")
    prompts = make_prompts(cfg.task, loaded.tokenizer)
    cell = screen_ablate(loaded, prompts, cfg, progress)
    screens = {name: _plain(row) for name, row in cell.result["screens"].items()}
    for name, row in screens.items():
        row["null"] = _null_rows(cell.conditions, name)
    return {
        "setting": asdict(setting),
        "status": cell.result["status"],
        "clean": dict(cell.result["clean"]),
        "screens": screens,
        "conditions": cell.timing["conditions"],
        "timing": dict(progress.timing),
    }


def _plain(row: dict[str, Any]) -> dict[str, Any]:
    """A screen's row without its sentences."""
    return {k: v for k, v in row.items() if k not in ("rules", "details", "notes")}


def _null_rows(conditions: Any, screen: str) -> dict[str, list[Any]]:
    """Heads and values of every matched set of a screen, in the order they were drawn."""
    rows = conditions[(conditions["screen"] == screen) & (conditions["role"] == "null")]
    rows = rows.sort_values("set_index")
    return {k: rows[k].tolist() for k in ("heads", "top1", "logit_diff")}


def _population(loaded: Any, ask: Ask, screens: dict[str, Any]) -> dict[str, dict[str, float]]:
    """Δ of every circuit on many fresh prompts, with the run's own mean values: what intervals aim at."""
    from mechexp import engine
    from mechexp.tasks import make_prompts

    if not ask.population:
        return {}
    first = ask.settings[0]
    cfg = config(first, ask.options.seed)
    reference = make_prompts(cfg.task, loaded.tokenizer).part("screen")
    task = replace(cfg.task, n=ask.population, seed=POPULATION_SEED + ask.options.seed, split=False)
    circuits = {
        s: engine.Condition(tuple(Head(*h) for h in row["heads"]), first.ablation)
        for s, row in screens.items()
        if row["heads"]
    }
    outcomes = engine.measure(
        loaded,
        make_prompts(task, loaded.tokenizer),
        [engine.Condition(), *circuits.values()],
        reference=reference,
        seed=ask.options.seed,
        threads=1,
    )
    clean = outcomes[0]
    return {
        s: {
            m: float(np.mean(np.asarray(getattr(o, m), float) - np.asarray(getattr(clean, m), float)))
            for m in ("top1", "logit_diff")
        }
        for s, o in zip(circuits, outcomes[1:], strict=True)
    }
