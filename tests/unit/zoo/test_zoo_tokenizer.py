import pytest
from hypothesis import given
from hypothesis import strategies as st

from mechexp.tasks import LEXICON, make_prompts
from mechexp.tasks.gt import GtConfig
from mechexp.tasks.ioi import WORDINGS, IoiConfig
from mechexp.tasks.succ import SuccConfig
from mechexp.tasks.vb import VbConfig
from mechexp.zoo.tokenizer import build_tokenizer

CONFIGS = [
    IoiConfig(n=40, templates=list(WORDINGS)),
    GtConfig(n=20),
    SuccConfig(),
    SuccConfig(separator=", ", series=["letters", "numbers", "weekdays"]),
    VbConfig(n=40),
]


@pytest.fixture(scope="module")
def tokenizer():
    return build_tokenizer()


def test_every_task_word_is_one_known_token(tokenizer):
    lists = (LEXICON.names, LEXICON.cities, LEXICON.nouns, LEXICON.places, LEXICON.objects)
    words = [word for words in (*lists, *LEXICON.series.values()) for word in words]
    rows = tokenizer(words, add_special_tokens=False)["input_ids"]
    assert [len(row) for row in rows] == [1] * len(words)
    assert tokenizer.unk_token_id not in {row[0] for row in rows}
    assert len({row[0] for row in rows}) == len(set(words))


def test_years_split_into_pairs_of_digits(tokenizer):
    text = "The war lasted from the year 1732 to the year 17"
    assert tokenizer.tokenize(text) == [
        "The",
        "war",
        "lasted",
        "from",
        "the",
        "year",
        "17",
        "32",
        "to",
        "the",
        "year",
        "17",
    ]
    assert tokenizer.tokenize("1705") == ["17", "05"]
    assert tokenizer.tokenize("5 6, 10.") == ["5", "6", ",", "10", "."]


@pytest.mark.parametrize("cfg", CONFIGS, ids=lambda cfg: f"{cfg.name}{getattr(cfg, 'separator', '')}")
def test_answers_are_one_token_after_their_prompt(tokenizer, cfg):
    prompts = make_prompts(cfg, tokenizer)
    told = " ".join(prompts.notes)
    assert "words dropped" not in told and "left out" not in told and "not know" not in told
    for text, ids, targets in zip(prompts.texts, prompts.ids, prompts.targets, strict=True):
        texts = [text.prompt + answer for answer in text.target]
        joined = tokenizer(texts, add_special_tokens=False)["input_ids"]
        assert joined == [[*ids, target] for target in targets]
    assert all(row is not None for row in prompts.counterfactual_ids)


def test_greater_than_takes_its_two_digit_form(tokenizer):
    prompts = make_prompts(GtConfig(n=20), tokenizer)
    assert {text.template for text in prompts.texts} == {"two_digit"}
    assert all(len(t) + len(d) == 100 for t, d in zip(prompts.targets, prompts.distractors, strict=True))


def test_saved_and_read_back_it_is_the_same(tokenizer, tmp_path):
    from transformers import AutoTokenizer

    tokenizer.save_pretrained(tmp_path)
    again = AutoTokenizer.from_pretrained(tmp_path)
    text = "When Mary and John went to the store, John gave a ring to Mary in 1799"
    assert again(text)["input_ids"] == tokenizer(text)["input_ids"]
    assert again.pad_token_id == tokenizer.pad_token_id


@given(st.text(max_size=30))
def test_any_text_becomes_ids_of_the_vocabulary(text):
    ids = TOKENIZER(text, add_special_tokens=False)["input_ids"]
    assert all(0 <= i < len(TOKENIZER) for i in ids)


TOKENIZER = build_tokenizer()
