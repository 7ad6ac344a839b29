"""The plan of a run: conditions become a trie of shared computations, cut into packs that fit the memory.

A condition is a path of steps, ordered by depth: at (layer, 0) the residual stream entering the layer is
changed, at (layer, 1) the layer's z. Conditions that agree up to a step are one computation up to there, so
they share a path in the trie; below the first step of a path everything equals the clean run. A pack is a
forest of the trie whose states go through the layers together: each state alive at any depth stands for at
least one condition of the pack, so a pack of at most N conditions never holds more than N states.

Pure Python: no tensor, no model.
"""

from collections import Counter
from collections.abc import Container, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import NamedTuple, TypeVar, Union

STREAM, Z = 0, 1


class Step(NamedTuple):
    """What is changed at one site; steps compare by depth first.

    Attributes:
        layer: Decoder layer.
        stage: ``STREAM`` (before the layer) or ``Z`` (inside its attention).
        edits: Keys of the edits made there, sorted.
    """

    layer: int
    stage: int
    edits: tuple[str, ...]

    @property
    def depth(self) -> tuple[int, int]:
        """Where the step lies, without what it does."""
        return self.layer, self.stage


Path = tuple[Step, ...]
Part = TypeVar("Part", bound=Union["Node", int])


@dataclass(frozen=True)
class Node:
    """A state of the model: clean up to ``step``, then changed by it alone until a child's step.

    Attributes:
        step: The last change on the way here.
        ends: Conditions (numbers) for which this was the last change.
        children: States that branch off further up, by depth.
    """

    step: Step
    ends: tuple[int, ...] = ()
    children: tuple["Node", ...] = ()

    @property
    def size(self) -> int:
        """Conditions at or below this node."""
        return len(self.ends) + sum(child.size for child in self.children)

    def lives_after(self, layer: int, stage: int) -> bool:
        """Whether this state is still needed, unchanged, above a depth."""
        return bool(self.ends) or any(child.step.depth > (layer, stage) for child in self.children)

    def born_at(self, layer: int, stage: int) -> list["Node"]:
        """Children whose change happens at a depth."""
        return [child for child in self.children if child.step.depth == (layer, stage)]

    def conditions(self) -> Iterator[int]:
        """All conditions at or below this node."""
        yield from self.ends
        for child in self.children:
            yield from child.conditions()

    def last_depth(self) -> tuple[int, int]:
        """The deepest change at or below this node."""
        return max([self.step.depth, *(child.last_depth() for child in self.children)])


def trie(paths: dict[int, Path]) -> tuple[Node, ...]:
    """Join paths that begin alike.

    Args:
        paths: Steps of each condition, by its number; none empty, each ordered by depth.

    Returns:
        The first states after the clean run, by depth.
    """
    for number, path in paths.items():
        depths = [step.depth for step in path]
        if not depths or depths != sorted(set(depths)):
            raise ValueError(f"condition {number}: steps are not in order: {path}")
    return _join(sorted((path, number) for number, path in paths.items()), 0)


def _join(paths: list[tuple[Path, int]], at: int) -> tuple[Node, ...]:
    nodes = []
    for step, group in groupby(paths, key=lambda entry: entry[0][at]):
        members = list(group)
        ends = tuple(number for path, number in members if len(path) == at + 1)
        longer = [(path, number) for path, number in members if len(path) > at + 1]
        nodes.append(Node(step, ends, _join(longer, at + 1)))
    return tuple(nodes)


def packs(roots: Iterable[Node], capacity: int) -> list[tuple[Node, ...]]:
    """Group states into packs of at most ``capacity`` conditions, shallow ones first.

    Where a subtree holds more conditions than a pack may, it is cut, and the shared part is computed once a
    pack instead of once. Since packs are ordered by their first change, the clean activations of a layer can
    be dropped as soon as the packs that start there are done.
    """
    if capacity < 1:
        raise ValueError(f"capacity {capacity}")
    pieces = [piece for root in roots for piece in _cut(root, capacity)]
    return [tuple(group) for group in _fill(pieces, capacity)]


def _cut(node: Node, capacity: int) -> list[Node]:
    if node.size <= capacity:
        return [node]
    parts: list[Node | int] = [*node.ends]
    for child in node.children:
        parts.extend(_cut(child, capacity))
    pieces = []
    for group in _fill(parts, capacity):
        ends = tuple(part for part in group if isinstance(part, int))
        pieces.append(Node(node.step, ends, tuple(part for part in group if isinstance(part, Node))))
    return pieces


def _fill(parts: Sequence[Part], capacity: int) -> list[list[Part]]:
    """Consecutive groups, each as full as the capacity allows."""
    groups: list[list[Part]] = []
    room = 0
    for part in parts:
        size = part.size if isinstance(part, Node) else 1
        if not groups or size > room:
            groups.append([])
            room = capacity
        groups[-1].append(part)
        room -= size
    return groups


def prune(node: Node, done: Container[int]) -> Node | None:
    """What is left of a subtree when some conditions are done; None where nothing is."""
    ends = tuple(number for number in node.ends if number not in done)
    children = tuple(left for child in node.children if (left := prune(child, done)) is not None)
    return Node(node.step, ends, children) if ends or children else None


def work(nodes: Iterable[Node], n_layers: int) -> Counter[tuple[int, str]]:
    """What computing ``nodes`` and all below them takes, each shared part once.

    Returns:
        How often each ``(layer, part)`` is computed for one state. Parts: ``whole`` layer; ``resumed``: the
        layer from its z on; ``attention``: up to z, of a state that only hands its z on; at ``n_layers``:
        ``logits``.
    """
    total: Counter[tuple[int, str]] = Counter()
    for node in nodes:
        layer, stage = node.step.depth
        stop, stop_stage = (n_layers, STREAM) if node.ends else max(c.step.depth for c in node.children)
        if stage == Z:
            total[layer, "resumed"] += 1
        total.update((at, "whole") for at in range(layer + stage, stop))
        if stop_stage == Z:
            total[stop, "attention"] += 1
        if node.ends:
            total[n_layers, "logits"] += 1
        total.update(work(node.children, n_layers))
    return total
