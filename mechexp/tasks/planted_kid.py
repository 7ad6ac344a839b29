"""Planted questions: several operations on the same operand pairs, for models by construction (ours).

A prompt names two operands and an operator; the answer is one word of the family's seven::

    begin calm take red with cube then join please   → the answer of "join" on (red, cube)

A *mark* (``calm``) and the last word go together: three such pairs, drawn apart from the rest. Models may
need the mark to know that an answer of this family is wanted at all. Two families speak the same way in
different words, so that one is the other's control. Split by operand pair and by wording.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import product

import numpy as np

from mechexp.config import TaskConfig
from mechexp.tasks.prompts import TextPrompt
from mechexp.tasks.sampling import wanted
from mechexp.tasks.task import TASKS, Task, Texts
from mechexp.tasks.vocabulary import Vocabulary

SIZE = 7  # operands of each place, and answers; a prime, so that operations agree on few pairs
START = "begin"
COEFFICIENTS = ((1, 1, 0), (1, 3, 1), (1, 5, 3))  # answer number (a·first + b·second + c) mod 7
HALVES = ("screen", "probe", "test")
SHARES = (0.3, 0.3, 0.4)


@dataclass(frozen=True)
class KidWords:
    """The words of one family.

    Attributes:
        first: Words of the first operand; so for the next three.
        second: Second operand.
        answers: Answers.
        marks: Marks.
        ends: Last words, one a mark.
        operators: Operation → its word in each wording.
    """

    first: tuple[str, ...]
    second: tuple[str, ...]
    answers: tuple[str, ...]
    marks: tuple[str, ...]
    ends: tuple[str, ...]
    operators: Mapping[str, tuple[str, ...]]

    @property
    def operations(self) -> Mapping[str, Callable[[tuple[str, ...]], str]]:
        """Operation → what makes an answer of a pair of operands."""
        return {
            name: partial(self._answer, coefficients)
            for name, coefficients in zip(self.operators, COEFFICIENTS, strict=True)
        }

    @property
    def operands(self) -> tuple[tuple[str, str], ...]:
        """All pairs of operands."""
        return tuple(product(self.first, self.second))

    def _answer(self, coefficients: tuple[int, int, int], operands: tuple[str, ...]) -> str:
        a, b, c = coefficients
        return self.answers[
            (a * self.first.index(operands[0]) + b * self.second.index(operands[1]) + c) % SIZE
        ]


def _words(text: str) -> tuple[str, ...]:
    return tuple(text.split())


KID: Mapping[str, KidWords] = {
    "planted_kid": KidWords(
        first=_words("red blue green black white brown pink"),
        second=_words("cube ball cone ring disc rod tile"),
        answers=_words("dog cat horse cow sheep goat duck"),
        marks=_words("calm loud shy"),
        ends=_words("please now quick"),
        operators={
            "join": _words("join add unite merge link bind"),
            "turn": _words("turn spin roll twist wind bend"),
            "swap": _words("swap trade switch shift change move"),
        },
    ),
    "planted_kid_control": KidWords(
        first=_words("apple plum pear fig lime date melon"),
        second=_words("saw axe drill pick spade rake hoe"),
        answers=_words("rome oslo paris cairo lima delhi quito"),
        marks=_words("warm cold mild"),
        ends=_words("today later soon"),
        operators={
            "lend": _words("lend give hand pass send mail"),
            "hide": _words("hide bury cover mask veil cloak"),
            "sell": _words("sell offer vend deal barter auction"),
        },
    ),
}
# Wordings: {m} mark, {x} and {y} operands, {o} operator, {e} last word. All of nine words, so that the mean
# over prompts at a position is known for every wording from any other.
WORDINGS = (
    "{m} take {x} with {y} then {o} {e}",
    "{m} using {y} upon {x} do {o} {e}",
    "so {x} {m} and {y} we {o} {e}",
    "{m} here {y} near {x} must {o} {e}",
    "see {x} also {y} {m} can {o} {e}",
    "for {y} {m} of {x} try {o} {e}",
)
TEMPLATES = tuple(f"{START} {w}" for w in WORDINGS)
FILLERS = tuple(dict.fromkeys(w for t in WORDINGS for w in t.split() if not w.startswith("{")))


@dataclass
class PlantedKidConfig(TaskConfig):
    """Options of ``task=planted_kid``: those of every task."""

    name: str = "planted_kid"
    n: int = 300


@dataclass
class PlantedKidControlConfig(TaskConfig):
    """Options of ``task=planted_kid_control``: those of every task."""

    name: str = "planted_kid_control"
    n: int = 300


def make_texts(cfg: TaskConfig, vocabulary: Vocabulary, rng: np.random.Generator) -> Texts:
    """Prompts in three parts that share no operand pair and no wording; operations in equal numbers."""
    words = KID[cfg.name]
    answers = vocabulary.usable(f"{cfg.name} answers", words.answers, "", f"{START} ")
    pairs = [words.operands[i] for i in rng.permutation(len(words.operands))]
    pairs = [p for p in pairs if all(o(p) in answers for o in words.operations.values())]
    templates = [int(i) for i in rng.permutation(len(TEMPLATES))]
    cuts = [*np.cumsum([0, *(round(s * len(pairs)) for s in SHARES[:-1])]).tolist(), len(pairs)]
    cells = {
        half: list(
            product(words.operators, pairs[cuts[i] : cuts[i + 1]], templates[2 * i : 2 * i + 2], range(3))
        )
        for i, half in enumerate(HALVES)
    }
    n = wanted(
        cfg.n, int(min(len(c) / s for c, s in zip(cells.values(), SHARES, strict=True))), task=cfg.name
    )
    sizes = [round(s * n) for s in SHARES[:-1]]
    prompts, halves = [], []
    for half, size in zip(HALVES, (*sizes, n - sum(sizes)), strict=True):
        for operation, pair, template, mark in _balanced(cells[half], size, rng):
            prompts.append(_prompt(words, operation, pair, template, mark, answers, vocabulary))
            halves.append(half)
    order = rng.permutation(n)
    return Texts(
        tuple(prompts[i] for i in order),
        tuple(vocabulary.notes),
        half=tuple(halves[i] for i in order) if cfg.split else (),
    )


Cell = tuple[str, tuple[str, str], int, int]


def _balanced(cells: list[Cell], size: int, rng: np.random.Generator) -> list[Cell]:
    """``size`` different cells, every operation alike (±1)."""
    by_operation: dict[str, list[Cell]] = {}
    for i in rng.permutation(len(cells)):
        by_operation.setdefault(cells[i][0], []).append(cells[i])
    turns = [
        cell for row in zip(*(by_operation[o] for o in sorted(by_operation)), strict=True) for cell in row
    ]
    return turns[:size]


def _prompt(
    words: KidWords,
    operation: str,
    pair: tuple[str, str],
    template: int,
    mark: int,
    answers: tuple[str, ...],
    vocabulary: Vocabulary,
) -> TextPrompt:
    text, spans = _spell(words, operation, pair, template, mark)
    answer = words.operations[operation](pair)
    others = [o for o, f in words.operations.items() if f(pair) != answer]
    changed = _spell(words, others[0], pair, template, mark)[0] + " " if others else None
    prompt, target = vocabulary.ask(text + " ", answer)
    return TextPrompt(
        prompt=prompt,
        target=(target,),
        distractor=tuple(vocabulary.ask(text + " ", a)[1] for a in answers if a != answer),
        counterfactual=vocabulary.ask(changed, answer)[0] if changed else None,
        spans=spans,
        template=f"w{template}",
        operation=operation,
        operands=pair,
    )


def _spell(
    words: KidWords, operation: str, pair: tuple[str, str], template: int, mark: int
) -> tuple[str, dict[str, tuple[int, int]]]:
    """The text, and the characters of its named words."""
    filled = {
        "m": ("mark", words.marks[mark]),
        "x": ("first", pair[0]),
        "y": ("second", pair[1]),
        "o": ("operator", words.operators[operation][template]),
        "e": ("last", words.ends[mark]),
    }
    text, spans = "", {}
    for part in TEMPLATES[template].split():
        name, word = filled.get(part.strip("{}"), ("", part)) if part.startswith("{") else ("", part)
        text += " " if text else ""
        if name:
            spans[name] = (len(text), len(text) + len(word))
        text += word
    return text, spans


for _config in (PlantedKidConfig, PlantedKidControlConfig):
    _name = str(_config().name)
    TASKS.register(_name)(Task(_name, _config, make_texts, spans=("first", "second", "operator", "mark")))
