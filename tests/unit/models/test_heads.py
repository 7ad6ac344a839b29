"""Names of heads, and importing the room without what it does not need."""

import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mechexp.errors import UserError
from mechexp.models.heads import Geometry, Head, format_heads, parse_heads

HEADS = st.lists(st.builds(Head, st.integers(0, 200), st.integers(0, 200)), unique=True)


@given(HEADS)
def test_heads_survive_writing_and_reading(heads):
    assert list(parse_heads(format_heads(heads))) == heads
    assert list(parse_heads([str(h) for h in heads])) == heads


@pytest.mark.parametrize("text", ["L1", "H1L2", "L1H", "l1h2", "L-1H2", "L1H2x", "1.2"])
def test_what_is_not_a_head_is_refused(text):
    with pytest.raises(UserError, match="is not a head"):
        parse_heads([text])


def test_a_head_named_twice_is_refused():
    with pytest.raises(UserError, match="head named twice: L1H2"):
        parse_heads("L1H2,L0H0,L1H2")


@pytest.mark.parametrize("head", [Head(30, 0), Head(0, 9)])
def test_heads_outside_the_model_are_refused_with_its_size(head):
    with pytest.raises(UserError, match="30 layers × 9 heads"):
        Geometry(30, 9, 64).require([Head(0, 0), head], where="screen.heads")
    Geometry(30, 9, 64).require([Head(29, 8)], where="screen.heads")


@pytest.mark.parametrize(
    ("module", "unwanted"),
    [
        ("mechexp.models", ["torch", "transformers"]),
        ("mechexp.models.heads", ["torch", "transformers"]),
        ("mechexp.models.loading", ["hydra", "omegaconf", "mlflow", "nnsight"]),
    ],
)
def test_imports_only_what_it_needs(module, unwanted):
    code = f"import sys, {module}; print([m for m in {unwanted!r} if m in sys.modules])"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "[]"
