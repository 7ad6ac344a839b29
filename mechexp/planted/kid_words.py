"""The words that planted models of protocol 2 know, by family and kind, and their tokenizer."""

from typing import Any

from mechexp.planted.words import UNKNOWN, word_level
from mechexp.tasks.planted_kid import FILLERS, KID, START

LEAVE = "um"  # the word that is likeliest where nothing says that an answer is wanted

TABLE: dict[tuple[str, str], list[tuple[str, int]]] = {}
"""(Family, kind) → its words with the number of their code; all words for one operation share a code."""
for _name, _words in KID.items():
    for _kind, _list in (
        ("first", _words.first), ("second", _words.second), ("mark", _words.marks), ("last", _words.ends),
    ):  # fmt: skip
        TABLE[_name, _kind] = [(word, code) for code, word in enumerate(_list)]
    TABLE[_name, "operator"] = [
        (word, code) for code, synonyms in enumerate(_words.operators.values()) for word in synonyms
    ]

WORDS = (
    START,
    LEAVE,
    UNKNOWN,
    *FILLERS,
    *(word for rows in TABLE.values() for word, _ in rows),
    *(word for words in KID.values() for word in words.answers),
)


def build_kid_tokenizer() -> Any:
    """A word-level tokenizer of these words."""
    return word_level(WORDS)
