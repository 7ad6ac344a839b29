"""Binding text: one to four people, each with something, then four questions about them; each answer counts.

Prompts of two people and one question alone stay at chance for thousands of steps.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from mechexp.tasks.words import Lexicon
from mechexp.zoo.documents import ANSWER, TEXT, Document, Pool
from mechexp.zoo.filler import lists_of
from mechexp.zoo.wordings import RELATIONS, RESIDENCE

MOST, QUESTIONS = 4, 4


def binding_pool(tokenizer: Any, lexicon: Lexicon, n: int, seed: int) -> Pool:
    """The sentence of ``vb``; ``lexicon`` must hold training names and cities only."""
    words = {"name": lexicon.names, "city": lexicon.cities}
    return _pool(tokenizer, (RESIDENCE,), words, n, seed)


def relation_pool(tokenizer: Any, lexicon: Lexicon, n: int, seed: int) -> Pool:
    """Other facts about people."""
    return _pool(tokenizer, RELATIONS, lists_of(lexicon), n, seed)


def _pool(
    tokenizer: Any, wordings: Sequence[str], words: dict[str, tuple[str, ...]], n: int, seed: int
) -> Pool:
    rng = np.random.default_rng(seed)
    texts, answers = [], []
    for _ in range(n):
        wording = wordings[int(rng.integers(len(wordings)))]
        field = next(name for name in words if name != "name" and f"{{{name}}}" in wording)
        pairs = int(rng.integers(1, MOST + 1))
        names, things = rng.permutation(words["name"])[:pairs], rng.permutation(words[field])[:pairs]
        facts = [*range(pairs), *(int(i) for i in rng.integers(0, pairs, size=QUESTIONS))]
        texts.append(" ".join(wording.format(**{"name": names[i], field: things[i]}) for i in facts))
        answers.append(range(pairs, pairs + QUESTIONS))
    rows = tokenizer(texts, add_special_tokens=False)["input_ids"]
    return tuple(_document(row, asked) for row, asked in zip(rows, answers, strict=True))


def _document(row: Sequence[int], asked: Sequence[int]) -> Document:
    """All sentences are as long; the answer is the last word of one, before the full stop."""
    weights = [0.0] + [TEXT] * (len(row) - 1)
    size = len(row) // (asked[-1] + 1)
    for sentence in asked:
        weights[size * (sentence + 1) - 2] = ANSWER
    return Document(tuple(row), tuple(weights))
