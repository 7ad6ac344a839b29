"""The plain route: every condition is one full forward pass, block by block."""

from collections.abc import Callable, Sequence

import torch

from mechexp.engine.blocks import Block, make_block, split
from mechexp.engine.condition import Condition
from mechexp.engine.memory import tokens_per_pass
from mechexp.engine.reference import plain_logits
from mechexp.engine.values import Values
from mechexp.models.loaded import LoadedModel
from mechexp.tasks.prompts import PromptSet

Emit = Callable[[Condition, Block, torch.Tensor, int], None]
"""Called with a condition, a block, its end-position logits (P, V) and the number of elements changed."""


class PlainRoute:
    """Evaluates conditions one at a time with plain hooks.

    Args:
        loaded: The model.
        memory_bytes: Memory beside the weights.
    """

    name = "plain"

    def __init__(self, loaded: LoadedModel, memory_bytes: float) -> None:
        self._loaded, self._memory = loaded, memory_bytes

    def run(self, prompts: PromptSet, conditions: Sequence[Condition], values: Values, emit: Emit) -> None:
        """Evaluate every condition on every prompt, calling ``emit`` for each condition and block."""
        most = {t: tokens_per_pass(self._loaded, self._memory, t) // t for t in prompts.buckets()}
        names = {edit.positions for c in conditions for edit in c.all_edits}
        for indices in split(prompts, most):
            block = make_block(prompts, indices, names, self._loaded.device)
            for condition in conditions:
                known = values.of(condition.all_edits, block)
                logits_PV, edited = plain_logits(self._loaded, condition, block, known)
                emit(condition, block, logits_PV, edited)
