"""One local MLflow store a test session (making one takes seconds), an own experiment for each test."""

import functools
import itertools
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from mechexp.tracking.config import TrackingConfig
from mechexp.tracking.store import open_store, search_all

_numbers = itertools.count()


@functools.cache
def _session_root() -> tempfile.TemporaryDirectory[str]:
    return tempfile.TemporaryDirectory(prefix="mechexp-mlflow-")


@pytest.fixture
def tracking() -> TrackingConfig:
    """A local store with an experiment that no other test uses."""
    return TrackingConfig(root=_session_root().name, experiment=f"test-{next(_numbers)}")


@pytest.fixture
def runs_of() -> Callable[[TrackingConfig], list[Any]]:
    """``runs_of(tracking)``: all runs of the experiment."""

    def runs(config: TrackingConfig) -> list[Any]:
        with open_store(config) as store:
            return list(search_all(store, ""))

    return runs


def level(runs: list[Any], name: str) -> list[Any]:
    """The runs of one level: sweep, cell or screen."""
    return [r for r in runs if r.data.tags.get("mechexp.level") == name]


def artifacts(config: TrackingConfig, run_id: str) -> dict[str, bytes]:
    """All artifacts of a run by path."""
    with open_store(config) as store, tempfile.TemporaryDirectory() as folder:
        root = Path(store.client.download_artifacts(run_id, "", folder))
        return {p.relative_to(root).as_posix(): p.read_bytes() for p in root.rglob("*") if p.is_file()}
