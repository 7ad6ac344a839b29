"""One job: load, ask, run the protocol, write the result files, mirror them, show the table."""

import hashlib
import json
import logging
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mechexp import __version__
from mechexp.errors import UserError
from mechexp.models import LoadedModel, load_from_config
from mechexp.progress import JobProgress
from mechexp.protocols import PROTOCOLS
from mechexp.report.html import render_cell
from mechexp.report.table import print_results
from mechexp.schema import Config
from mechexp.sweeps import Sweep
from mechexp.tasks import make_prompts
from mechexp.tasks.prompts import PromptSet
from mechexp.tracking import TrackingError, mirror_cell, open_store, write_cell
from mechexp.tracking.validate import SCHEMA

if TYPE_CHECKING:
    from mechexp.protocols.estimate import Estimate

log = logging.getLogger(__name__)
_estimated: list["Estimate"] = []

# What a result does not depend on: where it is kept, how fast it comes, how it is shown.
NOT_IDENTITY = ("tracking", "engine", "debug", "resume", "estimate")
PATHS = {"model": ("path", "device", "device_map"), "screen": ("file",), "task": ("path",)}


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
    _require_local_store(cfg)
    with progress.stage("loading the model", "load_s"):
        loaded = load_from_config(cfg.model)
    prompts = make_prompts(cfg.task, loaded.tokenizer)
    cell = PROTOCOLS[cfg.protocol.name](loaded, prompts, cfg, progress)
    result = {
        **describe(cfg, loaded, prompts),
        **cell.result,
        "sweep_id": sweep.sweep_id if sweep else "",
        "swept": dict(swept),
        "overrides": list(overrides),
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
            before_commit=render_cell,
        )
    print_results([result])
    _mirror(cfg, folder, sweep)


def _estimate(cfg: Config) -> None:
    """Find out what the job would cost; told when all jobs of this process have been."""
    from mechexp.protocols.estimate import estimate_cell

    if cfg.protocol.name != "screen_ablate":
        raise UserError(f"estimate=true with protocol={cfg.protocol.name}", expected="protocol=screen_ablate")
    _estimated.append(estimate_cell(cfg))


def tell_estimates() -> None:
    """Print the costs found under ``estimate=true``, once, as one table."""
    from mechexp.report.estimate import print_estimates

    if _estimated:
        print_estimates(_estimated)
        _estimated.clear()


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


def describe(cfg: Config, loaded: LoadedModel, prompts: PromptSet) -> dict[str, Any]:
    """Who was asked what: the part of ``result.json`` that every protocol shares."""
    return {
        "schema": SCHEMA,
        "mechexp_version": __version__,
        "cell_key": cell_key(cfg, loaded, prompts),
        "protocol": cfg.protocol.name,
        "model": {
            "name": loaded.name,
            "id": loaded.id,
            "revision": loaded.revision,
            "weights_hash": loaded.weights_hash,
            "arch": loaded.arch,
            "moe": loaded.is_moe,
            "n_layers": loaded.n_layers,
            "n_heads": loaded.n_heads,
            "n_kv_heads": loaded.n_kv_heads,
            "head_dim": loaded.head_dim,
            "dtype": loaded.dtype,
            "attn_implementation": str(loaded.model.config._attn_implementation),
        },
        "task": {
            **asdict(cfg.task),
            "n": len(prompts),
            "n_test": len(prompts.part("test")),
            "prompts_hash": prompts.prompts_hash,
            "tokens_hash": prompts.tokens_hash,
            "contract": dict(prompts.contract),
        },
        "control": asdict(cfg.control),
        "ablation": asdict(cfg.ablation),
        "screen": asdict(cfg.screen),
        "taxonomy": asdict(cfg.taxonomy),
        "singles": cfg.singles,
        "seed": cfg.seed,
    }


def cell_key(cfg: Config, loaded: LoadedModel, prompts: PromptSet) -> str:
    """Identity of a cell: what was asked, of which weights, on which prompts, in which schema.

    Paths, devices, tracking and engine options are left out: they change where and how fast, not what.
    """
    row = {k: v for k, v in asdict(cfg).items() if k not in NOT_IDENTITY}
    for group, keys in PATHS.items():
        row[group] = {k: v for k, v in row[group].items() if k not in keys}
    row["weights"], row["prompts"], row["schema"] = loaded.weights_hash, prompts.tokens_hash, SCHEMA
    row["config"] = loaded.config_hash
    if cfg.screen.file:
        row["circuit_file"] = hashlib.sha256(Path(cfg.screen.file).read_bytes()).hexdigest()
    return hashlib.sha256(json.dumps(row, sort_keys=True, default=str).encode()).hexdigest()[:32]


def prompt_rows(prompts: PromptSet) -> list[dict[str, Any]]:
    """Rows of ``prompts.jsonl``: the fields of custom tasks, plus half, token ids and named positions."""
    return [
        {**text.as_json(), "half": half, "ids": list(ids), "positions": dict(positions)}
        for text, half, ids, positions in zip(
            prompts.texts, prompts.half, prompts.ids, prompts.positions, strict=True
        )
    ]
