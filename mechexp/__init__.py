"""mechexp: testing claims about attention-head circuits, instead of only making them.

From Python, without Hydra or MLflow: ``run_cell``, ``load_model``, ``make_prompts``, ``ablate``.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mechexp.api import ablate as ablate
    from mechexp.api import load_model as load_model
    from mechexp.api import make_prompts as make_prompts
    from mechexp.api import run_cell as run_cell
    from mechexp.cell_result import CellResult as CellResult

__version__ = "0.1.0"

_HOMES = {
    "ablate": "mechexp.api",
    "load_model": "mechexp.api",
    "make_prompts": "mechexp.api",
    "run_cell": "mechexp.api",
    "CellResult": "mechexp.cell_result",
}

__all__ = ["CellResult", "__version__", "ablate", "load_model", "make_prompts", "run_cell"]


def __getattr__(name: str) -> Any:
    """Import a public name on first use: the command line answers ``--help`` without torch."""
    if name in _HOMES:
        from importlib import import_module

        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
