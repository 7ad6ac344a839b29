"""Random-token sequences: the planted pair is where it is said to be, and nowhere else."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mechexp.errors import UserError
from mechexp.screens.batch import CLASSES, N_BASELINE, make_batch


@settings(deadline=None, max_examples=60)
@given(length=st.integers(24, 128), n_vocab=st.integers(16, 300), seed=st.integers(0, 2**31))
def test_pair_is_planted_once_and_repeated_at_the_end(length: int, n_vocab: int, seed: int) -> None:
    vocabulary = np.arange(7, 7 + n_vocab)
    batch = make_batch(vocabulary, sequences=3, length=length, seed=seed)
    assert np.isin(batch.ids_PT, vocabulary).all()
    for row, at in zip(batch.ids_PT, batch.pair_at_P, strict=True):
        a, b = row[at], row[at + 1]
        assert length // 12 <= at < length // 2
        assert a != b and row[-1] == a
        assert sorted(np.flatnonzero(row == a)) == [at, length - 1]
        assert list(np.flatnonzero(row == b)) == [at + 1]


@settings(deadline=None, max_examples=40)
@given(length=st.integers(24, 128), seed=st.integers(0, 1000))
def test_baseline_and_classes_do_not_overlap(length: int, seed: int) -> None:
    batch = make_batch(np.arange(40), sequences=4, length=length, seed=seed)
    covered = sum(batch.targets_PT(name).astype(int) for name in CLASSES)
    assert covered.max() == 1, "two classes share a position"
    assert not (batch.baseline_PT & (covered > 0)).any()
    free = length - 3 - 6
    assert (batch.baseline_PT.sum(axis=1) == min(N_BASELINE, free)).all()


def test_same_seed_same_batch() -> None:
    one, two, other = (make_batch(np.arange(50), sequences=4, length=64, seed=s) for s in (1, 1, 2))
    assert (one.ids_PT == two.ids_PT).all() and (one.baseline_PT == two.baseline_PT).all()
    assert (one.ids_PT != other.ids_PT).any()


def test_too_short_is_refused() -> None:
    with pytest.raises(UserError, match=r"screen\.length"):
        make_batch(np.arange(50), sequences=1, length=12, seed=0)
