"""The plain route against references that share no code with it: edited weights, numbers worked by hand."""

import copy

import engine_micro as em
import numpy as np
import pytest
import torch

from mechexp.engine import Condition, evaluate, measure
from mechexp.engine.sites import end_logits
from mechexp.errors import UserError
from mechexp.models.heads import Head


def logits_of(loaded, prompts, k):
    return end_logits(loaded, torch.tensor([prompts.ids[k]]))[0].float().numpy()


def logit_diff(logits, prompts, k):
    return logits[list(prompts.targets[k])].mean() - logits[list(prompts.distractors[k])].mean()


@pytest.mark.parametrize("family", sorted(em.FAMILIES))
def test_zero_ablation_equals_a_model_whose_projection_rows_are_zero(family):
    loaded, prompts = em.micro(family), em.prompts()
    heads = (Head(0, 1), Head(2, 0), Head(2, 3))
    outcome = measure(loaded, prompts, [Condition(heads, "zero")], route="plain")[0]
    other = copy.deepcopy(loaded.model)
    edited = copy.copy(loaded)
    object.__setattr__(edited, "model", other)
    for head in heads:
        projection = edited.out_proj(head.layer)
        cut = slice(head.head * loaded.head_dim, (head.head + 1) * loaded.head_dim)
        if family == "gpt2":
            projection.weight[cut] = 0
        else:
            projection.weight[:, cut] = 0
    expected = [logit_diff(logits_of(edited, prompts, k), prompts, k) for k in range(len(prompts))]
    clean = [logit_diff(logits_of(loaded, prompts, k), prompts, k) for k in range(len(prompts))]
    assert np.abs(outcome.logit_diff - expected).max() < 1e-5
    assert np.abs(outcome.logit_diff - clean).max() > 1e-2  # the ablation was not a no-op


def test_metrics_of_the_clean_model_equal_a_loop_over_prompts():
    loaded, prompts = em.micro("llama"), em.prompts()
    outcome = measure(loaded, prompts, [Condition()], route="plain")[0]
    for k in range(len(prompts)):
        logits = logits_of(loaded, prompts, k).astype(np.float64)
        chance = np.exp(logits - logits.max())
        chance /= chance.sum()
        right, wrong = list(prompts.targets[k]), list(prompts.distractors[k])
        assert outcome.top1[k] == (int(logits.argmax()) in right)
        assert outcome.target_rank[k] == (logits > logits[right].max()).sum()
        assert abs(outcome.prob_diff[k] - (chance[right].sum() - chance[wrong].sum())) < 1e-6
        assert abs(outcome.logit_diff[k] - logit_diff(logits, prompts, k)) < 1e-5
    assert outcome.edited == 0


def test_mean_values_come_from_the_reference_prompts_of_the_same_length():
    loaded, prompts = em.micro("llama"), em.prompts((9,) * 3)
    reference = em.reference_prompts()
    condition = Condition((Head(1, 2),), "mean")
    outcome = measure(loaded, prompts, [condition], reference=reference, route="plain")[0]

    seen = []
    handle = loaded.out_proj(1).register_forward_pre_hook(lambda _, args: seen.append(args[0].clone()))
    for ids in reference.ids:
        if len(ids) == 9:
            end_logits(loaded, torch.tensor([ids]))
    handle.remove()
    mean_TD = torch.cat(seen).mean(0)[:, 2 * loaded.head_dim : 3 * loaded.head_dim]

    def put(_, args):
        z = args[0].clone()
        z[..., 2 * loaded.head_dim : 3 * loaded.head_dim] = mean_TD
        return (z,)

    handle = loaded.out_proj(1).register_forward_pre_hook(put)
    expected = [logit_diff(logits_of(loaded, prompts, k), prompts, k) for k in range(3)]
    handle.remove()
    assert np.abs(outcome.logit_diff - expected).max() < 1e-5


def test_mean_ignores_the_test_prompts_and_needs_eight_of_a_length():
    loaded, reference = em.micro("llama"), em.reference_prompts((9,))
    condition = [Condition((Head(0, 0),), "mean")]
    more = em.prompts((9,) * 6)
    few = more.take(range(3))
    a = measure(loaded, few, condition, reference=reference)[0].logit_diff
    b = measure(loaded, more, condition, reference=reference)[0].logit_diff
    assert np.abs(a - b[:3]).max() < 1e-5
    with pytest.raises(UserError, match="mean_all"):
        measure(loaded, em.prompts((6,)), condition, reference=reference)
    with pytest.raises(UserError, match="mean_all"):
        measure(loaded, few, condition, reference=reference.take(range(7)))
    with pytest.raises(UserError, match="reference"):
        measure(loaded, few, condition)  # test prompts alone: no leak into the means


def test_resampling_takes_the_counterfactual_else_another_prompt_whatever_the_order():
    loaded = em.micro("llama")
    plain, counter = em.prompts(counterfactual=False, lengths=(9,) * 5), em.prompts(lengths=(9,) * 5)
    condition = [Condition((Head(1, 1), Head(1, 3)), "resample")]
    a = measure(loaded, plain, condition)[0].logit_diff
    order = [3, 1, 4, 0, 2]
    b = measure(loaded, plain.take(order), condition)[0].logit_diff
    assert np.abs(a[order] - b).max() < 1e-5
    c = measure(loaded, counter, condition)[0].logit_diff
    assert np.abs(a - c).max() > 1e-3
    assert np.abs(a - measure(loaded, plain, condition, seed=1)[0].logit_diff).max() > 1e-3
    with pytest.raises(UserError, match="resample"):
        measure(loaded, em.prompts((9, 6), counterfactual=False), condition)


def test_frame_has_a_row_a_condition_and_counts_edits():
    loaded, prompts = em.micro("qwen3"), em.prompts()
    conditions = [
        Condition(),
        Condition((Head(2, 1),), "zero", "end"),
        Condition((Head(0, 1), Head(2, 1)), "zero"),
    ]
    frame = evaluate(loaded, prompts, [*conditions, conditions[1]])
    assert list(frame["heads"]) == ["", "L2H1", "L0H1,L2H1", "L2H1"]
    tokens = sum(len(i) for i in prompts.ids)
    assert list(frame["edited"]) == [0, 16 * 10, 2 * 16 * tokens, 16 * 10]
    assert frame.loc[1, "logit_diff"] == frame.loc[3, "logit_diff"] != frame.loc[0, "logit_diff"]
    assert evaluate(loaded, prompts, []).empty


@pytest.mark.parametrize(
    "condition",
    [
        Condition((Head(3, 0),), "zero"),
        Condition((Head(0, 4),), "zero"),
        Condition((Head(0, 0),), "zero", "nowhere"),
    ],
)
def test_heads_and_positions_that_do_not_exist_are_refused(condition):
    with pytest.raises(UserError, match=r"no such head|no position"):
        measure(em.micro("llama"), em.prompts(), [condition])


def test_a_model_that_changes_its_mind_is_refused():
    loaded = em.micro("llama", seed=3)
    handle = loaded.layers()[1].register_forward_hook(lambda _m, _a, out: out + torch.randn_like(out))
    try:
        with pytest.raises(RuntimeError, match="own activations"):
            measure(loaded, em.prompts(), [Condition()])
    finally:
        handle.remove()


def test_progress_counts_up_to_the_total():
    seen = []
    conditions = [Condition(), Condition((Head(0, 0),), "zero")]
    measure(
        em.micro("llama"), em.prompts(), conditions, progress=lambda done, total: seen.append((done, total))
    )
    assert seen[0] == (0, 20) and seen[-1] == (20, 20)
    assert [d for d, _ in seen] == sorted(d for d, _ in seen)
