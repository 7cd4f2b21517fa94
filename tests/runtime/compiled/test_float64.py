"""Compiled programs in float64: they keep their digits, and compute what ONNX Runtime has no such kernels for.

That each op does so is in test_every_op.py; here are sizes that are symbolic, and products with factors.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import torch
from torch.nn import functional

import cellbridge.runtime as ms
from cellbridge.converter import from_torch, to_onnx
from cellbridge.runtime.compiled.session import run_model

WEIGHT = torch.linspace(-1.0, 1.0, 4 * 2 * 3 * 2, dtype=torch.float64).reshape(4, 2, 3, 2)
BIAS = torch.tensor([0.5, -0.25, 1.0, 2.0], dtype=torch.float64)


class Function(torch.nn.Module):
    """A function as a module."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: torch.Tensor) -> Any:
        return self.function(x)


def numbers(*shape: int) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(0), dtype=torch.float64)


def assert_exact(program: Any, compiled: Any, x: torch.Tensor) -> None:
    """The compiled program agrees with the interpreter to nearly all digits of float64, its gradient too."""
    expected, truth = program.value_and_grad(x)
    actual, gradients = compiled.value_and_grad(x)
    np.testing.assert_allclose(compiled(x), expected, rtol=1e-12, atol=1e-13, strict=True)
    np.testing.assert_allclose(actual, expected, rtol=1e-12, atol=1e-13, strict=True)
    np.testing.assert_allclose(gradients.inputs[0], truth.inputs[0], rtol=1e-12, atol=1e-13, strict=True)


@pytest.mark.parametrize(
    "function",
    [
        lambda x: functional.conv2d(x, WEIGHT, BIAS, stride=(2, 1), padding=(1, 0), dilation=(1, 2), groups=2),
        lambda x: functional.conv2d(x, WEIGHT[:, :, :1, :1], groups=2),
        lambda x: functional.conv_transpose2d(x, WEIGHT, BIAS, (2, 3), (1, 0), (1, 2), groups=2, dilation=(1, 3)),
        lambda x: functional.avg_pool2d(x, (3, 2), (2, 1), (1, 0)),
        lambda x: functional.avg_pool2d(x, 3, 2, 1, divisor_override=5),
        lambda x: functional.avg_pool2d(x, 3, 2, 1, count_include_pad=False),
        lambda x: functional.adaptive_avg_pool2d(x, 1),
    ],
    ids=["conv", "conv-1x1", "conv_transpose", "avg_pool", "avg_pool-divisor", "avg_pool-without-padding", "global"],
)
@pytest.mark.every(2)
def test_windows_of_symbolic_sizes(function: Callable[..., Any]) -> None:
    module = Function(lambda x: torch.tanh(function(x)))
    sizes = {"x": {0: torch.export.Dim("n"), 2: torch.export.Dim("h", min=4), 3: torch.export.Dim("w", min=4)}}
    program = from_torch(module, (numbers(2, 4, 7, 6),), dynamic_shapes=sizes)
    compiled = ms.compile(program, "cpu")
    for shape in ((2, 4, 7, 6), (1, 4, 8, 5), (3, 4, 6, 9)):
        assert_exact(program, compiled, numbers(*shape))


@pytest.mark.slow
def test_windows_within_a_branch() -> None:
    branches = (lambda x: functional.avg_pool1d(x, 3, 1).sum(), lambda x: functional.avg_pool1d(x, 2, 1).prod())
    program = from_torch(Function(lambda x: torch.cond(x.sum() > 0, *branches, (x,))), (numbers(2, 4, 7),))
    for x in (numbers(2, 4, 7).abs(), -numbers(2, 4, 7).abs()):
        assert_exact(program, ms.compile(program, "cpu"), x)


@pytest.mark.parametrize("include", [True, False])
def test_windows_that_stick_out(include: bool) -> None:
    module = Function(lambda x: functional.avg_pool2d(x, 3, 2, 1, ceil_mode=True, count_include_pad=include))
    program = from_torch(module, (numbers(2, 4, 7, 6),))
    assert_exact(program, ms.compile(program, "cpu"), numbers(2, 4, 7, 6))


def test_factors_of_products_keep_their_digits(tmp_path: Path) -> None:
    matrix = numbers(6, 5)
    module = Function(lambda x: torch.tanh((x * 0.3) @ matrix / 0.7))
    x = numbers(4, 6)
    program = from_torch(module, (x,))
    assert_exact(program, ms.compile(program, "cpu"), x)
    model, path = to_onnx(program), tmp_path / "model.onnx"
    onnx.save(model, path)
    for source in (model, path):
        (result,) = run_model(source, {"x": x.numpy()}).values()
        np.testing.assert_allclose(result, program(x), rtol=1e-12, strict=True)
