"""The sweep's parent run in MLflow: opened before the first job, closed after the last, whatever happened."""

import json
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import pandas as pd

from mechexp.errors import UserError
from mechexp.findings.config import TaxonomyConfig
from mechexp.tracking import describe
from mechexp.tracking.config import TrackingConfig
from mechexp.tracking.describe import LEVEL, NOTE, PARENT, SHOWN, SWEEP_ID
from mechexp.tracking.joint import Joint, JointCell, joint_rows, judge_sweep_folder, write_joint
from mechexp.tracking.masking import mask
from mechexp.tracking.mirror import find_sweep, log_table, mirror_folder, result_id
from mechexp.tracking.store import Store, TrackingError, open_store

log = logging.getLogger(__name__)
RUNNING, FINISHED, FAILED = "RUNNING", "FINISHED", "FAILED"
JOINT_TAGS = ("taxonomy", "taxonomy_top1", "taxonomy_logit_diff", "flags", NOTE)
ARTIFACTS = ("joint.csv", "joint.json", "report.html")


def open_sweep(config: TrackingConfig, *, sweep_id: str, folder: Path, command: Sequence[str]) -> str:
    """Open a sweep's parent run.

    Args:
        config: Which store.
        sweep_id: The sweep's id; one sweep has one parent run, however often this is called.
        folder: The sweep's folder.
        command: Arguments it was started with.

    Returns:
        The run id; "" with tracking off, and where a server does not answer: the sweep then runs all the same
        and ``python -m mechexp.sync`` delivers it later.

    Raises:
        UserError: The local store cannot be used, or the tracking settings make no sense.
    """
    if config.mode == "off":
        return ""
    try:
        with open_store(config) as store:
            return _parent(store, sweep_id, folder, command)
    except TrackingError as error:
        if config.mode == "local":
            raise
        log.warning("%s\nThe sweep runs without it; results are kept on disk.", error)
        return ""


def close_sweep(
    config: TrackingConfig,
    taxonomy: TaxonomyConfig,
    *,
    sweep_id: str,
    run_id: str,
    folder: Path,
    interrupted: bool,
    render: Callable[[Joint], object] | None = None,
) -> list[str]:
    """Label a sweep jointly, on disk and in MLflow, and close its parent run; made for a ``finally``.

    Nothing is raised: what goes wrong is told in the log, and its folder is among those returned.

    Args:
        config: Which store.
        taxonomy: Thresholds of the joint labels.
        sweep_id: The sweep's id.
        run_id: Its parent run; "" where there is none yet.
        folder: The sweep's folder.
        interrupted: Whether it was stopped before all jobs had run.
        render: Makes the sweep's ``report.html`` from what was judged.

    Returns:
        The folders that hold a failure: jobs without a result, and the sweep's own where its labels could not
        be written or delivered.
    """
    try:
        joint = judge_sweep_folder(folder, taxonomy)
    except Exception as error:
        log.error("the sweep %s could not be judged: %s", sweep_id, mask(str(error)))
        _close_failed(config, run_id, str(error))
        return [str(folder)]
    failed = [str(f.folder) for f in joint.failures]
    try:
        write_joint(joint)
        if render is not None:
            render(joint)
    except Exception as error:
        log.error("the sweep's table could not be written: %s", mask(str(error)))
        failed.append(str(folder))
    try:
        deliver_sweep(config, joint, sweep_id=sweep_id, run_id=run_id, interrupted=interrupted)
    except Exception as error:
        log.error("the sweep did not reach MLflow: %s\nResults are in %s", mask(str(error)), folder)
        _close_failed(config, run_id, str(error))
        failed.append(str(folder))
    return list(dict.fromkeys(failed))


def deliver_sweep(
    config: TrackingConfig,
    joint: Joint,
    *,
    sweep_id: str,
    run_id: str = "",
    interrupted: bool = False,
    command: Sequence[str] = (),
) -> int:
    """Bring a judged sweep to MLflow: cells that are missing there, joint labels, table, status.

    Safe to repeat: nothing is doubled.

    Returns:
        Number of cells that had not been delivered before.

    Raises:
        TrackingError: The store cannot be reached or refuses.
    """
    if config.mode == "off":
        return 0
    new = 0
    with open_store(config) as store:
        parent = _parent(store, sweep_id, joint.folder, command, run_id)
        status = FAILED
        try:
            for cell in joint.cells:
                new += _deliver_cell(store, cell, parent, sweep_id)
            _log_sweep(store, parent, joint, interrupted)
            status = FAILED if joint.failures or interrupted else FINISHED
        finally:
            store.client.set_terminated(parent, status)
    return new


def _parent(store: Store, sweep_id: str, folder: Path, command: Sequence[str], run_id: str = "") -> str:
    """The parent run: the one given, the one that carries the sweep's id, or a new one."""
    found = run_id or find_sweep(store, sweep_id)
    if found:
        with suppress(Exception):
            if store.client.get_run(found).info.lifecycle_stage == "active":
                return found
        found = find_sweep(store, sweep_id)
    if found:
        return found
    tags = {
        LEVEL: "sweep",
        SWEEP_ID: sweep_id,
        "mechexp.folder": str(folder.resolve()),
        "command": mask(" ".join(command))[: describe.TAG_LENGTH],
        SHOWN: json.dumps([{"path": "joint_table.json", "type": "table"}]),
        NOTE: f"Sweep `{sweep_id}`, running.",
        **describe.user_tag(),
    }
    run = store.client.create_run(store.experiment_id, int(time.time() * 1000), tags, f"sweep {sweep_id}")
    return str(run.info.run_id)


def _deliver_cell(store: Store, cell: JointCell, parent: str, sweep_id: str) -> int:
    """Mirror a cell unless that was done, put it below its sweep, and label its screens jointly."""
    from mlflow.entities import RunTag

    digest = result_id(cell.folder)
    done = mirror_folder(cell.folder, store, digest, parent)
    cell_text = describe.cell_text(cell.result, cell.folder.resolve(), digest)
    tags = {k: cell_text.tags[k] for k in ("primary", "labels", NOTE)}
    tags |= {PARENT: parent, SWEEP_ID: sweep_id}
    store.client.log_batch(done.cell_run_id, tags=[RunTag(k, v) for k, v in tags.items()])
    for name, run_id in done.screen_run_ids.items():
        text = describe.screen_text(cell.result, name, digest)
        tags = {k: text.tags[k] for k in JOINT_TAGS}
        tags["taxonomy_cell"] = str(cell.result["screens"][name]["taxonomy_cell"])
        tags[SWEEP_ID] = sweep_id
        store.client.log_batch(run_id, tags=[RunTag(k, v) for k, v in tags.items()])
    return int(done.new)


def _log_sweep(store: Store, run_id: str, joint: Joint, interrupted: bool) -> None:
    from mlflow.entities import Metric, RunTag

    results = [c.result for c in joint.cells]
    counts = {"cells_finished": len(joint.cells), "cells_failed": len(joint.failures)}
    when = int(time.time() * 1000)
    metrics = [Metric(k, v, when, 0) for k, v in counts.items()]
    models, tasks = ({str(r[k]["name"]) for r in results} for k in ("model", "task"))
    name = f"sweep · {len(models)} models × {len(tasks)} tasks · {len(joint.cells)} cells"
    tags = {
        NOTE: sweep_note(joint, interrupted)[: describe.TAG_LENGTH],
        "mlflow.runName": name,
        "failed": "; ".join(f"{f.folder.name}: {f.error}" for f in joint.failures)[: describe.TAG_LENGTH],
        "interrupted": str(interrupted).lower(),
    }
    store.client.log_batch(run_id, metrics=metrics, tags=[RunTag(k, mask(v)) for k, v in tags.items()])
    rows = list(joint_rows(results))
    if rows:
        log_table(store, run_id, pd.DataFrame(rows), "joint_table.json")
    for artifact in ARTIFACTS:
        path = joint.folder / artifact
        if path.is_file() and not path.is_symlink():
            store.client.log_artifact(run_id, str(path))


def sweep_note(joint: Joint, interrupted: bool) -> str:
    """Markdown: models × tasks with their primary causes, and the jobs that failed."""
    results = [c.result for c in joint.cells]
    models = list(dict.fromkeys(r["model"]["name"] for r in results))
    tasks = list(dict.fromkeys(r["task"]["name"] for r in results))
    lines = [f"{len(results)} cells finished, {len(joint.failures)} failed."]
    if interrupted:
        lines.append("The sweep was stopped before all jobs had run.")
    if results:
        lines += ["", "Primary causes, labelled jointly:", "", "| task | " + " | ".join(models) + " |"]
        lines.append("|---" * (len(models) + 1) + "|")
        for task in tasks:
            cells = [_primaries(results, model, task) for model in models]
            lines.append(f"| {task} | " + " | ".join(cells) + " |")
    lines += ["", *(f"- **{f.folder.name}** failed: {f.error}" for f in joint.failures)]
    return mask("\n".join(lines).strip())


def _primaries(results: Sequence[Mapping[str, Any]], model: str, task: str) -> str:
    texts = []
    for result in results:
        if (result["model"]["name"], result["task"]["name"]) == (model, task):
            names = [n for n, s in result["screens"].items() if s["taxonomy"] == "primary"]
            unable = result["status"] == "not_evaluated"
            texts.append(", ".join(names) or ("not evaluated" if unable else "none"))
    return "; ".join(dict.fromkeys(texts)) or " "


def _close_failed(config: TrackingConfig, run_id: str, why: str) -> None:
    """Do not leave the parent run open, if the store can still be reached."""
    if not run_id or config.mode == "off":
        return
    with suppress(UserError), open_store(config) as store:
        store.client.set_tag(run_id, NOTE, mask(f"The sweep could not be closed properly: {why}")[:8000])
        store.client.set_terminated(run_id, FAILED)
