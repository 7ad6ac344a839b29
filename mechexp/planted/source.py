"""Planted models as a model source, and as folders that anyone can load."""

import json
from pathlib import Path
from typing import Any

from mechexp.models.settings import ModelSettings
from mechexp.models.sources import SOURCES, StockModel
from mechexp.models.stock import device_of
from mechexp.planted.blueprint import Blueprint, PlantedOptions, draw_blueprint
from mechexp.planted.words import build_tokenizer
from mechexp.planted.write import write_model

TRUTH = "truth.json"


@SOURCES.register("planted")
def from_planted(settings: ModelSettings) -> StockModel:
    """The model that ``model.options`` describe, written here and now.

    Raises:
        UserError: An option that does not exist or cannot be.
    """
    options = PlantedOptions.read(json.loads(settings.options), settings.where)
    model = placed(write_model(draw_blueprint(options), settings.attn_implementation), settings)
    return StockModel(model, build_tokenizer(), id=f"planted-{options.seed}")


def save_planted(options: PlantedOptions, folder: Path) -> Blueprint:
    """Write a planted model to a folder: weights, tokenizer, and ``truth.json``; load it by its path."""
    blueprint = draw_blueprint(options)
    folder.mkdir(parents=True, exist_ok=True)
    write_model(blueprint).save_pretrained(folder)
    build_tokenizer().save_pretrained(folder)
    (folder / TRUTH).write_text(json.dumps(blueprint.truth(), indent=1) + "\n", encoding="utf-8")
    return blueprint


def placed(model: Any, settings: ModelSettings) -> Any:
    """The model in the precision and on the device that the settings ask for."""
    import torch

    return model.to(dtype=getattr(torch, settings.dtype), device=device_of(settings))
