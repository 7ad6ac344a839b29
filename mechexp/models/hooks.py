"""Reading and editing z, the per-head attention output, with plain torch hooks.

Hooks are removed on the way out, also after an error, and never touch hooks that others registered: theirs
run first where they were there first.

Shapes: B batch, T position, H query head, D head dim.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager

import torch
from torch import Tensor

from mechexp.models.loaded import LoadedModel

Edit = Callable[[Tensor], Tensor]
"""z_BTHD → z_BTHD."""


@contextmanager
def edit_z(loaded: LoadedModel, edits: Mapping[int, Edit]) -> Iterator[None]:
    """Replace z at some layers while the context is open.

    Args:
        loaded: The model.
        edits: For each layer to edit, a function z_BTHD → z_BTHD of the same shape, type and device. It may
            return a new tensor or change the one it gets.

    Raises:
        RuntimeError: A hook never fired although the context was left without an error: the model was not
            run, or its layout is wrong.
        ValueError: An edit changed the shape, type or device.
    """
    fired = dict.fromkeys(edits, 0)

    def hook(layer: int, edit: Edit) -> Callable[..., tuple[Tensor, ...]]:
        def before(_module: torch.nn.Module, args: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
            fired[layer] += 1
            z_BTHD = split_heads(loaded, args[0])
            edited_BTHD = edit(z_BTHD)
            _same_kind(layer, z_BTHD, edited_BTHD)
            return (edited_BTHD.flatten(-2), *args[1:])

        return before

    with ExitStack() as stack:
        for layer, edit in edits.items():
            handle = loaded.out_proj(layer).register_forward_pre_hook(hook(layer, edit))
            stack.callback(handle.remove)
        yield
    _require_fired(fired, "edit_z")


@contextmanager
def capture_z(loaded: LoadedModel, layers: Sequence[int] | None = None) -> Iterator[dict[int, Tensor]]:
    """Record z while the context is open.

    Usage::

        with capture_z(loaded) as z:
            loaded.model(input_ids=ids)
        z[3]  # (B, T, H, D) of layer 3

    Args:
        loaded: The model.
        layers: Layers to record; all by default.

    Yields:
        ``{layer: z_BTHD}``, filled by the forward pass (by the last one, if there are several). Inside
        ``edit_z`` it records the edited z.

    Raises:
        RuntimeError: A layer was not recorded although the context was left without an error.
    """
    wanted = range(loaded.n_layers) if layers is None else layers
    seen: dict[int, Tensor] = {}

    def hook(layer: int) -> Callable[..., None]:
        def before(_module: torch.nn.Module, args: tuple[Tensor, ...]) -> None:
            # clone: an edit may change in place what it gets
            seen[layer] = split_heads(loaded, args[0]).detach().clone()

        return before

    with ExitStack() as stack:
        for layer in wanted:
            stack.callback(loaded.out_proj(layer).register_forward_pre_hook(hook(layer)).remove)
        yield seen
    _require_fired({layer: int(layer in seen) for layer in wanted}, "capture_z")


def split_heads(loaded: LoadedModel, z: Tensor) -> Tensor:
    """(…, H·D) → (…, H, D)."""
    if z.shape[-1] != loaded.n_heads * loaded.head_dim:
        raise RuntimeError(
            f"the output projection of this {loaded.arch} model takes {z.shape[-1]} features, "
            f"not {loaded.n_heads} heads × {loaded.head_dim}: its adapter entry does not fit"
        )
    return z.reshape(*z.shape[:-1], loaded.n_heads, loaded.head_dim)


def _same_kind(layer: int, before: Tensor, after: Tensor) -> None:
    if not isinstance(after, Tensor):
        raise ValueError(f"the edit of layer {layer} returned {type(after).__name__}, not z")
    kinds = [(tuple(t.shape), t.dtype, t.device) for t in (before, after)]
    if kinds[0] != kinds[1]:
        raise ValueError(f"the edit of layer {layer} turned z {kinds[0]} into {kinds[1]}")


def _require_fired(fired: Mapping[int, int], what: str) -> None:
    silent = [layer for layer, n in fired.items() if not n]
    if silent:
        raise RuntimeError(f"{what}: no forward pass went through layers {silent} while it was open")
