"""What training never shows in a task: names, cities, start years, and series with some first items.

The choice is fixed, whatever the seed of the training: all models are judged on the same held-out prompts.
Held-out names and cities do occur in filler text and random segments, so that their tokens are not raw noise;
they never occur in an ioi or vb prompt or in binding text.
"""

from dataclasses import dataclass, replace
from functools import cache

import numpy as np

from mechexp.tasks.gt import STARTS
from mechexp.tasks.prompts import TextPrompt
from mechexp.tasks.words import CENTURIES, CYCLIC, LEXICON, Lexicon

SEED = 20260
N_NAMES, N_CITIES = 16, 12
SHARE_YEARS, SHARE_RUNS = 0.1, 0.2
RUN_LENGTH = 5


@dataclass(frozen=True)
class HeldOut:
    """The split of words and combinations.

    Attributes:
        train: Word lists of the training prompts.
        test: Word lists of the held-out prompts: names and cities that ``train`` lacks, the rest shared.
        years: Start years, four digits, that no training prompt of ``gt`` starts in.
        runs: ``(series, first item)`` of the runs of ``RUN_LENGTH`` items that training never shows.
    """

    train: Lexicon
    test: Lexicon
    years: frozenset[str]
    runs: frozenset[tuple[str, str]]

    def holds_year(self, prompt: TextPrompt) -> bool:
        """Whether a ``gt`` prompt starts in a held-out year."""
        start = prompt.spans["century"][0]
        return prompt.prompt[start : start + 4] in self.years

    def holds_run(self, prompt: TextPrompt) -> bool:
        """Whether a ``succ`` prompt shows a held-out run."""
        items = [prompt.prompt[a:b] for name, (a, b) in prompt.spans.items() if name.startswith("item_")]
        return len(items) == RUN_LENGTH and (prompt.template, items[0]) in self.runs


@cache
def held_out() -> HeldOut:
    """The split that every zoo model is trained and judged with."""
    names_rng, cities_rng, years_rng, runs_rng = np.random.default_rng(SEED).spawn(4)
    names = _pick(LEXICON.names, N_NAMES, names_rng)
    cities = _pick(LEXICON.cities, N_CITIES, cities_rng)
    years = [f"{century}{year:02d}" for century in CENTURIES for year in STARTS]
    runs = [
        (name, item)
        for name, items in LEXICON.series.items()
        for item in (items if name in CYCLIC else items[: len(items) - RUN_LENGTH])
    ]
    return HeldOut(
        train=replace(
            LEXICON,
            names=tuple(n for n in LEXICON.names if n not in names),
            cities=tuple(c for c in LEXICON.cities if c not in cities),
        ),
        test=replace(LEXICON, names=names, cities=cities),
        years=frozenset(_pick(years, round(SHARE_YEARS * len(years)), years_rng)),
        runs=frozenset(runs[i] for i in runs_rng.permutation(len(runs))[: round(SHARE_RUNS * len(runs))]),
    )


def common_words(lexicon: Lexicon) -> Lexicon:
    """A few words of each list; training uses them more often than the others."""
    lists = {name: getattr(lexicon, name)[::5] for name in ("names", "cities", "nouns", "places", "objects")}
    return replace(lexicon, **lists)


def _pick(words: tuple[str, ...] | list[str], n: int, rng: np.random.Generator) -> tuple[str, ...]:
    return tuple(words[i] for i in sorted(rng.permutation(len(words))[:n]))
