"""A loaded model: the stock ``transformers`` model plus where its heads are."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, cast

import torch
from torch import nn

from mechexp.models.heads import Geometry
from mechexp.models.layouts import Layout, submodule

_NOT_CONFIG = ("_name_or_path", "transformers_version")  # where it came from and who wrote the file


@dataclass(frozen=True, eq=False)
class LoadedModel:
    """A stock causal language model, in eval mode and without gradients, and the way to its heads.

    Attributes:
        model: The ``transformers`` model, unchanged.
        tokenizer: Its tokenizer.
        name: Short name, as configured.
        id: Hub id, folder, or name of the shipped model.
        revision: Hub revision, "" for the main branch or a local model.
        arch: ``config.model_type``.
        dtype: ``float32``, ``bfloat16`` or ``float16``.
        weights_hash: sha256 over names, types and bytes of all weights.
        geometry: Layers, query heads, width of a head.
        n_kv_heads: Key-value heads; fewer than query heads in grouped-query attention.
        layout: The family's entry in the adapter table.
        checkpoints: Training checkpoints as ``{revision: tokens seen, in billions}``.
        screen_length: Tokens of a random sequence that suits the model.
    """

    model: Any = field(repr=False)
    tokenizer: Any = field(repr=False)
    name: str
    id: str
    revision: str
    arch: str
    dtype: str
    weights_hash: str
    geometry: Geometry
    n_kv_heads: int
    layout: Layout = field(repr=False)
    checkpoints: Mapping[str, float] = field(default_factory=dict, repr=False)
    screen_length: int = 256

    @cached_property
    def config_hash(self) -> str:
        """Digest of what decides the answers beside the weights: config, attention, library version.

        Equal weights under another rope base, window or number of experts a token are another model.
        """
        import transformers

        config = self.model.config
        values = {k: v for k, v in config.to_dict().items() if k not in _NOT_CONFIG}
        values |= {"attention": config._attn_implementation, "transformers": transformers.__version__}
        return hashlib.sha256(json.dumps(values, sort_keys=True, default=str).encode()).hexdigest()

    @property
    def n_layers(self) -> int:
        """Decoder layers."""
        return self.geometry.n_layers

    @property
    def n_heads(self) -> int:
        """Query heads a layer."""
        return self.geometry.n_heads

    @property
    def head_dim(self) -> int:
        """Width of one head's z."""
        return self.geometry.head_dim

    @property
    def d_model(self) -> int:
        """Width of the residual stream."""
        return int(self.model.config.hidden_size)

    @property
    def device(self) -> torch.device:
        """Where token ids go: the device on which the embedding runs."""
        embedding = self.model.get_input_embeddings()
        hook = getattr(embedding, "_hf_hook", None) or getattr(self.model, "_hf_hook", None)
        place = getattr(hook, "execution_device", None)
        return torch.device(place) if place is not None else torch.device(embedding.weight.device)

    @property
    def is_moe(self) -> bool:
        """Whether any layer routes tokens to several experts; a router to a single one is a dense MLP."""
        config = self.model.config
        experts = getattr(config, "num_experts", None) or getattr(config, "num_local_experts", None)
        return experts != 1 and any(self.router(layer) is not None for layer in range(self.n_layers))

    @property
    def is_parallel(self) -> bool:
        """Whether attention and MLP of a layer read the same residual stream."""
        flag = self.layout.parallel_flag
        return bool(flag and getattr(self.model.config, flag))

    @property
    def softcap(self) -> float | None:
        """Final logits are ``softcap · tanh(logits / softcap)`` in some families."""
        cap = getattr(self.model.config, "final_logit_softcapping", None)
        return None if cap is None else float(cap)

    def layers(self) -> list[nn.Module]:
        """Decoder layers, first to last."""
        path = self.layout.layers
        return list(cast(nn.ModuleList, _found(submodule(self.model, path), path, self.arch)))

    def attention(self, layer: int) -> nn.Module:
        """The attention module; returns (output, attention probabilities) under ``eager``."""
        return _found(submodule(self._layer(layer), self.layout.attention), self.layout.attention, self.arch)

    def out_proj(self, layer: int) -> nn.Module:
        """The attention output projection, whose input is z (…, n_heads · head_dim)."""
        return _found(submodule(self.attention(layer), self.layout.out_proj), self.layout.out_proj, self.arch)

    def value_proj(self, layer: int) -> nn.Module:
        """The module that computes the values, alone or fused with queries and keys."""
        return _found(submodule(self.attention(layer), self.layout.value), self.layout.value, self.arch)

    def input_norm(self, layer: int) -> nn.Module | None:
        """Norm of the attention's input; None where attention reads the bare stream (OLMo 2 and 3)."""
        return submodule(self._layer(layer), self.layout.input_norm)

    def post_attention_norm(self, layer: int) -> nn.Module | None:
        """Norm of the attention's output before it is added to the stream (OLMo 2 and 3, Gemma 2 and 3)."""
        return submodule(self._layer(layer), self.layout.post_attention_norm)

    def router(self, layer: int) -> nn.Module | None:
        """Expert router of a layer; None in dense layers."""
        return submodule(self._layer(layer), self.layout.router)

    def final_norm(self) -> nn.Module:
        """Norm between the last layer and the unembedding."""
        return _found(submodule(self.model, self.layout.final_norm), self.layout.final_norm, self.arch)

    def unembed(self) -> nn.Module:
        """The linear map from the normed residual stream to logits (weight: V × E)."""
        return _found(self.model.get_output_embeddings(), "output embeddings", self.arch)

    def _layer(self, layer: int) -> nn.Module:
        return self.layers()[layer]


def _found(module: Any | None, path: str, arch: str) -> nn.Module:
    if module is None:
        raise AttributeError(f"no module {path!r} in this {arch} model: its adapter entry does not fit")
    found: nn.Module = module
    return found
