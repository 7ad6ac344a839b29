"""The word-level tokenizer that all trained zoo models share: every task word is one token.

Words are split at spaces, punctuation stands alone, and digits go two by two from the left: the year 1732 is
``17`` ``32``. Spaces are not kept: "Mary" and " Mary" are the same token, so an answer with a leading space
is one token after any prompt, and a year continued without a space (``17`` + ``33``) is the next pair.
"""

from collections.abc import Iterator
from itertools import chain
from typing import Any

from mechexp.tasks import gt, ioi, vb
from mechexp.tasks.words import LEXICON
from mechexp.zoo.wordings import FILLERS, RELATIONS

UNKNOWN, PAD = "<unk>", "<pad>"
PIECE = r"[0-9]{1,2}|[^\W0-9_]+|[^\s\w]|_"


def build_tokenizer() -> Any:
    """A ``PreTrainedTokenizerFast`` over the words of tasks and filler, and one- and two-digit numbers."""
    from tokenizers import Tokenizer
    from tokenizers.models import WordLevel
    from transformers import PreTrainedTokenizerFast

    splitter = _splitter()
    words = dict.fromkeys(chain((UNKNOWN, PAD), _pieces(splitter)))
    backend = Tokenizer(WordLevel({word: i for i, word in enumerate(words)}, unk_token=UNKNOWN))
    backend.pre_tokenizer = splitter
    return PreTrainedTokenizerFast(
        tokenizer_object=backend, unk_token=UNKNOWN, pad_token=PAD, clean_up_tokenization_spaces=False
    )


def _splitter() -> Any:
    from tokenizers import Regex
    from tokenizers.pre_tokenizers import Sequence, Split, WhitespaceSplit

    return Sequence([WhitespaceSplit(), Split(Regex(PIECE), "isolated")])


def _pieces(splitter: Any) -> Iterator[str]:
    """Every piece the tasks and the filler text can hold; numbers first, so that their ids are in order."""
    yield from (str(i) for i in range(10))
    yield from gt.PAIRS
    for text in _texts():
        yield from (piece for piece, _ in splitter.pre_tokenize_str(text))


def _texts() -> Iterator[str]:
    words = (LEXICON.names, LEXICON.cities, LEXICON.nouns, LEXICON.places, LEXICON.objects)
    yield from chain(*words, *LEXICON.series.values())
    for wording in (*ioi.WORDINGS.values(), gt.WORDING, vb.WORDING, *FILLERS, *RELATIONS, ","):
        yield _without_fields(wording)


def _without_fields(wording: str) -> str:
    from string import Formatter

    return " ".join(literal for literal, _, _, _ in Formatter().parse(wording))
