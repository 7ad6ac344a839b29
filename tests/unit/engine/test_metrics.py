"""Metrics from logits, against numpy in double precision."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from mechexp.engine.metrics import Answers, score
from mechexp.errors import UserError
from mechexp.tasks.prompts import PromptSet, TextPrompt

VOCAB = 17


def answers(targets, distractors):
    n = len(targets)
    text = TextPrompt("x", ("a",), ("b",))
    return Answers.of(
        PromptSet(
            "t",
            (text,) * n,
            ((1, 2),) * n,
            ({"end": 1},) * n,
            targets,
            distractors,
            (None,) * n,
            ("both",) * n,
        )
    )


@st.composite
def cases(draw):
    n = draw(st.integers(1, 4))
    targets, distractors = [], []
    for _ in range(n):
        ids = draw(st.permutations(range(VOCAB)))
        a, b = draw(st.integers(1, 5)), draw(st.integers(1, 5))
        targets.append(tuple(ids[:a]))
        distractors.append(tuple(ids[a : a + b]))
    seed = draw(st.integers(0, 2**31))
    logits = np.random.default_rng(seed).normal(scale=5, size=(n, VOCAB)).astype(np.float32)
    return tuple(targets), tuple(distractors), logits


@settings(deadline=None)
@given(cases())
def test_metrics_equal_their_definitions(case):
    targets, distractors, logits = case
    found = score(torch.tensor(logits), answers(targets, distractors))
    for k, (right, wrong) in enumerate(zip(targets, distractors, strict=True)):
        row = logits[k].astype(np.float64)
        chance = np.exp(row - row.max()) / np.exp(row - row.max()).sum()
        right, wrong = list(right), list(wrong)
        assert found.top1[k] == (row.argmax() in right)
        assert found.logit_diff[k] == pytest.approx(row[right].mean() - row[wrong].mean(), abs=1e-5)
        assert found.prob_diff[k] == pytest.approx(chance[right].sum() - chance[wrong].sum(), abs=1e-6)
        assert found.target_rank[k] == (row > row[right].max()).sum()


def test_low_precision_logits_are_scored_in_fp32():
    logits = torch.tensor([[1.0, 3.0, 2.0, *[0.0] * 14]], dtype=torch.bfloat16)
    found = score(logits, answers(((1,),), ((2,),)))
    assert found.logit_diff.dtype == found.prob_diff.dtype == np.float32
    assert found.logit_diff[0] == 1.0


@pytest.mark.parametrize(
    ("targets", "distractors"), [(((),), ((1,),)), (((1,),), ((),)), (((1, 1),), ((2,),)), (((1,),), ((1,),))]
)
def test_answers_that_mean_nothing_are_refused(targets, distractors):
    with pytest.raises(UserError):
        answers(targets, distractors)
