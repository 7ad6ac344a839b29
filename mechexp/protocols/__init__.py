"""Protocols: the recipes, each readable top to bottom as the method section of its paper."""

from collections.abc import Callable

from mechexp.protocols.cell import Cell
from mechexp.protocols.screen_ablate import screen_ablate
from mechexp.registry import Registry

PROTOCOLS: Registry[Callable[..., Cell]] = Registry("protocol")
PROTOCOLS.register("screen_ablate")(screen_ablate)

__all__ = ["PROTOCOLS", "Cell", "screen_ablate"]
