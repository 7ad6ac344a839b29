"""The table of screens: a conf name, and the function that scores every head."""

from collections.abc import Callable
from dataclasses import dataclass
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
