"""Reading every weight once: a fingerprint of the model, and refusal of numbers that are not finite."""

import hashlib
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from mechexp.errors import UserError


@torch.no_grad()
def hash_weights(model: Any, *, where: str) -> str:
    """sha256 over names, types, shapes and bytes of all weights, wherever they are kept.

    A weight that is tied to another counts once, under its first name.

    Raises:
        UserError: A weight is NaN or infinite.
    """
    digest = hashlib.sha256()
    for name, tensor in _weights(model):
        if tensor.is_floating_point() and not bool(torch.isfinite(tensor).all()):
            bad = int((~torch.isfinite(tensor)).sum())
            raise UserError(
                f"{bad} of {tensor.numel()} numbers of weight {name} are NaN or infinite",
                where=where,
                expected="finite weights",
                todo="fetch or save the model again; a float16 copy of a bfloat16 model may have overflowed",
            )
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}\n".encode())
        digest.update(tensor.cpu().contiguous().flatten().view(torch.uint8).numpy().data)
    return digest.hexdigest()


def _weights(model: Any) -> Iterator[tuple[str, Tensor]]:
    """Parameters in the model's own order, each brought to a device where ``accelerate`` has offloaded it."""
    from accelerate.utils import align_module_device

    tied = set(getattr(model, "all_tied_weights_keys", None) or ())
    wanted = {name for name, _ in model.named_parameters()} - tied
    for prefix, module in model.named_modules():
        names = {
            name: f"{prefix}.{name}" if prefix else name for name, _ in module.named_parameters(recurse=False)
        }
        if not wanted.intersection(names.values()):
            continue
        with align_module_device(module):
            for name, full in names.items():
                if full in wanted:
                    yield full, getattr(module, name).detach()
