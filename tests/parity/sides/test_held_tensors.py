"""Networks, and losses, that compute with tensors which no module has registered: class weights, filters, caches."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from cellbridge import parity


class Holding(nn.Module):
    """A layer, and a function of its result and of tensors that are plain attributes."""

    def __init__(self, layer: nn.Module, function: Callable[..., torch.Tensor], *held: torch.Tensor) -> None:
        super().__init__()
        self.layer = layer
        self.function = function
        self.held = held

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.function(self.layer(x), *self.held)


def written(y: torch.Tensor, cache: torch.Tensor) -> torch.Tensor:
    """A cache that is copied, and written to through a view and by an index."""
    cache = cache.clone()
    rows = cache[1:]
    rows += y[1:]
    cache[0] = 1.0
    return cache * y


def numbers(*shape: int) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(3))


CASES = {
    "a projection": Holding(nn.Linear(4, 3), F.linear, numbers(2, 3)),
    "a filter": Holding(nn.Conv1d(1, 3, 2), lambda y, filters: F.conv1d(y[:, :1], filters), numbers(2, 1, 2)),
    "computed with before": Holding(nn.Linear(4, 3), lambda y, a, b: y * a.softmax(0) / (1 + b), *numbers(2, 3)),
    "half precision": Holding(nn.Linear(4, 3), lambda y, a: y @ a.float() * a.mean(), numbers(3, 2).bfloat16()),
    "written to": Holding(nn.Linear(4, 3), written, torch.zeros(5, 3)),
}


@pytest.mark.parametrize("case", CASES)
@pytest.mark.every(6)
def test_held_tensors_are_as_precise_as_the_module(case: str) -> None:
    module = CASES[case]
    x = numbers(5, 1, 4) if case == "a filter" else numbers(5, 4)
    parity.assert_parity(module, module, (x,), grads=True)
    parity.check(module, (x,)).raise_if_failed()
    parity.assert_training_parity(module, (x,), steps=2)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.every(2)
def test_a_loss_may_hold_tensors(dtype: str) -> None:
    labels, weights, targets = torch.tensor([0, 2, 1, 1, 2]), torch.tensor([1.0, 2.0, 0.7]), numbers(5, 3).sigmoid()

    def loss(y: torch.Tensor) -> torch.Tensor:
        entropy = F.cross_entropy(y, labels, weight=weights)
        return entropy + F.binary_cross_entropy_with_logits(y, targets, pos_weight=1 / weights)

    parity.assert_training_parity(nn.Linear(4, 3), (numbers(5, 4),), loss=loss, steps=2, dtype=dtype)
