"""What each task's prompts say: patterns, answers, counterfactuals, options."""

import re
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest

from mechexp.errors import UserError
from mechexp.tasks import (
    LEXICON,
    TASKS,
    PromptSet,
    TextPrompt,
    Vocabulary,
    make_prompts,
    make_texts,
    screens_for,
)
from mechexp.tasks.words import CENTURIES


def texts(task: str, lexicon: Any = LEXICON, **options: Any) -> tuple[TextPrompt, ...]:
    return make_texts(TASKS[task].config_class(**options), Vocabulary(None, lexicon)).prompts


def made(task: str, tokenizer: Any, **options: Any) -> PromptSet:
    return make_prompts(TASKS[task].config_class(**options), tokenizer)


def test_lists_are_at_least_as_long_as_the_papers() -> None:
    assert len(LEXICON.names) >= 80 and len(LEXICON.cities) >= 48 and len(LEXICON.nouns) >= 23
    for words in (LEXICON.names, LEXICON.cities, LEXICON.nouns, LEXICON.places, LEXICON.objects):
        assert len(set(words)) == len(words)
        assert all(re.fullmatch("[A-Za-z]+", w) for w in words)
    assert not set(LEXICON.names) & set(LEXICON.cities)
    assert not any(w[0] in "aeiou" for w in LEXICON.objects), "the wording says 'a'"


def test_ioi_pattern() -> None:
    pattern = re.compile(r"When (\w+) and (\w+) went to the (\w+), (\w+) gave a (\w+) to")
    orders = Counter()
    for text in texts("ioi", n=60):
        match = pattern.fullmatch(text.prompt)
        assert match
        first, second, place, giver, thing = match.groups()
        assert first != second and giver in (first, second)
        other = second if giver == first else first
        assert text.target == (f" {other}",) and text.distractor == (f" {giver}",)
        order = "ABBA" if giver == second else "BABA"
        assert text.template == f"when-{order}"
        orders[order] += 1
        s = {name: text.prompt[a:b] for name, (a, b) in text.spans.items()}
        assert s == {"io": other, "s1": giver, "s2": giver}
        assert text.spans["s1"][0] < text.spans["s2"][0]
        fresh = pattern.fullmatch(str(text.counterfactual))
        assert fresh
        a, b, place2, c, thing2 = fresh.groups()
        assert len({a, b, c, first, second}) == 5, "three fresh names"
        assert (place2, thing2) == (place, thing)
    assert orders == {"ABBA": 30, "BABA": 30}


def test_ioi_wordings_are_balanced() -> None:
    count = Counter(t.template for t in texts("ioi", n=82, templates=["when", "after", "while", "then"]))
    assert len(count) == 8 and set(count.values()) == {10, 11}


@pytest.mark.parametrize("templates", [[], ["nope"], ["when", "when"]])
def test_ioi_refuses_templates(templates: list[str]) -> None:
    with pytest.raises(UserError, match=r"task\.templates"):
        texts("ioi", templates=templates)


def test_ioi_with_too_few_names_for_a_counterfactual() -> None:
    made_of = make_texts(
        TASKS["ioi"].config_class(n=10),
        Vocabulary(None, replace(LEXICON, names=("Ann", "Bob", "Cleo", "Dan"))),
    )
    assert all(t.counterfactual is None for t in made_of.prompts)
    assert any("no counterfactuals" in note for note in made_of.notes)


def test_all_prompts_of_a_small_world() -> None:
    small = replace(LEXICON, names=("Ann", "Bob", "Cleo"), places=("park", "bank"), objects=("pen", "cup"))
    everything = texts("ioi", small, n=-1)
    assert len(everything) == len({t.prompt for t in everything}) == 3 * 2 * 2 * 2 * 2
    with pytest.raises(UserError, match="at most 48 "):
        texts("ioi", small, n=49)
    with pytest.raises(UserError, match="too many to run them all"):
        texts("ioi", n=-1)


def test_vb_pattern() -> None:
    pattern = re.compile(r"(\w+) lives in (\w+)\. (\w+) lives in (\w+)\. (\w+) lives in")
    queries = Counter()
    for text in texts("vb", n=40):
        match = pattern.fullmatch(text.prompt)
        assert match
        a, city_a, b, city_b, q = match.groups()
        assert a != b and city_a != city_b and q in (a, b)
        bound, other = (city_a, city_b) if q == a else (city_b, city_a)
        assert text.target == (f" {bound}",) and text.distractor == (f" {other}",)
        s = {name: text.prompt[i:j] for name, (i, j) in text.spans.items()}
        assert s == {
            "name_a": a, "city_a": city_a, "name_b": b, "city_b": city_b,
            "query_name": q, "bound": bound, "other": other,
        }  # fmt: skip
        assert text.spans["query_name"][0] > text.spans["city_b"][0]
        assert text.counterfactual == f"{a} lives in {city_b}. {b} lives in {city_a}. {q} lives in"
        queries[text.template] += 1
    assert queries == {"query_a": 20, "query_b": 20}


def test_succ_makes_the_papers_118() -> None:
    everything = texts("succ")
    count = Counter(t.template for t in everything)
    assert count == {"weekdays": 7, "months": 12, "ordinals": 5, "numbers": 94}
    assert len({t.prompt for t in everything}) == 118
    assert [t.template for t in everything] != sorted(t.template for t in everything), "shuffled"


@pytest.mark.parametrize("separator", [" ", ", ", " -> ", "\n"])
def test_succ_items_and_answers(separator: str) -> None:
    for text in texts("succ", separator=separator, series=[*LEXICON.series]):
        items = LEXICON.series[text.template]
        joined = (text.prompt + text.target[0]).split(separator)
        assert len(joined) == 6
        steps = {(items.index(b) - items.index(a)) % len(items) for a, b in pairwise(joined)}
        assert steps == {1}
        assert text.prompt + text.distractor[0] == separator.join([*joined[:5], joined[4]])
        shown = [text.prompt[slice(*text.spans[f"item_{k}"])] for k in range(1, 6)]
        assert shown == joined[:5]
        lead = text.target[0][: -len(joined[5])]
        mixed = (str(text.counterfactual) + lead).removesuffix(separator).split(separator)
        assert sorted(mixed) == sorted(shown) and mixed != shown


def test_succ_ends_where_the_separator_says(tokenizer_of: Callable[[str], Any]) -> None:
    tokenizer = tokenizer_of("gpt2_like")
    spaces = made("succ", tokenizer, series=["weekdays"])
    assert all(p["end"] == p["item_5"] for p in spaces.positions)
    commas = made("succ", tokenizer, series=["weekdays"], separator=", ")
    assert all(p["end"] == p["item_5"] + 1 for p in commas.positions)
    assert all(t.prompt.endswith(",") and t.target[0].startswith(" ") for t in commas.texts)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"length": 1}, r"task\.length"),
        ({"separator": ""}, r"task\.separator"),
        ({"series": ["planets"]}, r"task\.series"),
        ({"series": []}, r"task\.series"),
        ({"series": ["weekdays", "weekdays"]}, r"task\.series"),
        ({"series": ["weekdays"], "length": 7}, "0 different prompts"),
    ],
)
def test_succ_refuses_options(options: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=message):
        texts("succ", **options)


def test_succ_of_another_length() -> None:
    assert Counter(t.template for t in texts("succ", length=3, series=["weekdays", "letters"])) == {
        "weekdays": 7,
        "letters": 23,
    }


def check_year(text: TextPrompt) -> None:
    """Every target makes the end year later than the start, no distractor can."""
    match = re.fullmatch(r"The \w+ lasted from the year (\d{4}) to the year (\d+)", text.prompt)
    assert match
    start, shown = match.groups()
    assert start[:2] in CENTURIES and start.startswith(shown)
    missing = 4 - len(shown)
    for answers, later in ((text.target, True), (text.distractor, False)):
        assert answers
        for answer in answers:
            first = int((shown + answer).ljust(4, "0"))
            last = int((shown + answer).ljust(4, "9"))
            assert (first > int(start)) if later else (last <= int(start))
    decided = {len(a) for a in (*text.target, *text.distractor)}
    assert decided == {min(missing, 1) if text.template != "two_digit" else 2}
    assert text.prompt[slice(*text.spans["century"])] == start[:2]
    assert str(text.counterfactual) == text.prompt.replace(start, start[:2] + "01", 1) != text.prompt


@pytest.mark.parametrize("form", ["two_digit", "unit", "decade"])
def test_gt_answers(form: str) -> None:
    everything = texts("gt", form=form, n=400)
    for text in everything:
        check_year(text)
        year = text.prompt[slice(*text.spans["start_year"])]
        assert len(year) == (3 if form == "decade" else 4), "up to the digit that decides"
    assert {t.template for t in everything} == {form}


def test_gt_two_digit_uses_all_pairs() -> None:
    for text in texts("gt", form="two_digit", n=20):
        start = int(text.prompt[slice(*text.spans["start_year"])][2:])
        assert text.target == tuple(f"{i:02d}" for i in range(start + 1, 100))
        assert text.distractor == tuple(f"{i:02d}" for i in range(start + 1))


@pytest.mark.parametrize(
    ("tokenizer", "form"),
    [
        ("gpt2_like", "two_digit"),
        ("word_level", "two_digit"),
        ("digit_splitting", "unit"),
        ("three_digits", "unit"),
        ("slow_sentencepiece", "unit"),
    ],
)
def test_gt_form_follows_the_tokenizer(tokenizer_of: Callable[[str], Any], tokenizer: str, form: str) -> None:
    prompts = made("gt", tokenizer_of(tokenizer), n=30)
    assert {t.template for t in prompts.texts} == {form}
    assert any(n.startswith(f"form {form} (chosen by the tokenizer): ") for n in prompts.notes)
    for text in prompts.texts:
        check_year(text)


def test_gt_form_as_asked_or_refused(tokenizer_of: Callable[[str], Any]) -> None:
    prompts = made("gt", tokenizer_of("digit_splitting"), n=30, form="decade")
    assert any(n.startswith("form decade (as asked)") for n in prompts.notes)
    for kind, form in (("digit_splitting", "two_digit"), ("three_digits", "decade"), ("word_level", "unit")):
        with pytest.raises(UserError, match=f"no year splits as {form} needs") as caught:
            made("gt", tokenizer_of(kind), form=form)
        assert "years" in str(caught.value) and "tokenizer" in str(caught.value)
    with pytest.raises(UserError, match=r"task\.form=hex"):
        made("gt", tokenizer_of("word_level"), form="hex")
    with pytest.raises(UserError, match="two_digit or unit or decade"):
        made("gt", tokenizer_of("few_names"))


def test_screens_fit_the_tasks(tokenizer_of: Callable[[str], Any]) -> None:
    tokenizer = tokenizer_of("word_level")
    expected = {
        "ioi": ("name_mover", "s_inhibition"),
        "gt": ("gt_specific",),
        "succ": ("successor",),
        "vb": ("vb_specific",),
    }
    for task, screens in expected.items():
        prompts = made(task, tokenizer, n=4)
        assert screens_for(prompts) == screens
        # Somebody's own prompts with the same positions get the same screens, others none.
        assert screens_for(replace(prompts, task="custom")) == screens
        bare = replace(prompts, task="custom", positions=tuple({"end": p["end"]} for p in prompts.positions))
        assert screens_for(bare) == ()


@pytest.mark.parametrize(
    ("task", "prompt", "digest"),
    [
        ("ioi", "When Oscar and Samuel went to the market, Samuel gave a key to", "12f3acdd413f"),
        ("gt", "The project lasted from the year 1421 to the year 14", "658dbb8e3a40"),
        ("succ", "11 12 13 14 15", "dd27fc1fc61d"),
        ("vb", "Oscar lives in Liverpool. Samuel lives in Oxford. Oscar lives in", "99bc0903b9b7"),
    ],
)
def test_golden_prompts(tokenizer_of: Callable[[str], Any], task: str, prompt: str, digest: str) -> None:
    """The same seed gives the same prompts in every version; hashes on record rely on it."""
    prompts = made(task, tokenizer_of("word_level"), n=20, seed=7)
    assert prompts.texts[0].prompt == prompt
    assert prompts.prompts_hash[:12] == digest
