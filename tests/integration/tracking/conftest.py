"""The session's MLflow store, for every test in this folder."""

from mlflow_fixtures import runs_of, tracking  # noqa: F401 (pytest finds fixtures by name)
