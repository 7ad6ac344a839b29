"""The example notebook runs from top to bottom, and shows what its text promises."""

import sys
from pathlib import Path
from typing import Any

import pytest

NOTEBOOK = Path(__file__).resolve().parents[2] / "examples" / "notebook.ipynb"


@pytest.fixture(scope="module")
def outputs(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """Text of what each code cell shows."""
    nbformat = pytest.importorskip("nbformat")
    client = pytest.importorskip("nbclient")
    pytest.importorskip("ipykernel")
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    kernel = {"name": "python3", "display_name": "Python 3", "language": "python"}
    assert dict(notebook.metadata["kernelspec"]) == kernel
    here = str(tmp_path_factory.mktemp("notebook"))
    runner = client.NotebookClient(notebook, timeout=300, resources={"metadata": {"path": here}})
    runner.create_kernel_manager()
    runner.km.kernel_spec.argv[0] = sys.executable  # not whatever kernel the machine has
    runner.execute()
    return [_text(cell) for cell in notebook.cells if cell.cell_type == "code"]


def _text(cell: Any) -> str:
    found = [out.get("text") or out.get("data", {}).get("text/plain", "") for out in cell.outputs]
    return "\n".join(str(text) for text in found)


def test_notebook_runs_and_shows_its_findings(outputs: list[str]) -> None:
    prompt, table, rules, ablated = outputs
    assert "→" in prompt
    assert "prev_token" in table and "primary" in table
    assert rules.count("- ") >= 2 and any(c.isdigit() for c in rules)
    assert "its first head" in ablated and "L0H1,L0H2" in ablated


def test_notebook_is_kept_without_outputs() -> None:
    nbformat = pytest.importorskip("nbformat")
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    nbformat.validate(notebook)
    assert all(not c.outputs and c.execution_count is None for c in notebook.cells if c.cell_type == "code")
