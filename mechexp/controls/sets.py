"""What every control draws from and hands over: all matched sets of a circuit, and a draw from them."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import islice
from math import comb, prod

import numpy as np

from mechexp.errors import UserError
from mechexp.models.heads import Head
from mechexp.screens.circuit import Circuit

MATCH_ON = ("layer", "layer_bos")


@dataclass(frozen=True)
class MatchedSets:
    """Random head sets that a circuit is compared with.

    Attributes:
        sets: The head sets, each sorted; no head of the circuit is in any of them.
        total: How many distinct matched sets there are.
        exact: Whether ``sets`` holds all of them.
        notes: Sentences for the reader, e.g. that a set is smaller than the circuit.
        short: Heads by which each set is smaller than the circuit, for want of spare heads.
    """

    sets: tuple[tuple[Head, ...], ...]
    total: int
    exact: bool
    notes: tuple[str, ...] = ()
    short: int = 0


@dataclass(frozen=True)
class Stratum:
    """Heads among which a set draws some.

    Attributes:
        name: What they have in common, for messages.
        layer: Their layer.
        spare: Head indices that the circuit did not pick, ascending.
        wanted: Heads that the circuit picked here.
    """

    name: str
    layer: int
    spare: tuple[int, ...]
    wanted: int

    @property
    def size(self) -> int:
        """Heads that a matched set draws here."""
        return min(self.wanted, len(self.spare))


@dataclass(frozen=True)
class Space:
    """All matched sets of a circuit, numbered 0 … total − 1 without being listed.

    A set's number is a mixed-radix number with one digit a stratum; the digit is the lexicographic rank of
    the stratum's combination. So any set can be written down from its number, however many there are.
    """

    strata: tuple[Stratum, ...]

    @property
    def total(self) -> int:
        """Number of distinct sets; 0 where no spare head exists at all."""
        if not any(s.size for s in self.strata):
            return 0
        return prod(comb(len(s.spare), s.size) for s in self.strata)

    @property
    def short(self) -> int:
        """Heads by which a set is smaller than the circuit."""
        return sum(s.wanted - s.size for s in self.strata)

    def set_at(self, number: int) -> tuple[Head, ...]:
        """The set of that number, sorted."""
        heads: list[Head] = []
        for s in self.strata:
            number, rank = divmod(number, comb(len(s.spare), s.size))
            heads += [Head(s.layer, s.spare[i]) for i in combination_at(rank, len(s.spare), s.size)]
        return tuple(sorted(heads))

    def notes(self) -> tuple[str, ...]:
        """What the reader must know about these sets."""
        notes = [
            f"{s.name} has {len(s.spare)} spare heads for the {s.wanted} that the circuit picked there: "
            f"matched sets hold {s.wanted - s.size} fewer"
            for s in self.strata
            if s.size < s.wanted
        ]
        if self.strata and not self.total:
            notes.append("no matched set exists: the circuit leaves no spare head in its layers")
        return tuple(notes)


def matched_space(
    circuit: Circuit, *, match_on: str = "layer", bos_heads: Iterable[tuple[int, int]] | None = None
) -> Space:
    """The space of head sets with as many heads in each layer as the circuit, none of them its own.

    Args:
        circuit: The circuit to match.
        match_on: ``layer`` or ``layer_bos``.
        bos_heads: BOS-class heads of the model, as (layer, head); needed by ``layer_bos``.

    Returns:
        Strata in the order of layers, so that the order of the circuit's heads does not matter (ours).

    Raises:
        UserError: Unknown ``match_on``, or ``layer_bos`` without ``bos_heads``.
    """
    if match_on not in MATCH_ON:
        raise UserError(
            f"unknown match_on {match_on!r}",
            where="control.match_on",
            expected=f"one of {', '.join(MATCH_ON)}",
        )
    if match_on == "layer_bos" and bos_heads is None:
        raise UserError(
            "match_on=layer_bos needs the BOS class of every head, which was not given",
            where="control.match_on",
            todo="use control.match_on=layer, or a protocol that classifies every head",
        )
    sinks = {Head(*h) for h in bos_heads or ()}
    picked = set(circuit.heads)
    strata: list[Stratum] = []
    for layer in sorted(circuit.layers()):
        for kind, heads in _classes(layer, circuit.geometry.n_heads, sinks, match_on).items():
            wanted = sum(h in picked for h in heads)
            if wanted:
                spare = tuple(h.head for h in heads if h not in picked)
                strata.append(Stratum(f"layer {layer}{kind}", layer, spare, wanted))
    return Space(tuple(strata))


def _classes(layer: int, n_heads: int, sinks: set[Head], match_on: str) -> Mapping[str, list[Head]]:
    """Heads of one layer by the class that must match, named as messages name it."""
    heads = [Head(layer, i) for i in range(n_heads)]
    if match_on == "layer":
        return {"": heads}
    return {
        " (BOS class)": [h for h in heads if h in sinks],
        " (not BOS class)": [h for h in heads if h not in sinks],
    }


def combination_at(rank: int, n: int, k: int) -> tuple[int, ...]:
    """The ``rank``-th of the C(n, k) ascending index tuples, in lexicographic order."""
    chosen: list[int] = []
    for i in range(n):
        if len(chosen) == k:
            break
        with_i = comb(n - i - 1, k - len(chosen) - 1)
        if rank < with_i:
            chosen.append(i)
        else:
            rank -= with_i
    return tuple(chosen)


def distinct_sets(space: Space, count: int, seed: int) -> tuple[tuple[Head, ...], ...]:
    """The first ``count`` sets of a seeded shuffle of the whole space (all of it where ``count`` is larger).

    A shuffle read from the front: no set comes twice, more sets extend fewer, and the cost depends on
    ``count`` alone, whether the space is astronomically large or one set larger than ``count`` (ours).
    """
    return tuple(space.set_at(n) for n in islice(_shuffled(space.total, seed), min(count, space.total)))


def _shuffled(total: int, seed: int) -> Iterable[int]:
    """Fisher–Yates over 0 … total − 1 that remembers only the places it has touched."""
    words = np.random.PCG64(seed)  # raw words: the one stream that numpy promises never to change
    moved: dict[int, int] = {}
    for i in range(total):
        j = i + _below(total - i, words)
        yield moved.get(j, j)
        moved[j] = moved.pop(i, i)


def _below(bound: int, words: np.random.PCG64) -> int:
    """A uniform integer in 0 … bound − 1, of any size, by rejection."""
    bits = (bound - 1).bit_length()
    while True:
        value = 0
        for _ in range(-(-bits // 64)):
            value = value << 64 | int(words.random_raw())
        value >>= -bits % 64
        if value < bound:
            return value
