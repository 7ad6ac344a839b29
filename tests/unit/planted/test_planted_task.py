"""The planted task: every named place holds what it should, in each prompt."""

from mechexp.planted.words import WORDS, build_tokenizer
from mechexp.tasks import make_prompts
from mechexp.tasks.planted import DISTRACTORS, FILLERS, LENGTH, TARGETS, PlantedConfig


def test_prompts_hold_the_answers_in_their_places():
    tokenizer = build_tokenizer()
    prompts = make_prompts(PlantedConfig(n=100, seed=3), tokenizer)
    word = dict(enumerate(WORDS))
    keys = set()
    for ids, at, target, distractor in zip(
        prompts.ids, prompts.positions, prompts.targets, prompts.distractors, strict=True
    ):
        b, c, a = target[0], distractor[0], ids[-1]
        assert len(ids) == LENGTH
        assert word[b] in TARGETS
        assert word[c] in DISTRACTORS
        assert word[a] in FILLERS
        assert [t for t, i in enumerate(ids) if i == b] == [at["answer"], LENGTH - 6, LENGTH - 2]
        assert [t for t, i in enumerate(ids) if i == c] == [at["first"], at["key"] - 1, LENGTH - 4]
        assert [t for t, i in enumerate(ids) if i == a] == [at["key"], LENGTH - 1]
        keys.add(at["key"])
    assert len(keys) == 5
    assert len(set(prompts.ids)) == 100


def test_counterfactuals_change_the_answers_alone():
    prompts = make_prompts(PlantedConfig(n=40), build_tokenizer())
    for ids, other, target, distractor in zip(
        prompts.ids, prompts.counterfactual_ids, prompts.targets, prompts.distractors, strict=True
    ):
        changed = [i for i, j in zip(ids, other, strict=True) if i != j]
        assert sorted(changed) == sorted([*target * 3, *distractor * 3])
        assert not set(other) & {*target, *distractor}
