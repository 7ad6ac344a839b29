"""A circuit: heads that a screen picked in one model, with the evidence; bound to that model."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mechexp.errors import UserError
from mechexp.models.heads import Geometry, Head, parse_heads

SCHEMA = "mechexp.circuit/1"


@dataclass(frozen=True)
class Circuit:
    """Heads that belong together, and the model in which they do.

    A head index means nothing in another model: the published grid measured three circuits on models they
    were not found in. So a circuit carries its model's identity and geometry and refuses any other.

    Attributes:
        screen: Name of the screen that picked the heads.
        heads: The heads, best first (for a user's own list: in the order given).
        model_id: Hub id or name of the model.
        revision: Model revision.
        weights_hash: Hash of the weights the screen ran on ("" if unknown).
        geometry: Layers × heads × head_dim.
        scores: Screen score of each picked head, same order as ``heads``.
        pattern: Share of the picked heads whose attention pattern is present (§7.4), NaN where the screen
            has no target position.
        details: How it was picked: rule, thresholds, clamps hit, sequence length.
        notes: Sentences for the reader.
    """

    screen: str
    heads: tuple[Head, ...]
    model_id: str
    revision: str
    weights_hash: str
    geometry: Geometry
    scores: tuple[float, ...] = ()
    pattern: float = float("nan")
    details: Mapping[str, Any] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        self.geometry.require(self.heads, where=f"circuit {self.screen!r} of {self.model_id}")

    def layers(self) -> tuple[int, ...]:
        """Layers in the order in which the circuit first names them."""
        return tuple(dict.fromkeys(h.layer for h in self.heads))

    def pairs(self) -> list[tuple[int, int]]:
        """The heads as ``[(layer, head)]``, best first: the form that TransformerLens notebooks use."""
        return [(h.layer, h.head) for h in self.heads]

    def save(self, path: Path) -> None:
        """Write the circuit as JSON, heads as ``L1H3``."""
        g = self.geometry
        row = {
            "schema": SCHEMA,
            "screen": self.screen,
            "heads": [str(h) for h in self.heads],
            "scores": list(self.scores),
            "pattern": None if self.pattern != self.pattern else self.pattern,
            "model": {
                "id": self.model_id,
                "revision": self.revision,
                "weights_hash": self.weights_hash,
                "n_layers": g.n_layers,
                "n_heads": g.n_heads,
                "head_dim": g.head_dim,
            },
            "details": dict(self.details),
            "notes": list(self.notes),
        }
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(row, indent=1) + "\n", encoding="utf-8")

    @classmethod
    def load(cls, path: Path) -> "Circuit":
        """Read a circuit file.

        Raises:
            UserError: The file is missing, is not JSON or lacks a field.
        """
        where = str(path)
        try:
            row = json.loads(path.read_text(encoding="utf-8"))
            model = row["model"]
            pattern = row.get("pattern")
            return cls(
                screen=str(row["screen"]),
                heads=parse_heads(row["heads"], where=where),
                model_id=str(model["id"]),
                revision=str(model.get("revision", "")),
                weights_hash=str(model.get("weights_hash", "")),
                geometry=Geometry(int(model["n_layers"]), int(model["n_heads"]), int(model["head_dim"])),
                scores=tuple(float(s) for s in row.get("scores", ())),
                pattern=float("nan") if pattern is None else float(pattern),
                details=row.get("details", {}),
                notes=tuple(row.get("notes", ())),
            )
        except OSError as error:
            raise UserError(f"cannot read the circuit file: {error}", where=where) from error
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise UserError(
                f"not a circuit file ({type(error).__name__}: {error})",
                where=where,
                expected='JSON with "screen", "heads": ["L1H3", …] and "model": {"id", "revision", '
                '"n_layers", "n_heads", "head_dim"}',
                todo="use a circuits/<screen>.json that a run has written",
            ) from error
