"""Planted heads do what truth.json says, as seen from outside: only the saved folder is read."""

import numpy as np
import pytest
import torch

AT = {"prev_token": "previous", "induction": "answer", "duplicate_token": "key", "bos": "first"}


def places(saved, name):
    return np.array([p[name] for p in saved.prompts.positions])


def test_every_circuit_head_attends_where_its_pattern_says(saved):
    _, attentions, _ = saved.run()
    rows = np.arange(len(saved.prompts))
    for plan in saved.plans:
        row = attentions[plan["layer"]][:, plan["head"], -1].numpy()
        if plan["pattern"] in AT:
            at = places(saved, AT[plan["pattern"]])
        elif plan["pattern"] == "offset":
            at = np.full(len(rows), row.shape[1] - 1 - plan["offset"])
        else:
            continue
        assert row[rows, at].mean() > 0.95, plan


def test_previous_token_and_offset_heads_are_positional_everywhere(saved):
    _, attentions, _ = saved.run()
    for plan in saved.plans:
        if plan["pattern"] in ("prev_token", "offset"):
            back = plan["offset"] or 1
            pattern = attentions[plan["layer"]][:, plan["head"]].mean(0)
            assert torch.diagonal(pattern, -back).min() > 0.95, plan


def test_removing_a_circuit_costs_what_truth_says(saved):
    clean, _, _ = saved.run()
    for name, screen in saved.truth["screens"].items():
        after, _, _ = saved.run(zeroed=[tuple(h) for h in screen["heads"]])
        lost = (clean.mean() - after.mean()) / clean.mean()
        assert lost == pytest.approx(screen["share"], abs=0.05), name


def test_direct_contributions_match_the_planted_support(saved):
    """Read through the frozen final norm, in units of the clean logit difference a support of 1."""
    clean, _, z = saved.run()
    model, d = saved.loaded.model, saved.loaded.head_dim
    unembed = model.lm_head.weight
    direction = (
        unembed[np.array(saved.prompts.targets)[:, 0]] - unembed[np.array(saved.prompts.distractors)[:, 0]]
    )
    scale = [h for h in saved.plans if h["role"] != "repair"]
    unit = clean.mean() / sum(h["support"] for h in saved.plans)
    hidden = {}
    handle = model.transformer.ln_f.register_forward_pre_hook(lambda _m, a: hidden.update(x=a[0][:, -1]))
    saved.run()
    handle.remove()
    size = hidden["x"].std(dim=-1, correction=0)[:, None]
    for plan in scale:
        slot = slice(plan["head"] * d, (plan["head"] + 1) * d)
        weight = model.transformer.h[plan["layer"]].attn.c_proj.weight[slot]
        written = z[plan["layer"]][:, -1, plan["head"]] @ weight
        direct = ((written / size) * direction).sum(-1).mean().item()
        assert direct / unit == pytest.approx(plan["support"], abs=0.04 + 0.1 * abs(plan["support"])), plan


def test_supports_add_up_to_the_clean_answer(saved):
    clean, _, _ = saved.run()
    assert (clean > 0).mean() > 0.9
    lone = [h for h in saved.plans if h["role"] == "spare"]
    before = clean.mean()
    for plan in lone[::7]:
        after, _, _ = saved.run(zeroed=[(plan["layer"], plan["head"])])
        unit = before / sum(h["support"] for h in saved.plans)
        assert before - after.mean() == pytest.approx(plan["support"] * unit, abs=0.03 * before)


def test_a_later_head_makes_up_for_a_repaired_circuit(saved):
    if saved.truth["roles"]["induction"] != "repaired":
        pytest.skip("this model has no self-repair")
    clean, _, _ = saved.run()
    circuit = [tuple(h) for h in saved.truth["screens"]["induction"]["heads"]]
    repair = [(h["layer"], h["head"]) for h in saved.plans if h["role"] == "repair"]
    alone, _, _ = saved.run(zeroed=circuit)
    without_repair, _, _ = saved.run(zeroed=repair)
    both, _, _ = saved.run(zeroed=repair + circuit)
    direct = saved.truth["screens"]["induction"]["direct"] / sum(h["support"] for h in saved.plans)
    assert abs(clean.mean() - alone.mean()) < 0.05 * clean.mean()
    assert (without_repair - both).mean() == pytest.approx(direct * clean.mean(), rel=0.15)


def test_induction_needs_the_previous_token_heads(saved):
    _, before, _ = saved.run()
    relays = [(h["layer"], h["head"]) for h in saved.plans if h["relay"]]
    _, after, _ = saved.run(zeroed=relays)
    rows, at = np.arange(len(saved.prompts)), places(saved, "answer")
    for plan in saved.plans:
        if plan["pattern"] == "induction":
            means = [a[plan["layer"]][:, plan["head"], -1].numpy()[rows, at].mean() for a in (before, after)]
            assert means[0] > 0.95
            assert means[1] < 0.3
