"""The root of the configuration, assembled from every room's dataclass, and its registration with Hydra.

Importing this module must stay fast: no torch, mlflow or transformers.
"""

from dataclasses import dataclass, field
from typing import Any

from mechexp.config import AblationConfig, ModelConfig, ProtocolConfig, ScreenConfig, TaskConfig
from mechexp.controls.config import ControlConfig
from mechexp.engine.config import EngineConfig
from mechexp.errors import UserError
from mechexp.findings.config import TaxonomyConfig
from mechexp.paths import conf_dir
from mechexp.tasks import TASKS
from mechexp.tracking.config import TrackingConfig

SINGLES = ("picked", "all", "none")


@dataclass
class Config:
    """One cell: a model, a task, and how the claim about its heads is tested.

    Attributes:
        model: Which model.
        task: Which prompts.
        screen: How heads are picked.
        control: Which random heads they are judged against.
        ablation: What replaces an ablated head's z.
        protocol: Which recipe.
        taxonomy: Thresholds of the labels.
        engine: How conditions are evaluated.
        tracking: Where results are mirrored to.
        singles: Whose single-head effects are measured: ``picked``, ``all`` or ``none``.
        seed: Seed of nulls, bootstrap and resampling.
        resume: Take cells whose result is known, and known outcomes from ``engine.store``; false measures
            everything anew.
        debug: Show tracebacks of user errors too.
        estimate: Print what the job would cost, and run nothing.
        plan: Print whether the cell would be run or its result is known, and run nothing.
    """

    model: ModelConfig = field(default_factory=ModelConfig)
    task: TaskConfig = field(default_factory=TaskConfig)
    screen: ScreenConfig = field(default_factory=ScreenConfig)
    control: ControlConfig = field(default_factory=ControlConfig)
    ablation: AblationConfig = field(default_factory=AblationConfig)
    protocol: ProtocolConfig = field(default_factory=ProtocolConfig)
    taxonomy: TaxonomyConfig = field(default_factory=TaxonomyConfig)
    engine: EngineConfig = field(default_factory=EngineConfig)
    tracking: TrackingConfig = field(default_factory=TrackingConfig)
    singles: str = "picked"
    seed: int = 0
    resume: bool = True
    debug: bool = False
    estimate: bool = False
    plan: bool = False


def register() -> None:
    """Enter the schema with Hydra: the root, and each task's own options under ``schema/task``."""
    from hydra.core.config_store import ConfigStore

    store = ConfigStore.instance()
    store.store(name="schema", node=Config)
    for name, task in TASKS.items():
        store.store(group="schema/task", name=name, node=task.config_class)
    for (group, name), node in without_file().items():
        store.store(group=group, name=name, node=node)


def without_file() -> dict[tuple[str, str], Any]:
    """Tasks, screens and controls that plugins have registered: choices without a file in ``conf``.

    Returns:
        The options of each, by config group and name. A YAML file of that name in a config folder goes first.
    """
    from mechexp.controls.registry import CONTROLS
    from mechexp.screens.registry import SCREENS

    nodes: dict[tuple[str, str], Any] = {("task", name): task.config_class for name, task in TASKS.items()}
    nodes |= {("screen", name): ScreenConfig(name=name) for name in SCREENS}
    nodes |= {("control", name): ControlConfig(name=name) for name in CONTROLS}
    return {
        key: node for key, node in nodes.items() if not (conf_dir() / key[0] / f"{key[1]}.yaml").is_file()
    }


def validate(cfg: Config) -> None:
    """Refuse values that no schema type can.

    Raises:
        UserError: Names the key, the value and what it may be.
    """
    from mechexp.controls import check as check_control
    from mechexp.engine.config import validate as check_engine

    if cfg.singles not in SINGLES:
        raise UserError(f"singles={cfg.singles}", expected=f"one of {', '.join(SINGLES)}")
    if not 0.5 <= cfg.protocol.level < 1:
        raise UserError(f"protocol.level={cfg.protocol.level}", expected="a confidence level such as 0.95")
    if cfg.protocol.bootstrap < 100:
        raise UserError(f"protocol.bootstrap={cfg.protocol.bootstrap}", expected="at least 100 resamples")
    if cfg.screen.sequences < 1:
        raise UserError(f"screen.sequences={cfg.screen.sequences}", expected="at least 1")
    _check_protocol(cfg)
    _check_spectral(cfg.screen)
    cfg.taxonomy.check()
    check_control(cfg.control)
    check_engine(cfg.engine)


def _check_spectral(screen: ScreenConfig) -> None:
    spectral = screen.spectral
    if not 0 < spectral.share <= 1:
        raise UserError(
            f"screen.spectral.share={spectral.share}", expected="a share of the heads, such as 0.18"
        )
    if spectral.subsamples < 2:
        raise UserError(f"screen.spectral.subsamples={spectral.subsamples}", expected="at least 2")
    if screen.filter not in ("", "spectral"):
        raise UserError(f"screen.filter={screen.filter}", expected='spectral, or "" for none')
    if screen.filter and screen.name in ("heads", "file", "spectral"):
        raise UserError(
            f"screen.filter does nothing with screen={screen.name}",
            expected="a screen that picks heads by their attention",
            todo="leave screen.filter out",
        )


def _check_protocol(cfg: Config) -> None:
    protocol = cfg.protocol
    if protocol.redraws < 0:
        raise UserError(f"protocol.redraws={protocol.redraws}", expected="0 (none) or more")
    if protocol.redraw_sets < 2:
        raise UserError(f"protocol.redraw_sets={protocol.redraw_sets}", expected="at least 2")
    counts = protocol.head_counts
    if any(k < 1 for k in counts) or len(set(counts)) < len(counts):
        raise UserError(f"protocol.head_counts={counts}", expected="different numbers of heads, 1 or more")
    if counts and cfg.screen.name in ("heads", "file"):
        raise UserError(
            f"protocol.head_counts with screen={cfg.screen.name}",
            expected="screens that rank all heads of the model",
            todo="leave protocol.head_counts out, or choose another screen",
        )
