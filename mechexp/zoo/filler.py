"""Filler text with repeated segments: why previous-token, duplicate-token and induction heads form."""

from collections.abc import Mapping, Sequence
from string import Formatter
from typing import Any

import numpy as np

from mechexp.tasks.words import Lexicon
from mechexp.zoo.documents import COPY, NOISE, TEXT, Document, Pool
from mechexp.zoo.wordings import FILLERS

ECHOES = 0.7
"""Share of the tokens of an echoing text that are echoes."""


def lists_of(lexicon: Lexicon) -> dict[str, tuple[str, ...]]:
    """The words that may stand in each field of a wording."""
    return {
        "name": lexicon.names,
        "other": lexicon.names,
        "city": lexicon.cities,
        "town": lexicon.cities,
        "noun": lexicon.nouns,
        "event": lexicon.nouns,
        "place": lexicon.places,
        "object": lexicon.objects,
        "thing": lexicon.objects,
        "weekday": lexicon.series["weekdays"],
        "month": lexicon.series["months"],
        "ordinal": lexicon.series["ordinals"],
    }


def sentence_pool(tokenizer: Any, lexicon: Lexicon, n: int, seed: int, *, length: int) -> Pool:
    """One or two sentences, an unrelated one or none, then the first again; all words, held out or not."""
    rng, lists = np.random.default_rng(seed), lists_of(lexicon)
    texts = []
    for _ in range(n):
        segment = [_sentence(rng, lists) for _ in range(int(rng.integers(1, 3)))]
        between = [_sentence(rng, lists) for _ in range(int(rng.integers(0, 2)))]
        texts.append((" ".join(segment), " ".join(between)))
    segments = tokenizer([a for a, _ in texts], add_special_tokens=False)["input_ids"]
    middles = [tokenizer(b, add_special_tokens=False)["input_ids"] if b else [] for _, b in texts]
    found = [_repeated((), a, b, TEXT) for a, b in zip(segments, middles, strict=True)]
    return tuple(document for document in found if len(document.ids) <= length)


def random_pool(vocabulary: Sequence[int], n: int, seed: int, *, length: int) -> Pool:
    """Random tokens: a segment that comes twice, one repeated to the end, or echoes from a fixed distance.

    Half of the documents fill ``length``, as the sequences of the attention screens do.
    """
    rng = np.random.default_rng(seed)
    documents = []
    for i in range(n):
        total = length if i % 2 else int(rng.integers(8, length + 1))
        kind = (_twice, _twice, _periodic, _periodic, _echo)[int(rng.integers(5))]
        documents.append(kind(vocabulary, total, rng))
    return tuple(documents)


def _twice(vocabulary: Sequence[int], total: int, rng: np.random.Generator) -> Document:
    """A segment, with anything before it, and the same segment after anything between."""
    size = int(rng.integers(2, total // 2 + 1))
    before = int(rng.integers(0, total - 2 * size + 1))
    draw = [int(t) for t in rng.choice(vocabulary, size=total - size)]
    return _repeated(draw[:before], draw[before : before + size], draw[before + size :], NOISE)


def _periodic(vocabulary: Sequence[int], total: int, rng: np.random.Generator) -> Document:
    """A segment of different tokens over and over; lengths are spread evenly on a logarithmic scale."""
    size = int(np.exp(rng.uniform(np.log(2), np.log(max(3, total // 2)))))
    segment = [int(t) for t in rng.choice(vocabulary, size=size, replace=False)]
    ids = (segment * (total // size + 1))[:total]
    known = size + 1
    return Document(tuple(ids), (0.0, *[NOISE] * (known - 1), *[COPY] * (total - known)))


def _echo(vocabulary: Sequence[int], total: int, rng: np.random.Generator) -> Document:
    """Most tokens repeat the one two to four places earlier: why heads form that look back so far."""
    distance = int(rng.integers(2, 5))
    ids = [int(t) for t in rng.choice(vocabulary, size=total)]
    weights = [NOISE] * total
    for at in range(distance, total):
        if rng.random() < ECHOES:
            ids[at], weights[at] = ids[at - distance], COPY
    return Document(tuple(ids), tuple(weights))


def _sentence(rng: np.random.Generator, lists: Mapping[str, tuple[str, ...]]) -> str:
    wording = FILLERS[int(rng.integers(len(FILLERS)))]
    fields = [field for _, field, _, _ in Formatter().parse(wording) if field]
    return wording.format(**{field: str(rng.choice(lists[field])) for field in fields})


def _repeated(
    before: Sequence[int], segment: Sequence[int], between: Sequence[int], weight: float
) -> Document:
    """From its second token on, the second copy of the segment can be predicted."""
    first = [*before, *segment, *between, segment[0]]
    weights = [0.0, *[weight] * (len(first) - 1), *[COPY] * (len(segment) - 1)]
    return Document((*first, *segment[1:]), tuple(weights))
