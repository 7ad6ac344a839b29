"""The two kinds of site that the engine reads and changes: a layer's z, and the stream entering a layer.

Legend: P prompt, T position, W width (all heads' z side by side, or the residual stream).
"""

from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import torch

from mechexp.models.hooks import edit_z
from mechexp.models.loaded import LoadedModel

Site = tuple[str, int]  # ("z" | "resid", layer)
Change = Callable[[torch.Tensor], torch.Tensor]


def stream_module(loaded: LoadedModel, layer: int) -> torch.nn.Module:
    """The module that reads the residual stream entering ``layer`` (``n_layers``: the final norm)."""
    return loaded.final_norm() if layer == loaded.n_layers else loaded.layers()[layer]


@contextmanager
def changing(loaded: LoadedModel, changes: dict[Site, Change]) -> Iterator[None]:
    """Change activations of every forward pass inside the block by plain hooks, which are always removed.

    Args:
        loaded: The model.
        changes: What to do at each site: activation (P, T, W) → activation of the same shape.

    Raises:
        RuntimeError: A hook never fired.
    """
    fired = dict.fromkeys(changes, 0)

    def at_stream(site: Site) -> Callable[..., Any]:
        def hook(_: torch.nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
            fired[site] += 1
            if args:
                return (changes[site](args[0]), *args[1:]), kwargs
            return args, {**kwargs, "hidden_states": changes[site](kwargs["hidden_states"])}

        return hook

    def at_z(site: Site) -> Change:
        def change(z_PTHD: torch.Tensor) -> torch.Tensor:
            fired[site] += 1
            return changes[site](z_PTHD.flatten(2)).view_as(z_PTHD)

        return change

    with ExitStack() as stack:
        for site in changes:
            if site[0] == "resid":
                module = stream_module(loaded, site[1])
                handle = module.register_forward_pre_hook(at_stream(site), with_kwargs=True)
                stack.callback(handle.remove)
        heads = {site[1]: at_z(site) for site in changes if site[0] == "z"}
        if heads:
            stack.enter_context(edit_z(loaded, heads))
        yield
    silent = [site for site, count in fired.items() if count == 0]
    if silent:
        raise RuntimeError(f"interventions that never acted: {silent}")


@torch.no_grad()
def capture(
    loaded: LoadedModel, ids_PT: torch.Tensor, *, z: Iterable[int] = (), resid: Iterable[int] = ()
) -> dict[Site, torch.Tensor]:
    """Activations of one clean forward pass at the layers named, ``{(kind, layer): (P, T, W)}``."""
    found: dict[Site, torch.Tensor] = {}

    def keep(site: Site) -> Change:
        def read(activation_PTW: torch.Tensor) -> torch.Tensor:
            found[site] = activation_PTW
            return activation_PTW

        return read

    sites: list[Site] = [("z", layer) for layer in z] + [("resid", layer) for layer in resid]
    with changing(loaded, {site: keep(site) for site in sites}):
        end_logits(loaded, ids_PT)
    return found


@torch.no_grad()
def end_logits(loaded: LoadedModel, ids_PT: torch.Tensor) -> torch.Tensor:
    """Logits at the last position of one plain forward pass, (P, V); no other position's are computed."""
    handle = loaded.unembed().register_forward_pre_hook(_contiguous)
    try:
        logits: torch.Tensor = loaded.model(input_ids=ids_PT, use_cache=False, logits_to_keep=1).logits
    finally:
        handle.remove()
    return logits[:, -1]


def _contiguous(_: torch.nn.Module, args: tuple[torch.Tensor, ...]) -> tuple[torch.Tensor, ...]:
    # the slice of last positions is strided, and on a CPU its product with the vocabulary is then computed
    # row by row, several times slower
    return (args[0].contiguous(), *args[1:])
