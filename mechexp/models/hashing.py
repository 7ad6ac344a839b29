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
        digest.update(memoryview(tensor.cpu().contiguous().flatten().view(torch.uint8).numpy()))
    return digest.hexdigest()


def _weights(model: Any) -> Iterator[tuple[str, Tensor]]:
    """Parameters in the model's own order, each with its module's storage on a device."""
    from accelerate.utils import align_module_device

    seen: set[int] = set()
    for prefix, module in model.named_modules():
        own = list(module.named_parameters(recurse=False))
        if not own:
            continue
        with align_module_device(module):
            for name, tensor in module.named_parameters(recurse=False):
                if id(tensor) in seen:
                    continue
                seen.add(id(tensor))
                yield f"{prefix}.{name}" if prefix else name, tensor.detach()
