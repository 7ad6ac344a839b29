"""Planted models: stock GPT-2 models with weights written by construction, so every head's role is known.

Each public name is imported when it is first asked for; blueprints need no torch.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mechexp.planted.blueprint import Blueprint, HeadPlan, PlantedOptions, draw_blueprint
    from mechexp.planted.kid_blueprint import KidBlueprint, KidHead, KidOptions, draw_kid
    from mechexp.planted.kid_source import save_planted_kid
    from mechexp.planted.kid_write import write_kid
    from mechexp.planted.source import save_planted
    from mechexp.planted.write import write_model

_HOMES = {
    "blueprint": ("Blueprint", "HeadPlan", "PlantedOptions", "draw_blueprint"),
    "kid_blueprint": ("KidBlueprint", "KidHead", "KidOptions", "draw_kid"),
    "kid_source": ("save_planted_kid",),
    "kid_write": ("write_kid",),
    "source": ("save_planted",),
    "write": ("write_model",),
}

__all__ = [
    "Blueprint",
    "HeadPlan",
    "KidBlueprint",
    "KidHead",
    "KidOptions",
    "PlantedOptions",
    "draw_blueprint",
    "draw_kid",
    "save_planted",
    "save_planted_kid",
    "write_kid",
    "write_model",
]


def __getattr__(name: str) -> Any:
    """Import a public name from its module on first use."""
    for module, names in _HOMES.items():
        if name in names:
            return getattr(import_module(f"{__name__}.{module}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
