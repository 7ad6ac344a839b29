"""Options of the ``control`` config group: which random head sets a circuit is compared with."""

from dataclasses import dataclass


@dataclass
class ControlConfig:
    """How the matched head sets are drawn.

    Attributes:
        name: ``matched_random``, ``exact``, ``paper`` or ``none``.
        max_sets: Most sets a circuit is compared with; None where the control itself fixes the number
            (``exact``: all there are; ``none``: no set).
        exact_limit: Most sets that ``exact``, or ``adaptive`` growth, may use.
        match_on: ``layer``: as many heads of each layer as the circuit has there; ``layer_bos``: also as many
            BOS-class heads of each layer, so that attention sinks are compared with sinks.
        adaptive: Add sets where there are too few of them to decide the label, until it is decided or
            ``exact_limit`` is reached.
    """

    name: str = "matched_random"
    max_sets: int | None = 99
    exact_limit: int = 20_000
    match_on: str = "layer"
    adaptive: bool = False
