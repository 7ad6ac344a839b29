"""``python -m mechexp.sync``: sends results that are on disk but have not reached the tracking store."""

import argparse
import dataclasses
import json
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml

from mechexp.errors import UserError
from mechexp.findings.config import TaxonomyConfig
from mechexp.tracking.config import TrackingConfig
from mechexp.tracking.files import read_json
from mechexp.tracking.joint import SWEEP, judge_sweep_folder, write_joint
from mechexp.tracking.masking import MASK
from mechexp.tracking.mirror import mirror_cell
from mechexp.tracking.results import CONFIG, find_cells
from mechexp.tracking.store import TrackingError
from mechexp.tracking.sweep import deliver_sweep

DEFAULT_FOLDERS = ("multirun", "outputs")


def main(arguments: Sequence[str] | None = None) -> int:
    """Parse, send, tell; returns the exit code: 0 only if everything is delivered now."""
    args = _parser().parse_args(arguments)
    try:
        roots = _roots(args.folders)
        sync = Sync(args)
        for root in roots:
            sync.send(root)
    except UserError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return sync.tell()


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m mechexp.sync",
        description="Sends results that have not reached the tracking store; what is there already is not "
        "sent twice. By default each result goes where its own configuration says.",
    )
    parser.add_argument(
        "folders",
        nargs="*",
        metavar="DIR",
        help=f"folders with results (default: {', '.join(DEFAULT_FOLDERS)})",
    )
    parser.add_argument("--root", default="", help="send to the local store in this folder instead")
    parser.add_argument("--uri", default="", help="send to this tracking server instead")
    parser.add_argument("--experiment", default="", help="send to this MLflow experiment instead")
    return parser


def _roots(folders: Sequence[str]) -> list[Path]:
    roots = [Path(f) for f in folders] or [p for p in map(Path, DEFAULT_FOLDERS) if p.is_dir()]
    missing = [str(r) for r in roots if not r.is_dir()]
    if missing or not roots:
        raise UserError(
            f"no such folder: {', '.join(missing)}" if missing else "no folder with results here",
            expected=f"folders that jobs have written, such as {' or '.join(DEFAULT_FOLDERS)}",
            todo="python -m mechexp.sync DIR",
        )
    return roots


class Sync:
    """Sends sweeps and cells one after the other and counts what became of them.

    Args:
        args: The parsed command line; ``root``, ``uri`` and ``experiment`` override a result's own store.
    """

    def __init__(self, args: argparse.Namespace) -> None:
        self._args = args
        self._counts: Counter[str] = Counter()
        self._problems: list[str] = []
        self._dead: dict[tuple[str, str, str], str] = {}

    def send(self, root: Path) -> None:
        """Send everything below a folder: whole sweeps, so that their labels are joint, then single cells."""
        swept: list[Path] = []
        for sweep in sorted(p.parent for p in root.rglob(SWEEP)):
            swept.append(sweep)
            self._guarded(sweep, lambda sweep=sweep: self._sweep(sweep))
        for cell in find_cells(root):
            if not any(sweep in cell.parents for sweep in swept):
                self._guarded(cell, lambda cell=cell: self._cell(cell))

    def tell(self) -> int:
        """Print the summary; returns the exit code."""
        for problem in self._problems:
            print(f"not sent: {problem}", file=sys.stderr)
        c = self._counts
        print(f"{c['sent']} cells sent, {c['there']} were there already, {c['off']} are not tracked, "
              f"{len(self._problems)} folders not sent")  # fmt: skip
        if c["off"]:
            print("cells with tracking=off are sent only with --root or --uri")
        return int(bool(self._problems))

    def _guarded(self, folder: Path, send: Any) -> None:
        """One broken folder must not keep the others from being sent."""
        try:
            send()
        except UserError as error:
            self._problems.append(f"{folder}: {error}")

    def _cell(self, folder: Path) -> None:
        config = self._store_of(folder)
        if config.mode == "off":
            self._counts["off"] += 1
            return
        with self._alive(config):
            done = mirror_cell(folder, config)
        self._counts["sent" if done and done.new else "there"] += 1

    def _sweep(self, folder: Path) -> None:
        row = read_json(folder / SWEEP, "sweep file")
        taxonomy = _fields(TaxonomyConfig, row.get("taxonomy"), folder / SWEEP)
        joint = judge_sweep_folder(folder, taxonomy)
        config = self._override(_fields(TrackingConfig, row.get("tracking"), folder / SWEEP))
        if config.mode == "off":
            self._counts["off"] += len(joint.cells)
            return
        write_joint(joint)
        with self._alive(config):
            new = deliver_sweep(
                config,
                joint,
                sweep_id=str(row.get("sweep_id") or folder.name),
                command=[str(part) for part in row.get("command") or ()],
            )
        self._counts["sent"] += new
        self._counts["there"] += len(joint.cells) - new

    def _alive(self, config: TrackingConfig) -> "_Alive":
        return _Alive(self._dead, (config.mode, config.uri, config.root))

    def _store_of(self, folder: Path) -> TrackingConfig:
        path = folder / CONFIG
        try:
            row = yaml.safe_load(path.read_text(encoding="utf-8")) or {}
            tracking = row.get("tracking")
        except (OSError, yaml.YAMLError, AttributeError, RecursionError, ValueError) as error:
            raise UserError(f"cannot read {CONFIG} ({error})", where=str(path)) from error
        return self._override(_fields(TrackingConfig, tracking, path))

    def _override(self, config: TrackingConfig) -> TrackingConfig:
        """The store that the command line names, else the result's own (its credentials were not stored)."""
        args = self._args
        changes = {"experiment": args.experiment} if args.experiment else {}
        if args.uri:
            changes |= {"mode": "server", "uri": args.uri}
        elif args.root:
            changes |= {"mode": "local", "root": args.root}
        else:
            changes["uri"] = config.uri.replace(f"{MASK}@", "")
        return dataclasses.replace(config, **changes)


class _Alive:
    """Ask a store that has failed once no second time: each try costs seconds."""

    def __init__(self, dead: dict[tuple[str, str, str], str], key: tuple[str, str, str]) -> None:
        self._dead, self._key = dead, key

    def __enter__(self) -> None:
        if self._key in self._dead:
            raise TrackingError(self._dead[self._key])

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, TrackingError):
            self._dead[self._key] = error.found


def _fields(kind: type[Any], row: object, where: Path) -> Any:
    """A config dataclass from stored plain data; keys of other versions are left out."""
    if row is None:
        return kind()
    if not isinstance(row, dict):
        raise UserError(
            f"settings are {json.dumps(row, default=str)[:80]}", where=str(where), expected="a mapping"
        )
    known = {f.name: type(getattr(kind(), f.name)) for f in dataclasses.fields(kind)}
    chosen = {k: v for k, v in row.items() if k in known}
    for name, value in chosen.items():
        if not isinstance(value, known[name]) and not (known[name] is float and isinstance(value, int)):
            raise UserError(f"{name} is {str(value)[:80]!r}", where=str(where), expected=known[name].__name__)
    return kind(**chosen)


if __name__ == "__main__":
    sys.exit(main())
