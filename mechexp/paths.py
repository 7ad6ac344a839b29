"""Where things are: the configuration that ships with mechexp, and the folder for what it keeps."""

import os
from pathlib import Path

from mechexp.errors import UserError

_PACKAGE = Path(__file__).resolve().parent


def conf_dir() -> Path:
    """The ``conf`` folder: beside the package in a checkout, inside it in a wheel.

    Raises:
        UserError: There is none; the installation is broken.
    """
    for folder in (_PACKAGE / "conf", _PACKAGE.parent / "conf"):
        if (folder / "config.yaml").is_file():
            return folder
    raise UserError(
        "mechexp's configuration folder is missing", where=str(_PACKAGE), todo="install mechexp again"
    )


def cache_dir() -> Path:
    """Folder of converted models and cached results: ``$MECHEXP_CACHE``, else ``~/.cache/mechexp``."""
    set_by_user = os.environ.get("MECHEXP_CACHE")
    if set_by_user:
        return Path(set_by_user).expanduser().resolve()
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "mechexp"
