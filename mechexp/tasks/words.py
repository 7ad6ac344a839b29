"""The words that prompts are made of; each task keeps those that are one token in the model's tokenizer.

Our own lists, longer than the paper's (42 names, 30 cities, 23 nouns; Xu 2026): enough is left after a
tokenizer has had its say, and some can be held out of training. Frequent words tend to be one token.
"""
# ruff: noqa: SIM905 - a list of a hundred quoted words is not easier to read

from collections.abc import Mapping
from dataclasses import dataclass, field

NAMES = tuple(
    """
    Mary John James Robert Michael William David Richard Thomas Charles Daniel Matthew Anthony Mark Paul
    Steven Andrew George Kevin Brian Edward Ronald Timothy Jason Ryan Jacob Gary Nicholas Eric Jonathan
    Stephen Larry Justin Scott Brandon Benjamin Samuel Frank Gregory Raymond Patrick Jack Dennis Jerry
    Tyler Aaron Henry Adam Peter Nathan Walter Kyle Carl Arthur Roger Keith Jeremy Lawrence Sean
    Christian Albert Joe Ethan Jesse Bryan Billy Bruce Ralph Roy Louis Philip Johnny Martin Simon Alan
    Luke Oscar Ian Jennifer Elizabeth Barbara Susan Jessica Sarah Karen Lisa Nancy Margaret Sandra
    Ashley Emily Donna Michelle Carol Amanda Melissa Stephanie Rebecca Laura Amy Anna Kathleen Angela
    Emma Nicole Helen Samantha Katherine Rachel Janet Catherine Maria Heather Diane Julie Kelly
    Christina Victoria Kate Alice Jane Anne Ruth Rose Claire Ellen Julia Lucy Sara
    """.split()
)
"""First names."""

CITIES = tuple(
    """
    Paris London Berlin Madrid Rome Vienna Moscow Tokyo Beijing Boston Chicago Dallas Denver Seattle
    Houston Miami Atlanta Detroit Phoenix Portland Austin Toronto Montreal Vancouver Dublin Edinburgh
    Glasgow Manchester Liverpool Birmingham Oxford Cambridge Munich Hamburg Frankfurt Milan Venice
    Florence Naples Barcelona Lisbon Athens Istanbul Cairo Delhi Mumbai Shanghai Singapore Bangkok
    Manila Sydney Melbourne Brisbane Auckland Brussels Amsterdam Stockholm Oslo Copenhagen Helsinki
    Warsaw Prague Budapest Geneva Zurich Baltimore Philadelphia Cleveland Pittsburgh Nashville Memphis
    Orlando Tampa
    """.split()
)
"""Cities whose name is one word."""

NOUNS = tuple(
    """
    war conflict campaign expedition siege revolt rebellion strike trial project program investigation
    reign crisis famine drought alliance marriage treaty tour voyage study construction debate struggle
    journey operation partnership tradition festival occupation
    """.split()
)
"""Things that last for years."""

PLACES = tuple(
    """
    store garden restaurant school hospital office house station park market library beach hotel museum
    church theater cafe farm airport bank kitchen lake river gym
    """.split()
)
"""Places two people may go to."""

OBJECTS = tuple(
    """
    ring drink book letter gift key necklace ball bag hat phone ticket picture computer cup watch card
    map flower coat box pen coin bottle
    """.split()
)
"""Things to give; each takes the article *a*."""

SERIES: Mapping[str, tuple[str, ...]] = {
    "weekdays": tuple("Monday Tuesday Wednesday Thursday Friday Saturday Sunday".split()),
    "months": tuple(
        "January February March April May June July August September October November December".split()
    ),
    "ordinals": tuple("first second third fourth fifth sixth seventh eighth ninth tenth".split()),
    "numbers": tuple(str(i) for i in range(1, 100)),
    "letters": tuple("A B C D E F G H I J K L M N O P Q R S T U V W X Y Z".split()),
}
"""Series in their natural order."""

CYCLIC = frozenset({"weekdays", "months"})
"""Series whose last item is followed by the first."""

CENTURIES = tuple(str(i) for i in range(11, 18))
"""First two digits of the years; from 1800 on, many tokenizers have whole years as tokens."""


@dataclass(frozen=True)
class Lexicon:
    """All word lists together; a trainer that holds words out passes its own (``dataclasses.replace``).

    Attributes:
        names: First names.
        cities: One-word cities.
        nouns: Things that last for years.
        places: Places two people may go to.
        objects: Things to give.
        series: Series by name, each in its order.
    """

    names: tuple[str, ...] = NAMES
    cities: tuple[str, ...] = CITIES
    nouns: tuple[str, ...] = NOUNS
    places: tuple[str, ...] = PLACES
    objects: tuple[str, ...] = OBJECTS
    series: Mapping[str, tuple[str, ...]] = field(default_factory=lambda: dict(SERIES))


LEXICON = Lexicon()
