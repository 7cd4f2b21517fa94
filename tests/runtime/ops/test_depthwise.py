"""Convolutions with one channel per group against torch, over random geometries and sizes of blocks."""

from __future__ import annotations

from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from cellbridge.runtime.ops import convolution, depthwise
from tests.runtime.ops.cases_convolution import torch_conv, torch_conv_transpose
from tests.runtime.ops.test_convolution import assert_same, autograd


@st.composite
def geometries(draw: st.DrawFn) -> tuple[np.ndarray, np.ndarray, dict[str, Any]]:
    """x, weight and attributes of a convolution with one channel per group."""
    spatial, channels = draw(st.integers(1, 3)), draw(st.integers(2, 5))

    def each(low: int, high: int) -> tuple[int, ...]:
        return tuple(draw(st.integers(low, high)) for _ in range(spatial))

    kernel, stride, dilation = each(1, 4), each(1, 3), each(1, 3)
    padding = tuple(zip(each(-1, 2), each(-1, 2), strict=True))
    spans = [d * (k - 1) + 1 for d, k in zip(dilation, kernel, strict=True)]
    sizes = tuple(draw(st.integers(span + 2, span + 6)) for span in spans)
    rng = np.random.default_rng(draw(st.integers(0, 99)))
    x = rng.standard_normal((draw(st.integers(1, 3)), channels, *sizes))
    weight = rng.standard_normal((channels, 1, *kernel))
    return x, weight, {"stride": stride, "padding": padding, "dilation": dilation, "groups": channels}


@settings(max_examples=80, deadline=None)
@given(geometries(), st.sampled_from([1, 500, 1 << 19]))
def test_depthwise_convolutions_are_torch_s(geometry: Any, block_bytes: int) -> None:
    x, weight, attributes = geometry
    with patch.object(depthwise, "BLOCK_BYTES", block_bytes):
        y = convolution.conv(x, weight, **attributes)
        run = torch_conv(**attributes)
        g = np.random.default_rng(1).standard_normal(y.shape)
        of_x, of_weight = autograd(run, g, x, weight)
        assert_same(convolution.conv_weight_gradient(x, g, kernel_shape=weight.shape[2:], **attributes), of_weight)
        extra = convolution._remainder(x, weight.shape[2:], *(attributes[k] for k in ("stride", "padding", "dilation")))
        assert_same(convolution.conv_transpose(g, weight, output_padding=extra, **attributes), of_x)
        ones = attributes | {"stride": (1,) * len(extra), "output_padding": (0,) * len(extra)}
        padding = tuple((min(before, 0), min(after, 0)) for before, after in attributes["padding"])
        transposed = ones | {"padding": padding}
        expected = torch_conv_transpose(**transposed)(*map(torch.from_numpy, (x, weight))).numpy()
        assert_same(convolution.conv_transpose(x, weight, **transposed), expected)
    assert_same(y, run(*map(torch.from_numpy, (x, weight))).numpy())


@pytest.mark.parametrize("dtype", [np.float16, np.float32])
def test_sums_of_many_taps_are_as_precise_as_a_product(dtype: Any) -> None:
    rng = np.random.default_rng(0)
    x, weight = rng.standard_normal((1, 4, 20, 20)).astype(dtype), rng.standard_normal((4, 1, 7, 7)).astype(dtype)
    attributes: Any = {"stride": (1, 1), "padding": ((3, 3), (3, 3)), "dilation": (1, 1), "groups": 4}
    y = convolution.conv(x, weight, **attributes)
    exact = convolution.conv(x.astype(np.float64), weight.astype(np.float64), **attributes)
    assert y.dtype == dtype
    assert np.abs(y - exact).max() <= 4 * np.finfo(dtype).eps * np.abs(exact).max()


def test_an_empty_batch_gives_an_empty_result() -> None:
    x, weight = np.zeros((0, 3, 5, 5)), np.ones((3, 1, 3, 3))
    attributes: Any = {"stride": (1, 1), "padding": ((0, 0), (0, 0)), "dilation": (1, 1), "groups": 3}
    y = convolution.conv(x, weight, **attributes)
    assert y.shape == (0, 3, 3, 3)
    gradient = convolution.conv_weight_gradient(x, y, kernel_shape=(3, 3), **attributes)
    np.testing.assert_array_equal(gradient, np.zeros((3, 1, 3, 3)))
