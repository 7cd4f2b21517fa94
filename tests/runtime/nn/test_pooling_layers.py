"""Pooling layers: defaults, padding modes against torch, the rules of `ceil_mode`, errors."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch.nn import functional as F

from cellbridge.runtime import Tensor, nn
from tests.runtime.against_torch import assert_as_torch, normal

SIZES = (7, 6, 5)
MAX = {1: (nn.MaxPool1d, F.max_pool1d), 2: (nn.MaxPool2d, F.max_pool2d), 3: (nn.MaxPool3d, F.max_pool3d)}
AVG: Any = {1: (nn.AvgPool1d, F.avg_pool1d), 2: (nn.AvgPool2d, F.avg_pool2d), 3: (nn.AvgPool3d, F.avg_pool3d)}


def same_pads(sizes: Any, kernel: int, stride: int) -> list[int]:
    """Padding as torch's `pad` takes it."""
    totals = [max((-(-n // stride) - 1) * stride + kernel - n, 0) for n in sizes]
    return [side for total in reversed(totals) for side in (total // 2, total - total // 2)]


@pytest.mark.parametrize("axes", [1, 2, 3])
@pytest.mark.parametrize(("kernel", "stride"), [(1, 1), (2, 1), (2, 2), (3, 2), (2, 3), (4, 1)])
def test_padding_modes(axes: int, kernel: int, stride: int) -> None:
    x = normal(2, 3, *SIZES[:axes])
    pads = same_pads(SIZES[:axes], kernel, stride)
    cell, torch_pool = MAX[axes]
    assert_as_torch(cell(kernel, stride), lambda x: torch_pool(x, kernel, stride), x)
    assert_as_torch(
        cell(kernel, stride, "same"), lambda x: torch_pool(F.pad(x, pads, value=-torch.inf), kernel, stride), x
    )
    assert_as_torch(
        cell(kernel, stride, "pad", kernel // 2), lambda x: torch_pool(x, kernel, stride, kernel // 2), x[0]
    )
    cell, torch_pool = AVG[axes]
    counted = torch_pool(F.pad(torch.ones(1, 1, *SIZES[:axes], dtype=torch.float64), pads), kernel, stride)
    assert_as_torch(cell(kernel, stride), lambda x: torch_pool(x, kernel, stride), x)
    assert_as_torch(cell(kernel, stride, "SAME"), lambda x: torch_pool(F.pad(x, pads), kernel, stride) / counted, x)
    assert_as_torch(
        cell(kernel, stride, "pad", kernel // 2), lambda x: torch_pool(x, kernel, stride, kernel // 2), x[0]
    )
    assert_as_torch(
        cell(kernel, stride, "pad", kernel // 2, count_include_pad=False),
        lambda x: torch_pool(x, kernel, stride, kernel // 2, count_include_pad=False),
        x,
    )


def test_the_defaults_change_nothing() -> None:
    x = Tensor(normal(1, 2, 3, 4))
    for cell in (nn.MaxPool2d(), nn.AvgPool2d()):
        np.testing.assert_array_equal(cell(x).asnumpy(), x.asnumpy())
    assert repr(nn.MaxPool2d(2, 2, "pad")) == "MaxPool2d(kernel_size=2, stride=2, pad_mode=PAD)"


@pytest.mark.parametrize("axes", [1, 2, 3])
def test_indices_dilation_and_windows_that_stick_out(axes: int) -> None:
    cell, torch_pool = MAX[axes]
    x = normal(2, 3, *SIZES[:axes])
    options = {"padding": 1, "dilation": 2, "ceil_mode": True, "return_indices": True}
    values, indices = cell(2, 3, "pad", **options)(Tensor(x))
    expected: Any = torch_pool(torch.from_numpy(x), 2, 3, **options)
    np.testing.assert_array_equal(values.asnumpy(), expected[0].numpy())
    np.testing.assert_array_equal(indices.asnumpy(), expected[1].numpy())
    average, torch_average = AVG[axes]
    assert_as_torch(average(2, 3, ceil_mode=True), lambda x: torch_average(x, 2, 3, ceil_mode=True), x)


def test_a_divisor_of_one_s_own() -> None:
    x = normal(1, 2, 4, 4)
    cell = nn.AvgPool2d(2, 2, divisor_override=3)
    assert_as_torch(cell, lambda x: F.avg_pool2d(x, 2, 2, divisor_override=3), x)
    cell3 = nn.AvgPool3d(2, 2, divisor_override=3)
    assert_as_torch(cell3, lambda x: F.avg_pool3d(x, 2, 2, divisor_override=3), x)


@pytest.mark.parametrize("kind", ["Avg", "Max"])
@pytest.mark.parametrize("axes", [1, 2, 3])
def test_adaptive_layers(axes: int, kind: str) -> None:
    x = normal(2, 3, *SIZES[:axes])
    size: Any = 3 if axes == 1 else (3, None, 2)[:axes]
    cell = getattr(nn, f"Adaptive{kind}Pool{axes}d")
    assert_as_torch(cell(size), lambda x: getattr(F, f"adaptive_{kind.lower()}_pool{axes}d")(x, size), x)
    assert repr(cell(size)) == f"Adaptive{kind}Pool{axes}d(output_size={size})"
    if axes > 1 and kind == "Max":
        values, indices = cell(size, return_indices=True)(Tensor(x))
        assert values.shape == indices.shape
        planes = x.reshape(2, 3, -1)
        picked = np.take_along_axis(planes, indices.asnumpy().reshape(2, 3, -1), 2)
        np.testing.assert_array_equal(picked.reshape(values.shape), values.asnumpy())


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: nn.MaxPool2d(2, pad_mode="foo"), ValueError, "'pad_mode' must be one of .* but got 'foo'"),
        (lambda: nn.MaxPool2d(2, pad_mode=1), TypeError, "'pad_mode' must be str"),
        (lambda: nn.MaxPool2d(2, padding=1), ValueError, "'padding' must be 0 unless 'pad_mode' is 'pad'"),
        (lambda: nn.MaxPool2d(2, ceil_mode=True), ValueError, "'ceil_mode' must have their defaults unless 'pad_mode'"),
        (lambda: nn.MaxPool3d(2, pad_mode="same", return_indices=True), ValueError, "must have their defaults"),
        (lambda: nn.MaxPool1d(2, dilation=2), ValueError, "must have their defaults"),
        (lambda: nn.MaxPool2d(0), ValueError, "'kernel_size' must be int >= 1"),
        (lambda: nn.MaxPool2d(2.0), TypeError, "'kernel_size' must be int"),
        (lambda: nn.MaxPool2d(2, 0), ValueError, "'stride' must be int >= 1"),
        (lambda: nn.MaxPool2d((2, 2, 2)), ValueError, "'kernel_size' must be an int or 2 ints"),
        (lambda: nn.MaxPool2d(2, data_format="NHWC"), ValueError, "'data_format' must be one of"),
        (lambda: nn.AvgPool2d(2, padding=1), ValueError, "'padding' must be 0 unless 'pad_mode' is 'pad'"),
        (lambda: nn.AvgPool2d(2, divisor_override=0), ValueError, "'divisor_override' must be an int > 0"),
        (lambda: nn.AvgPool2d(2, ceil_mode=1), TypeError, "'ceil_mode' must be bool"),
        (lambda: nn.AdaptiveAvgPool1d((2,)), TypeError, "'output_size' must be int"),
        (lambda: nn.AdaptiveAvgPool2d(0), ValueError, "'output_size' must be an int > 0"),
        (lambda: nn.AdaptiveMaxPool2d(2, return_indices=1), TypeError, "'return_indices' must be bool"),
    ],
)
def test_arguments_are_checked(make: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        make()


def test_inputs_are_checked() -> None:
    with pytest.raises(ValueError, match="For 'MaxPool2d', the input must have 4 dimensions, or 3 without batch"):
        nn.MaxPool2d(2)(Tensor(normal(4, 4)))
    with pytest.raises(ValueError, match="a window of 6 doesn't fit into 5"):
        nn.AvgPool1d(6)(Tensor(normal(1, 1, 5)))
    with pytest.raises(TypeError, match="must have a floating-point dtype"):
        nn.AvgPool1d(2)(Tensor(np.ones((1, 1, 5), np.int32)))
