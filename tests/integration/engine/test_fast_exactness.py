"""The fast route equals one plain hooked forward pass a condition, on every family of the adapter table."""

import engine_micro as em
import numpy as np
import pytest
import torch

from mechexp.engine import Condition, EngineConfig, add_direction, complement, patch_head, patch_residual, run
from mechexp.engine.checks import count_flips, routing
from mechexp.engine.edit import KINDS, Edit
from mechexp.engine.fast import FastRoute
from mechexp.engine.memory import LEAST_STATES
from mechexp.engine.plain import PlainRoute
from mechexp.engine.values import Values
from mechexp.models.heads import Head

TOLERANCE = 1e-4  # absolute, in logits, fp32


def collect(route, prompts, conditions, values):
    """Logits (P, V) and elements changed, by condition; fails where a prompt is answered twice."""
    logits = {c.key: [None] * len(prompts) for c in conditions}
    edited = dict.fromkeys(logits, 0)

    def emit(condition, block, logits_PV, count):
        edited[condition.key] += count
        for row, index in enumerate(block.indices):
            assert logits[condition.key][index] is None
            logits[condition.key][index] = logits_PV[row].float().clone()

    with torch.no_grad():
        route.run(prompts, conditions, values, emit)
    return {key: torch.stack(rows) for key, rows in logits.items()}, edited


def every_condition(loaded, prompts):
    """Ablations of every kind and position, groups that share prefixes, and all other interventions."""
    heads, other = em.heads_of(loaded), em.prompts(seed=5)
    rng = np.random.default_rng(3)
    conditions = [Condition()]
    for offset, kind in enumerate(KINDS):
        for positions in ("all", "end", "subject"):
            conditions += [Condition((h,), kind, positions) for h in heads[offset :: len(KINDS)]]
            conditions += [Condition(tuple(heads[::3]), kind, positions)]
    conditions += [Condition(tuple(heads[:k]), "zero") for k in range(2, len(heads) + 1, 2)]
    conditions += [Condition(tuple(heads[1 : 2 * k : 2]), "mean", "end") for k in range(2, 6)]
    basis = np.linalg.qr(rng.normal(size=(loaded.head_dim, 3)))[0]
    wide = np.linalg.qr(rng.normal(size=(loaded.d_model, 5)))[0]
    steer = rng.normal(size=(len(prompts), loaded.d_model))
    for layer in range(loaded.n_layers + 1):
        conditions += [
            Condition(edits=(patch_residual(layer, other, where),)) for where in ("end", "subject")
        ]
        conditions += [Condition(edits=(patch_residual(layer, other, "all", wide),))]
        conditions += [Condition(edits=(add_direction(layer, steer, where),)) for where in ("end", "all")]
        conditions += [Condition(edits=(Edit(layer, None, "zero", "end"),))]
    for head in (Head(0, 0), Head(1, 2), Head(loaded.n_layers - 1, 3)):
        for where in ("end", "all", "subject"):
            conditions += [
                Condition(edits=(patch_head(head, other, where),)),
                Condition(edits=(patch_head(head, other, where, basis),)),
                Condition(edits=(patch_head(head, other, where, complement(basis)),)),
            ]
    mixed = (patch_residual(1, other, "subject"), patch_head(Head(2, 1), other, "end"))
    conditions += [Condition((Head(0, 3), Head(2, 0)), "resample", "end", mixed), Condition(edits=mixed[:1])]
    assert len({c.key for c in conditions}) > LEAST_STATES  # more than one pack
    return list({c.key: c for c in conditions}.values())


@pytest.mark.parametrize("family", sorted(em.FAMILIES))
def test_every_condition_equals_a_plain_pass(family):
    loaded, prompts = em.micro(family), em.prompts()
    conditions = every_condition(loaded, prompts)
    values = Values(loaded, prompts, em.reference_prompts(), conditions, seed=0, tokens=64)
    fast = FastRoute(loaded, 1e9)
    supported = [c for c in conditions if fast.supports(c)]
    ours, our_edits = collect(fast, prompts, supported, values)
    theirs, their_edits = collect(PlainRoute(loaded, 1e9), prompts, supported, values)
    worst = max(float((ours[c.key] - theirs[c.key]).abs().max()) for c in supported)
    assert worst <= TOLERANCE
    assert our_edits == {c.key: their_edits[c.key] for c in supported}
    clean = theirs["clean"]
    moved = [c for c in supported if float((theirs[c.key] - clean).abs().max()) > 1e-2]
    assert len(moved) > 0.8 * len(supported)  # the conditions did something to compare


@pytest.mark.parametrize("family", ["llama", "gpt_neox", "gemma3_text", "olmoe"])
def test_sdpa_attention_is_resumed_exactly_too(family):
    loaded, prompts = em.micro(family, attention="sdpa"), em.prompts()
    conditions = every_condition(loaded, prompts)
    reference = em.reference_prompts()
    found = run(loaded, prompts, conditions, reference=reference, config=EngineConfig(route="fast"))
    plain = run(loaded, prompts, conditions, reference=reference, config=EngineConfig(route="plain"))
    for a, b in zip(found.outcomes, plain.outcomes, strict=True):
        assert np.abs(a.logit_diff - b.logit_diff).max() <= TOLERANCE
        assert a.edited == b.edited


@pytest.mark.parametrize("family", ["llama", "olmo2", "olmoe"])
def test_outcomes_do_not_depend_on_order_batch_or_neighbours(family):
    loaded, prompts, reference = em.micro(family), em.prompts(), em.reference_prompts()
    conditions = every_condition(loaded, prompts)[::3]
    ablations = [c for c in conditions if not c.edits]

    def logit_diffs(prompts, conditions, memory_gb=1.0):
        config = EngineConfig(route="fast", memory_gb=memory_gb)
        found = run(loaded, prompts, conditions, reference=reference, config=config).outcomes
        return {o.condition.key: o.logit_diff for o in found}

    whole = logit_diffs(prompts, conditions)
    for other in (logit_diffs(prompts, conditions[::-1]), logit_diffs(prompts, conditions, memory_gb=1e-5)):
        assert max(np.abs(whole[key] - other[key]).max() for key in whole) < 1e-5
    alone = logit_diffs(prompts, ablations[5:6])
    assert np.abs(whole[ablations[5].key] - alone[ablations[5].key]).max() < 1e-5
    few = prompts.take([6, 1])  # every prompt has a counterfactual, so resampling needs no others
    fewer = logit_diffs(few, ablations)
    assert max(np.abs(whole[c.key][[6, 1]] - fewer[c.key]).max() for c in ablations) < 1e-5


def test_a_route_that_is_wrong_is_found_out_and_left(monkeypatch):
    loaded, prompts = em.micro("llama"), em.prompts()
    conditions = [Condition(), Condition((Head(0, 1),), "zero"), Condition((Head(1, 1),), "zero", "end")]
    right = run(loaded, prompts, conditions, config=EngineConfig(route="plain")).outcomes
    assert run(loaded, prompts, conditions).route == "fast"
    from mechexp.engine import resume

    stock = resume.Resumer.from_z
    monkeypatch.setattr(resume.Resumer, "from_z", lambda *args: stock(*args) * 1.001)
    found = run(loaded, prompts, conditions)
    assert found.route == "plain"
    assert "not exact" in found.notes[0]
    for a, b in zip(found.outcomes, right, strict=True):
        assert np.array_equal(a.logit_diff, b.logit_diff)
    with pytest.raises(Exception, match="not exact"):
        run(loaded, prompts, conditions, config=EngineConfig(route="fast"))


@pytest.mark.parametrize("family", ["olmoe", "mixtral", "qwen2_moe", "qwen3_moe", "gpt_oss"])
def test_routing_is_recorded_and_flips_are_counted(family):
    loaded, prompts = em.micro(family), em.prompts((9,) * 4)
    ids = torch.tensor(prompts.ids)
    with routing(loaded, 4) as clean:
        loaded.model(input_ids=ids)
    assert sorted(clean) == [0, 1, 2] and clean[0].shape == (4, 2)
    with routing(loaded, 4) as other:
        loaded.model(input_ids=ids.flip(0))
    assert count_flips(clean, clean) == 0
    assert count_flips(clean, {layer: rows.flip(0) for layer, rows in other.items()}) == 0
    assert count_flips(clean, other) > 0


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_low_precision_is_checked_against_its_own_rounding(dtype):
    loaded, prompts = em.micro("llama", dtype=dtype), em.prompts()
    conditions = [Condition(), *(Condition((h,), "zero", "end") for h in em.heads_of(loaded))]
    found = run(loaded, prompts, conditions)
    plain = run(loaded, prompts, conditions, config=EngineConfig(route="plain"))
    assert found.route == "fast" and not found.notes
    pairs = zip(found.outcomes, plain.outcomes, strict=True)
    gap = max(np.abs(a.logit_diff - b.logit_diff).max() for a, b in pairs)
    assert gap < 0.25
    assert found.outcomes[0].logit_diff.dtype == np.float32
