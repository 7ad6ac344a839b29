"""What heads do, measured without ablating: OV copy score and direct logit attribution.

Shapes: P prompts, N inputs, L layers, H heads, D head dim, E residual, V vocabulary.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mechexp.models import LoadedModel
from mechexp.models.hooks import capture_z
from mechexp.models.weights import ov, project_head
from mechexp.screens.inputs import ScreenInputs
from mechexp.tasks.prompts import PromptSet

OV_INPUTS = 32
OV_TOP = 5


def ov_copy_score(inputs: ScreenInputs) -> NDArray[np.float64]:
    """Share of inputs whose own token is among the five that the head's OV circuit raises most: (L, H).

    An input is a residual stream after the first layer, x; the head's OV circuit writes W_O W_V norm(x),
    with the norm of the head's own layer; the result is read through the final norm and the unembedding
    (after Wang et al. 2023; here on tokens of the random batch).
    """
    import torch

    loaded = inputs.loaded
    x_NE, tokens_N = _first_layer_inputs(inputs)
    final_norm, unembed = loaded.final_norm(), loaded.unembed()
    scores = np.zeros((loaded.n_layers, loaded.n_heads))
    with torch.no_grad():
        for layer in range(loaded.n_layers):
            for head in range(loaded.n_heads):
                logits_NV = unembed(final_norm(ov(loaded, layer, head, x_NE).to(x_NE.dtype)))
                own_N1 = logits_NV.gather(1, tokens_N[:, None].to(logits_NV.device))
                rank_N = (logits_NV > own_N1).sum(dim=1)  # counting is faster than sorting a vocabulary
                scores[layer, head] = float((rank_N < OV_TOP).float().mean())
    return scores


def _first_layer_inputs(inputs: ScreenInputs) -> tuple[Any, Any]:
    """Residual streams after the first layer and the tokens they stand at: (N, E), (N,)."""
    import torch

    loaded, batch = inputs.loaded, inputs.batch
    n_sequences = min(8, len(batch.ids_PT))
    ids = torch.as_tensor(batch.ids_PT[:n_sequences], device=loaded.device)
    kept: dict[str, Any] = {}
    handle = loaded.layers()[0].register_forward_hook(
        lambda _m, _i, out: kept.update(x=out[0] if isinstance(out, tuple) else out)
    )
    try:
        with torch.no_grad():
            loaded.model(input_ids=ids, use_cache=False, logits_to_keep=1)
    finally:
        handle.remove()
    rng = np.random.default_rng(inputs.cfg.seed)
    # not the first position: it is an attention sink with a residual stream of its own
    at = [(int(rng.integers(n_sequences)), int(rng.integers(1, inputs.length))) for _ in range(OV_INPUTS)]
    rows, columns = (torch.tensor(c, device=kept["x"].device) for c in zip(*at, strict=True))
    return kept["x"][rows, columns], ids.to(rows.device)[rows, columns]


def direct_logit_attribution(loaded: LoadedModel, prompts: PromptSet) -> NDArray[np.float64]:
    """What each head's write at the end position adds to the logit difference: (P, L, H).

    The final norm is frozen at its clean scale; softcapped models are read before the cap. In blocks that
    normalise the attention output, a head's contribution is norm(all heads) − norm(all but this one).
    """
    import torch

    out = np.zeros((len(prompts), loaded.n_layers, loaded.n_heads))
    weight_VE = loaded.unembed().weight
    for _, index in prompts.buckets().items():
        ids = torch.tensor([prompts.ids[i] for i in index], device=loaded.device)
        residual: dict[str, Any] = {}
        handle = loaded.final_norm().register_forward_pre_hook(
            lambda _m, args, kept=residual: kept.update(x=args[0])
        )
        try:
            with torch.no_grad(), capture_z(loaded) as z:
                loaded.model(input_ids=ids, use_cache=False, logits_to_keep=1)
        finally:
            handle.remove()
        end_PE = residual["x"][:, -1].float()
        direction_PE = torch.stack([_answer_direction(weight_VE, prompts, int(i)) for i in index])
        for layer in range(loaded.n_layers):
            z_PHD = z[layer][:, -1]
            for head, written_PE in enumerate(_contributions(loaded, layer, z_PHD)):
                seen = frozen_norm(loaded.final_norm(), end_PE, written_PE.float().to(end_PE.device))
                value = (seen * direction_PE.to(seen.device)).sum(dim=-1)
                out[index, layer, head] = value.cpu().numpy()
    return out


def _answer_direction(weight_VE: Any, prompts: PromptSet, i: int) -> Any:
    """Mean unembedding of the targets − of the distractors."""
    plus, minus = list(prompts.targets[i]), list(prompts.distractors[i])
    return weight_VE[plus].float().mean(dim=0) - weight_VE[minus].float().mean(dim=0)


def _contributions(loaded: LoadedModel, layer: int, z_PHD: Any) -> Iterator[Any]:
    """Each head's contribution to the residual stream at this layer, head by head: (P, E)."""
    norm = loaded.post_attention_norm(layer)
    heads = range(loaded.n_heads)
    if norm is None:
        yield from (project_head(loaded, layer, h, z_PHD[:, h]) for h in heads)
        return
    whole = loaded.out_proj(layer)(z_PHD.flatten(1))
    normed = norm(whole)
    for h in heads:
        yield normed - norm(whole - project_head(loaded, layer, h, z_PHD[:, h]))


def frozen_norm(norm: Any, at_PE: Any, added_PE: Any) -> Any:
    """What the norm makes of ``added`` when its scale stays that of ``at``: linear in ``added``.

    Works for LayerNorm and RMSNorm of any spelling by probing: on a ±1 vector (mean 0, RMS 1) both return
    weight and bias; only a LayerNorm maps a constant vector to its bias.
    """
    import torch

    width = at_PE.shape[-1]
    like = next(norm.parameters(), at_PE)
    probe = torch.ones(width, device=like.device, dtype=like.dtype)
    probe[1::2] = -1
    with torch.no_grad():
        bias = norm(torch.zeros_like(probe)).float()
        weight = (norm(probe).float() - bias) * probe.float()
        centred = bool(torch.allclose(norm(torch.ones_like(probe)).float(), bias, atol=1e-3))
        normed = norm(at_PE.to(like.dtype)).float() - bias

    def shape(x: Any) -> Any:
        x = x.to(weight.device)
        return weight * (x - x.mean(dim=-1, keepdim=True) if centred else x)

    base = shape(at_PE)
    scale = (base * normed).sum(dim=-1, keepdim=True) / (base * base).sum(dim=-1, keepdim=True)
    return shape(added_PE) * scale
