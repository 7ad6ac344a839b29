"""The MLflow store: opened once a job, under a lock where it is a local file, with bounded waiting."""

import logging
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit, urlunsplit

from mechexp.errors import UserError
from mechexp.tracking.config import TrackingConfig
from mechexp.tracking.files import told
from mechexp.tracking.masking import mask

if TYPE_CHECKING:
    from mlflow import MlflowClient

MODES = ("local", "server", "off")
LOCK_SECONDS = 180.0
CONNECT_SECONDS = 5.0
# MLflow's own defaults (7 retries, 120 s each) hold a job for minutes a call when a server is gone.
_PATIENCE = {
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "2",
    "MLFLOW_HTTP_REQUEST_BACKOFF_FACTOR": "1",
    "MLFLOW_HTTP_REQUEST_TIMEOUT": "30",
}
# Without a kind MLflow's pages offer traces and prompts instead of runs, metrics and artifacts.
EXPERIMENT_TAGS = {
    "mlflow.experimentKind": "custom_model_development",
    "mlflow.note.content": "Sweep → cell (model × task) → screen. Search for the screens with "
    "``tags.`mechexp.level` = 'screen'`` and show the columns `taxonomy`, `flags`, `delta_logit_diff`, "
    "`delta_top1`, `p_harm_logit_diff`, `specificity_logit_diff`. A run's description tells its verdict; a "
    "cell's artifacts hold `report.html`, with every number explained.",
}
SYNC = "the result is safe on disk; when the store is back: python -m mechexp.sync"


class TrackingError(UserError):
    """The store could not be reached or refused something; results on disk are untouched."""


@dataclass(frozen=True)
class Store:
    """An open MLflow store.

    Attributes:
        client: The client; the fluent API's global state is never used.
        experiment_id: Experiment that runs go to.
        uri: Where it is, without credentials; names the store in marker files.
    """

    client: "MlflowClient"
    experiment_id: str
    uri: str


def local_uri(root: Path | str) -> str:
    """Absolute sqlite address of the local store under ``root``."""
    return f"sqlite:///{(Path(root).expanduser().resolve() / 'mlflow.db').as_posix()}"


def store_uri(config: TrackingConfig) -> str:
    """Address of the configured store, without credentials; "" where tracking is off.

    Raises:
        UserError: Unknown mode, or a server address that is not one.
    """
    if config.mode not in MODES:
        raise UserError(f"unknown tracking mode {config.mode!r}", expected=" | ".join(MODES))
    if config.mode == "off":
        return ""
    if config.mode == "local":
        return local_uri(config.root)
    return _split_credentials(_server_uri(config))[0]


def _server_uri(config: TrackingConfig) -> str:
    uri = config.uri or os.environ.get("MLFLOW_TRACKING_URI", "")
    if urlsplit(uri).scheme not in ("http", "https") or not urlsplit(uri).hostname:
        raise UserError(
            f"tracking.uri is {mask(uri)!r}",
            where="tracking=server",
            expected="http://host:port or https://host",
            todo="give tracking.uri=…, set MLFLOW_TRACKING_URI, or use tracking=local",
        )
    return uri.rstrip("/")


def _split_credentials(uri: str) -> tuple[str, dict[str, str]]:
    """Take user and password out of an address, so that no message of any library can repeat them."""
    parts = urlsplit(uri)
    env = {}
    if parts.username:
        env["MLFLOW_TRACKING_USERNAME"] = unquote(parts.username)
    if parts.password:
        env["MLFLOW_TRACKING_PASSWORD"] = unquote(parts.password)
    return urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2])), env


@contextmanager
def open_store(config: TrackingConfig, *, create: bool = True) -> Iterator[Store]:
    """Open the configured store and find or make its experiment.

    Works from several processes at once. While open, waits for a server are bounded (seconds, not minutes),
    unless the user's own ``MLFLOW_HTTP_REQUEST_*`` variables say otherwise. Whatever goes wrong inside the
    block with MLflow comes out as ``TrackingError``, credentials masked.

    Args:
        config: Which store.
        create: Make what is not there yet; if not, a missing store or experiment is an error.

    Raises:
        TrackingError: Not reachable, not writable, refused.
        UserError: The configuration makes no sense.
    """
    uri = store_uri(config)
    if not uri:
        raise UserError("tracking is off", todo="choose tracking=local or tracking=server")
    credentials = _split_credentials(_server_uri(config))[1] if config.mode == "server" else {}
    defaults = {k: v for k, v in _PATIENCE.items() if k not in os.environ}
    with _environment({**defaults, **credentials}):
        if config.mode == "server":
            _probe(uri)
        _quiet()
        with _told_by_mlflow(uri):
            yield _open(config, uri, create)


def _open(config: TrackingConfig, uri: str, create: bool) -> Store:
    from mlflow import MlflowClient

    if config.mode == "server":
        client = MlflowClient(tracking_uri=uri)
        return Store(client, _experiment(client, config.experiment, None, create), uri)
    from filelock import FileLock, Timeout

    root = Path(config.root).expanduser().resolve()
    if not create and not (root / "mlflow.db").is_file():
        raise UserError(
            "there is no tracking store",
            where=str(root / "mlflow.db"),
            todo="run a job first, or say where the store is (--root or --uri)",
        )
    with told(root, "use the local tracking store"):
        root.mkdir(parents=True, exist_ok=True)
        try:
            # Several processes that create one sqlite store at the same time crash each other.
            with FileLock(root / ".mlflow.lock", timeout=LOCK_SECONDS):
                client = MlflowClient(tracking_uri=uri)
                experiment = _experiment(client, config.experiment, (root / "artifacts").as_uri(), create)
        except Timeout as error:
            raise TrackingError(
                f"another process has held the lock of the local tracking store for {LOCK_SECONDS:.0f} s",
                where=str(root / ".mlflow.lock"),
                todo=SYNC,
            ) from error
    return Store(client, experiment, uri)


def _experiment(client: "MlflowClient", name: str, artifacts: str | None, create: bool) -> str:
    from mlflow.exceptions import MlflowException

    found = client.get_experiment_by_name(name)
    if found is None and not create:
        names = ", ".join(e.name for e in client.search_experiments(max_results=20))
        raise UserError(f"there is no experiment {name!r}", expected=f"one of {names}")
    if found is None:
        try:
            made: str = client.create_experiment(name, artifact_location=artifacts, tags=EXPERIMENT_TAGS)
            return made
        except MlflowException:
            found = client.get_experiment_by_name(name)  # another job of the sweep was faster
            if found is None:
                raise
    if found.lifecycle_stage != "active":
        raise TrackingError(
            f"the MLflow experiment {name!r} is deleted",
            todo="restore it (mlflow experiments restore) or choose another tracking.experiment",
        )
    return str(found.experiment_id)


def _probe(uri: str) -> None:
    """Fail within seconds where nothing listens; what listens is then MLflow's to judge."""
    parts = urlsplit(uri)
    port = parts.port or (443 if parts.scheme == "https" else 80)
    try:
        socket.create_connection((str(parts.hostname), port), timeout=CONNECT_SECONDS).close()
    except OSError as error:
        raise TrackingError(
            f"the tracking server does not answer ({error})", where=mask(uri), todo=SYNC
        ) from None


@contextmanager
def _told_by_mlflow(uri: str) -> Iterator[None]:
    """Turn what MLflow and the libraries below it raise into one message without credentials."""
    import requests
    import sqlalchemy.exc
    from mlflow.exceptions import MlflowException

    try:
        yield
    except (MlflowException, requests.RequestException, sqlalchemy.exc.SQLAlchemyError) as error:
        text = mask(str(error)).strip().splitlines() or [type(error).__name__]
        todo = SYNC
        if "out-of-date database schema" in str(error):
            todo = f"back the store up, then: mlflow db upgrade {uri}"
        raise TrackingError(
            f"the tracking store failed: {text[0][:500]}", where=mask(uri), todo=todo
        ) from None


@contextmanager
def _environment(values: dict[str, str]) -> Iterator[None]:
    before = {k: os.environ.get(k) for k in values}
    os.environ.update(values)
    try:
        yield
    finally:
        for key, value in before.items():
            if value is None:
                os.environ.pop(key, None)
            else:
                os.environ[key] = value


def _quiet() -> None:
    """No telemetry, and nothing of MLflow's own between the rows of our output."""
    os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")
    os.environ.setdefault("MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT", "true")
    os.environ.setdefault("MLFLOW_ENABLE_ARTIFACTS_PROGRESS_BAR", "false")
    for name in ("alembic", "mlflow.store.db.utils", "urllib3.connectionpool"):
        logging.getLogger(name).setLevel(logging.ERROR)


def search_all(store: Store, filter_string: str, page: int = 1000, **kwargs: Any) -> Iterator[Any]:
    """All runs that match, fetched page by page.

    Args:
        store: Open store.
        filter_string: MLflow search filter.
        page: Runs a request.
        kwargs: Passed on to ``MlflowClient.search_runs``.
    """
    token = None
    while True:
        runs = store.client.search_runs(
            [store.experiment_id], filter_string, max_results=page, page_token=token, **kwargs
        )
        yield from runs
        token = runs.token
        if not token:
            return
