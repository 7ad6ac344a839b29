"""The notebook door: the same protocol, engine and configuration as the command line, as four functions.

Needs neither Hydra nor MLflow, and writes nothing unless asked (``CellResult.save``).
"""

import json
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from mechexp.cell_result import CellResult
from mechexp.compose import compose
from mechexp.config import AblationConfig, ModelConfig, TaskConfig
from mechexp.describe import describe
from mechexp.engine import Condition, evaluate
from mechexp.errors import UserError
from mechexp.models import LoadedModel, load_from_config
from mechexp.models.settings import SETTINGS, from_name, known_names
from mechexp.progress import JobProgress
from mechexp.protocols import PROTOCOLS
from mechexp.schema import Config
from mechexp.screens.exchange import HeadsLike, as_heads
from mechexp.tasks import make_prompts as make_task_prompts
from mechexp.tasks.prompts import PromptSet

DRAW = ("seed", "prepend_bos")  # of prompts that were made elsewhere
UNUSED = ("tracking", "debug", "estimate", "plan", "resume")  # of the command line alone


def run_cell(
    model: str | Path | LoadedModel = "smollm2",
    task: str | Path | PromptSet = "ioi",
    *,
    screen: str = "all",
    control: str = "matched_random",
    ablation: str = "mean",
    protocol: str = "screen_ablate",
    options: Mapping[str, Any] | None = None,
    config_dir: str | Path | None = None,
) -> CellResult:
    """Run one cell, as ``python -m mechexp model=… task=…`` does.

    Args:
        model: A name of ``conf/model``, a folder, a hub id, or a model already loaded.
        task: A name of ``conf/task``, a JSONL file of your own prompts, or prompts already made.
        screen: How heads are picked.
        control: Which random heads they are judged against.
        ablation: What replaces an ablated head's z.
        protocol: Which recipe.
        options: Single values by the names of the command line: ``{"task.n": 64, "control.max_sets": 19}``.
        config_dir: A config folder of your own, as ``--config-dir``; its Python files are run.

    Returns:
        The findings; the same numbers as the command line gives. Known outcomes are kept only where
        ``engine.store`` names a folder.

    Raises:
        UserError: Anything the user can mend.
    """
    given = dict(options or {})
    folders = _own_folders(config_dir)
    choices = {"screen": screen, "control": control, "ablation": ablation, "protocol": protocol}
    if isinstance(model, str) and (model in known_names() or _has(folders, "model", model)):
        choices["model"] = model
    _refuse_unused(given, named="model" in choices, drawn=not isinstance(task, PromptSet))
    if _is_file(task):
        choices["task"], given["task.path"] = "custom", str(task)
    elif not isinstance(task, PromptSet):
        choices["task"] = str(task)
    cfg = compose(choices, {"engine.store": "", **given}, folders)
    loaded = _loaded(model, cfg, named="model" in choices)
    if isinstance(task, PromptSet):
        cfg.task = TaskConfig(name=task.task, n=len(task), split="both" not in task.half)
        # how these prompts were drawn is not known here; their hash says which they are
        said = describe(cfg, loaded, task)["task"]
        return _run(loaded, task, cfg, {"task": {k: v for k, v in said.items() if k not in DRAW}})
    prompts = make_task_prompts(cfg.task, loaded.tokenizer)
    known = {"overrides": _overrides(choices, given, folders)} if "model" in choices else {}
    return _run(loaded, prompts, cfg, known)


def _run(loaded: LoadedModel, prompts: PromptSet, cfg: Config, known: Mapping[str, Any]) -> CellResult:
    """Run the protocol; ``known`` is what else the result says of how it was asked for."""
    progress = JobProgress(f"{loaded.name} · {prompts.task}")
    cell = PROTOCOLS[cfg.protocol.name](loaded, prompts, cfg, progress)
    result = {
        **describe(cfg, loaded, prompts),
        **cell.result,
        "sweep_id": "",
        "swept": {},
        **known,
        "timing": {**progress.timing, **cell.timing},
    }
    return CellResult(result, cell.heads, cell.conditions, cell.circuits, prompts, cfg, cell.patterns)


def load_model(name_or_path: str | Path, **settings: Any) -> LoadedModel:
    """Load a model: a name of ``conf/model``, a folder, or a hub id; see ``mechexp.models.load_model``."""
    from mechexp.models import load_model as load

    return load(name_or_path, **settings)


def make_prompts(
    task: str | Path | Sequence[Mapping[str, Any]], model: LoadedModel | Any, **options: Any
) -> PromptSet:
    """Make a task's prompts for one model.

    Args:
        task: A name of ``conf/task``, a JSONL file, or the prompts themselves: mappings with ``prompt``,
            ``target``, ``distractor`` and, if you like, ``counterfactual``, ``spans``, ``half``.
        model: The model, or its tokenizer.
        **options: Options of the task: ``n``, ``seed``, ``split`` …

    Returns:
        The prompts, in halves: heads are picked on ``part("screen")`` and measured on ``part("test")``.

    Raises:
        UserError: An option or a prompt that cannot be; names which.
    """
    tokenizer = getattr(model, "tokenizer", model)
    values = {f"task.{key}": value for key, value in options.items()}
    if _is_file(task):
        cfg = compose({"task": "custom"}, {**values, "task.path": str(task)})
        return make_task_prompts(cfg.task, tokenizer)
    if isinstance(task, str):
        return make_task_prompts(compose({"task": task}, values).task, tokenizer)
    assert not isinstance(task, Path)
    # the very checks that a file gets, so that there is one definition of a good prompt
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "prompts.jsonl"
        try:
            path.write_text("".join(json.dumps(dict(row)) + "\n" for row in task), encoding="utf-8")
        except (TypeError, ValueError) as error:
            raise UserError(f"not a list of prompts: {error}") from error
        try:
            return make_task_prompts(
                compose({"task": "custom"}, {**values, "task.path": str(path)}).task, tokenizer
            )
        except UserError as error:
            where = error.where.replace(f"{path}:", "prompt ").replace(str(path), "the prompts given")
            found = error.found.replace(f"{path}:", "prompt ")
            raise UserError(found, where=where, expected=error.expected, todo=error.todo) from error


def ablate(
    model: LoadedModel,
    prompts: PromptSet,
    heads: HeadsLike | Mapping[str, HeadsLike],
    *,
    ablation: str = AblationConfig.name,
    positions: str = AblationConfig.positions,
    seed: int = 0,
) -> pd.DataFrame:
    """Remove heads and measure, on the test half, with mean values from the screen half.

    Args:
        model: The model.
        prompts: The prompts.
        heads: Heads to remove together: ``"L1H3,L2H1"``, ``[(1, 3), (2, 1)]`` or a circuit; or several such
            sets by name.
        ablation: ``mean``, ``zero``, ``mean_all`` or ``resample``.
        positions: ``all`` positions, or a named one such as ``end``.
        seed: Seed of the choice of resampling donors.

    Returns:
        One row a set, the clean model first: ``heads, kind, positions``, metrics (fractions; ``logit_diff``
        in logits), and ``delta_…`` against the clean model.

    Raises:
        UserError: Heads the model does not have, or values that cannot be computed on these prompts.
    """
    sets = dict(heads) if isinstance(heads, Mapping) else {"heads": heads}
    conditions = [Condition(as_heads(h, where=name), ablation, positions) for name, h in sets.items()]
    frame = evaluate(
        model,
        prompts.part("test"),
        [Condition(), *conditions],
        reference=prompts.part("screen"),
        seed=seed,
    )
    frame.index = pd.Index(["clean", *sets], name="set")
    for metric in ("top1", "logit_diff", "frac_correct"):
        frame[f"delta_{metric}"] = frame[metric] - frame[metric].iloc[0]
    return frame


def _refuse_unused(options: Mapping[str, Any], *, named: bool, drawn: bool) -> None:
    """No option is accepted and ignored."""
    barred = dict.fromkeys(UNUSED, "on the command line only; CellResult.save writes the files of a job")
    barred["resume"] = "without engine.store nothing is known that could be reused"
    if options.get("engine.store"):
        del barred["resume"]
    if not named:
        barred["model"] = "with a model by name; load_model takes its settings"
    if not drawn:
        barred["task"] = "when the prompts are made; make_prompts takes them"
    for key in options:
        if reason := barred.get(key.split(".")[0]):
            raise UserError(f"option {key!r} does nothing here", where="run_cell", expected=reason)


def _loaded(model: str | Path | LoadedModel, cfg: Config, *, named: bool) -> LoadedModel:
    """The model; ``cfg.model`` is made to describe it where it was not chosen by name."""
    if named:
        return load_from_config(cfg.model)
    if isinstance(model, LoadedModel):
        cfg.model = ModelConfig(
            name=model.name,
            id=model.id,
            revision=model.revision,
            dtype=model.dtype,
            checkpoints=dict(model.checkpoints),
            screen_length=model.screen_length,
        )
        return model
    settings = from_name(model)
    values: dict[str, Any] = {key: getattr(settings, key) for key in SETTINGS}
    cfg.model = ModelConfig(**{**values, "checkpoints": {}, "options": {}})
    return load_from_config(cfg.model)


def _is_file(task: object) -> bool:
    return isinstance(task, Path) or (isinstance(task, str) and task.endswith((".jsonl", ".json")))


def _overrides(choices: Mapping[str, str], options: Mapping[str, Any], folders: Sequence[Path]) -> list[str]:
    """The command line that asks for the same; choices that are the defaults are left out."""
    usual = {"screen": "all", "control": "matched_random", "ablation": "mean", "protocol": "screen_ablate"}
    parts = [part for folder in folders for part in ("--config-dir", str(folder))]
    parts += [f"{group}={choice}" for group, choice in choices.items() if usual.get(group) != choice]
    parts += [f"{k}={v if isinstance(v, str) else json.dumps(v)}" for k, v in options.items()]
    return parts


def _own_folders(config_dir: str | Path | None) -> list[Path]:
    if config_dir is None:
        return []
    from mechexp.plugins import load_folder

    load_folder(Path(config_dir))
    return [Path(config_dir)]


def _has(folders: Sequence[Path], group: str, choice: str) -> bool:
    return any((folder / group / f"{choice}.yaml").is_file() for folder in folders)
