"""What a job is doing and how long it will take: a bar on a terminal, lines in the log everywhere."""

import logging
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    SpinnerColumn,
    TextColumn,
    TimeRemainingColumn,
)

log = logging.getLogger(__name__)

Advance = Callable[[int, int], None]
LOG_EVERY_S = 30.0


class JobProgress:
    """Progress of one job.

    Args:
        title: What the job is, e.g. ``smollm2 · ioi``.
        console: Where the bar is drawn; nothing is drawn where it is not a terminal.
    """

    def __init__(self, title: str, console: Console | None = None) -> None:
        self.title = title
        self.console = console or Console(stderr=True)
        self.timing: dict[str, float] = {}

    @contextmanager
    def stage(self, name: str, key: str = "") -> Iterator[Advance]:
        """One step of the job; yields ``advance(done, total)`` for steps that can be counted.

        Args:
            name: What is being done, shown to the user.
            key: Where the seconds it took are kept in ``timing`` (added up), "" for nowhere.
        """
        start = last_line = time.monotonic()
        log.info("%s: %s", self.title, name)
        bar = Progress(
            SpinnerColumn(),
            TextColumn("{task.description}"),
            BarColumn(bar_width=24),
            MofNCompleteColumn(),
            TimeRemainingColumn(),
            console=self.console,
            transient=True,
            disable=not self.console.is_terminal,
        )
        with bar:
            task = bar.add_task(f"{self.title}: {name}", total=None)

            def advance(done: int, total: int) -> None:
                nonlocal last_line
                bar.update(task, completed=done, total=total)
                now = time.monotonic()
                if done and now - last_line >= LOG_EVERY_S:
                    last_line = now
                    left = (now - start) / done * (total - done)
                    log.info("%s: %s: %d of %d, about %.0f s left", self.title, name, done, total, left)

            try:
                yield advance
            finally:
                seconds = time.monotonic() - start
                log.info("%s: %s took %.1f s", self.title, name, seconds)
                if key:
                    self.timing[key] = self.timing.get(key, 0.0) + seconds
