"""Circuits that the user brings: a list of heads, or a saved circuit of this very model."""

from pathlib import Path

from mechexp.errors import UserError
from mechexp.models import LoadedModel
from mechexp.models.heads import Geometry, parse_heads
from mechexp.screens.circuit import Circuit
from mechexp.screens.exchange import is_saved_circuit, read_heads


def from_heads(loaded: LoadedModel, texts: list[str]) -> Circuit:
    """The circuit of ``screen=heads screen.heads=[L1H3,L2H1]``, in the order given.

    Raises:
        UserError: No heads, a malformed one, or one that the model does not have.
    """
    if not texts:
        raise UserError(
            "screen=heads without heads", where="screen.heads", todo="name them: screen.heads=[L1H3,L2H1]"
        )
    heads = parse_heads(texts, where="screen.heads")
    loaded.geometry.require(heads, where=f"screen.heads, model {loaded.name}")
    return Circuit(
        screen="heads",
        heads=heads,
        model_id=loaded.id,
        revision=loaded.revision,
        weights_hash=loaded.weights_hash,
        geometry=loaded.geometry,
        details={"rule": "named by the user"},
    )


def from_file(loaded: LoadedModel, path: str) -> Circuit:
    """A saved circuit, refused on any model but its own; or a bare list of heads, as JSON or CSV.

    Raises:
        UserError: No path, an unreadable file, a circuit of another model, revision, size or weights, or a
            head that the model does not have.
    """
    if not path:
        raise UserError("screen=file without a file", where="screen.file", todo="name it: screen.file=PATH")
    if not is_saved_circuit(Path(path)):
        return _bare(loaded, path)
    circuit = Circuit.load(Path(path))
    # A checkpoint of the same size is another model too: the head indices mean nothing there.
    for what, theirs, ours in (
        ("model", circuit.model_id, loaded.id),
        ("revision", circuit.revision, loaded.revision),
        ("head geometry", _size(circuit.geometry), _size(loaded.geometry)),
        ("weights", circuit.weights_hash[:12], loaded.weights_hash[:12] if circuit.weights_hash else ""),
    ):
        if theirs != ours:
            raise UserError(
                f"the circuit belongs to another {what}: {theirs or '(none)'}, not {ours or '(none)'}",
                where=path,
                expected=f"a circuit found in {loaded.id} ({_size(loaded.geometry)})",
                todo="screen this model itself; head indices do not carry over between models",
            )
    return circuit


def _bare(loaded: LoadedModel, path: str) -> Circuit:
    """Heads of a file that does not say which model they belong to: the user's word for it."""
    heads = read_heads(Path(path))
    if not heads:
        raise UserError("the file names no head", where=path)
    loaded.geometry.require(heads, where=f"{path}, model {loaded.name}")
    return Circuit(
        screen="file",
        heads=heads,
        model_id=loaded.id,
        revision=loaded.revision,
        weights_hash=loaded.weights_hash,
        geometry=loaded.geometry,
        details={"rule": "named by the user's file"},
        notes=("the file does not say in which model these heads were found",),
    )


def _size(geometry: Geometry) -> str:
    return f"{geometry.n_layers} layers × {geometry.n_heads} heads × {geometry.head_dim}"
