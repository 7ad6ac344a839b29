"""The table of controls, and the request that each of them answers."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from mechexp.controls.sets import MatchedSets, Space, matched_space
from mechexp.registry import Registry
from mechexp.screens.circuit import Circuit


@dataclass(frozen=True)
class DrawRequest:
    """Everything a control may use to draw sets.

    Attributes:
        circuit: The circuit to match.
        max_sets: Number of sets asked for; None leaves it to the control.
        exact_limit: Most sets that may be enumerated.
        match_on: ``layer`` or ``layer_bos``.
        seed: Seed of the draw.
        bos_heads: BOS-class heads of the model, where known.
    """

    circuit: Circuit
    max_sets: int | None
    exact_limit: int
    match_on: str
    seed: int
    bos_heads: Iterable[tuple[int, int]] | None

    def space(self) -> Space:
        """The matched sets of the circuit."""
        return matched_space(self.circuit, match_on=self.match_on, bos_heads=self.bos_heads)


CONTROLS: Registry[Callable[[DrawRequest], MatchedSets]] = Registry("control")
