"""``load_model``: from a name to a verified ``LoadedModel``, kept for the next job of the process."""

import json
from collections import OrderedDict
from pathlib import Path
from typing import Any

from mechexp.models.layouts import geometry_of, layout_of
from mechexp.models.loaded import LoadedModel
from mechexp.models.settings import ModelSettings, from_config, from_name
from mechexp.models.sources import StockModel, source_of

KEPT_MODELS = 2
LARGE = 2 << 30  # bytes: a model of this size is not kept beside another

_Key = tuple[ModelSettings, object]
_kept: OrderedDict[_Key, LoadedModel] = OrderedDict()


def load_model(name_or_path: str | Path, **settings: Any) -> LoadedModel:
    """Load a model.

    Args:
        name_or_path: A name of ``conf/model`` (``smollm2``, ``pythia`` …), a folder, or a hub id.
        **settings: Fields of ``ModelConfig`` to change: ``revision``, ``dtype``, ``device`` …

    Returns:
        The model, verified; the same object when the same settings were loaded just before.

    Raises:
        UserError: No such model or setting, no way to the weights, weights that are not finite, or a model
            whose heads are not where the adapter table says.
    """
    return _load(from_name(name_or_path, **settings))


def load_from_config(cfg: Any) -> LoadedModel:
    """Load the model that a ``ModelConfig`` describes; see ``load_model``."""
    return _load(from_config(cfg))


def load_settings(settings: ModelSettings) -> LoadedModel:
    """Load the model that checked settings describe; see ``load_model``."""
    return _load(settings)


def release_models() -> None:
    """Forget the models kept for later jobs, so that their memory can be freed."""
    _kept.clear()


def wrap(stock: StockModel, settings: ModelSettings) -> LoadedModel:
    """Turn a stock model into a verified ``LoadedModel``.

    Raises:
        UserError: As ``load_model``.
    """
    from mechexp.models.hashing import hash_weights
    from mechexp.models.verify import verify

    model = stock.model.eval().requires_grad_(False)
    geometry, n_kv_heads = geometry_of(model.config)
    loaded = LoadedModel(
        model=model,
        tokenizer=stock.tokenizer,
        name=settings.name,
        id=stock.id,
        revision=stock.revision,
        arch=str(model.config.model_type),
        dtype=settings.dtype,
        weights_hash=hash_weights(model, where=settings.where),
        geometry=geometry,
        n_kv_heads=n_kv_heads,
        layout=layout_of(model.config),
        checkpoints=json.loads(settings.checkpoints),
        screen_length=settings.screen_length,
    )
    verify(loaded)
    return loaded


def _load(settings: ModelSettings) -> LoadedModel:
    key = (settings, _stamp(settings))
    if key in _kept:
        _kept.move_to_end(key)
        return _kept[key]
    _make_room()
    loaded = wrap(source_of(settings)(settings), settings)
    _kept[key] = loaded
    return loaded


def _make_room() -> None:
    for key in [k for k, m in _kept.items() if m.model.get_memory_footprint() > LARGE]:
        del _kept[key]
    while len(_kept) >= KEPT_MODELS:
        _kept.popitem(last=False)


def _stamp(settings: ModelSettings) -> object:
    """What changes when the files of a local model do."""
    if settings.source != "local" or not settings.path:
        return None
    files = sorted(p for p in Path(settings.path).expanduser().glob("*") if p.is_file())
    return tuple((p.name, p.stat().st_size, p.stat().st_mtime_ns) for p in files)
