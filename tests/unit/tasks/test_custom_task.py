"""The user's own prompts: accepted as they stand, or refused with file and line."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mechexp.errors import UserError
from mechexp.tasks import TASKS, PromptSet, make_prompts
from mechexp.tasks.custom import MAX_LINE, CustomConfig

GOOD: dict[str, Any] = {
    "prompt": "Mary lives in Paris. John lives in Rome. Mary lives in",
    "target": " Paris",
    "distractor": [" Rome"],
}
OTHER = {**GOOD, "prompt": "Mary lives in Rome. John lives in Paris. John lives in"}


@pytest.fixture
def tokenizer(tokenizer_of: Callable[[str], Any]) -> Any:
    return tokenizer_of("gpt2_like")


def write(folder: Path, *lines: Any) -> str:
    path = folder / "prompts.jsonl"
    path.write_text(
        "".join((x if isinstance(x, str) else json.dumps(x)) + "\n" for x in lines), encoding="utf-8"
    )
    return str(path)


def read(path: str, tokenizer: Any, **options: Any) -> PromptSet:
    return make_prompts(CustomConfig(path=path, **options), tokenizer)


def test_reads_what_the_format_says(tmp_path: Path, tokenizer: Any) -> None:
    full = {
        **OTHER,
        "target": [" Paris", " London"],
        "counterfactual": "Mary lives in Paris. John lives in Rome. John lives in",
        "spans": {"city": [14, 18], "second": [20, 40]},
    }
    prompts = read(write(tmp_path, GOOD, "", full), tokenizer, split=False)
    assert [t.prompt for t in prompts.texts] == [GOOD["prompt"], OTHER["prompt"]]
    assert prompts.texts[0].target == (" Paris",) and prompts.texts[1].target == (" Paris", " London")
    assert prompts.counterfactual_ids[0] is None and prompts.counterfactual_ids[1] is not None
    city, second = (prompts.ids[1][prompts.positions[1][name]] for name in ("city", "second"))
    assert (tokenizer.decode([city]), tokenizer.decode([second])) == (" Rome", ".")
    assert set(prompts.positions[0]) == {"end"}
    assert prompts.contract["leading_space"] == "as written"


def test_a_run_can_be_fed_with_what_a_run_left(tmp_path: Path, tokenizer: Any) -> None:
    """``prompts.jsonl`` holds the prompts of a run with their halves."""
    made = make_prompts(TASKS["ioi"].config_class(n=20), tokenizer)
    rows = [{**t.as_json(), "half": h} for t, h in zip(made.texts, made.half, strict=True)]
    again = read(write(tmp_path, *rows), tokenizer)
    assert (again.texts, again.half, again.ids) == (made.texts, made.half, made.ids)
    assert again.prompts_hash == made.prompts_hash and again.tokens_hash == made.tokens_hash


def test_halves_of_the_file_give_way_to_no_split(tmp_path: Path, tokenizer: Any) -> None:
    path = write(tmp_path, {**GOOD, "half": "test"}, {**OTHER, "half": "screen"})
    assert read(path, tokenizer).half == ("test", "screen")
    assert read(path, tokenizer, split=False).half == ("both", "both")


@pytest.mark.parametrize(
    ("halves", "message"),
    [
        (("screen", "screen"), 'all prompts say "half": "screen"'),
        (("screen", None), '"half" is missing'),
        (("screen", "both"), "half\" is 'both'"),
        (("left", "right"), "half\" is 'left'"),
    ],
)
def test_halves_that_make_no_split(tmp_path: Path, tokenizer: Any, halves: Any, message: str) -> None:
    rows = [{**row, "half": h} if h else row for row, h in zip((GOOD, OTHER), halves, strict=True)]
    with pytest.raises(UserError, match=message):
        read(write(tmp_path, *rows), tokenizer)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("{not json", "not JSON"),
        ("[1, 2]", "not an object"),
        ("7", "not an object"),
        ("[" * 5000, "not JSON"),
        ('{"prompt": "a", "prompt": "b", "target": " c", "distractor": " d"}', "twice"),
        ('{"prompt": "\\ud800", "target": " Paris", "distractor": " Rome"}', "half a character"),
        ({k: v for k, v in OTHER.items() if k != "prompt"}, '"prompt" is missing'),
        ({k: v for k, v in OTHER.items() if k != "target"}, '"target" is missing'),
        ({k: v for k, v in OTHER.items() if k != "distractor"}, '"distractor" is missing'),
        ({**OTHER, "answer": " x"}, 'unknown field "answer"'),
        ({**OTHER, "prompt": ""}, "not empty"),
        ({**OTHER, "prompt": 5}, "not empty"),
        ({**OTHER, "target": []}, "0 answers"),
        ({**OTHER, "target": [" Paris", " Paris"]}, "twice"),
        ({**OTHER, "target": [3]}, '"target" is 3'),
        ({**OTHER, "target": " Rome"}, "' Rome' is target and distractor"),
        ({**OTHER, "target": " Rome Paris"}, "the target ' Rome Paris' is not one token"),
        ({**OTHER, "distractor": " Rome Paris"}, "the distractor ' Rome Paris' is not one token"),
        ({**OTHER, "counterfactual": OTHER["prompt"]}, "counterfactual is the prompt itself"),
        ({**OTHER, "spans": [1, 2]}, '"spans" is'),
        ({**OTHER, "spans": {"a": [1]}}, "span 'a' is"),
        ({**OTHER, "spans": {"a": [0.5, 2]}}, "span 'a' is"),
        ({**OTHER, "spans": {"a": [True, 2]}}, "span 'a' is"),
        ({**OTHER, "spans": {"a": [3, 3]}}, "outside"),
        ({**OTHER, "spans": {"a": [-1, 3]}}, "outside"),
        ({**OTHER, "spans": {"a": [0, 1000]}}, "outside"),
        ({**OTHER, "spans": {"end": [0, 3]}}, "end is the last token"),
        (GOOD, "the same as in .*:1"),
        ({**OTHER, "prompt": "x" * MAX_LINE}, "bytes"),
    ],
)
def test_bad_lines_are_named(tmp_path: Path, tokenizer: Any, line: Any, message: str) -> None:
    path = write(tmp_path, GOOD, line)
    with pytest.raises(UserError, match=message) as caught:
        read(path, tokenizer)
    assert f"{path}:2" in str(caught.value)


@pytest.mark.parametrize(
    ("row", "hint"),
    [
        ({**OTHER, "prompt": OTHER["prompt"] + " ", "target": "Paris"}, "end the prompt without a space"),
        ({**OTHER, "target": "Paris"}, "start the answer with a space"),
        ({**OTHER, "target": " Paris Rome"}, "choose a word that is one token"),
    ],
)
def test_hints_on_spaces(tmp_path: Path, tokenizer_of: Callable[[str], Any], row: Any, hint: str) -> None:
    tokenizer = tokenizer_of("gpt2_like")
    with pytest.raises(UserError) as caught:
        read(write(tmp_path, GOOD, row), tokenizer)
    assert hint in caught.value.todo


def test_files_that_cannot_be_used(tmp_path: Path, tokenizer: Any) -> None:
    empty, binary = tmp_path / "empty.jsonl", tmp_path / "binary.jsonl"
    empty.write_text("\n \n")
    binary.write_bytes(b"\xff\xfe\x00")
    for path, message in (
        ("", "no file"),
        (str(tmp_path / "nowhere.jsonl"), "cannot read"),
        (str(tmp_path), "not a file"),
        ("a\0b", "cannot read"),
        (str(empty), "no prompts"),
        (str(binary), "not JSON"),
        (write(tmp_path, GOOD), "single prompt"),
    ):
        with pytest.raises(UserError, match=message):
            read(path, tokenizer)


def test_size_limits(tmp_path: Path, tokenizer: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(tmp_path, GOOD, OTHER)
    monkeypatch.setattr("mechexp.tasks.custom.MAX_BYTES", 10)
    with pytest.raises(UserError, match="bytes"):
        read(path, tokenizer)
    monkeypatch.setattr("mechexp.tasks.custom.MAX_BYTES", 10**6)
    monkeypatch.setattr("mechexp.tasks.custom.MAX_LINES", 1)
    with pytest.raises(UserError, match="lines"):
        read(path, tokenizer)


def test_n_samples_the_file(tmp_path: Path, tokenizer: Any) -> None:
    rows = [t.as_json() for t in make_prompts(TASKS["vb"].config_class(n=30), tokenizer).texts]
    path = write(tmp_path, *rows)
    some = read(path, tokenizer, n=10)
    assert [r for r in rows if r["prompt"] in {t.prompt for t in some.texts}] == [
        t.as_json() for t in some.texts
    ]
    assert len(some) == 10 and any("10 of the file's 30" in n for n in some.notes)
    assert some.prompts_hash != read(path, tokenizer, n=10, seed=1).prompts_hash
    with pytest.raises(UserError, match="at most 30 "):
        read(path, tokenizer, n=31)


def test_two_texts_of_the_same_tokens(tmp_path: Path, tokenizer_of: Callable[[str], Any]) -> None:
    """A word-level tokenizer sees no difference in spaces: the halves would share a prompt."""
    path = write(tmp_path, GOOD, {**GOOD, "prompt": GOOD["prompt"].replace(" ", "  ")})
    with pytest.raises(UserError, match="the same tokens as"):
        read(path, tokenizer_of("word_level"))
    assert len(read(path, tokenizer_of("gpt2_like"))) == 2


def test_answers_of_the_same_token(tmp_path: Path, tokenizer_of: Callable[[str], Any]) -> None:
    path = write(tmp_path, GOOD, {**OTHER, "prompt": OTHER["prompt"] + " ", "distractor": [" Rome", "Rome"]})
    with pytest.raises(UserError, match="'Rome' is the same token as ' Rome'"):
        read(path, tokenizer_of("word_level"))


def test_unknown_words_are_no_answers(tmp_path: Path, tokenizer_of: Callable[[str], Any]) -> None:
    path = write(tmp_path, GOOD, {**OTHER, "target": " Xanadu"})
    with pytest.raises(UserError, match="' Xanadu' is not one token"):
        read(path, tokenizer_of("word_level"))


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda x: st.lists(x, max_size=3),
    max_leaves=4,
)
broken = st.dictionaries(
    st.sampled_from(["prompt", "target", "distractor", "spans", "counterfactual", "template", "half", "x"]),
    json_values,
    max_size=8,
)


@given(row=broken)
@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_line_is_read_or_refused(tmp_path: Path, tokenizer: Any, row: dict[str, Any]) -> None:
    path = write(tmp_path, GOOD, OTHER, row)
    try:
        prompts = read(path, tokenizer)
    except UserError as error:
        assert f"{path}:" in str(error)
    else:
        assert len(prompts) == 3 and prompts.texts[2].prompt == row["prompt"]
