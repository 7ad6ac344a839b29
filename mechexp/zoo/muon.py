"""Muon (Jordan et al. 2024) in float32: each update of a matrix is made orthogonal before it is applied.

``torch.optim.Muon`` does this in bfloat16, which most CPUs have no instructions for; there it takes several
times as long as the rest of the training step.

Shapes: M matrices of one shape, R rows, K columns.
"""

from collections.abc import Iterable
from itertools import groupby
from typing import Any

import torch
from torch import Tensor

COEFFICIENTS = (3.4445, -4.7750, 2.0315)
ITERATIONS = 5


class Muon(torch.optim.Optimizer):
    """SGD with Nesterov momentum, the update of each matrix made orthogonal.

    Args:
        params: Matrices, or stacks of matrices (experts), of which each is treated alone.
        lr: Learning rate; updates are scaled to the size of AdamW's (Liu et al. 2025), so that its rates fit.
        momentum: Decay of the running mean of gradients.
        weight_decay: Decoupled, times the learning rate.
    """

    def __init__(
        self,
        params: Iterable[Tensor],
        lr: float,
        momentum: float = 0.95,
        weight_decay: float = 0.0,
    ) -> None:
        super().__init__(params, {"lr": lr, "momentum": momentum, "weight_decay": weight_decay})
        flat = [p for group in self.param_groups for p in group["params"] if p.ndim < 2]
        if flat:
            raise ValueError(f"Muon updates matrices; got shape {tuple(flat[0].shape)}")

    @torch.no_grad()
    def step(self, closure: None = None) -> None:  # type: ignore[override]
        """Update all matrices; those of one shape go through the iteration together."""
        for group in self.param_groups:
            given = sorted((p for p in group["params"] if p.grad is not None), key=lambda p: tuple(p.shape))
            for _, same in groupby(given, key=lambda p: p.shape):
                self._update(list(same), group)

    def _update(self, weights: list[Tensor], group: dict[str, Any]) -> None:
        directions = torch.stack([self._direction(weight, group["momentum"]) for weight in weights])
        rows, columns = directions.shape[-2:]
        steps = orthogonal(directions.flatten(0, -3)).view_as(directions)
        size = 0.2 * max(rows, columns) ** 0.5
        for weight, step in zip(weights, steps, strict=True):
            weight.mul_(1 - group["lr"] * group["weight_decay"])
            weight.add_(step, alpha=-group["lr"] * size)

    def _direction(self, weight: Tensor, momentum: float) -> Tensor:
        """Nesterov's look-ahead: the gradient moved towards its running mean."""
        assert weight.grad is not None
        mean: Tensor = self.state[weight].setdefault("mean", torch.zeros_like(weight))
        mean.lerp_(weight.grad, 1 - momentum)
        return weight.grad.lerp(mean, momentum)


def orthogonal(matrices_MRK: Tensor) -> Tensor:
    """The nearest matrices with singular values near one, by five Newton-Schulz iterations.

    Returns:
        Matrices of the same shape whose singular values lie between about 0.5 and 1.5.
    """
    tall = matrices_MRK.shape[-2] > matrices_MRK.shape[-1]
    x: Tensor = matrices_MRK.mT if tall else matrices_MRK
    x = x / x.norm(dim=(-2, -1), keepdim=True).clamp(min=1e-7)
    a, b, c = COEFFICIENTS
    for _ in range(ITERATIONS):
        gram = x @ x.mT
        x = a * x + (b * gram + c * gram @ gram) @ x
    return x.mT if tall else x
