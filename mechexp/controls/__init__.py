"""Controls: matched random head sets that a circuit must beat.

Each public name is imported when it is first asked for, so that configs compose fast.
"""

from typing import TYPE_CHECKING, Any

from mechexp.controls.config import ControlConfig

if TYPE_CHECKING:
    from mechexp.controls.adaptive import Growth, extend, next_sets
    from mechexp.controls.api import check, draw
    from mechexp.controls.registry import CONTROLS, DrawRequest
    from mechexp.controls.sets import MatchedSets

_HOMES = {
    "adaptive": ("Growth", "extend", "next_sets"),
    "api": ("CONTROLS", "DrawRequest", "check", "draw"),
    "sets": ("MatchedSets",),
}

__all__ = [
    "CONTROLS",
    "ControlConfig",
    "DrawRequest",
    "Growth",
    "MatchedSets",
    "check",
    "draw",
    "extend",
    "next_sets",
]


def __getattr__(name: str) -> Any:
    """Import a public name from its module on first use."""
    from importlib import import_module

    for module, names in _HOMES.items():
        if name in names:
            return getattr(import_module(f"mechexp.controls.{module}"), name)
    raise AttributeError(f"module 'mechexp.controls' has no attribute {name!r}")
