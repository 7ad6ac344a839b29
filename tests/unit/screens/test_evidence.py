"""OV copy score and direct logit attribution against independent references, on stock micro models."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from mechexp.config import ScreenConfig
from mechexp.screens.evidence import direct_logit_attribution, frozen_norm, ov_copy_score
from mechexp.screens.inputs import ScreenInputs
from mechexp.tasks.prompts import PromptSet, TextPrompt

FAMILIES = ("gpt2", "gpt_neox", "llama", "olmo", "olmo2", "gemma2", "olmoe")


def prompt_set(n: int = 5, length: int = 9) -> PromptSet:
    rng = np.random.default_rng(3)
    ids = tuple(tuple(int(i) for i in rng.integers(5, 150, length)) for _ in range(n))
    answers = tuple((int(a), int(b)) for a, b in rng.integers(5, 150, (n, 2)))
    return PromptSet(
        task="t",
        texts=tuple(TextPrompt(str(i), ("a",), ("b",)) for i in range(n)),
        ids=ids,
        positions=tuple({"end": length - 1} for _ in range(n)),
        targets=tuple((a,) for a, _ in answers),
        distractors=tuple((b,) for _, b in answers),
        counterfactual_ids=(None,) * n,
        half=("both",) * n,
    )


@pytest.mark.parametrize("family", FAMILIES)
def test_frozen_norm_is_the_norm_on_its_own_input_and_linear(micro_model: Any, family: str) -> None:
    loaded = micro_model(family)
    norm = loaded.final_norm()
    x, c = torch.randn(4, loaded.d_model) * 3, torch.randn(4, loaded.d_model)
    with torch.no_grad():
        whole = frozen_norm(norm, x, x)
        bias = norm(torch.zeros(loaded.d_model))
        assert torch.allclose(whole + bias, norm(x), atol=1e-4)
        parts = frozen_norm(norm, x, c) + frozen_norm(norm, x, x - c)
    assert torch.allclose(parts, whole, atol=1e-4)
    assert not torch.allclose(frozen_norm(norm, x, c), norm(c), atol=1e-2), "the scale must stay that of x"


@pytest.mark.parametrize("family", FAMILIES)
def test_attribution_is_what_removing_the_write_changes(micro_model: Any, family: str) -> None:
    """Reference: take the head's write out of the final residual stream, by hand, at the clean scale."""
    loaded = micro_model(family)
    prompts = prompt_set()
    got_PLH = direct_logit_attribution(loaded, prompts)
    ids = torch.tensor(prompts.ids)
    for layer, head in ((0, 1), (loaded.n_layers - 1, 3)):
        written: dict[str, torch.Tensor] = {}

        def keep(_m: Any, args: Any, kwargs: Any = None, w: Any = written) -> None:
            w["z"] = args[0].detach()

        handles = [loaded.out_proj(layer).register_forward_pre_hook(keep)]
        handles.append(
            loaded.final_norm().register_forward_pre_hook(
                lambda _m, args, w=written: w.update(x=args[0].detach())
            )
        )
        with torch.no_grad():
            loaded.model(input_ids=ids)
            for handle in handles:
                handle.remove()
            without = written["z"].clone()
            without[..., head * loaded.head_dim : (head + 1) * loaded.head_dim] = 0
            norm = loaded.post_attention_norm(layer) or torch.nn.Identity()
            proj = loaded.out_proj(layer)
            contribution = (norm(proj(written["z"])) - norm(proj(without)))[:, -1]
            x = written["x"][:, -1]
            if (
                "LayerNorm" in type(loaded.final_norm()).__name__
                and "RMS" not in type(loaded.final_norm()).__name__
            ):
                scale = x.var(dim=-1, unbiased=False, keepdim=True).add(1e-5).rsqrt()
                scaled = (contribution - contribution.mean(dim=-1, keepdim=True)) * scale
            else:
                scaled = contribution * x.pow(2).mean(dim=-1, keepdim=True).add(1e-6).rsqrt()
            weight = getattr(loaded.final_norm(), "weight", None)
            gain = (
                1.0
                if weight is None
                else (1 + weight if "Gemma" in type(loaded.final_norm()).__name__ else weight)
            )
            unembed = loaded.unembed().weight
            t = unembed[[i[0] for i in prompts.targets]] - unembed[[i[0] for i in prompts.distractors]]
            expected = (scaled * gain * t).sum(dim=-1).numpy()
        np.testing.assert_allclose(got_PLH[:, layer, head], expected, atol=2e-4)
        assert np.abs(expected).max() > 1e-3, "the reference itself must not be trivial"


def test_copy_score_sees_a_head_that_copies(own_micro_model: Any) -> None:
    """Make one head's OV circuit the identity and tie the unembedding: it copies; others do not."""
    loaded = own_micro_model("llama")
    inputs = ScreenInputs(loaded, prompt_set(), ScreenConfig(name="all", length=32, sequences=4))
    before = ov_copy_score(inputs)
    layer, head, d, e = 1, 2, loaded.head_dim, loaded.d_model
    attention = loaded.attention(layer)
    kv = head // (loaded.n_heads // loaded.n_kv_heads)
    with torch.no_grad():
        basis = torch.linalg.qr(torch.randn(e, d, generator=torch.Generator().manual_seed(0)))[0]
        attention.v_proj.weight[kv * d : (kv + 1) * d] = basis.T
        attention.o_proj.weight[:, head * d : (head + 1) * d] = basis
        # tokens live in the subspace that the head moves
        tokens = (
            torch.randn(loaded.model.config.vocab_size, d, generator=torch.Generator().manual_seed(1))
            @ basis.T
        )
        loaded.model.get_input_embeddings().weight.copy_(tokens * 10)
        loaded.model.get_output_embeddings().weight.copy_(tokens)
        loaded.model.model.layers[0].self_attn.o_proj.weight.zero_()
        loaded.model.model.layers[0].mlp.down_proj.weight.zero_()
    after = ov_copy_score(ScreenInputs(loaded, prompt_set(), inputs.cfg))
    assert after[layer, head] >= 0.9
    assert before[layer, head] < 0.5
    assert after[2, 0] < 0.5


def test_tokenizers_without_special_tokens_are_usable() -> None:
    from mechexp.screens.batch import usable_vocabulary

    tokenizer = SimpleNamespace(all_special_ids=[0, 3], added_tokens_decoder={})
    assert usable_vocabulary(tokenizer, 6).tolist() == [1, 2, 4, 5]
