"""Screens: attention scores in, circuits out. Nothing here ablates, and nothing here judges.

Each public name is imported when it is first asked for: a `Circuit` needs no torch.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mechexp.screens.circuit import Circuit
    from mechexp.screens.registry import SCREENS, Screen
    from mechexp.screens.run import (
        GENERAL_CIRCUITS,
        USER_SCREENS,
        PatternRule,
        Screened,
        run_screens,
        screens_of,
    )

_HOMES = {
    "circuit": ("Circuit",),
    "registry": ("SCREENS", "Screen"),
    "run": ("GENERAL_CIRCUITS", "USER_SCREENS", "PatternRule", "Screened", "run_screens", "screens_of"),
}

__all__ = [
    "GENERAL_CIRCUITS",
    "SCREENS",
    "USER_SCREENS",
    "Circuit",
    "PatternRule",
    "Screen",
    "Screened",
    "run_screens",
    "screens_of",
]


def __getattr__(name: str) -> Any:
    """Import a public name from its module on first use."""
    for module, names in _HOMES.items():
        if name in names:
            return getattr(import_module(f"mechexp.screens.{module}"), name)
    raise AttributeError(f"module 'mechexp.screens' has no attribute {name!r}")
