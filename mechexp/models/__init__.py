"""Models and where their heads are. Nothing here knows a task."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mechexp.models.loaded import LoadedModel as LoadedModel
    from mechexp.models.loading import load_from_config as load_from_config
    from mechexp.models.loading import load_model as load_model
    from mechexp.models.loading import release_models as release_models

_HOME = {
    "LoadedModel": "mechexp.models.loaded",
    "load_from_config": "mechexp.models.loading",
    "load_model": "mechexp.models.loading",
    "release_models": "mechexp.models.loading",
}

__all__ = ["LoadedModel", "load_from_config", "load_model", "release_models"]


def __getattr__(name: str) -> Any:
    # torch takes seconds to import: only when a model is asked for, not with `mechexp.models.heads`
    if name in _HOME:
        from importlib import import_module

        return getattr(import_module(_HOME[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
