"""Indirect object identification: "When Mary and John went to the store, John gave a drink to" → " Mary".

Pattern of Wang et al. 2022 (arXiv 2211.00593) as used by Xu 2026; the other wordings are ours.
"""

from dataclasses import dataclass, field

import numpy as np

from mechexp.config import TaskConfig
from mechexp.errors import UserError
from mechexp.tasks.filling import fill
from mechexp.tasks.prompts import TextPrompt
from mechexp.tasks.sampling import sample_cells, two_of, unravel, wanted
from mechexp.tasks.task import TASKS, Task, Texts
from mechexp.tasks.vocabulary import Vocabulary

WORDINGS = {
    "when": "When {first} and {second} went to the {place}, {giver} gave a {object} to ",
    "after": "After {first} and {second} came to the {place}, {giver} gave a {object} to ",
    "while": "While {first} and {second} were at the {place}, {giver} handed a {object} to ",
    "then": "Then {first} and {second} went to the {place}, and {giver} gave a {object} to ",
}
ORDERS = ("ABBA", "BABA")


@dataclass
class IoiConfig(TaskConfig):
    """Options of ``task=ioi``.

    Attributes:
        templates: Wordings to use, by name (``when`` is the paper's); each is used in both orders of names.
    """

    name: str = "ioi"
    templates: list[str] = field(default_factory=lambda: ["when"])


def make_texts(cfg: IoiConfig, vocabulary: Vocabulary, rng: np.random.Generator) -> Texts:
    """Half ABBA (the giver is named second), half BABA; target the other name, distractor the giver."""
    wordings = _wordings(cfg)
    lexicon = vocabulary.lexicon
    names = vocabulary.usable(
        "names", lexicon.names, "When ", "went to the store, ", "and ", "gave a ring to "
    )
    places = vocabulary.usable("places", lexicon.places, "went to the ")
    objects = vocabulary.usable("objects", lexicon.objects, "gave a ")
    kinds = [(wording, order) for wording in wordings for order in ORDERS]
    sizes = (len(names) * (len(names) - 1), len(places), len(objects))
    cells = int(np.prod(sizes))
    n = wanted(cfg.n, cells * len(kinds), task=cfg.name)
    prompts = []
    for kind, cell in sample_cells(n, templates=len(kinds), cells=cells, rng=rng):
        pair, place, thing = unravel(cell, *sizes)
        io, subject = (names[i] for i in two_of(pair, len(names)))
        others = [name for name in names if name not in (io, subject)]
        fresh = [others[i] for i in rng.permutation(len(others))[:3]]
        prompts.append(_prompt(*kinds[kind], io, subject, places[place], objects[thing], fresh, vocabulary))
    notes = [] if len(names) >= 5 else [f"no counterfactuals: they need five names, {len(names)} can be used"]
    return Texts(tuple(prompts), (*vocabulary.notes, *notes))


def _wordings(cfg: IoiConfig) -> list[str]:
    unknown = [name for name in cfg.templates if name not in WORDINGS]
    if unknown or not cfg.templates or len(set(cfg.templates)) < len(cfg.templates):
        raise UserError(
            f"task.templates={list(cfg.templates)}",
            expected=f"one or more of {', '.join(WORDINGS)}, each once",
        )
    return list(cfg.templates)


def _prompt(
    wording: str,
    order: str,
    io: str,
    subject: str,
    place: str,
    thing: str,
    fresh: list[str],
    vocabulary: Vocabulary,
) -> TextPrompt:
    """One prompt; its counterfactual names three people who are not in it, so that nobody is repeated."""
    first, second = (io, subject) if order == "ABBA" else (subject, io)
    text, spans = fill(
        WORDINGS[wording], first=first, second=second, giver=subject, place=place, object=thing
    )
    prompt, target = vocabulary.ask(text, io)
    counterfactual = None
    if len(fresh) == 3:
        a, b, c = fresh
        changed, _ = fill(WORDINGS[wording], first=a, second=b, giver=c, place=place, object=thing)
        counterfactual = vocabulary.ask(changed, io)[0]
    io_field, s1_field = ("first", "second") if order == "ABBA" else ("second", "first")
    return TextPrompt(
        prompt=prompt,
        target=(target,),
        distractor=(vocabulary.ask(text, subject)[1],),
        counterfactual=counterfactual,
        spans={"io": spans[io_field], "s1": spans[s1_field], "s2": spans["giver"]},
        template=f"{wording}-{order}",
    )


TASKS.register("ioi")(
    Task("ioi", IoiConfig, make_texts, screens=("name_mover", "s_inhibition"), spans=("io", "s1", "s2"))
)
