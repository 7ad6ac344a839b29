"""One job: load, ask, run the protocol, write the result files, mirror them, show the table."""

import logging
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mechexp.describe import describe, prompt_rows
from mechexp.errors import UserError
from mechexp.models import LoadedModel, load_from_config
from mechexp.progress import JobProgress
from mechexp.protocols import PROTOCOLS
from mechexp.report.html import render_cell
from mechexp.report.table import print_results
from mechexp.reuse import Planned, known_cell, plan_cell, print_plan, take
from mechexp.schema import Config
from mechexp.sweeps import Sweep
from mechexp.tasks import make_prompts
from mechexp.tasks.prompts import PromptSet
from mechexp.tracking import TrackingError, mirror_cell, open_store, write_cell
from mechexp.tracking.known import remember

if TYPE_CHECKING:
    from mechexp.protocols.estimate import Estimate

log = logging.getLogger(__name__)
_estimated: list["Estimate"] = []
_planned: list[Planned] = []


def run_job(
    cfg: Config, folder: Path, sweep: Sweep | None, overrides: Sequence[str], swept: Mapping[str, str]
) -> None:
    """Run one cell and leave its results in ``folder``.

    Args:
        cfg: The validated configuration.
        folder: The job's output folder.
        sweep: The sweep it belongs to, if any.
        overrides: What was given on the command line, for the report's rerun command.
        swept: Overrides that differ between the sweep's jobs.

    Raises:
        UserError: Anything the user can mend; what was computed before is on disk.
    """
    if cfg.estimate:
        _estimate(cfg)
        return
    _refuse_swept_taxonomy(swept)
    progress = JobProgress(f"{cfg.model.name} · {cfg.task.name}")
    if not cfg.plan:
        _require_local_store(cfg)
    with progress.stage("loading the model", "load_s"):
        loaded = load_from_config(cfg.model)
    prompts = make_prompts(cfg.task, loaded.tokenizer)
    if cfg.plan:
        _planned.append(plan_cell(cfg, loaded, prompts, swept))
        return
    own = {
        "sweep_id": sweep.sweep_id if sweep else "",
        "swept": dict(swept),
        "overrides": list(overrides),
    }
    known = known_cell(cfg, loaded, prompts)
    if known.files:
        with progress.stage("taking the known result"):
            result = take(known, folder, (folder / "config.yaml").read_text(encoding="utf-8"), **own)
    else:
        result = _measure(cfg, folder, loaded, prompts, progress, own)
    remember(cfg.tracking.root, folder)
    print_results([result])
    if known.files:
        print(f"Known already, nothing was measured: {known.why}")
    _mirror(cfg, folder, sweep)


def _measure(
    cfg: Config,
    folder: Path,
    loaded: LoadedModel,
    prompts: PromptSet,
    progress: JobProgress,
    own: Mapping[str, Any],
) -> dict[str, Any]:
    """Run the protocol and write the result files."""
    cell = PROTOCOLS[cfg.protocol.name](loaded, prompts, cfg, progress)
    result = {
        **describe(cfg, loaded, prompts),
        **cell.result,
        **own,
        "timing": {**progress.timing, **cell.timing},
    }
    with progress.stage("writing results"):
        write_cell(
            folder,
            result,
            heads=cell.heads,
            conditions=cell.conditions,
            prompts=prompt_rows(prompts),
            config=(folder / "config.yaml").read_text(encoding="utf-8"),
            circuits=cell.circuits,
            patterns=cell.patterns,
            before_commit=render_cell,
        )
    return result


def _estimate(cfg: Config) -> None:
    """Find out what the job would cost; told when all jobs of this process have been."""
    from mechexp.protocols.estimate import estimate_cell

    if cfg.protocol.name != "screen_ablate":
        raise UserError(f"estimate=true with protocol={cfg.protocol.name}", expected="protocol=screen_ablate")
    _estimated.append(estimate_cell(cfg))


def tell_estimates() -> None:
    """Print what was found under ``estimate=true`` and ``plan=true``, once, as one table."""
    from mechexp.report.estimate import print_estimates

    if _estimated:
        print_estimates(_estimated)
        _estimated.clear()
    if _planned:
        print_plan(_planned)
        _planned.clear()


def _refuse_swept_taxonomy(swept: Mapping[str, str]) -> None:
    """A sweep is labelled jointly, under one set of thresholds."""
    varied = [key for key in swept if key.split(".")[0] == "taxonomy"]
    if varied:
        raise UserError(
            f"a sweep over {', '.join(varied)}",
            expected="one taxonomy a sweep: its labels are given jointly",
            todo="run two sweeps; measured outcomes are kept, so the second costs little",
        )


def _require_local_store(cfg: Config) -> None:
    """Fail before the work, not after it, where the local store cannot be written."""
    if cfg.tracking.mode == "local":
        with open_store(cfg.tracking):
            pass


def _mirror(cfg: Config, folder: Path, sweep: Sweep | None) -> None:
    """Send the results to MLflow; where that fails they are still on disk, and the job has failed."""
    try:
        mirror_cell(folder, cfg.tracking, sweep.run_id or None if sweep else None)
    except TrackingError as error:
        raise UserError(
            f"the results are complete, but did not reach MLflow: {error.found}",
            where=error.where or str(folder),
            todo=f"when the store is back: python -m mechexp.sync {folder}",
        ) from error
    print(f"Results: {folder}  (report.html, result.json)")
