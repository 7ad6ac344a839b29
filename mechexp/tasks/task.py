"""What a task is: its options, the texts it makes, the screens and named positions that go with it."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from mechexp.config import TaskConfig
from mechexp.registry import Registry
from mechexp.tasks.prompts import PromptSet, TextPrompt
from mechexp.tasks.vocabulary import Vocabulary


@dataclass(frozen=True)
class Texts:
    """Prompts before tokenization.

    Attributes:
        prompts: The prompts, all different.
        notes: What a reader must know.
        where: Where each prompt was written, for messages (``file:line``). Prompts with such a place are the
            user's: what breaks the tokenization contract in them is refused. Without one they are made from
            our word lists, and the word is dropped instead.
        half: The half of each prompt, where the user has fixed it.
    """

    prompts: tuple[TextPrompt, ...]
    notes: tuple[str, ...] = ()
    where: tuple[str, ...] = ()
    half: tuple[str, ...] = ()


@dataclass(frozen=True)
class Task:
    """One task.

    Attributes:
        name: Conf name.
        config_class: Its options, a subclass of ``TaskConfig``.
        texts: Makes its prompts from options, usable words and a source of randomness.
        screens: Its own attention screens, by name.
        spans: Named positions that every one of its prompts has (``end`` not counted).
    """

    name: str
    config_class: type[TaskConfig]
    texts: Callable[[Any, Vocabulary, np.random.Generator], Texts]
    screens: tuple[str, ...] = ()
    spans: tuple[str, ...] = ()


TASKS: Registry[Task] = Registry("task")


def screens_for(prompts: PromptSet) -> tuple[str, ...]:
    """Names of the task screens that fit: the task's own, or any whose named positions every prompt has.

    Args:
        prompts: A task's prompts; a user's own get the screens of every task whose positions they name.
    """
    own = TASKS[prompts.task].screens
    if own:
        return own
    fitting = [
        screen
        for task in TASKS.values()
        if task.spans and all(set(task.spans) <= set(named) for named in prompts.positions)
        for screen in task.screens
    ]
    return tuple(dict.fromkeys(fitting))
