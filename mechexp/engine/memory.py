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


# Tokens that go through a layer together: beyond this, matrix products gain nothing and caches lose.
TOKENS = {"cpu": 4096, "cuda": 65536}
LEAST_STATES = 16  # a block leaves room for this many, so that cutting a shared path costs little
SHARE_CLEAN, SHARE_STATES, SHARE_LOGITS = 0.35, 0.35, 0.1


@dataclass(frozen=True)
class Budget:
    """How much of each thing may be held at once; shares of the memory add up to less than one.

    Attributes:
        memory: Bytes beside the weights.
        sizes: What things take.
        tokens: Tokens that go through a layer together at most.
        n_layers: Decoder layers.
        parallel: Whether resuming needs the stream after a layer too.
        repeats: Query heads a key-value head.
    """

    memory: float
    sizes: Sizes
    tokens: int
    n_layers: int
    parallel: bool
    repeats: int

    @classmethod
    def of(cls, loaded: LoadedModel, memory_bytes: float) -> "Budget":
        """The budget of a model on its device."""
        tokens = TOKENS.get(loaded.device.type, TOKENS["cpu"])
        repeats = loaded.n_heads // loaded.n_kv_heads
        sizes = Sizes.of(loaded)
        return cls(memory_bytes, sizes, tokens, loaded.n_layers, loaded.is_parallel, repeats)

    def prompts(self, length: int, starts: int, tails: bool, sources: int, conditions: int) -> int:
        """Prompts a block: their clean activations fit, and enough states go through together.

        Args:
            length: Tokens a prompt.
            starts: Layers that conditions begin at.
            tails: Whether some conditions need keys and values of the clean run.
            sources: Sites whose values are read from other prompts.
            conditions: How many conditions there are.
        """
        keys = self.n_layers * self.sizes.keys if tails else 0
        site = self.sizes.residual + self.sizes.z
        clean = length * ((starts + self.parallel + sources) * site + keys)
        states = min(LEAST_STATES, max(1, conditions))
        by_states = int(SHARE_STATES * self.memory / self._state(length, length))
        fit = min(int(SHARE_CLEAN * self.memory / max(clean, 1)), by_states, self.tokens // (states * length))
        return max(1, fit)

    def clean_layers(self, prompts: int, length: int) -> int:
        """Layers whose clean activations are held at once."""
        layer = prompts * length * (1 + self.parallel) * (self.sizes.residual + self.sizes.z)
        return max(1, int(SHARE_CLEAN * self.memory / layer))

    def states(self, prompts: int, length: int, rows: int) -> int:
        """States under way at once, each with its last ``rows`` positions."""
        by_memory = int(SHARE_STATES * self.memory / (prompts * self._state(length, rows)))
        return max(1, min(by_memory, self.tokens // (prompts * rows)))

    def logit_states(self, prompts: int) -> int:
        """States whose logits are held at once."""
        return max(1, int(SHARE_LOGITS * self.memory / (prompts * self.sizes.logits)))

    def _state(self, length: int, rows: int) -> int:
        """Bytes of one prompt of one state on its way through a layer."""
        s = self.sizes
        keys = 0 if rows == length else 2 * (1 + self.repeats) * s.keys * length
        return rows * (4 * s.residual + 2 * s.z + s.work + s.score * length) + keys


def tokens_per_pass(loaded: LoadedModel, memory_bytes: float, length: int) -> int:
    """Tokens that one plain forward pass over prompts of ``length`` may hold; at least one prompt."""
    sizes = Sizes.of(loaded)
    per_token = 2 * sizes.residual + sizes.z + sizes.work + sizes.score * length + sizes.logits / length
    return max(length, min(65536, int(0.5 * memory_bytes / per_token)))
