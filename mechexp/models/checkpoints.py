"""A model's training checkpoints: hub revisions, or folders ``checkpoints/<name>`` inside its own."""

import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from mechexp.errors import UserError
from mechexp.models.loaded import LoadedModel
from mechexp.models.settings import ModelSettings, from_config

RECIPE = "recipe.json"


@dataclass(frozen=True)
class Checkpoint:
    """One point of a training run.

    Attributes:
        revision: Hub revision or folder name.
        tokens: Training tokens seen, in billions.
        load: Loads the model of that point.
    """

    revision: str
    tokens: float
    load: Callable[[], LoadedModel]


def checkpoints_of(cfg: Any) -> tuple[Checkpoint, ...]:
    """The checkpoints of a model, by tokens.

    The table is ``model.checkpoints``; a folder without one is asked for its ``recipe.json``
    (``tokens_seen``, as written by ``mechexp.zoo``). Nothing is loaded yet.

    Args:
        cfg: A ``ModelConfig``.

    Raises:
        UserError: Fewer than two checkpoints are known, or a folder lacks one of them.
    """
    settings = from_config(cfg)
    folder = _folder(settings)
    table = json.loads(settings.checkpoints) or (_recipe(folder) if folder else {})
    if len(table) < 2:
        raise UserError(
            f"{len(table)} training checkpoints are known of this model",
            where=settings.where,
            expected="at least two in model.checkpoints, as {revision: tokens seen in billions}",
            todo="leave screen.spectral.checkpoints=false: the signal is then that of one checkpoint",
        )
    pairs = sorted(table.items(), key=lambda pair: float(pair[1]))
    return tuple(
        Checkpoint(name, float(tokens), _loader(settings, folder, name, last=name == pairs[-1][0]))
        for name, tokens in pairs
    )


def _loader(
    settings: ModelSettings, folder: Path | None, name: str, *, last: bool
) -> Callable[[], LoadedModel]:
    from mechexp.models.loading import load_settings

    if folder is None:
        return lambda: load_settings(replace(settings, revision=name))
    place = folder / "checkpoints" / name
    if not (place / "config.json").is_file():
        if not last:
            raise UserError(
                f"no checkpoint {name!r}", where=str(folder), expected=f"a model folder checkpoints/{name}"
            )
        place = folder  # the end of training is the model itself
    return lambda: load_settings(replace(settings, source="local", path=str(place)))


def _folder(settings: ModelSettings) -> Path | None:
    from mechexp.models.sources import shipped_folder

    if settings.source == "local":
        return Path(settings.path).expanduser()
    return shipped_folder(settings) if settings.source == "zoo" else None


def _recipe(folder: Path) -> dict[str, float]:
    """Tokens in billions by checkpoint, from ``recipe.json``."""
    path = folder / RECIPE
    if not path.is_file():
        return {}
    seen = json.loads(path.read_text(encoding="utf-8")).get("tokens_seen", {})
    return {str(name): float(tokens) / 1e9 for name, tokens in seen.items()}
