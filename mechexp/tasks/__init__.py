"""Tasks: prompts as data. One file a task; a new one is found by being in this folder.

Nothing here knows a model beyond its tokenizer, and importing it is fast.
"""

from importlib import import_module
from pkgutil import iter_modules

from mechexp.tasks.make import make_prompts, make_texts
from mechexp.tasks.prompts import PromptSet, TextPrompt
from mechexp.tasks.task import TASKS, Task, Texts, screens_for
from mechexp.tasks.vocabulary import Vocabulary
from mechexp.tasks.words import LEXICON, Lexicon

for _module in iter_modules(__path__):
    import_module(f"{__name__}.{_module.name}")

__all__ = [
    "LEXICON",
    "TASKS",
    "Lexicon",
    "PromptSet",
    "Task",
    "TextPrompt",
    "Texts",
    "Vocabulary",
    "make_prompts",
    "make_texts",
    "screens_for",
]
