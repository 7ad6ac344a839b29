"""Muon in float32 against the library's, which does the same in bfloat16."""

import pytest
import torch

from mechexp.zoo.muon import Muon, orthogonal


@pytest.mark.parametrize("shape", [(6, 6), (4, 9), (9, 4)])
def test_updates_have_singular_values_near_one(shape):
    torch.manual_seed(0)
    found = torch.linalg.svdvals(orthogonal(torch.randn(3, *shape)))
    assert found.min() > 0.3 and found.max() < 1.3


def test_steps_are_those_of_torch_up_to_bfloat16():
    torch.manual_seed(0)
    first = torch.randn(8, 12)
    ours, theirs = (torch.nn.Parameter(first.clone()) for _ in range(2))
    optimizers = [
        Muon([ours], lr=0.01, weight_decay=0.1),
        torch.optim.Muon([theirs], lr=0.01, weight_decay=0.1, adjust_lr_fn="match_rms_adamw"),
    ]
    for _ in range(5):
        gradient = torch.randn(8, 12)
        ours.grad, theirs.grad = gradient.clone(), gradient.clone()
        for optimizer in optimizers:
            optimizer.step()
    moved = (theirs - first).norm()
    assert moved > 0.05
    assert (ours - theirs).norm() < 0.03 * moved


def test_each_matrix_of_a_stack_is_treated_alone():
    torch.manual_seed(0)
    gradient = torch.randn(3, 4, 5)
    stack = torch.nn.Parameter(torch.zeros(3, 4, 5))
    single = torch.nn.Parameter(torch.zeros(4, 5))
    stack.grad, single.grad = gradient, gradient[1].clone()
    Muon([stack, single], lr=0.1).step()
    torch.testing.assert_close(stack[1], single)


def test_a_vector_is_refused():
    with pytest.raises(ValueError, match="matrices"):
        Muon([torch.nn.Parameter(torch.zeros(3))], lr=0.1)
