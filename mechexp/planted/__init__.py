"""Planted models: stock GPT-2 models with weights written by construction, so every head's role is known.

Each public name is imported when it is first asked for; blueprints need no torch.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mechexp.planted.blueprint import Blueprint, HeadPlan, PlantedOptions, draw_blueprint
    from mechexp.planted.source import save_planted
    from mechexp.planted.write import write_model

_HOMES = {
    "blueprint": ("Blueprint", "HeadPlan", "PlantedOptions", "draw_blueprint"),
    "source": ("save_planted",),
    "write": ("write_model",),
}

__all__ = ["Blueprint", "HeadPlan", "PlantedOptions", "draw_blueprint", "save_planted", "write_model"]


def __getattr__(name: str) -> Any:
    """Import a public name from its module on first use."""
    for module, names in _HOMES.items():
        if name in names:
            return getattr(import_module(f"{__name__}.{module}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
