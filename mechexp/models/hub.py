"""Models of the Hugging Face hub: from the local cache first, then with one bounded try to reach the hub."""

from typing import Any

from mechexp.errors import UserError
from mechexp.models.settings import ModelSettings
from mechexp.models.sources import StockModel, offline_models

TIMEOUT_S = 6.0


def fetch(settings: ModelSettings) -> StockModel:
    """Load a hub model; downloads it where it is not in the local cache.

    Raises:
        UserError: Neither cache nor network has it; says what was tried and what runs offline.
    """
    from mechexp.models.stock import load

    if not settings.id:
        raise UserError("model=hub needs an id", where=settings.where, todo="set model.id=OWNER/NAME")
    revision = settings.revision or None
    try:
        model, tokenizer = load(settings.id, settings, revision=revision, local_files_only=True)
    except OSError:
        _reach(settings)
        model, tokenizer = _download(settings, revision)
    return StockModel(model, tokenizer, id=settings.id, revision=settings.revision)


def _download(settings: ModelSettings, revision: str | None) -> tuple[Any, Any]:
    from mechexp.models.stock import load

    try:
        return load(settings.id, settings, revision=revision)
    except OSError as e:
        raise UserError(
            f"the hub does not give {_what(settings)}: {_first_line(e)}",
            where=settings.where,
            expected="a repository with config.json, *.safetensors (pickled weights are never read) "
            "and tokenizer files",
            todo="check model.id and model.revision",
        ) from e


def _reach(settings: ModelSettings) -> None:
    """One short request: whole retries of a dead network would take minutes."""
    from huggingface_hub import constants, utils

    http: Any = utils  # its typing hides these names

    tried = f"the hub cache {constants.HF_HUB_CACHE} (not there, or not whole as safetensors)"
    if constants.HF_HUB_OFFLINE:
        raise _offline(settings, f"{tried}; the network was not tried, HF_HUB_OFFLINE is set")
    url = f"{constants.ENDPOINT}/api/models/{settings.id}"
    try:
        answer = http.get_session().get(url, headers=http.build_hf_headers(), timeout=TIMEOUT_S)
    except Exception as e:  # whatever the HTTP client raises: names of its errors change between versions
        raise _offline(settings, f"{tried}; {constants.ENDPOINT} ({_first_line(e)})") from e
    if answer.status_code in (401, 403, 404):
        raise UserError(
            f"the hub has no {settings.id}, or not for this account (HTTP {answer.status_code})",
            where=settings.where,
            expected="a public model, or one that your hub token may read",
            todo="check model.id; for a gated model accept its terms and log in to the hub",
        )


def _offline(settings: ModelSettings, tried: str) -> UserError:
    return UserError(
        f"{_what(settings)} is not on this machine and the hub cannot be reached",
        where=f"{settings.where}; tried: {tried}",
        todo="connect once to fetch it, or use what runs offline: "
        + "".join(f"model={name}, " for name in offline_models())
        + "or any saved model as model=local model.path=FOLDER",
    )


def _what(settings: ModelSettings) -> str:
    return f"{settings.id} (revision {settings.revision or 'main'})"


def _first_line(error: BaseException) -> str:
    text = str(error).strip()
    return text.splitlines()[0] if text else type(error).__name__
