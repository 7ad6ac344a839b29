"""What the weights of one head do: its write to the residual stream and its value path.

Modules are entered through ``forward``, so that nobody's hooks fire, and weights that ``accelerate`` has
offloaded are brought in for the time of the product.

Shapes: B batch, D head dim, E residual, F features of a projection.
"""

from torch import Tensor, nn
from torch.nn import functional as F

from mechexp.models.loaded import LoadedModel


def project_head(loaded: LoadedModel, layer: int, head: int, z_BD: Tensor) -> Tensor:
    """What a head writes: its z through its slice of the output projection, without the shared bias.

    Returns:
        write_BE. In blocks with a post-attention norm this is still to be normalised with the other heads.
    """
    start = head * loaded.head_dim
    module = loaded.out_proj(layer)
    with _on_device(module):
        weight_ED = _weight(module)[:, start : start + loaded.head_dim].to(z_BD.dtype)
    return F.linear(z_BD.to(weight_ED.device), weight_ED)


def shared_bias(loaded: LoadedModel, layer: int) -> Tensor | None:
    """Bias of the output projection, which belongs to no head: (E,), or None."""
    module = loaded.out_proj(layer)
    with _on_device(module):
        bias = getattr(module, "bias", None)
        return None if bias is None else bias.detach().clone()


def head_values(loaded: LoadedModel, layer: int, head: int, x_BE: Tensor) -> Tensor:
    """Value vectors that a query head reads at residual streams x: input norm, projection, bias, clipping.

    Returns:
        value_BD; query heads of a group share theirs.
    """
    module = loaded.value_proj(layer)
    start = loaded.layout.value_start(loaded.geometry, loaded.n_kv_heads, head)
    rows = slice(start, start + loaded.head_dim)
    with _on_device(module):
        weight_DE = _weight(module)[rows].to(x_BE.dtype)
        bias = getattr(module, "bias", None)
        bias_D = None if bias is None else bias[rows].to(x_BE.dtype)
    read_BE = _normed(loaded.input_norm(layer), x_BE).to(weight_DE.device)
    value_BD = F.linear(read_BE, weight_DE, bias_D)
    clip = getattr(loaded.model.config, "clip_qkv", None)
    return value_BD if clip is None else value_BD.clamp(-clip, clip)


def ov(loaded: LoadedModel, layer: int, head: int, x_BE: Tensor) -> Tensor:
    """What a head writes when it attends fully to residual streams x: W_O · value(norm(x)).

    Returns:
        write_BE, in the type of x.
    """
    return project_head(loaded, layer, head, head_values(loaded, layer, head, x_BE))


def _normed(norm: nn.Module | None, x_BE: Tensor) -> Tensor:
    if norm is None:
        return x_BE
    own = next(norm.parameters(), x_BE)
    with _on_device(norm):
        out: Tensor = norm.forward(x_BE.to(own.dtype))
    return out.to(x_BE.dtype)


def _weight(module: nn.Module) -> Tensor:
    """Weight as (features out, features in); GPT-2's Conv1D keeps it transposed."""
    from transformers.pytorch_utils import Conv1D

    weight: Tensor = module.weight  # type: ignore[assignment]
    return weight.T if isinstance(module, Conv1D) else weight


def _on_device(module: nn.Module):  # type: ignore[no-untyped-def]
    from accelerate.utils import align_module_device

    return align_module_device(module)
