"""Results to disk first; MLflow is a mirror of it."""

from mechexp.tracking.config import TrackingConfig
from mechexp.tracking.mirror import Mirrored, mirror_cell
from mechexp.tracking.results import CellFiles, find_cells, read_cell, read_result, write_cell, write_failure
from mechexp.tracking.store import TrackingError, open_store

__all__ = [
    "CellFiles", "Mirrored", "TrackingConfig", "TrackingError", "find_cells", "mirror_cell", "open_store",
    "read_cell", "read_result", "write_cell", "write_failure",
]  # fmt: skip
