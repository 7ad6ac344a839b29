"""From the command line to an exit code: compose, run each job, report what failed."""

import logging
import os
import re
import sys
import traceback
from pathlib import Path

from omegaconf import DictConfig, OmegaConf

from mechexp import sweeps
from mechexp.errors import UserError
from mechexp.paths import conf_dir
from mechexp.plugins import config_folders, load_plugins
from mechexp.schema import Config, register, validate

log = logging.getLogger(__name__)
ERROR_FILE = "error.json"
_failed_jobs: list[Path] = []


def main() -> None:
    """Run what the command line asks for; exit code 0 only if every job did what was asked."""
    import hydra

    _failed_jobs.clear()
    code = 0
    try:
        refuse_merged_choices(sys.argv[1:])
        sys.argv[1:] = prefer_given(sys.argv[1:])
        load_plugins(config_folders(sys.argv[1:]))
        register()
        hydra.main(version_base="1.3", config_path=str(conf_dir()), config_name="config")(_job)()
    except UserError as error:
        print(f"\nerror: {error}", file=sys.stderr)
        code = 2
    except SystemExit as stop:
        code = stop.code if isinstance(stop.code, int) else int(stop.code is not None)
    except KeyboardInterrupt:
        kept = "finished cells are kept, and known outcomes (engine.store) are not measured again"
        print(f"\nstopped; {kept}", file=sys.stderr)
        code = 130
    finally:
        failed = sweeps.finish(interrupted=code != 0)
        if jobs := sys.modules.get("mechexp.jobs"):  # not imported where no job was run
            jobs.tell_estimates()
    sys.exit(code or int(bool(failed or _failed_jobs)))


def refuse_merged_choices(arguments: list[str]) -> None:
    """Refuse ``model=[a,b]``, which Hydra would silently merge into one model.

    Raises:
        UserError: A config group is given a list.
    """
    groups = sorted(p.name for p in conf_dir().iterdir() if p.is_dir())
    pattern = re.compile(rf"\+{{0,2}}({'|'.join(groups)})(@[^=]*)?=\s*\[(.*)\]\s*\Z")
    for argument in arguments:
        if match := pattern.match(argument):
            raise UserError(
                f"{argument}: a list would merge its entries into one {match[1]}",
                where="command line",
                expected=f"one {match[1]}, or a sweep over several",
                todo=f"for a sweep: python -m mechexp -m {match[1]}={match[3].replace(' ', '')}",
            )


def prefer_given(arguments: list[str]) -> list[str]:
    """Let the command line win over what an experiment sweeps itself.

    Hydra would take both, and run each job of the experiment once for every value it sweeps of that key.

    Args:
        arguments: The command line, such as ``experiment=paper_grid model=olmo task=ioi,vb``.

    Returns:
        The same, with the rest of the experiment's sweep spelled out where a key of it is given.
    """
    given = dict(a.lstrip("+").split("=", 1) for a in arguments if "=" in a)
    path = conf_dir() / "experiment" / f"{given.get('experiment', '')}.yaml"
    if not path.is_file():
        return arguments
    swept = OmegaConf.select(OmegaConf.load(path), "hydra.sweeper.params") or {}
    if not any(key in given for key in swept):
        return arguments
    rest = [f"{key}={values}" for key, values in swept.items() if key not in given]
    return [*arguments, "hydra.sweeper.params=null", *rest]


def _job(raw: DictConfig) -> None:
    """One cell, in its own output folder. A failure is written down, told, and does not stop the sweep."""
    from hydra.core.hydra_config import HydraConfig

    folder = Path(HydraConfig.get().runtime.output_dir)
    debug = bool(OmegaConf.select(raw, "debug")) or os.environ.get("HYDRA_FULL_ERROR") == "1"
    try:
        (folder / ERROR_FILE).unlink(missing_ok=True)
        cfg = OmegaConf.to_object(raw)
        assert isinstance(cfg, Config)
        validate(cfg)
        _save_config(raw, folder)
        _run(cfg, folder)
    except Exception as error:
        _record_failure(error, folder, debug=debug)


def _save_config(raw: DictConfig, folder: Path) -> None:
    """Write the resolved config at once, credentials masked: it must be there whatever becomes of the job."""
    from mechexp.tracking.masking import mask_tree

    plain = mask_tree(OmegaConf.to_container(raw, resolve=True))
    OmegaConf.save(OmegaConf.create(plain), folder / "config.yaml")


def _run(cfg: Config, folder: Path) -> None:
    """The heavy part; its imports stay out of ``--help`` and ``--cfg``."""
    from hydra.core.hydra_config import HydraConfig

    from mechexp.jobs import run_job

    load_plugins()  # a worker of a parallel launcher has not been through main
    sweep = sweeps.parent_of(folder)
    overrides = list(HydraConfig.get().overrides.task)
    run_job(cfg, folder, sweep, overrides, sweeps.swept(sweep, overrides))


def _record_failure(error: Exception, folder: Path, *, debug: bool) -> None:
    """Log the traceback, write ``error.json``, tell the user once, and let go of the job's memory."""
    from mechexp.tracking import write_failure

    # at INFO: into the job's log file, not onto the terminal, which gets one clear message
    log.info("job failed\n%s", "".join(traceback.format_exception(error)))
    try:
        write_failure(folder, error)
    except UserError as full:
        log.error("%s", full)
    _failed_jobs.append(folder)
    if debug:
        traceback.print_exception(error)
    elif isinstance(error, UserError):
        print(f"\nerror: {error}", file=sys.stderr)
    else:
        print(
            f"\nerror: {type(error).__name__}: {error}\n"
            f"  This is a fault of mechexp or of the model. The traceback is in {folder}/mechexp.log",
            file=sys.stderr,
        )
    print(f"  Job: {folder}", file=sys.stderr)
    # A kept traceback would keep the frames, and with them the model's tensors, until the sweep ends.
    while error.__context__ or error.__cause__:
        traceback.clear_frames(error.__traceback__)
        error = error.__cause__ or error.__context__  # type: ignore[assignment]
    traceback.clear_frames(error.__traceback__)
