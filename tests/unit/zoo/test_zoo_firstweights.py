"""What a training starts from, read back from the stock models."""

import pytest
import torch

from mechexp.zoo.architectures import ARCHITECTURES, config_for
from mechexp.zoo.firstweights import prepare
from mechexp.zoo.recipe import Recipe


def start(name, seed=0):
    from transformers import AutoModelForCausalLM

    torch.manual_seed(seed)
    model = AutoModelForCausalLM.from_config(config_for(name, 50, 1), attn_implementation="eager")
    prepare(model, Recipe(name))
    return model.eval()


@pytest.mark.parametrize("name", sorted(ARCHITECTURES))
def test_heads_attend_to_their_own_like(name):
    model = start(name)
    ids = torch.tensor([[7, 9, 11, 7, 13, 15, 7]])
    with torch.no_grad():
        patterns = model(ids, output_attentions=True).attentions
    last = patterns[0][0, :, -1]
    same, other = last[:, [0, 3, 6]].mean(), last[:, [1, 2, 4, 5]].mean()
    assert same > 2 * other
    assert (last[:, [0, 3, 6]].mean(1) > last[:, [1, 2, 4, 5]].mean(1)).all()


@pytest.mark.parametrize("name", ["tiny_olmo", "tiny_pythia"])
def test_words_share_a_direction_and_are_said_as_they_are_read(name):
    model = start(name)
    read, said = model.get_input_embeddings().weight, model.get_output_embeddings().weight
    own = read - read.mean(0)
    alike = torch.nn.functional.cosine_similarity(own, said, dim=-1)
    assert alike.min() > 0.9
    assert 0.8 < read.mean(0).norm() / own.norm(dim=-1).mean() < 1.2
    assert said.std().item() == pytest.approx(Recipe(name).unembedding_scale, rel=0.1)


def test_it_is_seeded():
    first, again, other = start("tiny_olmo"), start("tiny_olmo"), start("tiny_olmo", seed=1)
    weights = [model.model.layers[0].self_attn.q_proj.weight for model in (first, again, other)]
    assert torch.equal(weights[0], weights[1]) and not torch.equal(weights[0], weights[2])
