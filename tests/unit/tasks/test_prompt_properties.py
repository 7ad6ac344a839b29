"""What holds for the prompts of every task in every tokenizer, checked without the code that made them."""

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mechexp.errors import UserError
from mechexp.tasks import TASKS, PromptSet, TextPrompt, make_prompts

GENERATED = ("ioi", "gt", "succ", "vb")
quick = settings(max_examples=8, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


def made(task: str, tokenizer: Any, **options: Any) -> PromptSet:
    return make_prompts(TASKS[task].config_class(**options), tokenizer)


def possible(task: str, kind: str) -> bool:
    """``few_names`` has whole years as tokens; everything else can make every task."""
    return (task, kind) != ("gt", "few_names")


def ids_of(tokenizer: Any, text: str) -> tuple[int, ...]:
    return tuple(tokenizer(text, add_special_tokens=False)["input_ids"])


def word_at(tokenizer: Any, prompts: PromptSet, p: int, name: str) -> str:
    return tokenizer.decode([prompts.ids[p][prompts.positions[p][name]]]).strip()


@pytest.mark.parametrize("task", GENERATED)
@given(seed=st.integers(0, 10**9), half_n=st.integers(1, 10), bos=st.booleans())
@quick
def test_contract(
    tokenizer_of: Callable[[str], Any], kind: str, task: str, seed: int, half_n: int, bos: bool
) -> None:
    """Joined tokenization, answers that differ, halves that are disjoint, counterfactuals of equal length."""
    if not possible(task, kind):
        return
    tokenizer = tokenizer_of(kind)
    prompts = made(task, tokenizer, n=2 * half_n, seed=seed, prepend_bos=bos)
    assert len(prompts) == 2 * half_n
    lead = (tokenizer.bos_token_id,) if bos else ()
    for p, text in enumerate(prompts.texts):
        ids = ids_of(tokenizer, text.prompt)
        assert prompts.ids[p] == lead + ids
        for words, answers in (
            (text.target, prompts.targets[p]),
            (text.distractor, prompts.distractors[p]),
        ):
            for word, answer in zip(words, answers, strict=True):
                assert ids_of(tokenizer, text.prompt + word) == (*ids, answer)
                assert answer != tokenizer.unk_token_id
        assert prompts.targets[p] and prompts.distractors[p]
        assert not set(prompts.targets[p]) & set(prompts.distractors[p])
        changed = prompts.counterfactual_ids[p]
        if changed is not None:
            assert len(changed) == len(prompts.ids[p]) and changed != prompts.ids[p]
            assert changed == lead + ids_of(tokenizer, str(text.counterfactual))
        assert prompts.positions[p]["end"] == len(prompts.ids[p]) - 1
    halves = {
        h: {t.prompt for t, own in zip(prompts.texts, prompts.half, strict=True) if own == h}
        for h in prompts.half
    }
    assert set(halves) == {"screen", "test"}
    assert len(halves["screen"]) == len(halves["test"]) == half_n
    assert not halves["screen"] & halves["test"]


@pytest.mark.parametrize("bos", [False, True])
@pytest.mark.parametrize("task", GENERATED)
def test_positions_point_at_the_named_word(
    tokenizer_of: Callable[[str], Any], kind: str, task: str, bos: bool
) -> None:
    if not possible(task, kind):
        return
    tokenizer = tokenizer_of(kind)
    prompts = made(task, tokenizer, n=20, prepend_bos=bos, **({"separator": ", "} if task == "succ" else {}))
    names = {"ioi": ("io", "s1", "s2"), "succ": tuple(f"item_{k}" for k in range(1, 6))}.get(
        task, TASKS[task].spans
    )
    for p, text in enumerate(prompts.texts):
        assert set(names) | {"end"} == set(prompts.positions[p])
        for name in names:
            start, end = text.spans[name]
            word = text.prompt[start:end]
            if task == "gt":
                # A year is several tokens: the position is that of the token which its last digit is in.
                at = prompts.positions[p][name] + 1
                shown = [tokenizer.decode(prompts.ids[p][bos:k]).replace(" ", "") for k in (at - 1, at)]
                upto = text.prompt[:end].replace(" ", "")
                assert not shown[0].startswith(upto) and shown[1].startswith(upto)
            else:
                assert word_at(tokenizer, prompts, p, name) == word


@pytest.mark.parametrize("task", GENERATED)
def test_every_prompt_of_a_wording_has_the_same_length(
    tokenizer_of: Callable[[str], Any], kind: str, task: str
) -> None:
    if possible(task, kind):
        assert len(made(task, tokenizer_of(kind), n=24).buckets()) == 1


@pytest.mark.parametrize("task", GENERATED)
@given(seed=st.integers(0, 10**6))
@quick
def test_same_seed_same_prompts(tokenizer_of: Callable[[str], Any], task: str, seed: int) -> None:
    tokenizer = tokenizer_of("gpt2_like")
    a, b, c = (made(task, tokenizer, n=12, seed=s) for s in (seed, seed, seed + 1))
    assert a == b
    assert (a.prompts_hash, a.tokens_hash) == (b.prompts_hash, b.tokens_hash)
    assert a.prompts_hash != c.prompts_hash


def test_hash_depends_on_order_and_halves(tokenizer_of: Callable[[str], Any]) -> None:
    prompts = made("ioi", tokenizer_of("word_level"), n=6)
    turned = prompts.take([1, 0, 2, 3, 4, 5])
    assert turned.prompts_hash != prompts.prompts_hash
    assert turned.take([1, 0, 2, 3, 4, 5]).prompts_hash == prompts.prompts_hash
    whole = made("ioi", tokenizer_of("word_level"), n=6, split=False)
    assert whole.prompts_hash != prompts.prompts_hash


def test_splitting_leaves_the_prompts_as_they_are(tokenizer_of: Callable[[str], Any]) -> None:
    halved = made("vb", tokenizer_of("word_level"), n=30)
    whole = made("vb", tokenizer_of("word_level"), n=30, split=False)
    assert halved.texts == whole.texts
    assert set(whole.half) == {"both"}
    assert len(whole.part("screen")) == len(whole.part("test")) == 30


@pytest.mark.parametrize(("task", "n"), [("ioi", 41), ("vb", 30), ("succ", 118)])
def test_templates_are_balanced_over_halves(tokenizer_of: Callable[[str], Any], task: str, n: int) -> None:
    prompts = made(task, tokenizer_of("word_level"), n=n)
    count = Counter((t.template, h) for t, h in zip(prompts.texts, prompts.half, strict=True))
    for template in {t.template for t in prompts.texts}:
        assert abs(count[template, "screen"] - count[template, "test"]) <= 1
    assert abs(prompts.half.count("screen") - prompts.half.count("test")) <= 1


@pytest.mark.parametrize("task", GENERATED)
@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"n": 0}, "too few"),
        ({"n": 1}, "too few"),
        ({"n": -2}, "too few"),
        ({"seed": -1}, "seed"),
    ],
)
def test_impossible_options(
    tokenizer_of: Callable[[str], Any], task: str, options: dict[str, int], message: str
) -> None:
    with pytest.raises(UserError, match=message):
        made(task, tokenizer_of("word_level"), **options)


@pytest.mark.parametrize("task", [name for name in GENERATED if name != "succ"])
def test_more_than_possible_is_refused(tokenizer_of: Callable[[str], Any], task: str) -> None:
    with pytest.raises(UserError, match="at most"):
        made(task, tokenizer_of("word_level"), n=10**9)


def test_more_successor_prompts_than_there_are_is_all_of_them_and_told(
    tokenizer_of: Callable[[str], Any],
) -> None:
    most = made("succ", tokenizer_of("word_level"), n=119)
    assert len(most) == 118
    assert "task.n=119: there are 118 prompts, and all are used" in most.notes
    assert (
        made("succ", tokenizer_of("word_level"), n=118).notes
        == made("succ", tokenizer_of("word_level")).notes
    )


def test_no_bos_token(tokenizer_of: Callable[[str], Any]) -> None:
    from transformers import PreTrainedTokenizerFast

    backend = tokenizer_of("gpt2_like").backend_tokenizer
    without = PreTrainedTokenizerFast(tokenizer_object=backend, unk_token="<unk>")
    with pytest.raises(UserError, match="no BOS"):
        made("ioi", without, n=4, prepend_bos=True)
    assert len(made("ioi", without, n=4)) == 4


def test_contract_is_told(tokenizer_of: Callable[[str], Any]) -> None:
    joined = made("ioi", tokenizer_of("gpt2_like"), n=4)
    assert joined.contract["leading_space"] == "part of the answer's token"
    assert joined.contract["add_special_tokens"] is False
    answers = joined.contract["answers"]
    assert {i for row in (*joined.targets, *joined.distractors) for i in row} == {
        i for v in answers.values() for i in v
    }
    apart = made("ioi", tokenizer_of("separate_spaces"), n=4)
    assert apart.contract["leading_space"] == "last token of the prompt"
    assert all(t.prompt.endswith(" to ") and not t.target[0].startswith(" ") for t in apart.texts)


def test_words_that_are_split_are_dropped_and_counted(tokenizer_of: Callable[[str], Any]) -> None:
    from mechexp.tasks import LEXICON

    prompts = made("ioi", tokenizer_of("few_names"), n=200)
    assert any(n.startswith("names: 109 of 129 words dropped") for n in prompts.notes)
    used = {t.prompt[slice(*t.spans[s])] for t in prompts.texts for s in ("io", "s1")}
    assert used <= set(LEXICON.names[:20])


def test_a_list_that_the_tokenizer_splits_is_named(tokenizer_of: Callable[[str], Any]) -> None:
    from dataclasses import replace

    from mechexp.tasks import LEXICON

    names = replace(LEXICON, names=(LEXICON.names[0], *LEXICON.names[30:]))
    cfg = TASKS["vb"].config_class(n=10)
    with pytest.raises(UserError, match="only 1 of the 100 words of the list 'names") as caught:
        make_prompts(cfg, tokenizer_of("few_names"), lexicon=names)
    assert "tokenizer" in str(caught.value)


def test_unknown_task(tokenizer_of: Callable[[str], Any]) -> None:
    from mechexp.config import TaskConfig

    with pytest.raises(UserError, match="unknown task 'nope'"):
        make_prompts(TaskConfig(name="nope"), tokenizer_of("word_level"))


def test_a_word_spoilt_by_the_end_of_its_prompt_is_dropped(tokenizer_of: Callable[[str], Any]) -> None:
    """Some tokenizers merge across the join only there; such a word goes, and the rest is made anew."""
    real = tokenizer_of("gpt2_like")
    victim = "Mary"

    class Merging:
        """Gives `` Mary`` another number of tokens where it follows "gave a … to"."""

        unk_token_id, bos_token_id, is_fast = real.unk_token_id, None, True
        name_or_path = "merging"

        def __call__(self, texts: list[str], **options: Any) -> dict[str, Any]:
            batch = dict(real(texts, **options))
            batch["input_ids"] = [
                ids[:-2] + ids[-1:] if " box to Mary" in text or " key to Mary" in text else ids
                for text, ids in zip(texts, batch["input_ids"], strict=True)
            ]
            return batch

    before = made("ioi", real, n=3000)
    assert any(victim in t.target[0] for t in before.texts)
    prompts = made("ioi", Merging(), n=3000)
    assert not any(victim in t.prompt for t in prompts.texts)
    assert any("'Mary'" in n or "Mary" in n for n in prompts.notes)


def test_take_keeps_fields_together(tokenizer_of: Callable[[str], Any]) -> None:
    prompts = made("vb", tokenizer_of("word_level"), n=10)
    screen = prompts.part("screen")
    assert len(screen) == 5
    kept: list[TextPrompt] = [t for t, h in zip(prompts.texts, prompts.half, strict=True) if h == "screen"]
    assert list(screen.texts) == kept
