"""The gradient of a max pool: MaxUnpool where windows are apart, behind the mask of a ReLU; the same numbers."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F

import cellbridge.runtime as ms
from cellbridge.converter import from_torch
from cellbridge.runtime.compiled.executable import lower_values
from cellbridge.runtime.ir.program import Program
from cellbridge.runtime.programs.gradient_program import differentiate


class Net(nn.Module):
    """A pool, after what is given; the unpooled gradient may be needed in full."""

    def __init__(self, activation: Any, kernel: Any, stride: Any = None, twice: bool = False) -> None:
        super().__init__()
        self.activation = activation
        self.kernel = kernel
        self.stride = stride
        self.twice = twice

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.activation(x)
        pooled = F.max_pool2d(y, self.kernel, self.stride)
        return pooled.sum() + y.mean() if self.twice else pooled.square().sum()


def images() -> torch.Tensor:
    """Some below zero, whole windows too, and with ties."""
    x = torch.randn(2, 3, 6, 6, generator=torch.Generator().manual_seed(0)).mul(2).round()
    x[0, 0] = -1
    return x


def operators(program: Program) -> Counter[str]:
    gradients = differentiate(program)
    (gradient,) = gradients.input_gradients
    assert gradient is not None
    return Counter(node.op_type for node in lower_values(gradients.program, [gradient], ()).graph.nodes)


def check(net: Net, x: torch.Tensor, **options: Any) -> Program:
    program = from_torch(net, (x,), **options)
    given = x.clone().requires_grad_()
    net(given).backward()
    _, actual = ms.compile(program, "cpu").value_and_grad(x)
    assert given.grad is not None
    np.testing.assert_allclose(actual.inputs[0], given.grad.numpy(), rtol=1e-6)
    return program


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("activation", [torch.relu, torch.abs])
def test_windows_apart(activation: Any, dynamic: bool) -> None:
    shapes = {"x": {0: torch.export.Dim("batch")}} if dynamic else None
    check(Net(activation, 2), images(), dynamic_shapes=shapes)


def test_the_gradient_of_relu_masks_the_maxima_alone() -> None:
    x = images()
    masks = operators(check(Net(torch.relu, 2), x))
    assert masks["MaxUnpool"] == masks["Where"] == 1
    assert masks["Sub"] == 0, "positions go from one to the other as they are"


def test_what_is_needed_beside_is_not_masked_away() -> None:
    assert operators(check(Net(torch.relu, 2, twice=True), images()))["MaxUnpool"] == 1


@pytest.mark.parametrize(
    ("size", "kernel", "compared"), [((6, 4), 2, True), ((6, 4), (1, 3), False), ((6, 5), (2, 1), True),
     ((6, 5), 1, False), ((5, 4), 2, False), ((6, 9), 3, False)]
)  # fmt: skip
@pytest.mark.every(2)
def test_few_taps_that_fill_the_images_are_compared(size: Any, kernel: Any, compared: bool) -> None:
    x = images()[..., :1].expand(2, 3, 6, 9).clone()[..., : size[0], : size[1]]
    x[1, 1, :2, :2] = float("-inf")
    x[1, 1, 0, 1:3] = 5
    counts = operators(check(Net(torch.abs, kernel), x))
    assert counts["Equal"] > 0 if compared else counts["Equal"] == 0


def test_windows_that_overlap_add_up() -> None:
    assert operators(check(Net(torch.relu, 2, 1), images()))["MaxUnpool"] == 0
