"""Planted models of protocol 2 as a model source, and as folders that anyone can load."""

import json
from pathlib import Path

from mechexp.models.settings import ModelSettings
from mechexp.models.sources import SOURCES, StockModel
from mechexp.planted.kid_blueprint import KidBlueprint, KidOptions, draw_kid
from mechexp.planted.kid_words import build_kid_tokenizer
from mechexp.planted.kid_write import write_kid
from mechexp.planted.source import TRUTH, placed


@SOURCES.register("planted_kid")
def from_planted_kid(settings: ModelSettings) -> StockModel:
    """The model that ``model.options`` describe, written here and now.

    Raises:
        UserError: An option that does not exist or cannot be.
    """
    options = KidOptions.read(json.loads(settings.options), settings.where)
    model = placed(write_kid(draw_kid(options), settings.attn_implementation), settings)
    return StockModel(model, build_kid_tokenizer(), id=f"planted_kid-{options.seed}")


def save_planted_kid(options: KidOptions, folder: Path) -> KidBlueprint:
    """Write a model to a folder: weights, tokenizer, and ``truth.json``; load it by its path."""
    blueprint = draw_kid(options)
    folder.mkdir(parents=True, exist_ok=True)
    write_kid(blueprint).save_pretrained(folder)
    build_kid_tokenizer().save_pretrained(folder)
    (folder / TRUTH).write_text(json.dumps(blueprint.truth(), indent=1) + "\n", encoding="utf-8")
    return blueprint
