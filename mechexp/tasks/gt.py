"""Greater-than: "The war lasted from the year 1732 to the year 17" → any of 33 … 99.

The task of Hanna et al. 2023 (arXiv 2305.00586), used by Xu 2026; it needs a tokenizer that splits a year
into two pairs of digits. For others the year is asked digit by digit (ours): the ``unit``, with century and
decade shown ("… 1732 to the year 173" → 3 … 9), or the ``decade``, with the century shown.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from mechexp.config import TaskConfig
from mechexp.errors import UserError
from mechexp.tasks.filling import fill
from mechexp.tasks.prompts import TextPrompt
from mechexp.tasks.sampling import sample_cells, unravel, wanted
from mechexp.tasks.task import TASKS, Task, Texts
from mechexp.tasks.vocabulary import Vocabulary
from mechexp.tasks.words import CENTURIES

WORDING = "The {noun} lasted from the year {start} to the year {shown}"
FORMS = ("two_digit", "unit", "decade")
DIGITS = tuple("0123456789")
PAIRS = tuple(f"{i:02d}" for i in range(100))
# Years ending in 01 are the counterfactual; 00 has nothing before it and 99 nothing after it.
STARTS = range(2, 99)
# A form fits a tokenizer if this share of its answers survives: fewer are no fair sample of years.
ENOUGH = 0.25


@dataclass
class GtConfig(TaskConfig):
    """Options of ``task=gt``.

    Attributes:
        form: ``two_digit``, ``unit``, ``decade``, or ``auto``: the first of these that the tokenizer allows.
    """

    name: str = "gt"
    form: str = "auto"


@dataclass(frozen=True)
class Question:
    """A start year and what follows from it.

    Attributes:
        start: The start year, four digits.
        shown: The digits of the end year that the prompt shows.
        known: Digits of the start year up to the last one that decides the answer.
        later: Continuations of ``shown`` that surely make the end year later.
        earlier: Continuations that surely do not.
    """

    start: str
    shown: str
    known: int
    later: tuple[str, ...]
    earlier: tuple[str, ...]


@dataclass(frozen=True)
class Split:
    """How one form fares with a tokenizer.

    Attributes:
        questions: The start years that can be used.
        kept: Continuations (of a century, or of a decade) that are one token.
        total: Continuations there are.
    """

    questions: list[Question]
    kept: int
    total: int

    @property
    def share(self) -> float:
        """Share of continuations that are one token."""
        return self.kept / self.total


def make_texts(cfg: GtConfig, vocabulary: Vocabulary, rng: np.random.Generator) -> Texts:
    """Targets: every continuation that makes the end year later; distractors: every one that does not."""
    nouns = vocabulary.usable("nouns", vocabulary.lexicon.nouns, "The ")
    form, questions = _questions(cfg, f"The {nouns[0]} lasted from the year ", vocabulary)
    sizes = (len(nouns), len(questions))
    n = wanted(cfg.n, len(nouns) * len(questions), task=cfg.name)
    prompts = []
    for _, cell in sample_cells(n, templates=1, cells=len(nouns) * len(questions), rng=rng):
        noun, question = unravel(cell, *sizes)
        prompts.append(_prompt(form, nouns[noun], questions[question]))
    return Texts(tuple(prompts), tuple(vocabulary.notes))


def _questions(cfg: GtConfig, before: str, vocabulary: Vocabulary) -> tuple[str, list[Question]]:
    """The form used, and the start years that the tokenizer splits as that form needs."""
    if cfg.form not in ("auto", *FORMS):
        raise UserError(f"task.form={cfg.form}", expected=f"one of auto, {', '.join(FORMS)}")
    makers = {"two_digit": _two_digit, "unit": _unit, "decade": _decade}
    found = {}
    for form in FORMS if cfg.form == "auto" else (cfg.form,):
        found[form] = makers[form](before, vocabulary)
        if found[form].share >= ENOUGH:
            break
    form = max(found, key=lambda name: found[name].share)
    split = found[form]
    if not split.questions:
        raise UserError(
            f"the list 'years' cannot be used: no year splits as {' or '.join(found)} needs",
            where=f"task.form={cfg.form}, tokenizer {vocabulary.tokenizer_name}",
            todo="choose another task.form or model",
        )
    chosen = "chosen by the tokenizer" if cfg.form == "auto" else "as asked"
    vocabulary.notes.append(
        f"form {form} ({chosen}): {split.kept} of {split.total} ways to continue a year are one token, "
        f"{split.total - split.kept} dropped"
    )
    return form, split.questions


def _two_digit(before: str, vocabulary: Vocabulary) -> Split:
    questions: list[Question] = []
    kept = 0
    for century in CENTURIES:
        pairs = vocabulary.fitting(PAIRS, before + century)
        kept += len(pairs)
        for pair in pairs:
            questions += _question(century + pair, century, 4, pairs, pair)
    return Split(questions, kept, len(CENTURIES) * len(PAIRS))


def _unit(before: str, vocabulary: Vocabulary) -> Split:
    questions: list[Question] = []
    kept = 0
    for shown in (century + decade for century in CENTURIES for decade in DIGITS):
        units = vocabulary.fitting(DIGITS, before + shown)
        kept += len(units)
        for unit in units:
            questions += _question(shown + unit, shown, 4, units, unit)
    return Split(questions, kept, len(CENTURIES) * len(DIGITS) ** 2)


def _decade(before: str, vocabulary: Vocabulary) -> Split:
    """The start year's own decade is neither target nor distractor: the unit would decide."""
    questions: list[Question] = []
    kept = 0
    for century in CENTURIES:
        decades = vocabulary.fitting(DIGITS, before + century)
        kept += len(decades)
        for decade in decades:
            for unit in vocabulary.fitting(DIGITS, before + century + decade):
                questions += _question(century + decade + unit, century, 3, decades, decade, own_counts=False)
    return Split(questions, kept, len(CENTURIES) * len(DIGITS))


def _question(
    start: str, shown: str, known: int, answers: Sequence[str], own: str, *, own_counts: bool = True
) -> list[Question]:
    """The question about one start year; none where it is out of range or has no answer on either side.

    ``own_counts``: continuing with the start year's own digits gives the same year, which is not later.
    """
    later = tuple(a for a in answers if a > own)
    earlier = tuple(a for a in answers if a < own or (own_counts and a == own))
    if int(start[2:]) not in STARTS or not later or not earlier:
        return []
    return [Question(start, shown, known, later, earlier)]


def _prompt(form: str, noun: str, question: Question) -> TextPrompt:
    """One prompt; its counterfactual starts in year 01 of the century, so that nearly any answer is later."""
    text, spans = fill(WORDING, noun=noun, start=question.start, shown=question.shown)
    changed, _ = fill(WORDING, noun=noun, start=question.start[:2] + "01", shown=question.shown)
    at = spans["start"][0]
    return TextPrompt(
        prompt=text,
        target=question.later,
        distractor=question.earlier,
        counterfactual=changed,
        spans={"century": (at, at + 2), "start_year": (at, at + question.known)},
        template=form,
    )


TASKS.register("gt")(
    Task("gt", GtConfig, make_texts, screens=("gt_specific",), spans=("century", "start_year"))
)
