"""Compiled steps whose loss takes a gradient of the network: the penalty of WGAN-GP on a captured critic."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import cellbridge.runtime as ms
from cellbridge import converter
from cellbridge.runtime import ops, optim

CRITICS = {
    "perceptron": nn.Sequential(nn.Linear(8, 16), nn.LeakyReLU(0.2), nn.Linear(16, 1)),
    "convolutional": nn.Sequential(
        nn.Unflatten(1, (2, 2, 2)),
        nn.Conv2d(2, 4, 2, padding=1),
        nn.InstanceNorm2d(4, affine=True),
        nn.SiLU(),
        nn.Flatten(),
        nn.Linear(36, 1),
    ),
}


class Penalized(ms.nn.Cell):
    """The loss of a critic whose slope between real and made samples should be 1."""

    def __init__(self, critic: ms.nn.Cell) -> None:
        super().__init__()
        self.critic = critic

    def construct(self, real: Any, made: Any, share: Any) -> Any:
        slope = ms.grad(lambda x: self.critic(x).sum())(share * real + (1 - share) * made)
        return self.critic(made).mean() - self.critic(real).mean() + 10 * ((ops.norm(slope, 2, dim=1) - 1) ** 2).mean()


@pytest.mark.parametrize("name", CRITICS)
@pytest.mark.every(2)
def test_a_gradient_penalty_trains_as_in_torch(name: str) -> None:
    critic = copy.deepcopy(CRITICS[name])
    generator = torch.Generator().manual_seed(0)
    real, made = torch.randn(2, 4, 8, generator=generator)
    share = torch.rand(4, 1, generator=generator)
    cell = ms.nn.GraphCell(converter.from_torch(critic, (real,), train=True))
    step = ms.compile_train_step(Penalized(cell).set_train(), None, lambda p: optim.Adam(p, 1e-2))
    optimizer = torch.optim.Adam(critic.parameters(), 1e-2)
    for _ in range(3):
        between = (share * real + (1 - share) * made).requires_grad_()
        (slope,) = torch.autograd.grad(critic(between).sum(), between, create_graph=True)
        loss = critic(made).mean() - critic(real).mean() + 10 * ((slope.norm(2, dim=1) - 1) ** 2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        np.testing.assert_allclose(step(real, made, share), loss.detach(), rtol=1e-5)
