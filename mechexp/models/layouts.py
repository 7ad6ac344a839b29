"""Where the heads of each model family are: one table, keyed by ``config.model_type``.

A new family is one entry in ``LAYOUTS``. Every entry is checked against the running model when it is loaded
(see ``verify``), so a wrong one is refused instead of mis-slicing heads.

Head output z is the input of the attention output projection: query heads side by side, grouped-query
attention already expanded.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from mechexp.errors import UserError
from mechexp.models.heads import Geometry

ValueStart = Callable[[Geometry, int, int], int]
"""(geometry, number of key-value heads, query head) → first output feature of the head's value vector."""


def _own_module(geometry: Geometry, n_kv: int, head: int) -> int:
    return (head // (geometry.n_heads // n_kv)) * geometry.head_dim


def _after_queries_and_keys(geometry: Geometry, n_kv: int, head: int) -> int:
    return (geometry.n_heads + n_kv) * geometry.head_dim + _own_module(geometry, n_kv, head)


def _interleaved_by_head(geometry: Geometry, n_kv: int, head: int) -> int:
    # query, key and value of head 0, then of head 1, …
    return (3 * head + 2) * geometry.head_dim


@dataclass(frozen=True)
class Layout:
    """Where one family keeps what experiments on heads need; dotted paths of modules.

    Attributes:
        layers: List of decoder layers, from the model.
        final_norm: Norm before the unembedding, from the model.
        attention: Attention module, from a layer.
        out_proj: Output projection, from the attention module; its input is z.
        value: Module that computes the values, from the attention module.
        value_start: Where in that module's output a query head's value vector starts.
        input_norm: Norm of the attention's input, from a layer; "" where attention reads the bare stream.
        post_attention_norm: Norm of the attention's *output* before it is added to the stream, from a layer.
        router: Expert router, from a layer; absent in the dense layers of a mixed model.
        parallel_flag: Config key that says whether attention and MLP read the same stream.
    """

    layers: str = "model.layers"
    final_norm: str = "model.norm"
    attention: str = "self_attn"
    out_proj: str = "o_proj"
    value: str = "v_proj"
    value_start: ValueStart = _own_module
    input_norm: str = "input_layernorm"
    post_attention_norm: str = ""
    router: str = ""
    parallel_flag: str = ""


_LLAMA = Layout()
_GEMMA = Layout(post_attention_norm="post_attention_layernorm")
_OLMO2 = Layout(input_norm="", post_attention_norm="post_attention_layernorm")
_MOE = Layout(router="mlp.gate")

LAYOUTS: dict[str, Layout] = {
    "gpt2": Layout(
        layers="transformer.h",
        final_norm="transformer.ln_f",
        attention="attn",
        out_proj="c_proj",
        value="c_attn",
        value_start=_after_queries_and_keys,
        input_norm="ln_1",
    ),
    "gpt_neox": Layout(
        layers="gpt_neox.layers",
        final_norm="gpt_neox.final_layer_norm",
        attention="attention",
        out_proj="dense",
        value="query_key_value",
        value_start=_interleaved_by_head,
        parallel_flag="use_parallel_residual",
    ),
    "llama": _LLAMA,
    "mistral": _LLAMA,
    "qwen2": _LLAMA,
    "qwen3": _LLAMA,
    "olmo": _LLAMA,
    "phi3": Layout(value="qkv_proj", value_start=_after_queries_and_keys),
    "gemma2": _GEMMA,
    "gemma3_text": _GEMMA,
    "olmo2": _OLMO2,
    "olmo3": _OLMO2,
    "olmoe": _MOE,
    "mixtral": _MOE,
    "qwen2_moe": _MOE,
    "qwen3_moe": _MOE,
    "gpt_oss": Layout(router="mlp.router"),
}


def layout_of(config: Any) -> Layout:
    """The table entry of a ``transformers`` config.

    Raises:
        UserError: The family is not in the table; the message names the entry to add.
    """
    kind = str(getattr(config, "model_type", ""))
    if kind in LAYOUTS:
        return LAYOUTS[kind]
    raise UserError(
        f"the heads of model type {kind!r} are not known",
        where="mechexp.models.layouts.LAYOUTS",
        expected=f"one of {', '.join(sorted(LAYOUTS))}",
        todo=f"add an entry LAYOUTS[{kind!r}] = Layout(…); it is checked against the model at load",
    )


def geometry_of(config: Any) -> tuple[Geometry, int]:
    """Geometry and number of key-value heads of a ``transformers`` config.

    ``head_dim`` is the config's own where given: hidden_size / n_heads is wrong in several families.
    """
    n_heads = int(config.num_attention_heads)
    head_dim = int(getattr(config, "head_dim", None) or config.hidden_size // n_heads)
    n_kv = int(getattr(config, "num_key_value_heads", None) or n_heads)
    return Geometry(int(config.num_hidden_layers), n_heads, head_dim), n_kv


def submodule(root: Any, path: str) -> Any | None:
    """The module at a dotted path, or None where there is none or the path is empty."""
    if not path:
        return None
    for part in path.split("."):
        root = getattr(root, part, None)
        if root is None:
            return None
    return root
