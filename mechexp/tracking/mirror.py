"""Mirror a finished cell into MLflow: a cell run and a run a screen, exactly once, however often tried."""

import hashlib
import json
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from mechexp.errors import UserError
from mechexp.tracking import describe
from mechexp.tracking.config import TrackingConfig
from mechexp.tracking.describe import LEVEL, PARENT, RESULT_ID, SCREEN, STATE, SWEEP_ID, RunText
from mechexp.tracking.files import plain, told, write_json
from mechexp.tracking.masking import mask
from mechexp.tracking.results import MARKER, RESULT, CellFiles, read_cell
from mechexp.tracking.store import Store, open_store, search_all

MARKER_SCHEMA = "mechexp.mlflow/1"
BATCH_PARAMS, BATCH_METRICS = 100, 1000
COMPLETE, WRITING = "complete", "writing"
ARTIFACTS = (
    "result.json",
    "heads.parquet",
    "conditions.parquet",
    "prompts.jsonl",
    "patterns.json",
    "config.yaml",
    "report.html",
)


@dataclass(frozen=True)
class Mirrored:
    """Where a cell is in MLflow.

    Attributes:
        cell_run_id: The cell's run.
        screen_run_ids: Its screens' runs, by screen.
        new: False where everything had been delivered before.
    """

    cell_run_id: str
    screen_run_ids: Mapping[str, str]
    new: bool


def mirror_cell(folder: Path, config: TrackingConfig, sweep_run_id: str | None = None) -> Mirrored | None:
    """Send one cell's result files to the configured store; what is there already is not sent twice.

    Every run carries a digest of ``result.json``; it is searched for before a run is created, so that a
    crash at any point between two calls leaves nothing double and nothing behind. Runs are closed whatever
    happens.

    Args:
        folder: A folder with a finished cell (see ``read_cell``).
        config: Which store.
        sweep_run_id: Run of the sweep that the cell belongs to; found by the result's ``sweep_id`` where
            None.

    Returns:
        The run ids; None where tracking is off.

    Raises:
        TrackingError: The store cannot be reached or refuses; the files on disk are untouched.
        UserError: The folder does not hold a readable cell.
    """
    if config.mode == "off":
        return None
    digest = result_id(folder)  # before anything is opened: is there a result at all?
    with open_store(config) as store:
        return mirror_folder(folder, store, digest, sweep_run_id)


def mirror_folder(folder: Path, store: Store, digest: str, sweep_run_id: str | None = None) -> Mirrored:
    """``mirror_cell`` with a store already open and the ``result_id`` known."""
    with _alone(folder):
        done = _delivered(folder, store, digest)
        return done or _send(read_cell(folder), store, digest, sweep_run_id)


def _send(files: CellFiles, store: Store, digest: str, sweep_run_id: str | None) -> Mirrored:
    """Create or complete the runs of a cell."""
    known = {
        (r.data.tags.get(LEVEL), r.data.tags.get(SCREEN, "")): str(r.info.run_id)
        for r in search_all(store, f"tags.`{RESULT_ID}` = '{digest}'")
    }
    times = _times(files)
    parent = sweep_run_id or find_sweep(store, str(files.result.get("sweep_id") or ""))
    text = describe.cell_text(files.result, files.folder.resolve(), digest)
    screen_ids: dict[str, str] = {}
    with _run(store, text, known.get(("cell", "")), parent, times) as cell:
        _dataset(store, cell, files)
        _cell_artifacts(store, cell, files.folder)
        for name in files.screens:
            text = describe.screen_text(files.result, name, digest)
            with _run(store, text, known.get(("screen", name)), cell, times) as run_id:
                _screen_artifacts(store, run_id, files, name)
            screen_ids[name] = run_id
    done = Mirrored(cell, screen_ids, new=True)
    _mark(files.folder, store, digest, done)
    return done


def result_id(folder: Path) -> str:
    """Digest of the very ``result.json`` in ``folder``: the same result keeps it wherever the folder goes."""
    with told(folder / RESULT, "read the result"):
        return hashlib.sha256((folder / RESULT).read_bytes()).hexdigest()[:32]


def find_sweep(store: Store, sweep_id: str) -> str | None:
    """Run id of a sweep's parent run, None where there is none."""
    if not sweep_id:
        return None
    runs = search_all(store, f"tags.`{SWEEP_ID}` = '{quote(sweep_id)}' and tags.`{LEVEL}` = 'sweep'")
    return next((str(r.info.run_id) for r in runs), None)


def quote(text: str) -> str:
    """Text that can stand between the quotes of a search filter."""
    if "'" in text or "\\" in text:
        raise UserError(f"{text!r} cannot be searched for", expected="an id without quotes")
    return text


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """Let one process at a time mirror a folder; a folder that cannot hold a lock is read-only anyway."""
    from filelock import FileLock

    lock = FileLock(folder / ".mlflow.lock", timeout=600)
    try:
        lock.acquire()
    except OSError:
        yield
        return
    try:
        yield
    finally:
        lock.release()


def _delivered(folder: Path, store: Store, digest: str) -> Mirrored | None:
    """What the marker file promises, if it is about this store and result and the run is there, closed."""
    from mlflow.exceptions import MlflowException

    try:
        row = json.loads((folder / MARKER).read_text(encoding="utf-8"))
        same = (row["uri"], row["result_id"], row["state"]) == (store.uri, digest, COMPLETE)
        done = Mirrored(str(row["cell_run_id"]), dict(row["screen_run_ids"]), new=False)
    except (OSError, ValueError, KeyError, TypeError):
        return None
    if not same:
        return None
    try:
        run = store.client.get_run(done.cell_run_id)
    except MlflowException as error:
        if error.error_code == "RESOURCE_DOES_NOT_EXIST":
            return None
        raise
    alive = run.info.lifecycle_stage == "active" and run.info.experiment_id == store.experiment_id
    return done if alive and run.info.status == "FINISHED" and run.data.tags.get(STATE) == COMPLETE else None


def _mark(folder: Path, store: Store, digest: str, done: Mirrored) -> None:
    row = {
        "schema": MARKER_SCHEMA, "state": COMPLETE, "uri": store.uri, "experiment_id": store.experiment_id,
        "result_id": digest, "cell_run_id": done.cell_run_id, "screen_run_ids": done.screen_run_ids,
    }  # fmt: skip
    with suppress(UserError):  # a convenience: without it the store itself is asked
        write_json(folder / MARKER, row)


def _times(files: CellFiles) -> tuple[int, int]:
    """Start and end of the job in ms since 1970; fixed by the result, so a second try changes nothing."""
    timing = files.result["timing"]
    end = float(timing.get("finished_at") or (files.folder / RESULT).stat().st_mtime)
    spent = sum(float(v) for k, v in timing.items() if k.endswith("_s") and isinstance(v, int | float))
    return int((end - spent) * 1000), int(end * 1000)


@contextmanager
def _run(
    store: Store, text: RunText, known: str | None, parent: str | None, times: tuple[int, int]
) -> Iterator[str]:
    """A run that is open inside the block and closed after it, FAILED if the block raised."""
    tags = {**text.tags, STATE: WRITING, **({PARENT: parent} if parent else {})}
    run_id = known
    if run_id is None:
        tags |= describe.user_tag()
        run = store.client.create_run(store.experiment_id, times[0], tags, run_name=text.name)
        run_id = str(run.info.run_id)
    try:
        _log(store, run_id, text, tags, times[1])
        yield run_id
        store.client.set_tag(run_id, STATE, COMPLETE)
        store.client.set_terminated(run_id, "FINISHED", times[1])
    except BaseException:
        with suppress(Exception):  # the first error is the one to tell
            store.client.set_terminated(run_id, "FAILED")
        raise


def _log(store: Store, run_id: str, text: RunText, tags: Mapping[str, str], when: int) -> None:
    from mlflow.entities import Metric, Param, RunTag

    # Same time stamp and step on every try: a metric sent twice is stored once.
    metrics = [Metric(k, v, when, 0) for k, v in text.metrics.items()]
    params = [Param(k, v) for k, v in text.params.items()]
    rest = [RunTag(k, v) for k, v in tags.items()]
    for start in range(0, len(metrics), BATCH_METRICS - 2 * BATCH_PARAMS):
        stop = start + BATCH_METRICS - 2 * BATCH_PARAMS
        store.client.log_batch(run_id, metrics=metrics[start:stop])
    for start in range(0, max(len(params), len(rest)), BATCH_PARAMS):
        stop = start + BATCH_PARAMS
        store.client.log_batch(run_id, params=params[start:stop], tags=rest[start:stop])


def _dataset(store: Store, run_id: str, files: CellFiles) -> None:
    from mlflow.entities import Dataset, DatasetInput, InputTag

    task = files.result["task"]
    halves = Counter(f"half_{p.get('half', '')}" for p in files.prompts)
    dataset = Dataset(
        name=str(task["name"]), digest=str(task["prompts_hash"])[:36], source_type="mechexp",
        source=json.dumps({"task": task["name"], "artifact": "prompts.jsonl"}),
        profile=json.dumps({"num_rows": len(files.prompts), **halves}),
    )  # fmt: skip
    tag = InputTag("mlflow.data.context", "evaluation")
    store.client.log_inputs(run_id, [DatasetInput(dataset, [tag])])


def _cell_artifacts(store: Store, run_id: str, folder: Path) -> None:
    for name in ARTIFACTS:
        if _own_file(folder / name):
            store.client.log_artifact(run_id, str(folder / name))
    for sub in ("plots", "circuits"):
        for path in sorted((folder / sub).glob("[!.]*")):
            if _own_file(path):
                store.client.log_artifact(run_id, str(path), sub)
    for path in filter(_own_file, sorted(folder.glob("*.log"))):
        store.client.log_text(run_id, mask(path.read_text(encoding="utf-8", errors="replace")), path.name)


def _own_file(path: Path) -> bool:
    """A file of this folder; a link could publish any file of the machine."""
    return path.is_file() and not path.is_symlink()


def _screen_artifacts(store: Store, run_id: str, files: CellFiles, screen: str) -> None:
    picked = {tuple(h) for h in files.result["screens"][screen]["heads"]}
    table = files.heads.assign(
        picked=[
            (int(a), int(b)) in picked for a, b in zip(files.heads["layer"], files.heads["head"], strict=True)
        ]
    )
    log_table(
        store,
        run_id,
        table.sort_values(["picked", "layer", "head"], ascending=[False, True, True]),
        "heads.json",
    )
    for path in sorted((files.folder / "plots").glob(f"*__{screen}.png")):
        if _own_file(path):
            store.client.log_artifact(run_id, str(path), "plots")


def log_table(store: Store, run_id: str, frame: pd.DataFrame, name: str) -> None:
    """Log a frame in MLflow's table format, replacing what was there (``log_table`` itself would append)."""
    content = {
        "columns": [str(c) for c in frame.columns],
        "data": plain(frame.to_numpy(dtype=object).tolist()),
    }
    store.client.log_text(run_id, json.dumps(content, allow_nan=False), name)
