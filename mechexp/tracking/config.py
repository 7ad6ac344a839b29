"""Where results are mirrored to; plain data, so that composing a config imports nothing heavy."""

from dataclasses import dataclass


@dataclass
class TrackingConfig:
    """Which MLflow store mirrors the results.

    Attributes:
        mode: ``local`` (sqlite under ``root``), ``server`` (``uri``) or ``off``. The files in the job's
            folder are written in every mode.
        uri: Address of the tracking server; "" takes ``MLFLOW_TRACKING_URI``. User and password belong into
            ``MLFLOW_TRACKING_USERNAME`` and ``MLFLOW_TRACKING_PASSWORD``.
        experiment: MLflow experiment that the runs go to.
        root: Folder of the local store: ``mlflow.db`` and ``artifacts/``.
    """

    mode: str = "local"
    uri: str = ""
    experiment: str = "mechexp"
    root: str = "mlruns"
