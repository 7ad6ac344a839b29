"""The weights a training starts from: the stock ones, but for three choices that shorten it.

None of them survives by itself: all weights are trained, none is tied to another. No head is told what to do:
within a layer all heads start alike up to chance and sign.

Shapes: V vocabulary, E width, D head dimension.
"""

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from mechexp.zoo.recipe import Recipe


@torch.no_grad()
def prepare(model: Any, recipe: Recipe) -> None:
    """Change the first weights of ``model`` in place, by torch's seed.

    * The unembedding starts as a small copy of the embeddings, so that a token copied is a token said.
    * All embeddings share one random vector, as those of large models come to do: by it a head can attend to
      a position whatever token stands there.
    * Mimetic attention (Trockman & Kolter 2023): a head's queries and keys start equal, so that it attends to
      what is like its own position, and its output undoes its values, up to a sign that alternates over
      heads. Trained weights come to look like that; from there, matching and copying are a small step.
    """
    own_VE = torch.empty_like(model.get_input_embeddings().weight).normal_(std=recipe.embedding_scale)
    shared_E = torch.empty_like(own_VE[0]).normal_(std=recipe.embedding_scale)
    model.get_input_embeddings().weight.copy_(own_VE + shared_E)
    scale = recipe.unembedding_scale / recipe.embedding_scale
    model.get_output_embeddings().weight.copy_(own_VE * scale)
    for number, (query_DE, key_DE, value_DE, output_ED) in enumerate(_heads(model)):
        match_DE = _orthonormal_rows(query_DE) * recipe.match_scale
        query_DE.copy_(match_DE)
        key_DE.copy_(match_DE)
        carry_DE = _orthonormal_rows(value_DE) * recipe.carry_scale**0.5
        value_DE.copy_(carry_DE)
        output_ED.copy_(carry_DE.T * (-1) ** number)


def _heads(model: Any) -> Iterator[tuple[Tensor, Tensor, Tensor, Tensor]]:
    """Views of each head's query, key, value and output weights, layer by layer."""
    heads = model.config.num_attention_heads
    for layer in model.base_model.layers:
        if hasattr(layer, "attention"):  # GPT-NeoX keeps the three of a head together
            fused, output = layer.attention.query_key_value.weight, layer.attention.dense.weight
            of_head = [rows.chunk(3) for rows in fused.chunk(heads)]
        else:
            attention = layer.self_attn
            stacks = (attention.q_proj.weight, attention.k_proj.weight, attention.v_proj.weight)
            of_head = list(zip(*(w.chunk(heads) for w in stacks), strict=True))
            output = attention.o_proj.weight
        for (query, key, value), columns in zip(of_head, output.chunk(heads, dim=1), strict=True):
            yield query, key, value, columns


def _orthonormal_rows(like_DE: Tensor) -> Tensor:
    directions_ED: Tensor = torch.linalg.qr(torch.randn_like(like_DE.T)).Q
    return directions_ED.T
