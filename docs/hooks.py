"""Hooks of the documentation site."""

from pathlib import Path
from typing import Any


def on_config(config: Any) -> Any:
    """Leave pages out of the navigation that are not written yet, so that a link to nowhere never shows."""
    config["nav"] = _there(config["nav"], Path(config["docs_dir"]))
    return config


def _there(entries: list[Any], folder: Path) -> list[Any]:
    kept = []
    for entry in entries:
        ((title, place),) = entry.items()
        if isinstance(place, list):
            kept.append({title: _there(place, folder)})
        elif (folder / place).is_file():
            kept.append(entry)
    return kept
