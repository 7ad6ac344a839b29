"""A calibration as one MLflow run: its rates as metrics, its files as artifacts."""

import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from mechexp.tracking.config import TrackingConfig
from mechexp.tracking.store import open_store


def mirror(summary: Mapping[str, Any], folder: Path, params: Mapping[str, Any], cfg: TrackingConfig) -> str:
    """Log a finished calibration; returns the run id.

    Raises:
        TrackingError: The store cannot be reached; the files on disk are untouched.
    """
    from mlflow.entities import Metric, Param

    with open_store(cfg) as store:
        tags = {"mechexp.level": "calibration", "mlflow.runName": f"calibrate {params['protocol']}"}
        run_id: str = store.client.create_run(store.experiment_id, tags=tags).info.run_id
        status = "FAILED"
        try:
            now = int(time.time() * 1000)
            store.client.log_batch(
                run_id,
                metrics=[Metric(k, v, now, 0) for k, v in metrics_of(summary)],
                params=[Param(k, str(v)) for k, v in params.items()],
            )
            for path in (folder / "calibration.json", *sorted((folder / "plots").glob("*.png"))):
                store.client.log_artifact(run_id, str(path), "plots" if path.suffix == ".png" else None)
            status = "FINISHED"
        finally:
            store.client.set_terminated(run_id, status)
    return run_id


def metrics_of(summary: Mapping[str, Any]) -> Iterator[tuple[str, float]]:
    """Name and value of every rate."""
    groups = ("false_positives", "recall_clear", "recall_all", "precision", "coverage")
    for group in groups:
        for name, found in summary[group].items():
            if found["of"]:
                for part in ("rate", "low", "high"):
                    yield f"{group}_{name}" + ("" if part == "rate" else f"_{part}"), float(found[part])
    for direction, found in summary["p"].items():
        yield f"ks_{direction}", float(found["ks"])
        yield f"ks_p_{direction}", float(found["ks_p"])
