"""Conditions and edits: identity, what they must change, and what is refused."""

import numpy as np
import pytest

from mechexp.engine.condition import Condition, expected_edits
from mechexp.engine.config import EngineConfig, validate
from mechexp.engine.edit import Edit, add_direction, complement, set_head
from mechexp.errors import UserError
from mechexp.models.heads import Head


def test_equal_conditions_have_equal_keys_whatever_the_spelling():
    a = Condition((Head(1, 2), Head(0, 3)), "zero", "end")
    b = Condition((Head(0, 3),), "zero", "end", (Edit(1, 2, "zero", "end"),))
    assert a.key == b.key
    assert Condition((), "zero").key == Condition((), "mean", "end").key == "clean"
    others = [
        Condition(a.heads, "mean", "end"),
        Condition(a.heads, "zero"),
        Condition(a.heads[:1], "zero", "end"),
    ]
    assert len({a.key, *(c.key for c in others)}) == 4


def test_edits_are_equal_when_their_values_are():
    one, two = np.arange(4.0), np.arange(4.0)
    assert add_direction(1, one) == add_direction(1, two)
    assert hash(add_direction(1, one)) == hash(add_direction(1, two))
    two[0] = 9
    assert add_direction(1, one) != add_direction(1, two)
    assert set_head(Head(1, 0), one) != add_direction(1, one, head=0)
    assert set_head(Head(1, 0), one) != set_head(Head(1, 0), one, "all")


def test_expected_edits_count_every_site_and_position():
    lengths = [5, 7]
    heads = (Head(0, 0), Head(3, 1))
    assert expected_edits(Condition(heads, "zero"), lengths, 8) == 2 * 8 * 12
    assert expected_edits(Condition(heads, "zero", "end"), lengths, 8) == 2 * 8 * 2
    assert expected_edits(Condition(heads, "zero", "subject"), lengths, 8) == 2 * 8 * 2
    stream = (add_direction(1, np.zeros(32), "all"),)
    assert expected_edits(Condition(heads, "zero", "end", stream), lengths, 8, 32) == 32 + 32 * 12
    assert expected_edits(Condition(), lengths, 8) == 0


def test_a_site_changed_twice_is_refused():
    with pytest.raises(UserError, match="twice"):
        Condition((Head(0, 1),), "zero", "all", (set_head(Head(0, 1), np.zeros(4)),))


def test_the_complement_spans_the_rest():
    basis = np.linalg.qr(np.random.default_rng(0).normal(size=(6, 2)))[0]
    rest = complement(basis)
    assert rest.shape == (6, 4)
    assert np.allclose(basis @ basis.T + rest @ rest.T, np.eye(6))
    with pytest.raises(UserError, match="orthonormal"):
        set_head(Head(0, 0), np.zeros(6), basis=2 * basis)


@pytest.mark.parametrize(
    "make",
    [
        lambda: Condition((), "average"),
        lambda: Condition((), "zero", ""),
        lambda: Edit(0, 0, "average"),
        lambda: Edit(0, None, "mean"),
        lambda: validate(EngineConfig(backend="jax")),
        lambda: validate(EngineConfig(route="quick")),
        lambda: validate(EngineConfig(memory_gb=0)),
        lambda: validate(EngineConfig(threads=-1)),
        lambda: validate(EngineConfig(remote=True)),
        lambda: validate(EngineConfig(backend="nnsight", route="fast")),
    ],
)
def test_what_cannot_be_done_is_refused(make):
    with pytest.raises(UserError):
        make()


def test_the_engine_imports_without_hydra_mlflow_or_nnsight():
    import subprocess
    import sys

    code = (
        "import sys\n"
        "for name in ('hydra', 'omegaconf', 'mlflow', 'nnsight'): sys.modules[name] = None\n"
        "import mechexp.engine as e\n"
        "assert 'torch' not in sys.modules\n"
        "e.measure, e.evaluate, e.Condition, e.patch_head\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
