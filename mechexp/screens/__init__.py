"""Screens: attention scores in, circuits out. Nothing here ablates, and nothing here judges."""

from mechexp.screens import general, task_screens  # noqa: F401  (they enter themselves in SCREENS)
from mechexp.screens.circuit import Circuit
from mechexp.screens.registry import SCREENS, Screen
from mechexp.screens.run import GENERAL_CIRCUITS, Screened, run_screens, screens_of

__all__ = ["GENERAL_CIRCUITS", "SCREENS", "Circuit", "Screen", "Screened", "run_screens", "screens_of"]
