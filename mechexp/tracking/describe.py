"""What the MLflow runs of a cell say: names, params, metrics, tags; from ``result.json`` alone."""

import getpass
import json
import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from mechexp.findings.config import TaxonomyConfig
from mechexp.models.heads import Head, format_heads
from mechexp.tracking.masking import mask
from mechexp.tracking.notes import cell_note, screen_note
from mechexp.tracking.notes import name_of as name_of

TAG_LENGTH, PARAM_LENGTH = 8000, 6000
LEVEL, CELL_KEY, SWEEP_ID, SCREEN = "mechexp.level", "mechexp.cell_key", "mechexp.sweep_id", "mechexp.screen"
NOTE, SHOWN, PARENT = "mlflow.note.content", "mlflow.loggedArtifacts", "mlflow.parentRunId"
# For programs only: MLflow's pages do not show tags that start with its own name.
RESULT_ID, STATE = "mlflow.mechexp.result_id", "mlflow.mechexp.mirror"
EVIDENCE, THRESHOLDS = "mlflow.mechexp.evidence", "mlflow.mechexp.taxonomy"
SCREENS, ROW = "mlflow.mechexp.screens", "mlflow.mechexp.row."
_BAD_KEY = re.compile(r"[^A-Za-z0-9_\-./]")


@dataclass(frozen=True)
class RunText:
    """Everything of one run except its artifacts.

    Attributes:
        name: Run name.
        params: Parameters.
        metrics: Finite numbers.
        tags: Tags, the note and the level among them.
    """

    name: str
    params: Mapping[str, str] = field(default_factory=dict)
    metrics: Mapping[str, float] = field(default_factory=dict)
    tags: Mapping[str, str] = field(default_factory=dict)


def user_tag() -> dict[str, str]:
    """Who made the run, as MLflow's pages show it; nothing where this machine knows no name."""
    with suppress(Exception):
        return {"mlflow.user": getpass.getuser()}
    return {}


def key(text: str) -> str:
    """A name that MLflow accepts: letters, digits, ``_ - . /``."""
    return _BAD_KEY.sub("_", text).strip("/")[:250] or "_"


def run_name(*parts: str) -> str:
    """Names as ``pythia · ioi · prev_token``."""
    return " · ".join(parts)


def cell_text(result: Mapping[str, Any], folder: Path, result_id: str) -> RunText:
    """The cell run: model × task × control × ablation."""
    model, task = result["model"], result["task"]
    metrics = {f"clean_{key(k)}": v for k, v in result["clean"].items()}
    metrics |= {f"timing/{key(k)}": v for k, v in result["timing"].items() if k != "finished_at"}
    labels = [s["taxonomy"] for s in result["screens"].values()]
    tags = {
        **_common_tags(result, "cell", result_id),
        "status": result["status"],
        "mechexp.folder": str(folder),
        "primary": ",".join(n for n, s in result["screens"].items() if s["taxonomy"] == "primary"),
        "labels": ", ".join(f"{labels.count(x)} {x}" for x in dict.fromkeys(labels)),
        NOTE: cell_note(result),
        **({"reason": str(result["reason"])} if result.get("reason") else {}),
        SCREENS: ",".join(result["screens"]),
        **{f"{ROW}{name}": stored_row(result, name) for name in result["screens"]},
    }
    tags = {k: v for k, v in tags.items() if not k.startswith(ROW) or len(v) <= TAG_LENGTH}
    return RunText(
        run_name(model["name"], task["name"]), _params(result), _numbers(metrics), _cut(tags, TAG_LENGTH)
    )


def screen_text(result: Mapping[str, Any], screen: str, result_id: str) -> RunText:
    """The screen run: the row that people compare."""
    row = result["screens"][screen]
    params = {
        **_params(result),
        "screen": screen,
        "k": str(_k(result.get("screen"), row)),
        "n_heads": str(row["n_heads"]),
    }
    tags = {
        **_common_tags(result, "screen", result_id),
        SCREEN: screen,
        SHOWN: json.dumps([{"path": "heads.json", "type": "table"}]),
        "taxonomy": row["taxonomy"],
        "taxonomy_top1": row["taxonomy_top1"],
        "taxonomy_logit_diff": row["taxonomy_logit_diff"],
        "flags": ",".join(row["flags"]),
        "heads": format_heads(Head(*h) for h in row["heads"]),
        EVIDENCE: _compact(row.get("evidence", {})),
        NOTE: screen_note(result, screen),
    }
    if len(tags[EVIDENCE]) > TAG_LENGTH:
        del tags[EVIDENCE]  # a part of it would be no JSON; the artifact result.json has it
    name = run_name(result["model"]["name"], result["task"]["name"], screen)
    return RunText(name, _cut(params, PARAM_LENGTH), _numbers(row["metrics"]), _cut(tags, TAG_LENGTH))


def stored_row(result: Mapping[str, Any], screen: str) -> str:
    """A screen's numbers and labels on the cell's own run, so that thousands of cells are read quickly."""
    row = result["screens"][screen]
    settings = result.get("screen")
    keys = ("taxonomy", "taxonomy_top1", "taxonomy_logit_diff", "flags", "metrics", "evidence")
    kept = {k: row.get(k, {}) for k in keys}
    return _compact({**kept, "heads": format_heads(Head(*h) for h in row["heads"]), "k": _k(settings, row)})


def _compact(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


def _common_tags(result: Mapping[str, Any], level: str, result_id: str) -> dict[str, str]:
    model = result["model"]
    tags = {
        LEVEL: level,
        CELL_KEY: result["cell_key"],
        RESULT_ID: result_id,
        "mechexp.version": result["mechexp_version"],
        "weights_hash": model["weights_hash"],
        "prompts_hash": result["task"]["prompts_hash"],
        "model_id": model["id"],
        "revision": str(model.get("revision", "")),
        "arch": str(model.get("arch", "")),
        "moe": str(bool(model.get("moe", False))).lower(),
    }
    if result.get("taxonomy"):
        tags[THRESHOLDS] = _compact(changed_thresholds(result["taxonomy"]))
    if result.get("sweep_id"):
        tags[SWEEP_ID] = str(result["sweep_id"])
    return tags


def changed_thresholds(taxonomy: Mapping[str, Any]) -> dict[str, Any]:
    """The thresholds of the labels that are not the default ones."""
    usual = asdict(TaxonomyConfig())
    return {k: v for k, v in taxonomy.items() if k in usual and k != "name" and v != usual[k]}


def _params(result: Mapping[str, Any]) -> dict[str, str]:
    """The few params a cell has; what the sweep varied is added under its own key."""
    params = {
        "model": result["model"]["name"],
        "task": result["task"]["name"],
        "control": name_of(result["control"]),
        "ablation": name_of(result["ablation"]),
        "seed": str(result["seed"]),
        "dtype": str(result["model"].get("dtype", "")),
        "n_prompts": str(result["task"]["n"]),
    }
    for name, value in (result.get("swept") or {}).items():
        params.setdefault(key(str(name)), str(value))
    return _cut({k: mask(v) for k, v in params.items()}, PARAM_LENGTH)


def _k(settings: Any, row: Mapping[str, Any]) -> Any:
    """The number of heads that was asked for (0: the screen's own rule)."""
    return row.get("k", settings.get("k", "") if isinstance(settings, Mapping) else "")


def _numbers(values: Mapping[str, Any]) -> dict[str, float]:
    return {key(k): float(v) for k, v in values.items() if isinstance(v, int | float)}


def _cut(values: Mapping[str, str], length: int) -> dict[str, str]:
    """MLflow refuses or cuts longer values; cut here, visibly."""
    return {k: v if len(v) <= length else v[: length - 2] + " …" for k, v in values.items()}
