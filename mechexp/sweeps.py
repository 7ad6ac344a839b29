"""A sweep: its folder, its parent run in MLflow, and what became of its jobs.

Hydra calls ``on_multirun_end`` only when no job failed, and workers of a parallel launcher are other
processes. So the sweep's state is a file in its folder, and it is closed from ``main``, whatever happened.
"""

import json
import logging
import os
import sys
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hydra.experimental.callback import Callback
from omegaconf import DictConfig, OmegaConf

from mechexp.errors import UserError

if TYPE_CHECKING:
    from mechexp.tracking.joint import Joint

log = logging.getLogger(__name__)
SWEEP_FILE = "sweep.json"
_open: list["Sweep"] = []


@dataclass(frozen=True)
class Sweep:
    """One multirun.

    Attributes:
        sweep_id: The name that ``compare --sweep`` takes: date, time and microseconds of its start.
        folder: Its output folder.
        command: The arguments it was started with.
        run_id: The parent run in MLflow; "" with ``tracking=off`` or where the store could not be reached.
        tracking: The tracking settings, as plain data.
        taxonomy: The thresholds, as plain data: labels are given jointly when the sweep ends.
    """

    sweep_id: str
    folder: str
    command: list[str]
    run_id: str
    tracking: dict[str, Any]
    taxonomy: dict[str, Any]


class SweepCallback(Callback):
    """Opens a sweep before its first job."""

    def on_multirun_start(self, config: DictConfig, **kwargs: Any) -> None:
        """Claim the sweep's folder, open its parent run, and write down both."""
        if config.get("estimate") or config.get("plan"):
            return  # nothing will be run, so there is nothing to record
        folder = Path(str(config.hydra.sweep.dir)).absolute()
        try:
            _open.append(_start(config, folder))
        except UserError as error:
            # Hydra turns exceptions of callbacks into warnings; a sweep that cannot be recorded must not run
            print(f"\nerror: {error}", file=sys.stderr)
            raise SystemExit(2) from error


def _start(config: DictConfig, folder: Path) -> Sweep:
    from mechexp.tracking.config import TrackingConfig
    from mechexp.tracking.files import told, write_json
    from mechexp.tracking.masking import mask_tree
    from mechexp.tracking.sweep import open_sweep

    with told(folder, "make the sweep's folder"):
        folder.mkdir(parents=True, exist_ok=True)
        # two sweeps started at once must not share a folder
        os.close(os.open(folder / ".claimed", os.O_CREAT | os.O_EXCL | os.O_WRONLY))
    sweep_id = f"{datetime.now(UTC):%Y%m%d-%H%M%S-%f}"
    tracking, taxonomy = (_plain(config[group]) for group in ("tracking", "taxonomy"))
    command = sys.argv[1:]
    run_id = open_sweep(TrackingConfig(**tracking), sweep_id=sweep_id, folder=folder, command=command)
    sweep = Sweep(sweep_id, str(folder), command, run_id, tracking, taxonomy)
    write_json(folder / SWEEP_FILE, mask_tree(asdict(sweep)))
    return sweep


def _plain(group: DictConfig) -> dict[str, Any]:
    values = OmegaConf.to_container(group, resolve=True)
    assert isinstance(values, dict)
    return {str(k): v for k, v in values.items()}


def _show(joint: "Joint") -> None:
    """Write the sweep's page, and print models × tasks by primary cause."""
    from mechexp.report.comparison import show_grid
    from mechexp.report.grid import grids
    from mechexp.report.sweep_page import flat_rows, render_sweep
    from mechexp.report.table import make_console

    page, console, flat = render_sweep(joint), make_console(), flat_rows(joint)
    found = grids(flat) if flat else []
    for grid in found:
        if len(found) > 1:
            console.print(grid.setting, style="bold", markup=False)
        show_grid(grid, console)
    print(f"Sweep: {page}   (all screens, labelled jointly: python -m mechexp.compare)")


def parent_of(job_folder: Path) -> Sweep | None:
    """The sweep that a job belongs to, read from the folder above; None for a single run."""
    path = job_folder.parent / SWEEP_FILE
    if not path.is_file():
        return None
    return Sweep(**json.loads(path.read_text(encoding="utf-8")))


def swept(sweep: Sweep | None, overrides: list[str]) -> dict[str, str]:
    """The overrides of one job that differ between a sweep's jobs: those not given as they stand."""
    given = set(sweep.command) if sweep else set()
    pairs = (o.split("=", 1) for o in overrides if sweep and o not in given)
    return {p[0].lstrip("+~"): p[1] for p in pairs if len(p) == 2}


def finish(*, interrupted: bool) -> list[str]:
    """Close every sweep this process opened: joint labels, parent run, what failed.

    Returns:
        The job folders that hold a failure.
    """
    failed: list[str] = []
    while _open:
        from mechexp.findings.config import TaxonomyConfig
        from mechexp.tracking.config import TrackingConfig
        from mechexp.tracking.sweep import close_sweep

        sweep = _open.pop()
        failed += close_sweep(
            TrackingConfig(**sweep.tracking),
            TaxonomyConfig(**sweep.taxonomy),
            sweep_id=sweep.sweep_id,
            run_id=sweep.run_id,
            folder=Path(sweep.folder),
            interrupted=interrupted,
            render=_show,
        )
    return failed
