"""``mechexp`` in this very process, so that a test can count, watch and break what it does."""

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

FAST = [
    "task.n=24", "screen=prev_token", "screen.k=1", "singles=none", "control.max_sets=3",
    "ablation.sensitivity=False", "protocol.diagnostics=False", "protocol.unions=False",
    "protocol.bootstrap=100", "taxonomy.min_top1=0", "taxonomy.min_frac_correct=0",
]  # fmt: skip


class Here:
    """Runs command lines in a folder.

    Attributes:
        cwd: The folder; relative stores and outputs go there.
        base: Options of cells that take a second.
        measured: How many cells the protocol has been run on since the last command began.
        before: Called with the number of the cell before it is measured.
    """

    def __init__(self, cwd: Path, model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        from mechexp.protocols import PROTOCOLS

        self.cwd, self.measured = cwd, 0
        self.base = ["model=local", f"model.path={model}", *FAST]
        self.before: Callable[[int], object] = lambda number: None
        self._patch = monkeypatch
        protocol = PROTOCOLS["screen_ablate"]

        def watched(*args: Any) -> Any:
            self.measured += 1
            self.before(self.measured)
            return protocol(*args)

        monkeypatch.setitem(PROTOCOLS._entries, "screen_ablate", watched)

    def __call__(self, *arguments: str) -> int:
        """The exit code of ``mechexp ARGUMENTS``."""
        from mechexp import cli

        self.measured = 0
        self._patch.chdir(self.cwd)
        self._patch.setattr(sys, "argv", ["mechexp", *arguments])
        with pytest.raises(SystemExit) as stop:
            cli.main()
        return int(stop.value.code or 0)  # type: ignore[call-overload]

    def sweep(self, *arguments: str) -> int:
        """A sweep over three tasks."""
        return self("-m", *self.base, "task=ioi,gt,vb", *arguments)

    def in_child(self, *arguments: str) -> int:
        """``sweep`` in a forked process, which may be killed: its wait status as an exit code."""
        child = os.fork()
        if child == 0:
            code = 99
            try:
                code = self.sweep(*arguments)
            finally:
                os._exit(code)
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])

    def sweeps(self) -> list[Path]:
        """Folders of the sweeps so far, oldest first."""
        return sorted(p.parent for p in self.cwd.glob("multirun/*/*/sweep.json"))


def table(sweep: Path) -> list[dict[str, str]]:
    """The joint table of a sweep."""
    import csv

    with (sweep / "joint.csv").open(encoding="utf-8") as lines:
        return list(csv.DictReader(lines))
