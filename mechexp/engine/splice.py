"""Temporary changes to a stock model: a forward replaced, a key-value cache slipped in, a pass cut short.

Everything here is undone on the way out, also after an error, and hooks of others stay and still fire.
Legend: N state, P prompt, B = N × P, T position, Q rows that are computed, H key-value head, D head dim.
"""

import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch

CACHE_NAMES = ("cache", "past_key_values", "past_key_value", "layer_past")


class Stop(Exception):
    """Cuts a forward pass short; carries what was computed."""

    def __init__(self, *results: torch.Tensor) -> None:
        super().__init__()
        self.results = results


@contextmanager
def replaced(module: torch.nn.Module, forward: Callable[..., Any]) -> Iterator[None]:
    """Let ``module`` run another forward; hooks on it fire as ever."""
    own = module.__dict__.get("forward")  # accelerate leaves one of its own here
    module.__dict__["forward"] = forward
    try:
        yield
    finally:
        if own is None:
            del module.__dict__["forward"]
        else:
            module.__dict__["forward"] = own


@contextmanager
def hooked(module: torch.nn.Module, hook: Callable[..., Any], *, with_kwargs: bool = False) -> Iterator[None]:
    """A forward pre-hook for the duration of the context."""
    handle = module.register_forward_pre_hook(hook, with_kwargs=with_kwargs)
    try:
        yield
    finally:
        handle.remove()


def cache_argument(attention: torch.nn.Module) -> str | None:
    """The name under which an attention module takes its key-value cache; None where it takes none."""
    names = inspect.signature(type(attention).forward).parameters
    return next((name for name in CACHE_NAMES if name in names), None)


@contextmanager
def with_cache(attention: torch.nn.Module, cache: "KeyValues") -> Iterator[None]:
    """Hand ``attention`` a key-value cache of ours, whatever its layer passes."""
    name = cache_argument(attention)
    assert name is not None

    def hook(_: torch.nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        return args, {**kwargs, name: cache}

    with hooked(attention, hook, with_kwargs=True):
        yield


class KeyValues:
    """Stands in for a ``transformers`` cache in one layer; ``update`` is all that attention calls.

    Args:
        before_PHTD: Keys and values of earlier positions, put in front of each state's own.
        states: How many states N share them.
        whole: Keys and values (B, H, T, D) of all positions, already computed; the attention's own are
            dropped.
        grab: Cut the pass short once keys and values are there.
    """

    def __init__(
        self,
        before_PHTD: tuple[torch.Tensor, torch.Tensor] | None = None,
        states: int = 1,
        *,
        whole: tuple[torch.Tensor, torch.Tensor] | None = None,
        grab: bool = False,
    ) -> None:
        self._before, self._states, self._whole, self._grab = before_PHTD, states, whole, grab
        self.seen: tuple[torch.Tensor, torch.Tensor] | None = None

    def update(
        self, key_BHQD: torch.Tensor, value_BHQD: torch.Tensor, *_: Any, **__: Any
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Keys and values that the attention is to use."""
        pair = (key_BHQD, value_BHQD) if self._whole is None else self._whole
        if self._before is not None:
            early = [t.expand(self._states, *t.shape).flatten(0, 1) for t in self._before]
            pair = (torch.cat([early[0], pair[0]], dim=2), torch.cat([early[1], pair[1]], dim=2))
        self.seen = pair
        if self._grab:
            raise Stop(*pair)
        return pair
