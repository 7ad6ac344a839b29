"""Tokenizers of every kind that tasks must cope with, trained on the tasks' own texts."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from mechexp.tasks import LEXICON, TASKS, Vocabulary, make_texts

SPECIAL = ["<unk>", "<bos>"]
SIZE = 6000


def corpus(**lexicon: Any) -> list[str]:
    """Texts of all tasks that hold every word of the lists, several times over."""
    vocabulary = Vocabulary(None, replace(LEXICON, **lexicon))
    lines = []
    for options in ({"name": "ioi", "n": 3000}, {"name": "vb", "n": 3000}, {"name": "gt", "n": 1000}):
        cfg = TASKS[options["name"]].config_class(**options)
        lines += [t.prompt + t.target[0] for t in make_texts(cfg, vocabulary).prompts]
    for separator in (" ", ", "):
        cfg = TASKS["succ"].config_class(separator=separator, length=3, series=list(LEXICON.series))
        lines += 20 * [t.prompt + t.target[0] for t in make_texts(cfg, vocabulary).prompts]
    return [*lines, *(f"x{i:02d} 0{i:02d}" for i in range(100))]


def fast(tokenizer: Any) -> Any:
    from transformers import PreTrainedTokenizerFast

    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, unk_token="<unk>", bos_token="<bos>")


def bpe(pre_tokenizer: Any, decoder: Any, lines: list[str], **trainer: Any) -> Any:
    from tokenizers import Tokenizer, models, trainers

    tokenizer = Tokenizer(models.BPE(unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizer
    tokenizer.decoder = decoder
    settings = {"vocab_size": SIZE, "special_tokens": SPECIAL, "show_progress": False, **trainer}
    tokenizer.train_from_iterator(lines, trainers.BpeTrainer(**settings))
    return fast(tokenizer)


def byte_level(*before: Any, use_regex: bool = True, lines: list[str] | None = None) -> Any:
    from tokenizers import decoders, pre_tokenizers

    last = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=use_regex)
    return bpe(
        pre_tokenizers.Sequence([*before, last]),
        decoders.ByteLevel(),
        lines or corpus(),
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
    )


def gpt2_like() -> Any:
    """Leading-space tokens; years are not split by rule, as in GPT-2: it has merged pairs of digits."""
    years = [f"the year {c} {d:02d} {c}" for c in range(11, 18) for d in range(100)]
    texts = [line for line in corpus() if "the year" not in line]
    frames = [f"The {noun} lasted from the year 17 to the year 17" for noun in LEXICON.nouns]
    return byte_level(lines=texts + 3 * years + 5 * frames)


def few_names() -> Any:
    """Has seen only 20 names and 12 cities: it splits the others."""
    return byte_level(lines=corpus(names=LEXICON.names[:20], cities=LEXICON.cities[:12]))


def digit_splitting() -> Any:
    """One token a digit, as SmolLM2 and many others."""
    from tokenizers import pre_tokenizers

    return byte_level(pre_tokenizers.Digits(individual_digits=True))


def three_digits() -> Any:
    """Numbers in groups of up to three digits from the left, as GPT-4 and Llama 3."""
    from tokenizers import Regex, pre_tokenizers

    return byte_level(pre_tokenizers.Split(Regex(r"\d{1,3}"), "isolated"))


def separate_spaces() -> Any:
    """Every space is a token of its own."""
    from tokenizers import Regex, pre_tokenizers

    return byte_level(pre_tokenizers.Split(Regex(r" |\d\d?|[.,]"), "isolated"), use_regex=False)


def metaspace(prepend_scheme: str) -> Any:
    """SentencePiece-like; ``always`` puts a space in front of every text, ``never`` does not."""
    from tokenizers import Regex, decoders, pre_tokenizers

    first = pre_tokenizers.Split(Regex(r"\d\d?|[.,]"), "isolated")
    last = pre_tokenizers.Metaspace(prepend_scheme=prepend_scheme)
    if prepend_scheme == "always":
        # Split digits after the spaces are marked, or each piece would get a mark of its own.
        pre = pre_tokenizers.Sequence([last, first])
    else:
        pre = pre_tokenizers.Sequence([first, last])
    return bpe(pre, decoders.Metaspace(prepend_scheme=prepend_scheme), corpus())


def word_level() -> Any:
    """Every word, mark and pair of digits a token; spaces leave no trace."""
    from tokenizers import Regex, Tokenizer, models, pre_tokenizers, trainers

    tokenizer = Tokenizer(models.WordLevel(unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Whitespace(), pre_tokenizers.Split(Regex(r"\d\d?"), "isolated")]
    )
    trainer = trainers.WordLevelTrainer(special_tokens=SPECIAL, show_progress=False)
    tokenizer.train_from_iterator(corpus(), trainer)
    return fast(tokenizer)


def slow_sentencepiece(folder: Path) -> Any:
    """A real SentencePiece model behind a Python tokenizer, which knows no offsets."""
    import sentencepiece
    from transformers.tokenization_utils_sentencepiece import SentencePieceBackend

    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(corpus()),
        model_prefix=str(folder / "sp"),
        vocab_size=1400,
        hard_vocab_limit=False,
        model_type="bpe",
        split_digits=True,
        minloglevel=2,
    )
    return SentencePieceBackend(vocab_file=str(folder / "sp.model"), unk_token="<unk>", bos_token="<s>")


BUILDERS: dict[str, Callable[[], Any]] = {
    "gpt2_like": gpt2_like,
    "few_names": few_names,
    "digit_splitting": digit_splitting,
    "three_digits": three_digits,
    "separate_spaces": separate_spaces,
    "metaspace_always": lambda: metaspace("always"),
    "metaspace_never": lambda: metaspace("never"),
    "word_level": word_level,
}
KINDS = (*BUILDERS, "slow_sentencepiece")


@pytest.fixture(scope="session")
def tokenizer_of(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str], Any]]:
    """``tokenizer_of(kind)``: one of ``KINDS``, made once a session."""

    @cache
    def made(kind: str) -> Any:
        if kind == "slow_sentencepiece":
            return slow_sentencepiece(tmp_path_factory.mktemp("sp"))
        return BUILDERS[kind]()

    yield made


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """A test that asks for ``kind`` runs with every tokenizer."""
    if "kind" in metafunc.fixturenames:
        metafunc.parametrize("kind", KINDS)
