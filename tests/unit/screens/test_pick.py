"""Selection rules: threshold, top-k, and what is refused."""

from itertools import pairwise

import numpy as np
import pytest

from mechexp.errors import UserError
from mechexp.models.heads import Head
from mechexp.screens.scores import ScreenScores, pick


def scores(default_k: int | None = None, threshold: float | None = 50.0) -> ScreenScores:
    values = np.array([[10.0, 60.0, 55.0], [90.0, 60.0, 1.0]])
    return ScreenScores(
        score_LH=values,
        attention_LH=values / 100,
        contrast_LH=np.full_like(values, np.nan),
        eligible_LH=values >= 50,
        rule="selectivity ≥ 50",
        pattern_LH=values,
        threshold=threshold,
        default_k=default_k,
    )


def test_threshold_takes_all_eligible_best_first_ties_by_layer() -> None:
    heads, rule = pick(scores(), select="auto", k=0)
    assert heads == (Head(1, 0), Head(0, 1), Head(1, 1), Head(0, 2))
    assert rule == "selectivity ≥ 50"


def test_k_alone_means_top_k_of_all_heads() -> None:
    heads, rule = pick(scores(), select="auto", k=5)
    assert heads[-1] == Head(0, 0), "top_k looks past the threshold"
    assert "top 5 of all heads" in rule


def test_threshold_with_k_caps_the_eligible_heads() -> None:
    heads, rule = pick(scores(), select="threshold", k=2)
    assert heads == (Head(1, 0), Head(0, 1))
    assert rule == "selectivity ≥ 50, top 2 by score"


def test_circuits_are_nested_in_k() -> None:
    picks = [pick(scores(), select="top_k", k=k)[0] for k in range(1, 7)]
    for small, large in pairwise(picks):
        assert large[: len(small)] == small


@pytest.mark.parametrize(
    ("select", "k", "words"),
    [
        ("auto", 7, "from 1 to 6"),
        ("auto", -1, "from 1 to 6"),
        ("best", 0, "threshold or top_k"),
        ("top_k", 0, "screen.k=5"),
    ],
)
def test_impossible_choices_are_refused(select: str, k: int, words: str) -> None:
    with pytest.raises(UserError, match=words):
        pick(scores(), select=select, k=k)


def test_pattern_needs_attention_and_threshold() -> None:
    assert scores().present_LH(0.1, 2.0).tolist() == [[False, True, True], [True, True, False]]
    ranked = scores(threshold=None)
    assert ranked.present_LH(0.1, 2.0).tolist() == [[True, True, True], [True, True, False]]
    assert ranked.present_LH(0.56, 2.0).tolist() == [[False, True, False], [True, True, False]]
