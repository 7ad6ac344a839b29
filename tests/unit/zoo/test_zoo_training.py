import math
from dataclasses import replace
from itertools import islice

import pytest
import torch

from mechexp.errors import UserError
from mechexp.zoo import training
from mechexp.zoo.architectures import ARCHITECTURES, config_for
from mechexp.zoo.documents import Document
from mechexp.zoo.packing import batches, pack
from mechexp.zoo.recipe import RECIPES, Recipe, recipe_for

SHORT = Recipe("tiny_olmo", steps=30, rows=8, pool=300, warmup=5, checkpoints=(10,), curve_every=10)


def document(*ids):
    return Document(ids, (0.0, *[1.0] * (len(ids) - 1)))


def model_of(name):
    from transformers import AutoModelForCausalLM

    torch.manual_seed(0)
    return AutoModelForCausalLM.from_config(config_for(name, 50, 1), attn_implementation="sdpa").eval()


@pytest.mark.parametrize("name", sorted(ARCHITECTURES))
def test_a_packed_document_is_what_it_is_alone(name):
    model = model_of(name)
    texts = [document(5, 6, 7, 8), document(9, 10, 11), document(12, 13, 14, 15, 16)]
    batch = pack([texts], length=16, pad=1)
    with torch.no_grad():
        packed = model(input_ids=batch.ids_BT, attention_mask=batch.mask_B1TT).logits[0]
        at = 0
        for text in texts:
            alone = model(torch.tensor([text.ids])).logits[0]
            torch.testing.assert_close(packed[at : at + len(text.ids)], alone, atol=1e-4, rtol=1e-4)
            at += len(text.ids)


def test_batches_are_seeded_and_keep_to_their_size():
    pools = {"a": (document(2, 3, 4),), "b": (document(5, 6, 7, 8, 9),)}

    def make(seed):
        return list(islice(batches(pools, {"a": 0.5, "b": 0.5}, rows=3, length=12, pad=1, seed=seed), 4))

    first, again, other = make(0), make(0), make(1)
    assert all(batch.ids_BT.shape == (3, 12) for batch in first)
    assert all(torch.equal(x.ids_BT, y.ids_BT) for x, y in zip(first, again, strict=True))
    assert any(not torch.equal(x.ids_BT, y.ids_BT) for x, y in zip(first, other, strict=True))
    assert all(batch.tokens == int((batch.ids_BT != 1).sum()) for batch in first)


def test_the_loss_is_the_weighted_mean():
    batch = pack([[Document((2, 3, 4), (0.0, 0.3, 1.0))]], length=3, pad=1)
    logits = torch.zeros(1, 3, 8)
    logits[0, 1, 4] = 5.0
    loss, (same, answers, copies) = training.weighted_loss(logits, batch)
    right = -math.log(math.exp(5) / (math.exp(5) + 7))
    assert answers == pytest.approx(right, abs=1e-5)
    assert loss.item() == same and math.isnan(copies)
    assert loss.item() == pytest.approx((0.3 * math.log(8) + right) / 1.3, abs=1e-5)


def test_the_rate_rises_then_falls():
    recipe = replace(SHORT, warmup=10, steps=100)
    rates = [training.rate_at(step, recipe) for step in range(1, 101)]
    assert rates[:10] == pytest.approx([0.1 * k for k in range(1, 11)])
    assert rates[9:] == sorted(rates[9:], reverse=True)
    assert rates[-1] == pytest.approx(0.05)


def test_the_dense_twin_is_a_dense_mlp_of_the_experts_active_width():
    twin, experts = config_for("tiny_olmoe_dense", 50, 1), config_for("tiny_olmoe", 50, 1)
    assert twin.intermediate_size == experts.intermediate_size * experts.num_experts_per_tok
    block = model_of("tiny_olmoe_dense").model.layers[0].mlp
    with torch.no_grad():
        block.gate.weight.normal_()
        block.experts.gate_up_proj.normal_(std=0.1)
        block.experts.down_proj.normal_(std=0.1)
        x = torch.randn(1, 5, twin.hidden_size)
        gate, up = (x @ block.experts.gate_up_proj[0].T).chunk(2, dim=-1)
        dense = (torch.nn.functional.silu(gate) * up) @ block.experts.down_proj[0].T
        torch.testing.assert_close(block(x), dense, atol=1e-4, rtol=1e-4)


def test_a_short_training_learns_and_keeps_its_checkpoint():
    trained = training.train(SHORT, tell=lambda line: None)
    losses = [row["loss_answers"] for row in trained.curves]
    assert [row["step"] for row in trained.curves] == [10, 20, 30]
    assert losses[-1] < losses[0] - 0.2
    assert list(trained.checkpoints) == [10] and list(trained.tokens) == [10, 30]
    assert trained.tokens[10] < trained.tokens[30] <= 30 * 8 * 64
    now = trained.model.state_dict()
    assert any(not torch.equal(now[name], weight) for name, weight in trained.checkpoints[10].items())


@pytest.mark.parametrize("name", sorted(RECIPES))
def test_every_architecture_has_a_recipe_that_can_be_changed(name):
    assert recipe_for(name) == RECIPES[name]
    assert recipe_for(name, seed=7, steps=5) == replace(RECIPES[name], seed=7, steps=5)
    assert set(RECIPES) == set(ARCHITECTURES)


def test_settings_that_cannot_be_used_are_refused():
    with pytest.raises(UserError, match="seed"):
        recipe_for("tiny_olmo", seed=-1)
    with pytest.raises(UserError, match="steps"):
        recipe_for("tiny_olmo", steps=0)
