"""The documentation: builds strictly, leaves out no label or flag, and shows commands that exist."""

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from mechexp.findings.labels import FLAGS, LABELS

ROOT = Path(__file__).resolve().parents[3]
DOCS = ROOT / "docs"


def table_of(page: str) -> dict[str, str]:
    """First column (in code marks) → second column of every table row of a page."""
    rows = re.findall(r"^\| `([a-z_]+)` \| ([^|]+(?:\\\|[^|]+)*)", (DOCS / page).read_text(), re.MULTILINE)
    return {name: text.strip().replace("\\|", "|") for name, text in rows}


def test_every_label_and_flag_is_explained_as_in_the_reports() -> None:
    told = table_of("labels.md")
    assert {name: told.get(name) for name in {**LABELS, **FLAGS}} == {**LABELS, **FLAGS}


def test_every_screen_is_in_the_formulas() -> None:
    from mechexp.screens.registry import SCREENS, find_screens

    find_screens()
    text = (DOCS / "formulas.md").read_text()
    own = {name for name, s in SCREENS.items() if s.score.__module__.startswith("mechexp.")}
    missing = [name for name in own if f"`{name}`" not in text and name not in ("spectral",)]
    assert not missing and "spectral_rank" in text


def commands() -> list[list[str]]:
    """Every ``python -m mechexp`` line of README and docs that can be composed here."""
    found = []
    for page in [ROOT / "README.md", *sorted(DOCS.glob("*.md"))]:
        for block in re.findall(r"```[a-z]*\n(.*?)```", page.read_text(), re.DOTALL):
            for line in block.splitlines():
                if line.startswith("python -m mechexp ") and "…" not in line and "--help" not in line:
                    found.append(shlex.split(line, comments=True)[3:])
    return found


def test_commands_shown_compose() -> None:
    from hydra import compose, initialize_config_dir

    from mechexp.schema import register

    shown = [c for c in commands() if "--config-dir" not in c]  # those: tests/cli/test_examples.py
    assert len(shown) > 10
    register()
    with initialize_config_dir(config_dir=str(ROOT / "conf"), version_base="1.3"):
        for arguments in shown:
            words = [a for a in arguments if a not in ("-m", "[model=…]", "[task=…]")]
            first = [re.sub(r"^([\w.]+=[^,\[]+),.*", r"\1", a) for a in words]  # one job of a sweep
            compose("config", overrides=first)  # raises on an option or a choice that does not exist


def test_site_builds_strictly(tmp_path: Path) -> None:
    pytest.importorskip("material", reason="the extra [docs] is not installed")
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "-d", str(tmp_path / "site")],
        cwd=ROOT, capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Primary cause" in (tmp_path / "site" / "labels.html").read_text()
    for page in (tmp_path / "site").glob("*.html"):
        outside = re.findall(r'(?:src|href)="(https?://[^"]+\.(?:js|css|woff2?)[^"]*)"', page.read_text())
        assert not outside, f"{page.name} fetches {outside}"
