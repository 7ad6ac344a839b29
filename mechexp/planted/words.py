"""The words that planted models know, and the tokenizer that makes each of them one token."""

from typing import Any

from mechexp.tasks.planted import DISTRACTORS, FILLERS, TARGETS

UNKNOWN = "<unk>"
WORDS = (UNKNOWN, *TARGETS, *DISTRACTORS, *FILLERS)
KIND = dict.fromkeys(WORDS, 0.0) | dict.fromkeys(TARGETS, 1.0) | dict.fromkeys(DISTRACTORS, -1.0)
"""+1 for words that are right answers, −1 for wrong ones, 0 for filler."""


def build_tokenizer() -> Any:
    """A word-level tokenizer of these words."""
    return word_level(WORDS)


def word_level(words: tuple[str, ...]) -> Any:
    """A word-level ``PreTrainedTokenizerFast``: text is split at spaces, which are not kept."""
    from tokenizers import Tokenizer
    from tokenizers.models import WordLevel
    from tokenizers.pre_tokenizers import WhitespaceSplit
    from transformers import PreTrainedTokenizerFast

    backend = Tokenizer(WordLevel({word: i for i, word in enumerate(words)}, unk_token=UNKNOWN))
    backend.pre_tokenizer = WhitespaceSplit()
    return PreTrainedTokenizerFast(
        tokenizer_object=backend, unk_token=UNKNOWN, clean_up_tokenization_spaces=False
    )
