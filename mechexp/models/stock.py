"""Loading stock ``transformers`` models: safetensors only, explicit precision, nothing left uninitialised."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from mechexp.errors import UserError
from mechexp.models.layouts import layout_of
from mechexp.models.settings import ModelSettings
from mechexp.models.sources import StockModel


def from_folder(folder: Path, settings: ModelSettings, *, id: str) -> StockModel:
    """Load a model and its tokenizer from a folder.

    Raises:
        UserError: The family is not known, weights are missing or unreadable, or there is no tokenizer.
    """
    try:
        model, tokenizer = load(str(folder), settings, local_files_only=True)
    except OSError as e:
        raise UserError(
            f"the folder holds no whole model: {str(e).splitlines()[0]}",
            where=f"{settings.where}, {folder}",
            expected="config.json, *.safetensors (pickled weights are never read) and tokenizer files",
        ) from e
    return StockModel(model, tokenizer, id=id)


def load(source: str, settings: ModelSettings, **where: Any) -> tuple[Any, Any]:
    """Model and tokenizer of a folder or hub id; ``where`` goes to every ``from_pretrained``.

    Raises:
        UserError: As ``from_folder``.
        OSError: Files that are not there.
    """
    from safetensors import SafetensorError
    from transformers import AutoConfig, AutoModelForCausalLM

    where = {**where, "trust_remote_code": settings.trust_remote_code}
    with quiet():
        config = AutoConfig.from_pretrained(source, **where)
        layout_of(config)  # before gigabytes are read
        try:
            model, info = AutoModelForCausalLM.from_pretrained(
                source,
                dtype=settings.dtype,
                attn_implementation=settings.attn_implementation,
                use_safetensors=True,
                output_loading_info=True,
                ignore_mismatched_sizes=True,  # refused below, with their names
                **_placement(settings),
                **where,
            )
        except SafetensorError as e:
            raise UserError(
                f"the weights cannot be read: {e}",
                where=source,
                expected="whole safetensors files",
                todo="fetch or save the model again",
            ) from e
        except (
            ValueError,
            ImportError,
        ) as e:  # an attention implementation, device map or quantisation it lacks
            raise UserError(
                f"transformers cannot load the model so: {str(e).splitlines()[0]}",
                where=f"{settings.where}, attn_implementation={settings.attn_implementation}, "
                f"device_map={settings.device_map or 'none'}",
                todo="set model.attn_implementation=eager and leave model.device_map empty",
            ) from e
        _require_complete(info, source, settings)
        tokenizer = _tokenizer(source, settings, where)
    if not settings.device_map:
        model = model.to(device_of(settings))
    return model, tokenizer


def device_of(settings: ModelSettings) -> str:
    """The device that ``auto`` stands for, or the one that was asked for.

    Raises:
        UserError: A CUDA device was asked for and is not there.
    """
    import torch

    if settings.device == "auto":
        return "cuda" if torch.cuda.is_available() else "cpu"
    try:
        kind = torch.device(settings.device)
    except RuntimeError as e:
        raise UserError(
            f"model.device={settings.device}", where=settings.where, expected="auto, cpu, cuda, cuda:1 …"
        ) from e
    if kind.type == "cuda" and (kind.index or 0) >= torch.cuda.device_count():
        raise UserError(
            f"model.device={settings.device}",
            where=settings.where,
            expected=f"this machine has {torch.cuda.device_count()} CUDA devices",
            todo="set model.device=auto",
        )
    return settings.device


@contextmanager
def quiet() -> Iterator[None]:
    """Keep progress bars and advice of third-party libraries off the screen; restored afterwards."""
    from huggingface_hub import utils
    from transformers.utils import logging

    hub: Any = utils  # its typing hides these names

    level, bars, hub_off = (
        logging.get_verbosity(),
        logging.is_progress_bar_enabled(),
        hub.are_progress_bars_disabled(),
    )
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    hub.disable_progress_bars()
    try:
        yield
    finally:
        logging.set_verbosity(level)
        if bars:
            logging.enable_progress_bar()
        if not hub_off:
            hub.enable_progress_bars()


def _placement(settings: ModelSettings) -> dict[str, Any]:
    return {"device_map": settings.device_map} if settings.device_map else {}


def _require_complete(info: dict[str, Any], source: str, settings: ModelSettings) -> None:
    missing = sorted(info["missing_keys"]) + sorted(str(m[0]) for m in info["mismatched_keys"])
    if missing:
        shown = ", ".join(missing[:4]) + (" …" if len(missing) > 4 else "")
        raise UserError(
            f"{len(missing)} weights are missing or of another shape: {shown}",
            where=f"{settings.where}, {source}",
            expected="every weight that config.json asks for; none is filled with random numbers",
            todo="fetch or save the model again",
        )


def _tokenizer(source: str, settings: ModelSettings, where: dict[str, Any]) -> Any:
    from transformers import AutoTokenizer

    try:
        return AutoTokenizer.from_pretrained(source, **where)
    except (OSError, ValueError) as e:
        raise UserError(
            f"no tokenizer could be loaded: {str(e).splitlines()[0]}",
            where=f"{settings.where}, {source}",
            expected="tokenizer.json and tokenizer_config.json beside the weights",
        ) from e
