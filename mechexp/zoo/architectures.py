"""The stock ``transformers`` classes behind the zoo's models, at a small size.

Heads of 24, so that position and content have room in each, and eight a layer, so that a null of matched
random heads has spare ones. The rotary base is the stock one.
"""

from collections.abc import Callable
from typing import Any

LAYERS, HEADS, WIDTH, CONTEXT = 4, 8, 192, 128
ROPE = {"rope_type": "default", "rope_theta": 10000.0}
EXPERTS, ACTIVE, EXPERT_WIDTH = 8, 2, 64


def config_for(name: str, vocab_size: int, pad: int) -> Any:
    """The ``transformers`` config of the model ``name``."""
    return ARCHITECTURES[name](
        vocab_size=vocab_size,
        hidden_size=WIDTH,
        num_hidden_layers=LAYERS,
        num_attention_heads=HEADS,
        max_position_embeddings=CONTEXT,
        pad_token_id=pad,
        bos_token_id=None,
        eos_token_id=None,
        tie_word_embeddings=False,
        use_cache=False,
    )


def _pythia(**size: Any) -> Any:
    """GPT-NeoX: LayerNorm, biases, parallel attention and MLP; rotary over whole heads, not a quarter."""
    from transformers import GPTNeoXConfig

    return GPTNeoXConfig(
        intermediate_size=384,
        use_parallel_residual=True,
        rope_parameters={**ROPE, "partial_rotary_factor": 1.0},
        **size,
    )


def _olmo(**size: Any) -> Any:
    """OLMo-1B-0724: LayerNorm without weights, SwiGLU, no biases."""
    from transformers import OlmoConfig

    return OlmoConfig(intermediate_size=256, rope_parameters=dict(ROPE), **size)


def _olmoe(**size: Any) -> Any:
    """OLMoE: RMSNorm, normed queries and keys, two of eight experts a token."""
    return _experts(EXPERTS, ACTIVE, EXPERT_WIDTH, **size)


def _olmoe_dense(**size: Any) -> Any:
    """The same class with one expert as wide as two; softmax of one number is 1, so it is a dense MLP."""
    return _experts(1, 1, ACTIVE * EXPERT_WIDTH, **size)


def _experts(experts: int, active: int, width: int, **size: Any) -> Any:
    from transformers import OlmoeConfig

    return OlmoeConfig(
        num_experts=experts,
        num_experts_per_tok=active,
        intermediate_size=width,
        rope_parameters=dict(ROPE),
        **size,
    )


ARCHITECTURES: dict[str, Callable[..., Any]] = {
    "tiny_pythia": _pythia,
    "tiny_olmo": _olmo,
    "tiny_olmoe": _olmoe,
    "tiny_olmoe_dense": _olmoe_dense,
}
"""Models by name."""
