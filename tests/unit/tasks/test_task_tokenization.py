"""One-token words and token positions, on texts that tokenizers treat unkindly."""

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mechexp.errors import UserError
from mechexp.tasks.tokenization import IN_PROMPT, Codec


def test_a_word_is_judged_where_it_stands(tokenizer_of: Callable[[str], Any]) -> None:
    gpt2 = Codec(tokenizer_of("gpt2_like"))
    assert set(gpt2.one_token("went to ", ["Mary", "zzyzx"])) == {"Mary"}
    assert not gpt2.one_token("went to ", ["Mary"], space=IN_PROMPT)
    apart = Codec(tokenizer_of("separate_spaces"))
    assert not apart.one_token("went to ", ["Mary"])
    assert set(apart.one_token("went to ", ["Mary"], space=IN_PROMPT)) == {"Mary"}
    pieces = Codec(tokenizer_of("metaspace_always"))
    inside, start = pieces.one_token("went to ", ["Mary"]), pieces.one_token("", ["Mary"])
    assert inside == start, "SentencePiece puts a space in front of the first word"
    words = Codec(tokenizer_of("word_level"))
    assert set(words.one_token("went to ", ["Mary", "Xanadu"])) == {"Mary"}, "an unknown word is no word"


def test_answers_that_merge_with_the_prompt_are_found(tokenizer_of: Callable[[str], Any]) -> None:
    codec = Codec(tokenizer_of("three_digits"))
    (found,) = codec.answer_ids(["to the year 17"], [["3", " Mary"]])
    assert found["3"] is None, "17 and 3 become 173"
    assert found[" Mary"] is not None


@pytest.mark.parametrize("bos", [False, True])
def test_spans_over_several_tokens_and_bytes(
    tokenizer_of: Callable[[str], Any], kind: str, bos: bool
) -> None:
    """The position is the last token that overlaps, also where a character is several tokens."""
    if kind in ("metaspace_always", "metaspace_never", "word_level", "slow_sentencepiece"):
        text = "Mary lives in Paris, in Rome"
        named = {"a": (0, 4), "b": (14, 19), "c": (0, 19), "d": (19, 20), "e": (24, 28)}
    else:
        text = "Zoë ate 日本 rice"
        named = {"a": (0, 3), "b": (8, 10), "c": (0, 10), "d": (2, 3), "e": (11, 15)}
    codec = Codec(tokenizer_of(kind), prepend_bos=bos)
    ids = codec.encode([text])
    (positions,) = codec.locate([text], ids, [named])
    assert positions["end"] == positions["e"] == len(ids[0]) - 1 + bos
    for name, (_, end) in named.items():
        upto, before = (
            codec.tokenizer.decode(list(ids[0][: positions[name] - bos + k])).replace(" ", "") for k in (1, 0)
        )
        wanted = text[:end].replace(" ", "")
        assert upto.startswith(wanted) and not before.startswith(wanted)


@given(
    words=st.lists(
        st.sampled_from(["Mary", "Rome", "日本", "Zoë", "x1", "é", ",", "🙂"]), min_size=1, max_size=6
    )
)
@settings(max_examples=40, deadline=None)
def test_decoding_finds_the_same_positions_as_offsets(
    tokenizer_of: Callable[[str], Any], words: list[str]
) -> None:
    """The fallback for tokenizers without offsets agrees with the offsets of one that has them."""

    class WithoutOffsets:
        is_fast = False

        def __init__(self, real: Any) -> None:
            self.real = real

        def __getattr__(self, name: str) -> Any:
            return getattr(self.real, name)

        def __call__(self, *args: Any, **options: Any) -> Any:
            if options.get("return_offsets_mapping"):
                raise NotImplementedError
            return self.real(*args, **options)

    real = tokenizer_of("gpt2_like")
    text, spans = "", {}
    for k, word in enumerate(words):
        text += " " * bool(k)
        spans[f"w{k}"] = (len(text), len(text) + len(word))
        text += word
    found = []
    for tokenizer in (real, WithoutOffsets(real)):
        codec = Codec(tokenizer)
        found.append(codec.locate([text], codec.encode([text]), [spans]))
    assert found[0] == found[1]


def test_tokens_that_do_not_spell_the_text(tokenizer_of: Callable[[str], Any]) -> None:
    codec = Codec(tokenizer_of("slow_sentencepiece"))
    text = "Mary met 日本"
    with pytest.raises(UserError, match="do not spell"):
        codec.locate([text], codec.encode([text]), [{"a": (9, 11)}])


def test_a_span_that_no_token_holds(tokenizer_of: Callable[[str], Any]) -> None:
    codec = Codec(tokenizer_of("word_level"))
    text = "Mary  John"
    with pytest.raises(UserError, match="no token overlaps"):
        codec.locate([text], codec.encode([text]), [{"gap": (4, 6)}])
