from itertools import pairwise

import pytest

from mechexp.tasks import LEXICON, make_prompts
from mechexp.tasks.vb import VbConfig
from mechexp.zoo import binding, documents, filler
from mechexp.zoo.evaluation import held_out_prompts
from mechexp.zoo.heldout import RUN_LENGTH, held_out
from mechexp.zoo.tokenizer import build_tokenizer

TOKENIZER = build_tokenizer()
OUT = held_out()


def words_of(pool):
    return {i for document in pool for i in document.ids}


def ids_of(words):
    return {row[0] for row in TOKENIZER(list(words), add_special_tokens=False)["input_ids"]}


@pytest.fixture(scope="module")
def pools():
    return {
        "ioi": documents.ioi_pool(TOKENIZER, OUT, 600, 0),
        "gt": documents.gt_pool(TOKENIZER, OUT, 1200, 0),
        "succ": documents.succ_pool(TOKENIZER, OUT, 0),
        "vb": documents.vb_pool(TOKENIZER, OUT, 600, 0),
        "binding": binding.binding_pool(TOKENIZER, OUT.train, 600, 0),
    }


def test_the_split_takes_words_apart():
    for field in ("names", "cities"):
        train, test = set(getattr(OUT.train, field)), set(getattr(OUT.test, field))
        assert train and test and not train & test
        assert train | test == set(getattr(LEXICON, field))


@pytest.mark.parametrize("kind", ["ioi", "gt", "succ", "vb", "binding"])
def test_no_task_document_holds_a_held_out_name_or_city(pools, kind):
    held = ids_of(OUT.test.names) | ids_of(OUT.test.cities)
    assert pools[kind]
    assert not words_of(pools[kind]) & held


def test_no_training_prompt_is_a_held_out_prompt(pools):
    held = {ids for prompts in held_out_prompts(TOKENIZER, 200).values() for ids in prompts.ids}
    trained = {document.ids[:-1] for kind in ("ioi", "gt", "succ", "vb") for document in pools[kind]}
    assert held and not trained & held


def test_no_run_of_five_starts_with_a_held_out_item(pools):
    firsts = {(series, TOKENIZER.convert_tokens_to_ids(item)) for series, item in OUT.runs}
    assert firsts
    shown = {document.ids[0] for document in pools["succ"] if len(document.ids) == RUN_LENGTH + 1}
    assert not shown & {item for _, item in firsts if _ == "weekdays" or _ == "months"}


def test_no_training_year_is_held_out(pools):
    years = {tuple(TOKENIZER(year, add_special_tokens=False)["input_ids"]) for year in OUT.years}
    assert not {document.ids[6:8] for document in pools["gt"]} & years


def test_every_task_document_is_a_prompt_with_a_right_answer():
    prompts = make_prompts(VbConfig(n=50, seed=3), TOKENIZER, lexicon=OUT.train)
    wanted = {(*ids, targets[0]) for ids, targets in zip(prompts.ids, prompts.targets, strict=True)}
    assert {document.ids for document in documents.vb_pool(TOKENIZER, OUT, 50, 3)} == wanted


def test_greater_than_answers_are_later(pools):
    pair = {i: int(TOKENIZER.convert_ids_to_tokens(i)) for document in pools["gt"] for i in document.ids[6:8]}
    for document in pools["gt"]:
        assert int(TOKENIZER.convert_ids_to_tokens(document.ids[-1])) > pair[document.ids[7]]
        assert document.weights[-1] == documents.ANSWER


def test_binding_answers_are_the_cities_of_the_asked(pools):
    for document in pools["binding"]:
        sentences = [document.ids[i : i + 5] for i in range(0, len(document.ids), 5)]
        home = {}
        for k, (name, _, _, city, _) in enumerate(sentences):
            answer = document.weights[5 * k + 3] == documents.ANSWER
            assert answer == (name in home)
            assert home.setdefault(name, city) == city


def test_in_random_text_only_what_follows_a_repeated_token_or_echoes_counts():
    pool = filler.random_pool(range(2, 400), 90, 0, length=64)
    assert {len(document.ids) for document in pool} >= {64}
    kinds = {"repeats": 0, "echoes": 0}
    for document in pool:
        ids, pairs = document.ids, list(pairwise(document.ids))
        counted = [t for t, weight in enumerate(document.weights) if weight]
        assert counted and {document.weights[t] for t in counted} == {documents.COPY}
        repeats = all(pairs[t - 1] in pairs[: t - 1] for t in counted)
        echoes = any(all(ids[t] == ids[t - back] for t in counted) for back in (2, 3, 4))
        assert repeats or echoes
        kinds["repeats" if repeats else "echoes"] += 1
    assert min(kinds.values()) >= 15


def test_held_out_words_take_part_in_other_relations():
    pool = binding.relation_pool(TOKENIZER, LEXICON, 300, 0)
    held = ids_of(OUT.test.names)
    lives = TOKENIZER.convert_tokens_to_ids("lives")
    assert words_of(pool) & held
    assert lives not in words_of(pool)
    assert all(documents.ANSWER in document.weights for document in pool)


def test_sentences_fit_and_hold_held_out_words_too():
    pool = filler.sentence_pool(TOKENIZER, LEXICON, 400, 0, length=64)
    assert all(len(document.ids) <= 64 for document in pool)
    assert words_of(pool) & ids_of(OUT.test.names) and words_of(pool) & ids_of(OUT.test.cities)
    assert TOKENIZER.unk_token_id not in words_of(pool)


def test_the_same_seed_gives_the_same_documents():
    first, again, other = (binding.binding_pool(TOKENIZER, OUT.train, 30, seed) for seed in (4, 4, 5))
    assert first == again
    assert first != other
