"""Heads in the forms that others use, in and out."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mechexp.errors import UserError
from mechexp.models.heads import Head
from mechexp.screens.circuit import Circuit
from mechexp.screens.exchange import as_heads, read_heads, write_heads
from mechexp.screens.user import from_file

pairs = st.lists(st.tuples(st.integers(0, 99), st.integers(0, 99)), unique=True, min_size=1, max_size=20)
TWO = (Head(1, 3), Head(0, 1))


@given(pairs)
def test_every_form_says_the_same(heads: list[tuple[int, int]]) -> None:
    expected = tuple(Head(*h) for h in heads)
    names = [f"L{layer}H{head}" for layer, head in heads]
    forms: list[Any] = [
        heads, names, ",".join(names), [list(h) for h in heads], np.array(heads), expected,
        [{"layer": layer, "head": head} for layer, head in heads],
    ]  # fmt: skip
    assert all(as_heads(form) == expected for form in forms)


@pytest.mark.parametrize("suffix", [".json", ".csv"])
@given(heads=pairs)
def test_files_keep_heads_and_order(
    tmp_path_factory: pytest.TempPathFactory, suffix: str, heads: list[tuple[int, int]]
) -> None:
    path = tmp_path_factory.mktemp("heads") / f"circuit{suffix}"
    write_heads(heads, path)
    assert read_heads(path) == tuple(Head(*h) for h in heads)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.json", "[[1, 3], [0, 1]]"),
        ("a.json", '["L1H3", "L0H1"]'),
        ("a.json", '{"name": "mine", "heads": [{"layer": 1, "head": 3}, {"layer": 0, "head": 1}]}'),
        ("a.csv", "layer,head\n1,3\n0,1\n"),
        ("a.csv", "score, Head, Layer\r\n0.5, 3, 1\r\n0.4, 1, 0\r\n"),
        ("a.csv", "\ufefflayer,head\n1,3\n0,1"),
    ],
)
def test_bare_lists_are_taken_for_the_model_at_hand(
    tmp_path: Path, micro_model: Callable[[str], Any], name: str, text: str
) -> None:
    path = tmp_path / name
    path.write_text(text, encoding="utf-8")
    circuit = from_file(micro_model("llama"), str(path))
    assert circuit.heads == TWO and circuit.screen == "file" and "does not say" in circuit.notes[0]


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("a.json", "[[1, 3], [1, 3]]", "named twice"),
        ("a.json", "[[1.5, 3]]", "not a head"),
        ("a.json", "[[true, 3]]", "not a head"),
        ("a.json", "[[-1, 3]]", "not a head"),
        ("a.json", "[[1]]", "not a head"),
        ("a.json", '{"heads": 3}', "no list of heads"),
        ("a.json", "[]", "no head"),
        ("a.json", "[[99, 0]]", "L99H0"),
        ("a.json", "[[1, 3]", "not a circuit file"),
        ("a.csv", "a,b\n1,3\n", "columns are a, b"),
        ("a.csv", "layer,head\n1,x\n", "a.csv:2"),
        ("a.csv", "layer,head\n1\n", "a.csv:2"),
        ("a.csv", "", "columns are (none)"),
    ],
)
def test_other_content_is_refused(
    tmp_path: Path, micro_model: Callable[[str], Any], name: str, text: str, words: str
) -> None:
    path = tmp_path / name
    path.write_text(text, encoding="utf-8")
    with pytest.raises(UserError) as error:
        from_file(micro_model("llama"), str(path))
    assert words in str(error.value)


def test_huge_files_and_other_suffixes_are_refused(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_bytes(b" " * (2**20 + 1))
    with pytest.raises(UserError, match="too large"):
        read_heads(tmp_path / "a.json")
    with pytest.raises(UserError, match=r"as \.xlsx"):
        write_heads([(1, 3)], tmp_path / "a.xlsx")


def test_a_saved_circuit_stays_bound_to_its_model(tmp_path: Path, micro_model: Callable[[str], Any]) -> None:
    loaded = micro_model("llama")
    path = tmp_path / "circuit.json"
    Circuit("induction", TWO, "another/model", "", "", loaded.geometry).save(path)
    with pytest.raises(UserError, match="another model"):
        from_file(loaded, str(path))
