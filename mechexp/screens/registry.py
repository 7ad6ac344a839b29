"""The table of screens: a conf name, and the function that scores every head."""

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from pkgutil import iter_modules
from typing import TYPE_CHECKING

from mechexp.registry import Registry

if TYPE_CHECKING:
    from mechexp.screens.inputs import ScreenInputs
    from mechexp.screens.scores import ScreenScores


@dataclass(frozen=True)
class Screen:
    """A way to choose heads by what they attend to.

    Attributes:
        name: Conf name.
        score: Scores every head of the model.
        general: Looks at random tokens (fits any task) rather than at the task's prompts.
    """

    name: str
    score: "Callable[[ScreenInputs], ScreenScores]"
    general: bool = False


SCREENS: Registry[Screen] = Registry("screen")


def register(screen: Screen) -> Screen:
    """Enter a screen under its name."""
    return SCREENS.register(screen.name)(screen)


def find_screens() -> None:
    """Import every file of this folder, so that each screen in it enters itself."""
    import mechexp.screens as room

    for module in iter_modules(room.__path__):
        if module.name != "run":
            import_module(f"{room.__name__}.{module.name}")
