"""The house: rooms import only from rooms on their left, files stay small, nothing loads pickles."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parents[2] / "mechexp"
# Left to right; a room may import from itself and from any room before it.
ROOMS = (
    "errors", "registry", "paths", "config", "progress", "models", "tasks", "screens", "controls", "engine",
    "findings", "schema", "protocols", "tracking", "report",
)  # fmt: skip
# The plain options of a room are read by `schema`, which assembles them, whatever the room.
OPTIONS = re.compile(r"mechexp\.\w+\.config\Z")
LONGEST = 300


def modules() -> Iterator[Path]:
    return (p for p in sorted(PACKAGE.rglob("*.py")))


def room_of(path: Path) -> str:
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


def imports(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (a.name for a in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            yield from (f"{node.module}.{a.name}" for a in node.names if node.module == "mechexp")


@pytest.mark.parametrize("path", [p for p in modules() if room_of(p) in ROOMS], ids=lambda p: str(p.name))
def test_imports_go_one_way(path: Path) -> None:
    place = ROOMS.index(room_of(path))
    for name in imports(path):
        parts = name.split(".")
        if parts[0] != "mechexp" or len(parts) < 2 or parts[1].startswith("__") or OPTIONS.match(name):
            continue
        assert parts[1] in ROOMS, f"{path.name} imports {name}, which only commands may"
        assert ROOMS.index(parts[1]) <= place, f"{path.name} imports {name} from a room on its right"


def test_findings_are_pure() -> None:
    for path in (PACKAGE / "findings").rglob("*.py"):
        assert not {n for n in imports(path) if n.split(".")[0] in ("torch", "transformers", "mlflow")}, path


def test_files_hold_one_idea() -> None:
    long = {str(p): n for p in modules() if (n := len(p.read_text().splitlines())) > LONGEST}
    assert not long


def test_nothing_unpickles_or_trusts() -> None:
    for path in modules():
        text = path.read_text(encoding="utf-8")
        assert not re.search(
            r"\bpickle\b.*\bload|torch\.load\(|allow_pickle=True|joblib\.load|yaml\.load\(", text
        ), path
        assert not re.search(r"trust_remote_code\s*=\s*True|(?<!\.)\b(eval|exec)\(", text), path
