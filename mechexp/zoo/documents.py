"""Training documents: token ids, and how much the prediction of each token counts.

A document of a task is a prompt exactly as ``mechexp.tasks`` makes it for this tokenizer, and its answer.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from mechexp.tasks import make_prompts
from mechexp.tasks.gt import GtConfig
from mechexp.tasks.ioi import WORDINGS, IoiConfig
from mechexp.tasks.prompts import PromptSet
from mechexp.tasks.succ import SuccConfig
from mechexp.tasks.vb import VbConfig
from mechexp.tasks.words import SERIES
from mechexp.zoo.heldout import HeldOut

ANSWER, COPY, TEXT, NOISE = 1.0, 0.4, 0.1, 0.0
"""Loss weights: of an answer, a repeated segment, other text (partly names, which nothing predicts), and
tokens that nothing predicts."""

SUCC_LENGTHS = tuple(range(2, 9))
SUCC_SEPARATORS = (" ", ", ")


@dataclass(frozen=True)
class Document:
    """One training text.

    Attributes:
        ids: Token ids.
        weights: Loss weight of predicting each of them; the first is never predicted.
    """

    ids: tuple[int, ...]
    weights: tuple[float, ...]

    def __post_init__(self) -> None:
        if len(self.ids) != len(self.weights):
            raise ValueError(f"{len(self.ids)} ids and {len(self.weights)} weights")


Pool = tuple[Document, ...]


def ioi_pool(tokenizer: Any, out: HeldOut, n: int, seed: int) -> Pool:
    """Half the default wording, half all wordings alike; both orders of names."""
    half = n // 2
    usual = make_prompts(IoiConfig(n=half, seed=seed), tokenizer, lexicon=out.train)
    others = make_prompts(
        IoiConfig(n=n - half, seed=seed + 1, templates=list(WORDINGS)), tokenizer, lexicon=out.train
    )
    rng = np.random.default_rng(seed)
    return (*_answered(usual, rng), *_answered(others, rng))


def gt_pool(tokenizer: Any, out: HeldOut, n: int, seed: int) -> Pool:
    """Prompts, each with six of its right answers drawn at random; start years that are held out are skipped.

    A tenth are the counterfactuals, which start in year 01: the model must know that year too.
    """
    prompts = make_prompts(GtConfig(n=n // 6, seed=seed, form="two_digit"), tokenizer, lexicon=out.train)
    kept = prompts.take([i for i, text in enumerate(prompts.texts) if not out.holds_year(text)])
    rng = np.random.default_rng(seed)
    pairs = np.array(sorted({i for answers in kept.targets for i in answers}))
    first = [row for row in kept.counterfactual_ids if row is not None][: len(kept) // 2]
    several = (document for _ in range(6) for document in _answered(kept, rng))
    return (*several, *(_with_answer(row, int(rng.choice(pairs))) for row in first))


def succ_pool(tokenizer: Any, out: HeldOut, seed: int) -> Pool:
    """All runs of several lengths with both separators, each length and separator equally often.

    Long series do not crowd out short ones: the runs of a series are repeated until each series has as many.
    """
    rng = np.random.default_rng(seed)
    documents: list[Document] = []
    for length in SUCC_LENGTHS:
        for separator in SUCC_SEPARATORS:
            for series in SERIES:
                cfg = SuccConfig(seed=seed, length=length, separator=separator, series=[series], split=False)
                if len(SERIES[series]) < length + 2:
                    continue
                prompts = make_prompts(cfg, tokenizer, lexicon=out.train)
                kept = prompts.take([i for i, text in enumerate(prompts.texts) if not out.holds_run(text)])
                found = [_all_counting(document) for document in _answered(kept, rng)]
                documents += found * max(1, round(40 / len(found)))
    return tuple(documents)


def _all_counting(document: Document) -> Document:
    """Every item of a series but the first is an answer to those before it."""
    return Document(document.ids, (0.0, *[COPY] * (len(document.ids) - 2), ANSWER))


def vb_pool(tokenizer: Any, out: HeldOut, n: int, seed: int) -> Pool:
    """The task's own prompts: two people, one question."""
    prompts = make_prompts(VbConfig(n=n, seed=seed), tokenizer, lexicon=out.train)
    return _answered(prompts, np.random.default_rng(seed))


def _answered(prompts: PromptSet, rng: np.random.Generator) -> Pool:
    return tuple(
        _with_answer(ids, int(rng.choice(targets)))
        for ids, targets in zip(prompts.ids, prompts.targets, strict=True)
    )


def _with_answer(ids: Sequence[int], answer: int) -> Document:
    return Document((*ids, answer), (0.0, *[TEXT] * (len(ids) - 1), ANSWER))
