"""Successor: "Monday Tuesday Wednesday Thursday Friday" → " Saturday" (Gould et al. 2023; Xu 2026).

Weekdays and months are cyclic, ordinals and numbers 1–99 are not; letters are ours. Where every item is one
token, the default makes 7 + 12 + 5 + 94 = 118 prompts, the paper's number.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from mechexp.config import TaskConfig
from mechexp.errors import UserError
from mechexp.tasks.prompts import TextPrompt
from mechexp.tasks.sampling import wanted
from mechexp.tasks.task import TASKS, Task, Texts
from mechexp.tasks.vocabulary import Vocabulary
from mechexp.tasks.words import CYCLIC


@dataclass
class SuccConfig(TaskConfig):
    """Options of ``task=succ``.

    Attributes:
        length: Items shown in a prompt.
        separator: What stands between them: " " as in the paper, or ", " (small models need it).
        series: Which series: ``weekdays``, ``months``, ``ordinals``, ``numbers``, ``letters``.
    """

    name: str = "succ"
    n: int = -1
    length: int = 5
    separator: str = " "
    series: list[str] = field(default_factory=lambda: ["weekdays", "months", "ordinals", "numbers"])


def make_texts(cfg: SuccConfig, vocabulary: Vocabulary, rng: np.random.Generator) -> Texts:
    """All runs of consecutive items, shuffled; target the next item, distractor the last shown."""
    series = vocabulary.lexicon.series
    _check(cfg, tuple(series))
    runs = [(name, run) for name in cfg.series for run in _runs(name, series[name], cfg, vocabulary)]
    if 2 <= len(runs) < cfg.n:  # so few that a sweep over tasks with one task.n would lose this one
        vocabulary.notes.append(f"task.n={cfg.n}: there are {len(runs)} prompts, and all are used")
    n = wanted(min(cfg.n, max(2, len(runs))), len(runs), task=cfg.name)
    prompts = []
    for i in rng.permutation(len(runs))[:n]:
        name, run = runs[i]
        prompts.append(_prompt(name, run, _another_order(run[:-1], rng), cfg.separator, vocabulary))
    return Texts(tuple(prompts), tuple(vocabulary.notes))


def _check(cfg: SuccConfig, known: Sequence[str]) -> None:
    if cfg.length < 2:
        raise UserError(f"task.length={cfg.length}", expected="at least 2 items, so that there is a series")
    if not cfg.separator:
        raise UserError('task.separator=""', expected='text between the items, such as " " or ", "')
    if not cfg.series or set(cfg.series) - set(known) or len(set(cfg.series)) < len(cfg.series):
        raise UserError(
            f"task.series={list(cfg.series)}", expected=f"one or more of {', '.join(known)}, each once"
        )


def _runs(name: str, items: Sequence[str], cfg: SuccConfig, vocabulary: Vocabulary) -> list[tuple[str, ...]]:
    """Runs of ``length + 1`` items that the tokenizer allows: every item one token where it stands."""
    first = vocabulary.fitting(items, "")
    later = vocabulary.fitting(items, f"{items[0]}{cfg.separator}")
    vocabulary.tell_dropped(f"{name} at the start of a prompt", items, first)
    vocabulary.tell_dropped(f"{name} after another item", items, later)
    size = cfg.length + 1
    if size > len(items):
        vocabulary.notes.append(f"{name}: no prompts, the series has only {len(items)} items")
        return []
    starts = range(len(items)) if name in CYCLIC else range(len(items) - size + 1)
    runs = [tuple(items[(start + k) % len(items)] for k in range(size)) for start in starts]
    return [run for run in runs if run[0] in first and set(run[1:]) <= set(later)]


def _another_order(shown: Sequence[str], rng: np.random.Generator) -> list[str]:
    """The shown items in a random order that is not theirs."""
    while True:
        order = [shown[i] for i in rng.permutation(len(shown))]
        if order != list(shown):
            return order


def _prompt(
    series: str, run: Sequence[str], mixed: Sequence[str], separator: str, vocabulary: Vocabulary
) -> TextPrompt:
    """One prompt; its counterfactual shows the same items in another order."""
    *shown, following = run
    text, spans = "", {}
    for k, item in enumerate(shown, start=1):
        spans[f"item_{k}"] = (len(text), len(text) + len(item))
        text += item + separator
    prompt, target = vocabulary.ask(text, following)
    return TextPrompt(
        prompt=prompt,
        target=(target,),
        distractor=(vocabulary.ask(text, shown[-1])[1],),
        counterfactual=vocabulary.ask("".join(item + separator for item in mixed), following)[0],
        spans=spans,
        template=series,
    )


TASKS.register("succ")(
    Task("succ", SuccConfig, make_texts, screens=("successor",), spans=("item_1", "item_2"))
)
