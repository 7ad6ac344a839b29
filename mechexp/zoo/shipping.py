"""What is shipped of a trained model: a ``transformers`` folder, with all that a reader needs to judge it.

config.json, model.safetensors, tokenizer.json, tokenizer_config.json
recipe.json        how it was trained, tokens seen at each checkpoint, versions of the libraries
curves.csv         losses and held-out accuracies over training
accuracies.json    final top-1 of the stored weights
checkpoints/step_N a folder of the same kind for an earlier step
README.md          model card
SHA256SUMS         digest of each of these files
"""

import csv
import hashlib
import json
import shutil
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch

from mechexp.zoo.card import card
from mechexp.zoo.evaluation import report
from mechexp.zoo.training import Trained

WEIGHTS = Path(__file__).resolve().parent / "weights"
SUMS = "SHA256SUMS"
STORED = torch.float16
"""Precision of the stored weights; the accuracies are those of the stored weights, read back as float32."""


def ship(trained: Trained, folder: Path) -> dict[str, Any]:
    """Write the folder, replacing what it held; the model of ``trained`` gets the rounded weights.

    Returns:
        The accuracies of the stored weights.
    """
    if folder.exists():
        shutil.rmtree(folder)
    model = trained.model
    last = {name: weight.detach().clone() for name, weight in model.state_dict().items()}
    for step, weights in sorted(trained.checkpoints.items()):
        _save(trained, weights, folder / "checkpoints" / f"step_{step}")
    _save(trained, last, folder)
    model.load_state_dict({name: weight.to(STORED).float() for name, weight in last.items()})
    found = report(model.eval(), trained.tokenizer)
    _write_json(folder / "accuracies.json", found)
    _write_json(folder / "recipe.json", _recipe(trained))
    _write_curves(folder / "curves.csv", trained.curves)
    (folder / "README.md").write_text(card(trained, found), encoding="utf-8")
    (folder / SUMS).write_text(sums(folder), encoding="utf-8")
    return found


def sums(folder: Path) -> str:
    """One line a file, ``digest  path``, as ``sha256sum`` writes it; the list itself is left out."""
    files = sorted(p for p in folder.rglob("*") if p.is_file() and p.name != SUMS)
    return "".join(
        f"{hashlib.sha256(p.read_bytes()).hexdigest()}  {p.relative_to(folder).as_posix()}\n" for p in files
    )


def _save(trained: Trained, weights: dict[str, torch.Tensor], folder: Path) -> None:
    """Weights in half precision, config and tokenizer, as ``from_pretrained`` reads them."""
    trained.model.load_state_dict(weights)
    trained.model.to(STORED).save_pretrained(folder)
    trained.model.float()
    (folder / "generation_config.json").unlink(missing_ok=True)
    trained.tokenizer.save_pretrained(folder)


def _recipe(trained: Trained) -> dict[str, Any]:
    return {
        **trained.recipe.as_json(),
        "parameters": sum(p.numel() for p in trained.model.parameters()),
        "tokens_seen": {f"step_{step}": tokens for step, tokens in trained.tokens.items()},
        "versions": {name: version(name) for name in ("torch", "transformers", "tokenizers")},
    }


def _write_json(path: Path, value: Any) -> None:
    path.write_text(json.dumps(value, indent=2) + "\n", encoding="utf-8")


def _write_curves(path: Path, rows: list[dict[str, float]]) -> None:
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, fieldnames=list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
