"""Takes a pack of states through the layers together: born at their first change, branching, ending.

Legend: N state, P prompt, Q last positions that are computed, E residual width, W z of all heads.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch

from mechexp.engine.blocks import Block
from mechexp.engine.edit import Edit
from mechexp.engine.plan import STREAM, Node, Step, Z
from mechexp.engine.resume import Clean, Resumer
from mechexp.engine.values import apply


@dataclass(frozen=True)
class State:
    """A node of the plan under way, and how many elements were changed on its path so far."""

    node: Node
    edited: int = 0


class Walk:
    """One pack on its way up.

    Args:
        resumer: Runs parts of the model.
        clean: The clean pass over the block.
        block: The prompts.
        edits: Edits by key.
        values: Their values for this block, by key.
        rows: How many last positions Q are computed.
    """

    def __init__(
        self,
        resumer: Resumer,
        clean: Clean,
        block: Block,
        edits: Mapping[str, Edit],
        values: Mapping[str, torch.Tensor],
        rows: int,
    ) -> None:
        self._resumer, self._clean, self._block = resumer, clean, block
        self._edits, self._values, self._rows = edits, values, rows
        self._n_layers = resumer.loaded.n_layers
        self._parallel = resumer.loaded.is_parallel

    def up(self, pack: Sequence[Node]) -> tuple[torch.Tensor, list[State]]:
        """Take the states of a pack to the top.

        Returns:
            The residual stream at the end position after the last layer, (N, P, E), and the N states that
            arrived; each of them ends at least one condition.
        """
        alive: list[State] = []
        stream = torch.empty(0)
        for at in range(min(node.step.layer for node in pack), self._n_layers):
            roots = [node for node in pack if node.step.layer == at]
            stream, alive = self._change_stream(at, stream, alive, roots)
            stream, alive = self._through(at, stream, alive, roots)
        roots = [node for node in pack if node.step.layer == self._n_layers]
        if not alive and not roots:
            raise RuntimeError(f"no state of the pack {pack} reached the top")
        stream, alive = self._change_stream(self._n_layers, stream, alive, roots)
        return stream[:, :, -1], alive

    def _change_stream(
        self, at: int, stream_NPQE: torch.Tensor, alive: list[State], roots: list[Node]
    ) -> tuple[torch.Tensor, list[State]]:
        """Changes of the residual stream entering layer ``at``."""
        births = [(i, child) for i, s in enumerate(alive) for child in s.node.born_at(at, STREAM)]
        fresh = [node for node in roots if node.step.stage == STREAM]
        if not births and not fresh:
            return stream_NPQE, alive
        keep = [i for i, s in enumerate(alive) if s.node.lives_after(at, STREAM)]
        rows = self._rows if at < self._n_layers else 1
        parts = [stream_NPQE[keep]] if keep else []
        states = [alive[i] for i in keep]
        for parent, node in births:
            changed = stream_NPQE[parent].clone()
            states.append(State(node, alive[parent].edited + self._apply(changed, node.step)))
            parts.append(changed[None])
        for node in fresh:
            changed = self._clean.stream[at][:, -rows:].clone()
            states.append(State(node, self._apply(changed, node.step)))
            parts.append(changed[None])
        return torch.cat(parts), states

    def _through(
        self, at: int, stream_NPQE: torch.Tensor, alive: list[State], roots: list[Node]
    ) -> tuple[torch.Tensor, list[State]]:
        """Layer ``at``: whole for those that nothing changes inside it, from z on for the others."""
        parts: list[torch.Tensor] = []
        states: list[State] = []
        if alive and any(s.node.born_at(at, Z) for s in alive):
            parts, states = self._branch(at, stream_NPQE, alive)
        elif alive:
            run = self._resumer.ends if self._last(at) else self._resumer.layer
            out = run(self._clean, at, stream_NPQE.flatten(0, 1), self._block.length)
            parts, states = [self._stack(out)], alive
        fresh = [node for node in roots if node.step.stage == Z]
        if fresh:
            out, born = self._enter(at, fresh)
            parts, states = [*parts, out], [*states, *born]
        return (torch.cat(parts) if parts else stream_NPQE), states

    def _branch(
        self, at: int, stream_NPQE: torch.Tensor, alive: list[State]
    ) -> tuple[list[torch.Tensor], list[State]]:
        """States that are under way split at this layer's z; the attention is computed once a parent."""
        z_NPQW = self._stack(self._resumer.z(self._clean, at, stream_NPQE.flatten(0, 1), self._block.length))
        parents = [i for i, s in enumerate(alive) if s.node.lives_after(at, Z)]
        states = [alive[i] for i in parents]
        births = [(i, child) for i, s in enumerate(alive) for child in s.node.born_at(at, Z)]
        chosen = parents + [i for i, _ in births]
        z_new = z_NPQW[chosen]
        for place, (parent, node) in enumerate(births, start=len(parents)):
            states.append(State(node, alive[parent].edited + self._apply(z_new[place], node.step)))
        return [self._from_z(at, stream_NPQE[chosen], z_new)], states

    def _enter(self, at: int, fresh: list[Node]) -> tuple[torch.Tensor, list[State]]:
        """States that leave the clean run at this layer's z."""
        z_PQW = self._clean.z[at][:, -self._rows :]
        z_new = z_PQW.expand(len(fresh), *z_PQW.shape).clone()
        states = [State(node, self._apply(z_new[i], node.step)) for i, node in enumerate(fresh)]
        if self._parallel:
            # attention and MLP read the same clean stream, so only the attention's linear output differs
            rows = 1 if self._last(at) else self._rows
            change = (z_new - z_PQW)[:, :, -rows:].flatten(0, 1)
            after = self._clean.stream[at + 1][:, -rows:]
            return after + self._stack(self._resumer.project(at, change)), states
        stream_PQE = self._clean.stream[at][:, -self._rows :]
        return self._from_z(at, stream_PQE.expand(len(fresh), *stream_PQE.shape), z_new), states

    def _from_z(self, at: int, stream_NPQE: torch.Tensor, z_NPQW: torch.Tensor) -> torch.Tensor:
        if self._last(at):  # nothing above reads other positions
            stream_NPQE, z_NPQW = stream_NPQE[:, :, -1:], z_NPQW[:, :, -1:]
        out = self._resumer.from_z(
            self._clean, at, stream_NPQE.flatten(0, 1), z_NPQW.flatten(0, 1), self._block.length
        )
        return self._stack(out)

    def _apply(self, activation_PQX: torch.Tensor, step: Step) -> int:
        edits = [self._edits[key] for key in step.edits]
        return apply(activation_PQX, edits, self._values, self._block, self._resumer.loaded.head_dim)

    def _last(self, at: int) -> bool:
        return at == self._n_layers - 1

    def _stack(self, flat: torch.Tensor) -> torch.Tensor:
        return flat.view(-1, self._block.size, *flat.shape[1:])
