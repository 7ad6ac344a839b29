"""Variable binding: "Mary lives in Paris. John lives in Rome. Mary lives in" → " Paris" (Xu 2026)."""

from dataclasses import dataclass

import numpy as np

from mechexp.config import TaskConfig
from mechexp.tasks.filling import fill
from mechexp.tasks.prompts import TextPrompt
from mechexp.tasks.sampling import sample_cells, two_of, unravel, wanted
from mechexp.tasks.task import TASKS, Task, Texts
from mechexp.tasks.vocabulary import Vocabulary

WORDING = "{name_a} lives in {city_a}. {name_b} lives in {city_b}. {query_name} lives in "
QUERIES = ("query_a", "query_b")


@dataclass
class VbConfig(TaskConfig):
    """Options of ``task=vb``: those of every task."""

    name: str = "vb"


def make_texts(cfg: VbConfig, vocabulary: Vocabulary, rng: np.random.Generator) -> Texts:
    """Half ask for the first person's city, half for the second's; the distractor is the other's city."""
    lexicon = vocabulary.lexicon
    names = vocabulary.usable("names at the start of a sentence", lexicon.names, "", "lives in Paris. ")
    cities = vocabulary.usable("cities", lexicon.cities, "Mary lives in ")
    sizes = (len(names) * (len(names) - 1), len(cities) * (len(cities) - 1))
    cells = int(np.prod(sizes))
    n = wanted(cfg.n, cells * len(QUERIES), task=cfg.name)
    prompts = []
    for query, cell in sample_cells(n, templates=len(QUERIES), cells=cells, rng=rng):
        pair, city_pair = unravel(cell, *sizes)
        people = [names[i] for i in two_of(pair, len(names))]
        homes = [cities[i] for i in two_of(city_pair, len(cities))]
        prompts.append(_prompt(query, people, homes, vocabulary))
    return Texts(tuple(prompts), tuple(vocabulary.notes))


def _prompt(query: int, people: list[str], homes: list[str], vocabulary: Vocabulary) -> TextPrompt:
    """One prompt; in its counterfactual the two people have swapped cities."""
    words = {"name_a": people[0], "name_b": people[1], "query_name": people[query]}
    text, spans = fill(WORDING, city_a=homes[0], city_b=homes[1], **words)
    swapped, _ = fill(WORDING, city_a=homes[1], city_b=homes[0], **words)
    prompt, target = vocabulary.ask(text, homes[query])
    bound, other = ("city_a", "city_b") if query == 0 else ("city_b", "city_a")
    return TextPrompt(
        prompt=prompt,
        target=(target,),
        distractor=(vocabulary.ask(text, homes[1 - query])[1],),
        counterfactual=vocabulary.ask(swapped, homes[query])[0],
        spans={**spans, "bound": spans[bound], "other": spans[other]},
        template=QUERIES[query],
    )


TASKS.register("vb")(
    Task(
        "vb",
        VbConfig,
        make_texts,
        screens=("vb_specific",),
        spans=("name_a", "city_a", "name_b", "city_b", "query_name", "bound", "other"),
    )
)
