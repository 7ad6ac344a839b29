"""The check at load that heads are where the adapter table says: wrong slices are refused, never used.

Shapes: B batch, T position, H query head, D head dim, E residual.
"""

from contextlib import ExitStack
from typing import Any

import torch
from torch import Tensor

from mechexp.errors import UserError
from mechexp.models.hooks import capture_z, edit_z
from mechexp.models.loaded import LoadedModel
from mechexp.models.weights import head_values, project_head, shared_bias

PROMPT_LENGTH = 8
TOLERANCE = {"float32": 1e-4, "bfloat16": 4e-2, "float16": 1e-2}  # of the largest value compared


@torch.no_grad()
def verify(loaded: LoadedModel) -> None:
    """Check the layout against the running model, on a short random prompt.

    * A pass with hooks that change nothing equals the plain pass, and the hooks fire in every layer.
    * In every layer, each head's z is its attention row times the value vectors that the layout finds for it
      (where the attention implementation gives its pattern).
    * Zeroing one head's z subtracts exactly that head's projection from the attention output, and changes
      the logits.

    Raises:
        UserError: A check failed; says which, and by how much.
    """
    ids = _random_ids(loaded)
    try:
        plain = loaded.model(input_ids=ids, use_cache=False).logits
        seen = _Seen()
        with (
            edit_z(loaded, dict.fromkeys(range(loaded.n_layers), _same)),
            capture_z(loaded) as z,
            seen.watch(loaded),
        ):
            hooked = loaded.model(input_ids=ids, use_cache=False).logits
        _compare(loaded, "a pass with hooks that change nothing", hooked, plain)
        for layer in range(loaded.n_layers):
            _check_layer(loaded, layer, z[layer], seen)
        _check_edit(loaded, ids, plain)
    except (AttributeError, IndexError, RuntimeError) as e:
        raise _refusal(loaded, str(e)) from e


class _Seen:
    """What went into and out of each layer's attention: the stream, the pattern, the projected output."""

    def __init__(self) -> None:
        self.stream: dict[int, Tensor] = {}
        self.pattern: dict[int, Tensor | None] = {}
        self.output: dict[int, Tensor] = {}

    def watch(self, loaded: LoadedModel) -> ExitStack:
        stack = ExitStack()
        for layer, module in enumerate(loaded.layers()):
            handles = (
                module.register_forward_pre_hook(self._stream(layer), with_kwargs=True),
                loaded.attention(layer).register_forward_hook(self._pattern(layer)),
                loaded.out_proj(layer).register_forward_hook(self._output(layer)),
            )
            for handle in handles:
                stack.callback(handle.remove)
        return stack

    def _stream(self, layer: int) -> Any:
        def hook(_module: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
            self.stream[layer] = (args[0] if args else kwargs["hidden_states"]).clone()

        return hook

    def _pattern(self, layer: int) -> Any:
        def hook(_module: Any, _args: Any, output: Any) -> None:
            self.pattern[layer] = output[1] if isinstance(output, tuple) and len(output) > 1 else None

        return hook

    def _output(self, layer: int) -> Any:
        def hook(_module: Any, _args: Any, output: Tensor) -> None:
            self.output[layer] = output.clone()

        return hook


def _same(z_BTHD: Tensor) -> Tensor:
    return z_BTHD


def _check_layer(loaded: LoadedModel, layer: int, z_BTHD: Tensor, seen: _Seen) -> None:
    pattern, stream_TE, output_TE = seen.pattern[layer], seen.stream[layer][0], seen.output[layer][0]
    written_TE = torch.zeros_like(output_TE, dtype=torch.float32)
    for head in range(loaded.n_heads):
        z_TD = z_BTHD[0, :, head]
        if pattern is not None:
            value_TD = head_values(loaded, layer, head, stream_TE)
            mixed_TD = pattern[0, head].to(value_TD) @ value_TD
            what = f"z of L{layer}H{head} against its attention × values"
            _compare(loaded, what, z_TD, mixed_TD, scale=z_BTHD)
        written_TE += project_head(loaded, layer, head, z_TD.float()).to(written_TE.device)
    bias_E = shared_bias(loaded, layer)
    if bias_E is not None:
        written_TE += bias_E.to(written_TE)
    _compare(loaded, f"the projections of layer {layer}'s heads against its output", written_TE, output_TE)


def _check_edit(loaded: LoadedModel, ids: Tensor, plain: Tensor) -> None:
    """Zero one head in the middle of the model, through the hooks that experiments use."""
    layer, head = loaded.n_layers // 2, loaded.n_heads - 1

    def zero(z_BTHD: Tensor) -> Tensor:
        z_BTHD = z_BTHD.clone()
        z_BTHD[:, :, head] = 0
        return z_BTHD

    before, after = _Seen(), _Seen()
    with capture_z(loaded, [layer]) as z, before.watch(loaded):
        loaded.model(input_ids=ids, use_cache=False, logits_to_keep=1)
    with edit_z(loaded, {layer: zero}), after.watch(loaded):
        edited = loaded.model(input_ids=ids, use_cache=False).logits
    expected = before.output[layer][0] - project_head(loaded, layer, head, z[layer][0, :, head])
    _compare(
        loaded,
        f"zeroing L{layer}H{head} against subtracting its projection",
        after.output[layer][0],
        expected,
    )
    if torch.equal(edited, plain):
        raise _refusal(loaded, f"zeroing L{layer}H{head} changed no logit")


def _compare(
    loaded: LoadedModel, what: str, got: Tensor, expected: Tensor, scale: Tensor | None = None
) -> None:
    got, expected = got.float(), expected.float().to(got.device)
    error = float((got - expected).abs().max())
    size = max(float((expected if scale is None else scale.float()).abs().max()), 1e-6)
    if not error <= TOLERANCE[loaded.dtype] * size:
        raise _refusal(loaded, f"{what}: differs by {error:.3g} where values reach {size:.3g}")


def _refusal(loaded: LoadedModel, found: str) -> UserError:
    return UserError(
        f"the heads of this model are not where its adapter entry says: {found}",
        where=f"model {loaded.name}, LAYOUTS[{loaded.arch!r}] in mechexp.models.layouts",
        expected="an entry that the check at load confirms",
        todo="correct the entry, or use a stock model of that type",
    )


def _random_ids(loaded: LoadedModel) -> Tensor:
    draw = torch.Generator().manual_seed(0)  # the global generator stays untouched
    vocabulary = int(loaded.model.config.vocab_size)
    return torch.randint(vocabulary, (1, PROMPT_LENGTH), generator=draw).to(loaded.device)
