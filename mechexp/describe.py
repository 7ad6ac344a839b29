"""What a result says of itself: who was asked what, under which identity. No Hydra, no MLflow."""

import hashlib
import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

from mechexp import __version__
from mechexp.models import LoadedModel
from mechexp.plugins import code_hash
from mechexp.schema import Config
from mechexp.tasks.prompts import PromptSet
from mechexp.tracking.files import told
from mechexp.tracking.validate import SCHEMA

# What a result does not depend on: where it is kept, how fast it comes, how it is shown.
NOT_IDENTITY = ("tracking", "engine", "debug", "resume", "estimate", "plan")
PATHS = {"model": ("path", "device", "device_map"), "screen": ("file",), "task": ("path",)}


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
    Code of the user's own (plugins) counts as a whole: what a file of it changes is not known.

    Raises:
        UserError: The file of ``screen.file`` cannot be read.
    """
    row = {k: v for k, v in asdict(cfg).items() if k not in NOT_IDENTITY}
    for group, keys in PATHS.items():
        row[group] = {k: v for k, v in row[group].items() if k not in keys}
    row["weights"], row["prompts"], row["schema"] = loaded.weights_hash, prompts.tokens_hash, SCHEMA
    row["config"], row["texts"] = loaded.config_hash, prompts.prompts_hash  # halves and named positions too
    if code := code_hash():
        row["plugins"] = code
    if cfg.screen.file:
        with told(cfg.screen.file, "read the circuit file"):
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
