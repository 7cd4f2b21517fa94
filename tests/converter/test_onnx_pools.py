"""MaxPool with indices, and windows of "SAME" padding along open axes, against ONNX Runtime, forward and backward."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from cellbridge.converter import from_onnx, to_torch
from cellbridge.runtime import compile as compiled
from cellbridge.runtime.compiled.session import run_model
from tests.converter.test_onnx_in import floats, model

OPEN, FIXED = "h, w", "7, 8"
SHAPES = {OPEN: [(2, 3, 7, 8), (1, 3, 8, 5), (2, 3, 6, 6)], FIXED: [(2, 3, 7, 8)]}


def agrees(node: str, outputs: str, axes: str, **initializers: Any) -> None:
    made = model(f"net (float[n, 3, {axes}] x) => ({outputs}) {{ {node} }}", **initializers)
    program = from_onnx(made)
    module = to_torch(program)
    for shape in SHAPES[axes]:
        x = floats(*shape)
        expected_outputs = [*run_model(made, {"x": x}).values()]
        t = torch.from_numpy(x).requires_grad_()
        results = module(t)
        sides = [program(x), compiled(program)(x), results]
        for side in sides:
            arrays = side if isinstance(side, tuple) else (side,)
            for y, expected in zip(arrays, expected_outputs, strict=True):
                array = y.detach().numpy() if isinstance(y, torch.Tensor) else y
                np.testing.assert_allclose(array, expected, rtol=1e-5, atol=1e-5)
        first = results[0] if isinstance(results, tuple) else results
        (expected,) = torch.autograd.grad(first.sum(), t)
        ones = np.ones(first.shape, np.float32)
        _, gradients = program.value_and_grad(x, cotangents=[ones])
        np.testing.assert_allclose(gradients.inputs[0], expected, rtol=1e-5, atol=1e-5)


@pytest.mark.every(2)
@pytest.mark.parametrize("axes", [OPEN, FIXED])
@pytest.mark.parametrize(
    "options",
    [
        "kernel_shape = [2, 2], strides = [2, 2]",
        "kernel_shape = [3, 3], strides = [2, 2], pads = [1, 1, 1, 1]",
        "kernel_shape = [3, 3], strides = [2, 2], pads = [1, 1, 1, 1], storage_order = 1",
        "kernel_shape = [3, 3], strides = [2, 2], pads = [0, 1, 2, 1]",
        "kernel_shape = [3, 3], pads = [2, 2, 2, 2], storage_order = 1",
        "kernel_shape = [3, 2], dilations = [2, 1], strides = [2, 2]",
        'auto_pad = "SAME_UPPER", kernel_shape = [3, 3], strides = [2, 2]',
        'auto_pad = "SAME_UPPER", kernel_shape = [3, 3], strides = [3, 2], storage_order = 1',
        'auto_pad = "SAME_LOWER", kernel_shape = [2, 3]',
    ],
)
def test_where_the_largest_are(options: str, axes: str) -> None:
    agrees(f"y, i = MaxPool<{options}>(x)", "float[n, 3, a, b] y, int64[n, 3, a, b] i", axes)


@pytest.mark.every(2)
@pytest.mark.parametrize("pad", ["SAME_UPPER", "SAME_LOWER"])
@pytest.mark.parametrize("operator", ["MaxPool", "AveragePool", "Conv", "LpPool"])
@pytest.mark.parametrize("strides", ["[2, 2]", "[3, 2]"])
def test_strides_along_open_axes(operator: str, pad: str, strides: str) -> None:
    options = f'auto_pad = "{pad}", strides = {strides}'
    if operator == "Conv":
        agrees(f"y = Conv<{options}>(x, k)", "float[n, 4, a, b] y", OPEN, k=floats(4, 3, 3, 2))
    else:
        agrees(f"y = {operator}<{options}, kernel_shape = [3, 2]>(x)", "float[n, 3, a, b] y", OPEN)
