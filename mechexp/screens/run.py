"""Run the screens of a cell: circuits, and one table that holds every head's evidence."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from mechexp.config import ScreenConfig
from mechexp.errors import UserError
from mechexp.models import LoadedModel
from mechexp.models.checkpoints import Checkpoint
from mechexp.models.heads import Head
from mechexp.screens.batch import CLASSES
from mechexp.screens.circuit import Circuit
from mechexp.screens.evidence import ov_copy_score
from mechexp.screens.inputs import ScreenInputs
from mechexp.screens.registry import SCREENS, find_screens
from mechexp.screens.scores import ScreenScores, pick
from mechexp.screens.user import from_file, from_heads
from mechexp.tasks.prompts import PromptSet

GENERAL_CIRCUITS = ("prev_token", "induction", "duplicate_token", "bos")
USER_SCREENS = ("heads", "file")

find_screens()


@dataclass(frozen=True)
class PatternRule:
    """When a head counts as showing its screen's pattern; see ``taxonomy.pattern_*``.

    Attributes:
        attention: Least attention to the screen's target.
        score: Least score, for screens that have no threshold of their own.
    """

    attention: float = 0.1
    score: float = 2.0


@dataclass(frozen=True)
class Screened:
    """What the screens of one cell found.

    Attributes:
        circuits: One a screen, in the order of the screens; may be empty of heads.
        heads: One row a head of the model: ``layer, head``, every screen's score, attention and contrast,
            ``best_class``, selectivity by class, ``ov_copy``.
        notes: Sentences for the reader.
        bos_filtered: The heads of each circuit picked again by the same rule without BOS-class heads; only
            for circuits that hold some, by screen.
    """

    circuits: tuple[Circuit, ...]
    heads: pd.DataFrame
    notes: tuple[str, ...]
    bos_filtered: Mapping[str, tuple[Head, ...]] = field(default_factory=dict)

    @property
    def sinks(self) -> set[tuple[int, int]]:
        """Heads whose best class is ``bos``, as (layer, head)."""
        rows = self.heads[self.heads["best_class"] == "bos"]
        return {(int(layer), int(head)) for layer, head in rows[["layer", "head"]].to_numpy()}


def screens_of(cfg: ScreenConfig, task_screens: Sequence[str]) -> tuple[str, ...]:
    """Names of the screens to run; ``all`` is the general circuits and the task's own screens.

    Raises:
        UserError: A screen that does not exist or fits another task, or options of another screen.
    """
    for option, screen in (("heads", "heads"), ("file", "file")):
        if getattr(cfg, option) and cfg.name != screen:
            raise UserError(
                f"screen.{option} is given, but the screen is {cfg.name!r}",
                todo=f"add screen={screen}, or leave screen.{option} out",
            )
    if cfg.name in USER_SCREENS:
        if cfg.k or cfg.select != "auto":
            raise UserError(
                f"screen.k and screen.select do nothing with screen={cfg.name}", todo="leave them out"
            )
        return (cfg.name,)
    if cfg.name == "all":
        return (*GENERAL_CIRCUITS, *task_screens)
    if not SCREENS[cfg.name].general and cfg.name not in task_screens:
        raise UserError(
            f"screen {cfg.name!r} does not fit this task",
            expected=f"a general screen or one of the task's own: {', '.join(task_screens) or '(none)'}",
        )
    return (cfg.name,)


def run_screens(
    loaded: LoadedModel,
    prompts: PromptSet,
    cfg: ScreenConfig,
    task_screens: Sequence[str],
    pattern: PatternRule = PatternRule(),
    checkpoints: tuple[Checkpoint, ...] = (),
) -> Screened:
    """Score every head, pick the circuits.

    Args:
        loaded: The model.
        prompts: The screen half of the prompts.
        cfg: Screen settings.
        task_screens: Names of the task's own screens.
        pattern: When a head counts as showing its screen's pattern.
        checkpoints: Training checkpoints that the spectral signal integrates over, if any.

    Raises:
        UserError: See `screens_of`, `pick` and the user screens.
    """
    names = screens_of(cfg, task_screens)
    # the user's own heads first: a circuit of another model is refused before anything is measured
    brought = {"heads": lambda: from_heads(loaded, cfg.heads), "file": lambda: from_file(loaded, cfg.file)}
    circuits = [brought[name]() for name in names if name in USER_SCREENS]
    inputs = ScreenInputs(loaded, prompts, cfg, checkpoints)
    table = _head_table(inputs)
    notes = []
    sink_LH = inputs.general.best_class_LH == "bos"
    filtered = {c.screen: tuple(h for h in c.heads if not sink_LH[h]) for c in circuits}
    for name in names:
        if name in USER_SCREENS:
            continue
        scores = SCREENS[name].score(inputs)
        circuits.append(_circuit(name, scores, inputs, pattern))
        filtered[name] = pick(scores, select=cfg.select, k=cfg.k, allowed_LH=_allowed(inputs) & ~sink_LH)[0]
        table[f"{name}_score"] = scores.score_LH.ravel()
        table[f"{name}_attention"] = scores.attention_LH.ravel()
        table[f"{name}_contrast"] = scores.contrast_LH.ravel()
    for circuit in circuits:
        notes += [f"{circuit.screen}: {note}" for note in circuit.notes]
        table[f"in_{circuit.screen}"] = [
            (row.layer, row.head) in set(circuit.heads) for row in table.itertuples()
        ]
    with_sinks = {c.screen: filtered[c.screen] for c in circuits if any(sink_LH[h] for h in c.heads)}
    return Screened(tuple(circuits), table, tuple(notes), with_sinks)


def _allowed(inputs: ScreenInputs) -> NDArray[np.bool_]:
    """Heads that screens may pick among: all, or those that ``screen.filter`` leaves."""
    if inputs.cfg.filter == "spectral":
        return inputs.spectral.top_LH
    return np.ones((inputs.loaded.n_layers, inputs.loaded.n_heads), dtype=bool)


def _circuit(name: str, scores: ScreenScores, inputs: ScreenInputs, pattern: PatternRule) -> Circuit:
    """Pick the heads of one screen and bind them to the model."""
    loaded, cfg = inputs.loaded, inputs.cfg
    heads, rule = pick(scores, select=cfg.select, k=cfg.k, allowed_LH=_allowed(inputs))
    if cfg.filter:
        rule += f"; only among the top {cfg.spectral.share:.0%} of heads by spectral signal"
    present = scores.present_LH(pattern.attention, pattern.score)
    has_target = not bool(np.isnan(scores.attention_LH).all())
    clamped = int(scores.details.get("clamped_heads", 0))
    notes = []
    if clamped:
        notes.append(f"{clamped} heads' scores rest on a clamped denominator and are not quantities")
    return Circuit(
        screen=name,
        heads=heads,
        model_id=loaded.id,
        revision=loaded.revision,
        weights_hash=loaded.weights_hash,
        geometry=loaded.geometry,
        scores=tuple(float(scores.score_LH[h]) for h in heads),
        pattern=float(np.mean([present[h] for h in heads])) if heads and has_target else float("nan"),
        details={"rule": rule, "seed": cfg.seed, **scores.details},
        notes=tuple(notes),
    )


def _head_table(inputs: ScreenInputs) -> pd.DataFrame:
    """One row a head, with its general class and OV copy score."""
    general, loaded = inputs.general, inputs.loaded
    layer, head = np.indices((loaded.n_layers, loaded.n_heads))
    table = pd.DataFrame({"layer": layer.ravel(), "head": head.ravel()})
    table["best_class"] = general.best_class_LH.ravel()
    for k, name in enumerate(CLASSES):
        table[f"attention_{name}"] = general.attention_KLH[k].ravel()
        table[f"selectivity_{name}"] = general.selectivity_KLH[k].ravel()
    table["ov_copy"] = ov_copy_score(inputs).ravel()
    for name, values in inputs.spectral.columns().items():
        table[name] = values
    return table
