"""How much memory a computation takes: estimates that the planner keeps below the budget.

Legend: T position, E residual width, W heads × head dim, V vocabulary.
"""

from dataclasses import dataclass

from mechexp.models.loaded import LoadedModel

BYTES = {"float32": 4, "bfloat16": 2, "float16": 2}


@dataclass(frozen=True)
class Sizes:
    """Bytes that a model's activations take, from its config.

    Attributes:
        element: Bytes of one number in the model's dtype.
        residual: Residual stream of one token.
        z: All heads' z of one token.
        keys: Keys and values of one token in one layer.
        work: Largest intermediate results of one token in one layer, without attention scores.
        score: Attention scores of one query against one key, all heads.
        logits: End-position logits of one prompt with the copies that metrics need.
    """

    element: int
    residual: int
    z: int
    keys: int
    work: int
    score: int
    logits: int

    @classmethod
    def of(cls, loaded: LoadedModel) -> "Sizes":
        """Sizes of a loaded model."""
        config, element = loaded.model.config, BYTES[loaded.dtype]
        z = loaded.n_heads * loaded.head_dim
        experts = int(getattr(config, "num_experts_per_tok", 0) or 0)
        inner = getattr(config, "moe_intermediate_size", None) if experts else None
        inner = int(inner or getattr(config, "intermediate_size", None) or 4 * loaded.d_model)
        # fp32 norms double the stream; gate, up and their product live at once; so do q, k, v, rotated copies
        # and the keys and values repeated for grouped queries
        work = 6 * loaded.d_model + 3 * inner * max(1, experts) + 8 * z
        return cls(
            element=element,
            residual=loaded.d_model * element,
            z=z * element,
            keys=2 * loaded.n_kv_heads * loaded.head_dim * element,
            work=work * 4,
            score=3 * loaded.n_heads * 4,
            logits=5 * int(config.vocab_size) * 4,
        )


def tokens_per_pass(loaded: LoadedModel, memory_bytes: float, length: int) -> int:
    """Tokens that one plain forward pass over prompts of ``length`` may hold; at least one prompt."""
    sizes = Sizes.of(loaded)
    per_token = 2 * sizes.residual + sizes.z + sizes.work + sizes.score * length + sizes.logits / length
    return max(length, min(65536, int(0.5 * memory_bytes / per_token)))
