"""All conditions on one block of prompts: the clean pass, the packs of states, their logits.

Legend: N state, P prompt, E residual width, V vocabulary.
"""

from collections.abc import Iterable, Sequence

import torch

from mechexp.engine.blocks import Block
from mechexp.engine.condition import Condition
from mechexp.engine.memory import Budget
from mechexp.engine.plain import Emit
from mechexp.engine.plan import STREAM, Node, Path, Step, Z, packs, prune, trie
from mechexp.engine.resume import Clean, Resumer
from mechexp.engine.values import Values
from mechexp.engine.walk import Walk
from mechexp.errors import UserError

Root = tuple[Node, int]
"""A state that leaves the clean run, and how many last positions it needs."""


def path_of(condition: Condition) -> Path:
    """The steps of a condition, by depth."""
    by_depth: dict[tuple[int, int], list[str]] = {}
    for edit in condition.all_edits:
        by_depth.setdefault((edit.layer, STREAM if edit.head is None else Z), []).append(edit.key)
    return tuple(Step(*depth, tuple(sorted(keys))) for depth, keys in sorted(by_depth.items()))


class BlockRun:
    """Evaluates conditions on a block.

    Args:
        resumer: Runs parts of the model.
        budget: How much may be held at once.
        block: The prompts.
        conditions: What is done to the model.
        values: Supplies the values of their edits.
        emit: Takes the results.
    """

    def __init__(
        self,
        resumer: Resumer,
        budget: Budget,
        block: Block,
        conditions: Sequence[Condition],
        values: Values,
        emit: Emit,
    ) -> None:
        self._resumer, self._budget, self._block = resumer, budget, block
        self._values, self._emit = values, emit
        self._conditions = dict(enumerate(conditions))
        self._edits = {e.key: e for c in conditions for e in c.all_edits}
        self._done: set[int] = set()

    def go(self) -> None:
        """Evaluate all conditions on this block."""
        by_rows: dict[int, dict[int, Path]] = {}
        unchanged = []
        for number, condition in self._conditions.items():
            path = path_of(condition)
            if path:
                by_rows.setdefault(self._rows(condition), {})[number] = path
            else:
                unchanged.append(number)
        roots = [(node, rows) for rows, paths in sorted(by_rows.items()) for node in trie(paths)]
        for i, group in enumerate(self._groups(roots) or [[]]):
            clean = self._clean_for(group)
            for number in unchanged if i == 0 else ():
                self._emit(self._conditions[number], self._block, clean.logits_PV, 0)
            self._run_group(group, clean)

    def _rows(self, condition: Condition) -> int:
        """How many last positions a condition can change."""
        if not self._resumer.has_cache:
            return self._block.length
        return self._block.length - min(self._block.first(edit.positions) for edit in condition.all_edits)

    def _groups(self, roots: list[Root]) -> list[list[Root]]:
        """Roots by layer, as many layers at once as their clean activations fit; usually all.

        A further group costs a further clean pass: activations beyond the budget are recomputed.
        """
        most = self._budget.clean_layers(self._block.size, self._block.length)
        layers = sorted({node.step.layer for node, _ in roots})
        chunks = [set(layers[i : i + most]) for i in range(0, len(layers), most)]
        return [[root for root in roots if root[0].step.layer in chunk] for chunk in chunks]

    def _clean_for(self, roots: list[Root]) -> Clean:
        loaded, steps = self._resumer.loaded, [node.step for node, _ in roots]
        z = {step.layer for step in steps if step.stage == Z}
        stream = {step.layer for step in steps}
        if loaded.is_parallel:
            stream = {step.layer for step in steps if step.stage == STREAM} | {layer + 1 for layer in z}
        tails = [node.step.layer for node, rows in roots if rows < self._block.length]
        # the last layer takes keys and values of earlier positions for every end-position query
        keys = range(min(tails), loaded.n_layers) if tails else ()
        return self._resumer.clean(self._block, stream=stream, z=z, keys=keys)

    def _run_group(self, roots: list[Root], clean: Clean) -> None:
        numbers = {number for node, _ in roots for number in node.conditions()}
        edits = [edit for number in sorted(numbers) for edit in self._conditions[number].all_edits]
        values = self._values.of(edits, self._block)
        every = {rows for _, rows in roots}
        for rows in sorted(every):
            walk = Walk(self._resumer, clean, self._block, self._edits, values, rows)
            nodes = sorted((node for node, r in roots if r == rows), key=lambda node: node.step)
            capacity = self._budget.states(self._block.size, self._block.length, rows)
            self._run_packs(nodes, capacity, walk, clean, free=len(every) == 1)

    def _run_packs(
        self, nodes: Iterable[Node], capacity: int, walk: Walk, clean: Clean, *, free: bool
    ) -> None:
        for pack in packs(nodes, capacity):
            if free:
                clean.forget_below(min(node.step.layer for node in pack))
            try:
                self._run_pack(pack, walk, clean)
                continue
            except torch.OutOfMemoryError as error:
                if capacity == 1:
                    raise UserError(
                        "out of memory with a single condition under way",
                        where=f"{self._block.size} prompts of {self._block.length} tokens",
                        todo="lower engine.memory_gb (smaller blocks of prompts), or use shorter prompts",
                    ) from error
            # outside the except clause: the exception's frames hold the tensors that did not fit
            if torch.cuda.is_available():
                torch.cuda.empty_cache()
            left = [node for root in pack if (node := prune(root, self._done)) is not None]
            half = max(1, min(capacity, sum(node.size for node in left)) // 2)
            self._run_packs(left, half, walk, clean, free=False)

    def _run_pack(self, pack: tuple[Node, ...], walk: Walk, clean: Clean) -> None:
        stream_NPE, states = walk.up(pack)
        step = self._budget.logit_states(self._block.size)
        for start in range(0, len(states), step):
            part_B1E = stream_NPE[start : start + step].flatten(0, 1)[:, None]
            logits_BV = self._resumer.logits(clean, part_B1E)
            logits_NPV = logits_BV.view(-1, self._block.size, logits_BV.shape[-1])
            for state, logits_PV in zip(states[start : start + step], logits_NPV, strict=True):
                for number in state.node.ends:
                    self._emit(self._conditions[number], self._block, logits_PV, state.edited)
                    self._done.add(number)
