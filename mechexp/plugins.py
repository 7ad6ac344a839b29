"""Tasks, screens and controls of the user's own: Python files in a config folder, or installed packages.

A file registers what it brings, exactly as mechexp's own rooms do (``TASKS.register``, ``screens.register``,
``CONTROLS.register``). Its code is run, so a config folder is trusted like any script of the user's.
"""

import hashlib
import os
import sys
from collections.abc import Sequence
from importlib.metadata import entry_points
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

from mechexp.errors import UserError

GROUP = "mechexp"
GROUPS = ("task", "screen", "control")
_sources: dict[str, str] = {}
FOLDERS = "MECHEXP_CONFIG_DIRS"  # told to the worker processes of parallel launchers


def config_folders(arguments: Sequence[str]) -> list[Path]:
    """Folders given by ``--config-dir`` (``-cd``) on a command line, as Hydra understands it."""
    found = []
    for at, argument in enumerate(arguments):
        name, _, value = argument.partition("=")
        if name in ("--config-dir", "-cd"):
            found.append(value or (arguments[at + 1] if at + 1 < len(arguments) else ""))
    return [Path(folder) for folder in found if folder]


def load_plugins(folders: Sequence[Path] = ()) -> None:
    """Let installed packages (entry points of group ``mechexp``) and config folders register what they bring.

    Args:
        folders: Config folders; those of the environment variable ``MECHEXP_CONFIG_DIRS`` come too.

    Raises:
        UserError: One of them cannot be imported; names it.
    """
    for entry in entry_points(group=GROUP):
        try:
            entry.load()
        except Exception as error:
            raise UserError(
                f"the plugin {entry.name} cannot be loaded ({type(error).__name__}: {error})",
                where=entry.value,
                todo="mend it, or uninstall its package",
            ) from error
    inherited = [Path(p) for p in os.environ.get(FOLDERS, "").split(os.pathsep) if p]
    every = list(dict.fromkeys(folder.absolute() for folder in [*inherited, *folders]))
    for folder in every:
        load_folder(folder)
    if every:
        os.environ[FOLDERS] = os.pathsep.join(str(folder) for folder in every)


def load_folder(folder: Path) -> None:
    """Run the Python files of a config folder: ``task/*.py``, ``screen/*.py``, ``control/*.py``; each once.

    Raises:
        UserError: No such folder, or a file that fails.
    """
    if not folder.is_dir():
        raise UserError(
            f"no folder {folder}", where="--config-dir", expected="a folder with task/, screen/ …"
        )
    for group in GROUPS:
        for path in sorted((folder / group).glob("*.py")):
            _run_file(path.resolve())


def code_hash() -> str:
    """SHA-256 over the config-folder files run so far and the versions of plugin packages; "" without any."""
    parts = sorted(_sources.values())
    parts += sorted(f"{e.value} {e.dist.version if e.dist else ''}" for e in entry_points(group=GROUP))
    return hashlib.sha256("\n".join(parts).encode()).hexdigest() if parts else ""


def _run_file(path: Path) -> None:
    name = f"mechexp_config_{path.stem}_{hashlib.sha256(str(path).encode()).hexdigest()[:8]}"
    if name in sys.modules:
        return
    spec = spec_from_file_location(name, path)
    assert spec is not None and spec.loader is not None
    module = module_from_spec(spec)
    sys.modules[name] = module
    try:
        _sources[name] = hashlib.sha256(path.read_bytes()).hexdigest()
        spec.loader.exec_module(module)
    except UserError:
        del sys.modules[name]
        raise
    except Exception as error:
        del sys.modules[name]
        raise UserError(
            f"the file cannot be run ({type(error).__name__}: {error})",
            where=f"{path}:{_line(error, path)}",
            todo="see CONTRIBUTING.md for what a task, a screen or a control looks like",
        ) from error


def _line(error: BaseException, path: Path) -> int:
    """The line of the file at which it failed."""
    line, trace = getattr(error, "lineno", None) or 1, error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code.co_filename == str(path):
            line = trace.tb_lineno
        trace = trace.tb_next
    return int(line)
