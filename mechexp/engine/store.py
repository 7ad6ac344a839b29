"""Known outcomes on disk: what was measured once is not measured again, also after a crash.

One sqlite file in a folder, shared by runs; several processes may read and write at once. A row is keyed by
everything that decides the numbers: weights, dtype, prompts and answers, baseline prompts, seed, what is done
to the model, and the engine's version.
"""

import hashlib
import io
import logging
import sqlite3
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path

import numpy as np

from mechexp.engine.condition import Condition, Outcome
from mechexp.errors import UserError
from mechexp.models.loaded import LoadedModel
from mechexp.tasks.prompts import PromptSet

VERSION = 1  # raise it when a change makes the engine's numbers differ
FILE = "outcomes.sqlite"
ARRAYS = ("top1", "logit_diff", "prob_diff", "target_rank")
_WAIT_S = 60.0

log = logging.getLogger(__name__)


class Store:
    """Outcomes of one model on one set of prompts.

    Args:
        folder: Where the file lies; made where missing.
        loaded: The model.
        prompts: The prompts measured.
        reference: The prompts that mean values come from.
        seed: Seed of the choice of resampling donors.

    Raises:
        UserError: The folder cannot be written.
    """

    def __init__(
        self,
        folder: str | Path,
        loaded: LoadedModel,
        prompts: PromptSet,
        reference: PromptSet | None,
        seed: int,
    ) -> None:
        self._path = Path(folder).expanduser() / FILE
        self._model = _digest(VERSION, loaded.weights_hash, loaded.dtype, loaded.config_hash)
        positions = [sorted(places.items()) for places in prompts.positions]
        self._prompts = _digest(prompts.tokens_hash, positions)
        source = prompts.part("screen") if reference is None else reference
        self._means, self._seed = _digest(source.ids), str(seed)
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            self._prepare()
        except (OSError, sqlite3.OperationalError) as error:
            raise UserError(
                f"the outcome store cannot be written: {error}",
                where=str(self._path),
                todo='choose another folder with engine.store=…, or engine.store="" for none',
            ) from error

    def key(self, condition: Condition) -> str:
        """What decides the outcome of ``condition``; a baseline it does not use is left out."""
        kinds = {edit.value for edit in condition.all_edits if isinstance(edit.value, str)}
        means = self._means if kinds & {"mean", "mean_all"} else ""
        seed = self._seed if "resample" in kinds else ""
        return _digest(self._model, self._prompts, means, seed, condition.key)

    def load(self, conditions: Iterable[Condition]) -> dict[str, Outcome]:
        """Known outcomes, by ``condition.key``."""
        wanted = {self.key(c): c for c in conditions}
        found: dict[str, Outcome] = {}
        with self._open() as base:
            keys = list(wanted)
            for start in range(0, len(keys), 500):
                part = keys[start : start + 500]
                marks = ",".join("?" * len(part))
                rows = base.execute(f"SELECT key, edited, arrays FROM outcomes WHERE key IN ({marks})", part)
                for key, edited, blob in rows:
                    condition = wanted[key]
                    with np.load(io.BytesIO(blob), allow_pickle=False) as arrays:
                        columns = {name: arrays[name] for name in ARRAYS}
                    found[condition.key] = Outcome(condition, **columns, edited=int(edited))
        return found

    def save(self, outcomes: Mapping[str, Outcome]) -> None:
        """Keep outcomes; one that is known already stays as it is."""
        rows = []
        for outcome in outcomes.values():
            blob = io.BytesIO()
            np.savez(blob, **{name: getattr(outcome, name) for name in ARRAYS})
            rows.append(
                (self.key(outcome.condition), str(outcome.condition), outcome.edited, blob.getvalue())
            )
        with self._open() as base, base:
            base.executemany("INSERT OR IGNORE INTO outcomes VALUES (?, ?, ?, ?)", rows)

    @contextmanager
    def _open(self) -> Iterator[sqlite3.Connection]:
        with closing(sqlite3.connect(self._path, timeout=_WAIT_S)) as base:
            yield base

    def _prepare(self) -> None:
        """Make the table; a file that is no database is set aside, never deleted."""
        try:
            self._make_table()
        except sqlite3.DatabaseError as error:
            if isinstance(error, sqlite3.OperationalError):
                raise
            aside = self._path.with_name(f"{FILE}.broken-{time.time_ns()}")
            self._path.replace(aside)
            for extra in ("-wal", "-shm"):
                self._path.with_name(FILE + extra).unlink(missing_ok=True)
            log.warning("outcome store %s is damaged (%s); set aside as %s", self._path, error, aside.name)
            self._make_table()

    def _make_table(self) -> None:
        with self._open() as base, base:
            base.execute("PRAGMA journal_mode=WAL")
            base.execute(
                "CREATE TABLE IF NOT EXISTS outcomes "
                "(key TEXT PRIMARY KEY, condition TEXT, edited INTEGER, arrays BLOB) WITHOUT ROWID"
            )
            base.execute("SELECT count(*) FROM (SELECT key FROM outcomes LIMIT 1)").fetchone()


def _digest(*parts: object) -> str:
    return hashlib.sha256("|".join(map(str, parts)).encode()).hexdigest()
