"""The nnsight backend: the same numbers as plain hooks, and a clear refusal without a key."""

import engine_micro as em
import numpy as np
import pytest

from mechexp.engine import Condition, EngineConfig, measure, patch_head, patch_residual, run
from mechexp.engine.checks import has_hooks
from mechexp.errors import UserError

pytest.importorskip("nnsight")


@pytest.mark.parametrize("family", ["llama", "gpt2", "gpt_neox", "gemma3_text", "olmoe"])
def test_nnsight_gives_the_numbers_of_plain_hooks(family):
    loaded, prompts, other = em.micro(family), em.prompts(), em.prompts(seed=5)
    heads = em.heads_of(loaded)
    conditions = [
        Condition(),
        Condition(tuple(heads[::3]), "mean"),
        Condition(tuple(heads[::3]), "resample", "end"),
        Condition(heads[4:5], "mean_all", "subject"),
        Condition(edits=(patch_residual(1, other, "end"), patch_head(heads[-1], other, "all"))),
        Condition(edits=(patch_residual(3, other, "end"),)),
    ]
    reference = em.reference_prompts()
    traced = run(loaded, prompts, conditions, reference=reference, config=EngineConfig(backend="nnsight"))
    plain = measure(loaded, prompts, conditions, reference=reference, route="plain")
    assert traced.route == "nnsight"
    for a, b in zip(traced.outcomes, plain, strict=True):
        assert np.abs(a.logit_diff - b.logit_diff).max() < 1e-5
        assert np.array_equal(a.top1, b.top1) and a.edited == b.edited


def test_a_trace_leaves_the_model_as_it_was():
    loaded = em.micro("llama", seed=11)
    before = measure(loaded, em.prompts(), [Condition()], route="plain")[0].logit_diff
    measure(loaded, em.prompts(), [Condition()], backend="nnsight")
    assert not has_hooks(loaded)
    assert np.array_equal(before, measure(loaded, em.prompts(), [Condition()], route="plain")[0].logit_diff)
    assert run(loaded, em.prompts(), [Condition()]).route == "fast"


def test_remote_execution_without_a_key_is_refused(monkeypatch):
    monkeypatch.delenv("NDIF_API_KEY", raising=False)
    with pytest.raises(UserError, match="NDIF_API_KEY"):
        measure(em.micro("llama"), em.prompts(), [Condition()], backend="nnsight", remote=True)
