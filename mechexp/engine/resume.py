"""Resuming inside a stock model: its own layers, called with the arguments that the clean pass gave them.

No attention, norm or MLP is re-implemented, so that every architecture keeps its own: the layers' call
arguments are recorded in one clean forward pass; a layer is entered at its z by letting its attention module
return the output projection of an edited z; a layer is left at its z by cutting the pass short there.
Legend: N state, P prompt, B = N × P, T position, Q last positions that are computed, E residual width,
W z of all heads, V vocabulary, H key-value head, D head dim.
"""

import copy
import inspect
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any

import torch

from mechexp.engine.blocks import Block
from mechexp.engine.sites import end_logits, stream_module
from mechexp.engine.splice import KeyValues, Stop, cache_argument, hooked, replaced, with_cache
from mechexp.models.loaded import LoadedModel


class Unsupported(Exception):
    """This architecture cannot be resumed in this way."""


@dataclass
class Clean:
    """What one clean pass over a block left behind.

    Attributes:
        logits_PV: End-position logits.
        stream: Residual stream entering a layer, ``{layer: (P, T, E)}``.
        z: ``{layer: (P, T, W)}``.
        keys: Keys and values of a layer, ``{layer: (P, H, T, D) twice}``.
        arguments: Call arguments of every layer but the stream, by name.
        output: The base model's output object.
    """

    logits_PV: torch.Tensor = field(default_factory=lambda: torch.empty(0))
    stream: dict[int, torch.Tensor] = field(default_factory=dict)
    z: dict[int, torch.Tensor] = field(default_factory=dict)
    keys: dict[int, tuple[torch.Tensor, torch.Tensor]] = field(default_factory=dict)
    arguments: dict[int, dict[str, Any]] = field(default_factory=dict)
    output: Any = None

    def forget_below(self, layer: int) -> None:
        """Drop streams and z of layers that no later pack starts at."""
        for store in (self.stream, self.z):
            for old in [at for at in store if at < layer]:
                del store[old]


class Resumer:
    """Runs parts of a stock model.

    Args:
        loaded: The model.
    """

    def __init__(self, loaded: LoadedModel) -> None:
        self.loaded = loaded
        self._layers = loaded.layers()
        self._attention = [loaded.attention(layer) for layer in range(loaded.n_layers)]
        self._out_proj = [loaded.out_proj(layer) for layer in range(loaded.n_layers)]
        self._first = [_first_parameter(layer) for layer in self._layers]
        self._sdpa = getattr(loaded.model.config, "_attn_implementation", "") == "sdpa"
        self.has_cache = all(cache_argument(attention) for attention in self._attention)

    @torch.no_grad()
    def clean(self, block: Block, *, stream: Iterable[int], z: Iterable[int], keys: Iterable[int]) -> Clean:
        """Run the model unchanged and record what resuming needs, at the layers named.

        Raises:
            Unsupported: The model does not pass through its layers as others do.
        """
        found = Clean()
        stream, z, keys = set(stream), set(z), set(keys)
        caches = {layer: KeyValues() for layer in keys}
        with ExitStack() as stack:
            for at in range(self.loaded.n_layers):
                record = self._recorder(found, at, keep=at in stream)
                stack.enter_context(hooked(self._layers[at], record, with_kwargs=True))
            for at in z:
                stack.enter_context(hooked(self._out_proj[at], _keep_first(found.z, at)))
            if self.loaded.n_layers in stream:
                top = self.loaded.n_layers
                stack.enter_context(hooked(stream_module(self.loaded, top), _keep_first(found.stream, top)))
            for at, cache in caches.items():
                stack.enter_context(with_cache(self._attention[at], cache))

            def keep_output(_: torch.nn.Module, __: tuple[Any, ...], output: Any) -> None:
                found.output = output

            stack.callback(self._base.register_forward_hook(keep_output).remove)
            found.logits_PV = end_logits(self.loaded, block.ids_PT)
        found.keys = {at: cache.seen for at, cache in caches.items() if cache.seen is not None}
        missing = (stream - set(found.stream)) | (z - set(found.z)) | (keys - set(found.keys))
        if missing or set(found.arguments) != set(range(self.loaded.n_layers)):
            raise Unsupported(f"layers {sorted(missing)} were not seen in the clean pass")
        if not hasattr(found.output, "last_hidden_state"):
            raise Unsupported("the base model does not return last_hidden_state")
        found.output = type(found.output)(last_hidden_state=found.output.last_hidden_state[:1, -1:])
        return found

    @property
    def _base(self) -> torch.nn.Module:
        base: torch.nn.Module = self.loaded.model.base_model
        return base

    def _recorder(self, found: Clean, at: int, keep: bool) -> Callable[..., None]:
        def hook(_: torch.nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
            layer = self._layers[at]
            bound = inspect.signature(type(layer).forward).bind(layer, *args, **kwargs)
            given = {k: v for k, v in bound.arguments.items() if k not in ("self", "kwargs")}
            given.update(bound.arguments.get("kwargs", {}))
            stream = given.pop(self._first[at])
            found.arguments[at] = {k: _compact(v, stream.shape[0]) for k, v in given.items()}
            if keep:
                found.stream[at] = stream

        return hook

    def layer(self, clean: Clean, at: int, stream_BQE: torch.Tensor, length: int) -> torch.Tensor:
        """A whole layer on the last Q of ``length`` positions: stream in, stream out."""
        rows = stream_BQE.shape[1]
        with ExitStack() as stack:
            if rows < length:
                stack.enter_context(
                    with_cache(self._attention[at], self._early(clean, at, stream_BQE, length))
                )
            return self._call(clean, at, stream_BQE, length)

    def z(self, clean: Clean, at: int, stream_BQE: torch.Tensor, length: int) -> torch.Tensor:
        """A layer up to its z, (B, Q, W)."""

        def stop(_: torch.nn.Module, args: tuple[torch.Tensor, ...]) -> None:
            raise Stop(args[0])

        with ExitStack() as stack:
            stack.enter_context(hooked(self._out_proj[at], stop))
            if stream_BQE.shape[1] < length:
                stack.enter_context(
                    with_cache(self._attention[at], self._early(clean, at, stream_BQE, length))
                )
            try:
                self._call(clean, at, stream_BQE, length)
            except Stop as stopped:
                return stopped.results[0]
        raise Unsupported(f"layer {at} did not reach its output projection")

    def from_z(
        self, clean: Clean, at: int, stream_BQE: torch.Tensor, z_BQW: torch.Tensor, length: int
    ) -> torch.Tensor:
        """A layer from its z on: the attention is not redone, all that follows it is the stock layer's."""

        def projected(*_: Any, **__: Any) -> tuple[torch.Tensor, None]:
            return self._out_proj[at](z_BQW), None

        with replaced(self._attention[at], projected):
            return self._call(clean, at, stream_BQE, length)

    def project(self, at: int, z_BQW: torch.Tensor) -> torch.Tensor:
        """The linear part of the output projection: without its bias."""
        projection = self._out_proj[at]
        nothing = torch.zeros_like(z_BQW[:1, :1])
        projected: torch.Tensor = projection(z_BQW) - projection(nothing)
        return projected

    def ends(self, clean: Clean, at: int, stream_BQE: torch.Tensor, length: int) -> torch.Tensor:
        """A layer of which only the end position is needed, (B, 1, E): keys and values of all, one query."""
        if stream_BQE.shape[1] == 1 or not self.has_cache:
            return self.layer(clean, at, stream_BQE, length)[:, -1:]
        attention = self._attention[at]
        before = self._before(clean, at, stream_BQE, length)
        states = stream_BQE.shape[0] // clean.logits_PV.shape[0]
        try:
            with with_cache(attention, KeyValues(before, states, grab=True)):
                self._call(clean, at, stream_BQE, length)
        except Stop as stopped:
            whole = (stopped.results[0], stopped.results[1])
            with with_cache(attention, KeyValues(whole=whole)):
                return self._call(clean, at, stream_BQE[:, -1:], length)
        raise Unsupported(f"layer {at} does not use its key-value cache")

    def logits(self, clean: Clean, stream_B1E: torch.Tensor) -> torch.Tensor:
        """Logits (B, V) from the stream after the last layer: final norm, then the stock model's own head."""
        normed = self.loaded.final_norm()(stream_B1E)
        output = copy.copy(clean.output)
        output.last_hidden_state = normed
        with replaced(self._base, lambda *_, **__: output):
            ids = torch.zeros(normed.shape[:2], dtype=torch.long, device=self.loaded.device)
            return end_logits(self.loaded, ids)

    def _early(self, clean: Clean, at: int, stream_BQE: torch.Tensor, length: int) -> KeyValues:
        states = stream_BQE.shape[0] // clean.logits_PV.shape[0]
        return KeyValues(self._before(clean, at, stream_BQE, length), states)

    def _before(
        self, clean: Clean, at: int, stream_BQE: torch.Tensor, length: int
    ) -> tuple[torch.Tensor, torch.Tensor] | None:
        rows = stream_BQE.shape[1]
        if rows == length:
            return None
        key, value = clean.keys[at]
        return key[:, :, : length - rows], value[:, :, : length - rows]

    def _call(self, clean: Clean, at: int, stream_BQE: torch.Tensor, length: int) -> torch.Tensor:
        batch, rows = stream_BQE.shape[:2]
        states = batch // clean.logits_PV.shape[0]
        arguments = {
            name: _fit(name, value, rows, length, states) for name, value in clean.arguments[at].items()
        }
        if arguments.get("attention_mask", 0) is None and 1 < rows < length and self._sdpa:
            # without a mask, sdpa aligns several last queries with the first keys instead of the last
            seen = torch.ones(rows, length, dtype=torch.bool, device=stream_BQE.device)
            arguments["attention_mask"] = seen.tril(length - rows)[None, None]
        output = self._layers[at](stream_BQE, **arguments)
        stream: torch.Tensor = output[0] if isinstance(output, tuple) else output
        return stream


def _first_parameter(layer: torch.nn.Module) -> str:
    return list(inspect.signature(type(layer).forward).parameters)[1]


def _keep_first(store: dict[int, torch.Tensor], at: int) -> Callable[..., None]:
    def hook(_: torch.nn.Module, args: tuple[torch.Tensor, ...]) -> None:
        store[at] = args[0]

    return hook


def _compact(value: Any, batch: int) -> Any:
    """One row of a per-prompt argument where all rows are equal, as masks and positions of one length are."""
    if isinstance(value, tuple | list):
        return type(value)(_compact(part, batch) for part in value)
    if isinstance(value, torch.Tensor) and value.ndim and value.shape[0] == batch and batch > 1:
        first = value[:1]
        return first.clone() if bool((value == first).all()) else value
    return value


def _fit(name: str, value: Any, rows: int, length: int, states: int) -> Any:
    """A layer's argument for the last ``rows`` positions and ``states`` copies of the prompts."""
    if isinstance(value, tuple | list):
        return type(value)(_fit(name, part, rows, length, states) for part in value)
    if not isinstance(value, torch.Tensor) or not value.ndim:
        return value
    axis = {"attention_mask": -2, "position_embeddings": -2}.get(name, -1)
    if rows < length:
        if value.ndim < -axis or value.shape[axis] != length:
            raise Unsupported(f"argument {name} of shape {tuple(value.shape)} cannot be cut to rows")
        value = value.narrow(axis, length - rows, rows)
    if value.shape[0] > 1 and value.ndim > 1:
        value = value.repeat(states, *[1] * (value.ndim - 1))
    return value
