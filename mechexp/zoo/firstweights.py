"""The weights a training starts from: the stock ones, but for two choices that shorten it.

None of them survives by itself: all weights are trained, none is tied to another.

Shapes: V vocabulary, E width.
"""

from typing import Any

import torch

from mechexp.zoo.recipe import Recipe


@torch.no_grad()
def prepare(model: Any, recipe: Recipe) -> None:
    """Change the first weights of ``model`` in place, by torch's seed.

    * The unembedding starts as a small copy of the embeddings, so that a token copied is a token said.
    * All embeddings share one random vector, as those of large models come to do: by it a head can attend to
      a position whatever token stands there.
    """
    own_VE = torch.empty_like(model.get_input_embeddings().weight).normal_(std=recipe.embedding_scale)
    shared_E = torch.empty_like(own_VE[0]).normal_(std=recipe.embedding_scale)
    model.get_input_embeddings().weight.copy_(own_VE + shared_E)
    scale = recipe.unembedding_scale / recipe.embedding_scale
    model.get_output_embeddings().weight.copy_(own_VE * scale)
