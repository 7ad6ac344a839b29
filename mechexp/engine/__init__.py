"""Evaluating many interventions on one model, exactly: conditions in, per-prompt outcomes out.

Nothing here knows a task, a screen or a tracking server. torch is imported when the first of the functions is
asked for, so that configs compose fast.
"""

from typing import TYPE_CHECKING, Any

from mechexp.engine.config import EngineConfig

if TYPE_CHECKING:
    from mechexp.engine.api import Measurement, evaluate, measure, run
    from mechexp.engine.condition import Condition, Outcome, expected_edits
    from mechexp.engine.edit import Edit, add_direction, complement, patch_head, patch_residual, set_head

_HOMES = {
    "condition": ("Condition", "Outcome", "expected_edits"),
    "edit": ("Edit", "add_direction", "complement", "patch_head", "patch_residual", "set_head"),
    "api": ("Measurement", "evaluate", "measure", "run"),
}

__all__ = [
    "Condition",
    "Edit",
    "EngineConfig",
    "Measurement",
    "Outcome",
    "add_direction",
    "complement",
    "evaluate",
    "expected_edits",
    "measure",
    "patch_head",
    "patch_residual",
    "run",
    "set_head",
]


def __getattr__(name: str) -> Any:
    """Import a public name from its module on first use."""
    from importlib import import_module

    for module, names in _HOMES.items():
        if name in names:
            return getattr(import_module(f"mechexp.engine.{module}"), name)
    raise AttributeError(f"module 'mechexp.engine' has no attribute {name!r}")
