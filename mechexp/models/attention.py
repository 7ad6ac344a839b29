"""Attention patterns, read from the model's own attention modules.

Shapes: P sequences, T position, L layer, H query head.
"""

from collections.abc import Callable, Iterable
from contextlib import ExitStack
from typing import Any

import torch
from torch import Tensor

from mechexp.errors import UserError
from mechexp.models.heads import Head
from mechexp.models.loaded import LoadedModel


@torch.no_grad()
def attention_rows(loaded: LoadedModel, ids_PT: Any, query: int = -1) -> Tensor:
    """Attention of one query position to all positions, in every layer and head.

    Only the asked rows are kept, so memory is T times less than that of all patterns.

    Args:
        loaded: A model loaded with ``attn_implementation="eager"``.
        ids_PT: Token ids of equally long sequences, without padding; array or tensor.
        query: The query position.

    Returns:
        rows_PLHT: fp32, on the CPU. A row sums to 1, or to less where the model has attention sinks
        (gpt-oss); positions after the query are 0.

    Raises:
        UserError: The model was loaded with an attention implementation that gives no patterns, or the
            sequences are longer than its context.
    """
    require_eager(loaded)
    ids = torch.as_tensor(ids_PT, device=loaded.device)
    require_context(loaded, ids.shape[1])
    rows: dict[int, Tensor] = {}

    def hook(layer: int) -> Callable[..., None]:
        def after(_module: torch.nn.Module, _args: Any, output: Any) -> None:
            rows[layer] = output[1][:, :, query].float().cpu()

        return after

    with ExitStack() as stack:
        for layer in range(loaded.n_layers):
            stack.callback(loaded.attention(layer).register_forward_hook(hook(layer)).remove)
        loaded.model(input_ids=ids, use_cache=False, logits_to_keep=1)
    if sorted(rows) != list(range(loaded.n_layers)):
        raise RuntimeError(f"attention came from layers {sorted(rows)} of {loaded.n_layers}")
    return torch.stack([rows[layer] for layer in range(loaded.n_layers)], dim=1)


@torch.no_grad()
def attention_patterns(loaded: LoadedModel, ids_T: Any, heads: Iterable[Head]) -> dict[Head, Tensor]:
    """Whole attention patterns of some heads on one sequence.

    Args:
        loaded: A model loaded with ``attn_implementation="eager"``.
        ids_T: Token ids of one sequence.
        heads: The heads; only their patterns are kept.

    Returns:
        By head, attention_TT: fp32, on the CPU; from the row's position to the column's.

    Raises:
        UserError: As ``attention_rows``.
    """
    require_eager(loaded)
    ids = torch.as_tensor(ids_T, device=loaded.device)[None]
    require_context(loaded, ids.shape[1])
    wanted: dict[int, list[Head]] = {}
    for head in heads:
        wanted.setdefault(head.layer, []).append(head)
    found: dict[Head, Tensor] = {}

    def hook(layer: int) -> Callable[..., None]:
        def after(_module: torch.nn.Module, _args: Any, output: Any) -> None:
            found.update({h: output[1][0, h.head].float().cpu() for h in wanted[layer]})

        return after

    with ExitStack() as stack:
        for layer in wanted:
            stack.callback(loaded.attention(layer).register_forward_hook(hook(layer)).remove)
        loaded.model(input_ids=ids, use_cache=False, logits_to_keep=1)
    return found


def require_eager(loaded: LoadedModel) -> None:
    """Refuse a model whose attention implementation returns no patterns."""
    used = loaded.model.config._attn_implementation
    if used != "eager":
        raise UserError(
            f"attention patterns cannot be read under attn_implementation={used}",
            where=f"model {loaded.name}",
            expected="eager",
            todo="set model.attn_implementation=eager",
        )


def require_context(loaded: LoadedModel, length: int) -> None:
    """Refuse sequences that are longer than what the model was made for."""
    context = getattr(loaded.model.config, "max_position_embeddings", None)
    if context and length > context:
        raise UserError(
            f"sequences of {length} tokens are longer than the model's context",
            where=f"model {loaded.name}",
            expected=f"at most {context} tokens",
            todo="set a smaller screen.length or model.screen_length, or shorten the prompts",
        )
