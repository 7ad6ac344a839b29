"""Whether a shipped model is what it says: every file's digest, and the accuracies of its weights."""

import json
from pathlib import Path
from typing import Any

from mechexp.errors import UserError
from mechexp.zoo.evaluation import PASS, TASKS, not_learned, report
from mechexp.zoo.shipping import SUMS, sums

TOLERANCE = 0.01
"""Accuracies may differ by a percentage point between machines and library versions."""


def check_files(folder: Path) -> list[str]:
    """Files that are changed, missing or not listed in ``SHA256SUMS``, one sentence each.

    Raises:
        UserError: There is no such folder or no list.
    """
    if not (folder / SUMS).is_file():
        raise UserError(f"no trained model in {folder}", expected=f"a folder with {SUMS}")
    listed = _parse((folder / SUMS).read_text(encoding="utf-8"))
    found = _parse(sums(folder))
    missing = [f"{name} is missing" for name in listed if name not in found]
    changed = [f"{name} is changed" for name in listed if name in found and found[name] != listed[name]]
    extra = [f"{name} is not listed in {SUMS}" for name in found if name not in listed]
    return missing + changed + extra


def check_accuracies(folder: Path) -> tuple[dict[str, Any], list[str]]:
    """Measure the weights again.

    Returns:
        The accuracies found, and what is wrong with them: away from ``accuracies.json``, or the held-out
        accuracy of a task that its recipe must learn below ``PASS``.
    """
    from mechexp.models import load_model

    loaded = load_model(folder, device="cpu")
    found = report(loaded.model, loaded.tokenizer)
    written = json.loads((folder / "accuracies.json").read_text(encoding="utf-8"))
    faults = [
        f"{kind} {task}: {found[kind][task]:.3f}, accuracies.json says {written[kind][task]:.3f}"
        for kind in ("held_out", "default")
        for task in TASKS
        if abs(found[kind][task] - written[kind][task]) > TOLERANCE
    ]
    recipe = json.loads((folder / "recipe.json").read_text(encoding="utf-8"))
    low = [
        f"held_out {task}: {found['held_out'][task]:.3f}, below {PASS}"
        for task in not_learned(found, recipe["learns"])
    ]
    return found, faults + low


def _parse(text: str) -> dict[str, str]:
    """Path → digest."""
    pairs = (line.split("  ", 1) for line in text.splitlines() if line)
    return {name: digest for digest, name in pairs}
