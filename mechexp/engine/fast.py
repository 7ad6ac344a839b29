"""The fast route: one clean pass a block, then only what each condition changes, shared wherever it can be.

Every number equals a plain hooked forward pass to rounding; ``checks`` tests that on conditions of the run
before any number is reported.
"""

from collections.abc import Sequence

import numpy as np

from mechexp.engine.block_run import BlockRun, path_of
from mechexp.engine.blocks import make_block, split
from mechexp.engine.condition import Condition
from mechexp.engine.memory import Budget
from mechexp.engine.plain import Emit
from mechexp.engine.resume import Resumer
from mechexp.engine.values import Values, is_sourced
from mechexp.models.loaded import LoadedModel
from mechexp.tasks.prompts import PromptSet


class FastRoute:
    """Evaluates conditions by resuming inside the model.

    Args:
        loaded: The model.
        memory_bytes: Memory beside the weights; clean activations, states and logits stay below it.
    """

    name = "fast"

    def __init__(self, loaded: LoadedModel, memory_bytes: float) -> None:
        self._loaded, self._resumer = loaded, Resumer(loaded)
        self._budget = Budget.of(loaded, memory_bytes)

    def supports(self, condition: Condition) -> bool:
        """Whether this route can evaluate a condition; the plain route does the others."""
        return all(e.layer < self._loaded.n_layers or e.positions == "end" for e in condition.all_edits)

    def run(self, prompts: PromptSet, conditions: Sequence[Condition], values: Values, emit: Emit) -> None:
        """Evaluate every condition on every prompt, calling ``emit`` for each condition and block."""
        starts = len({path[0].layer for path in map(path_of, conditions) if path})
        tails = any(e.positions != "all" for c in conditions for e in c.all_edits)
        read = [e for c in conditions for e in c.all_edits if is_sourced(e)]
        sources = len({(e.layer, e.head is None, str(id(e.value))) for e in read})
        count = len(conditions)
        most = {t: self._budget.prompts(t, starts, tails, sources, count) for t in prompts.buckets()}
        for indices in split(prompts, most):
            self.run_block(prompts, indices, conditions, values, emit)

    def run_block(
        self,
        prompts: PromptSet,
        indices: np.ndarray,
        conditions: Sequence[Condition],
        values: Values,
        emit: Emit,
    ) -> None:
        """Evaluate every condition on the prompts at ``indices``, which have one length."""
        names = {edit.positions for c in conditions for edit in c.all_edits}
        block = make_block(prompts, indices, names, self._loaded.device)
        BlockRun(self._resumer, self._budget, block, conditions, values, emit).go()
