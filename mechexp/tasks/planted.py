"""Planted: the task of the models whose circuits are written by construction (ours).

A prompt of 16 words in which the answer and a wrong answer can each be found in several ways::

    C . . C A B . . . . B . C . B A   → B, not C

The pair A B stands at a place that varies; the last word is A again (induction). The right answer B is also
the last word but one, the wrong answer C also stands first and before the first A; both once more among the
filler. So every general attention pattern leads to a word that pulls for or against the answer.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from mechexp.config import TaskConfig
from mechexp.tasks.prompts import TextPrompt
from mechexp.tasks.sampling import wanted
from mechexp.tasks.task import TASKS, Task, Texts
from mechexp.tasks.vocabulary import Vocabulary

TARGETS = tuple("dog cat horse cow sheep goat pig duck fox wolf bear lion tiger mouse rabbit frog".split())  # noqa: SIM905
DISTRACTORS = tuple(
    "table chair door window cup knife spoon hammer ladder basket bottle lamp clock mirror brush rope".split()  # noqa: SIM905
)
FILLERS = tuple(
    "red blue green black white brown warm cold dry wet soft hard big small old new fast slow high low dark "  # noqa: SIM905
    "light rich poor".split()
)
LENGTH = 16
FIRST_KEY, LAST_KEY = 3, 7  # where the first A may stand
TARGET_OFFSET, DISTRACTOR_OFFSET = 5, 3  # B and C among the filler, counted back from the end


@dataclass
class PlantedConfig(TaskConfig):
    """Options of ``task=planted``: those of every task."""

    name: str = "planted"
    n: int = 100


def make_texts(cfg: PlantedConfig, vocabulary: Vocabulary, rng: np.random.Generator) -> Texts:
    """Prompts with random words and places; the counterfactual has other answers in the same places."""
    targets = vocabulary.usable("planted targets", TARGETS, "", "red ")
    distractors = vocabulary.usable("planted distractors", DISTRACTORS, "", "red ")
    fillers = vocabulary.usable("planted filler", FILLERS, "", "red ")
    n = wanted(cfg.n, len(targets) * len(distractors) * len(fillers), task=cfg.name)
    prompts: dict[str, TextPrompt] = {}
    while len(prompts) < n:
        prompt = _prompt(targets, distractors, fillers, vocabulary, rng)
        prompts.setdefault(prompt.prompt, prompt)
    return Texts(tuple(prompts.values()), tuple(vocabulary.notes))


def _prompt(
    targets: tuple[str, ...],
    distractors: tuple[str, ...],
    fillers: tuple[str, ...],
    vocabulary: Vocabulary,
    rng: np.random.Generator,
) -> TextPrompt:
    b, other_b = (str(w) for w in rng.choice(targets, 2, replace=False))
    c, other_c = (str(w) for w in rng.choice(distractors, 2, replace=False))
    a = str(rng.choice(fillers))
    row = [str(w) for w in rng.choice([w for w in fillers if w != a], LENGTH)]
    key = int(rng.integers(FIRST_KEY, LAST_KEY + 1))
    end = LENGTH - 1
    row[key] = row[end] = a
    places = {
        "target": (key + 1, end - TARGET_OFFSET, end - 1),
        "distractor": (0, key - 1, end - DISTRACTOR_OFFSET),
    }
    text, spans = _spell(row, places, b, c, key)
    changed, _ = _spell(row, places, other_b, other_c, key)
    prompt, target = vocabulary.ask(f"{text} ", b)
    return TextPrompt(
        prompt=prompt,
        target=(target,),
        distractor=(vocabulary.ask(f"{text} ", c)[1],),
        counterfactual=vocabulary.ask(f"{changed} ", b)[0],
        spans=spans,
        template="planted",
    )


def _spell(
    row: list[str], places: Mapping[str, tuple[int, ...]], b: str, c: str, key: int
) -> tuple[str, dict[str, tuple[int, int]]]:
    """The words with the answers put in, and the characters at which the named ones stand."""
    words = list(row)
    for name, word in (("target", b), ("distractor", c)):
        for place in places[name]:
            words[place] = word
    starts = np.cumsum([0, *(len(w) + 1 for w in words)])
    named = {"first": 0, "key": key, "answer": key + 1, "previous": LENGTH - 2}
    return " ".join(words), {k: (int(starts[t]), int(starts[t]) + len(words[t])) for k, t in named.items()}


TASKS.register("planted")(Task("planted", PlantedConfig, make_texts, spans=("first", "key", "answer")))
