"""The weight gradient of convolutions in ONNX Runtime, in each of the ways in which it is written."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import cellbridge.runtime as ms
from cellbridge.runtime.ir.dims import symbol
from cellbridge.runtime.ops import convolution
from tests.runtime.building import build
from tests.runtime.ops.cases import OpCase
from tests.runtime.ops.checks import check_onnx

Array = np.ndarray[Any, Any]
FEW, SOME, MANY = 3, 17, 130  # channels: see `runtime/ops/convolution_onnx.py`


def operands(batch: int, channels: tuple[int, int], sizes: tuple[int, ...], attributes: dict[str, Any]) -> Any:
    """Images and cotangents of the convolution."""
    rng = np.random.default_rng(0)
    x = rng.standard_normal((batch, channels[0], *sizes))
    weight = np.zeros((channels[1], channels[0] // attributes["groups"], *attributes["kernel_shape"]))
    geometry = {key: item for key, item in attributes.items() if key != "kernel_shape"}
    return x, rng.standard_normal(convolution.conv(x, weight, **geometry).shape)


@st.composite
def geometries(draw: st.DrawFn, groups: int = 1) -> tuple[tuple[int, ...], dict[str, Any]]:
    """Spatial sizes, and attributes with strides, dilation and padding that may be negative and differ by side."""
    spatial = draw(st.integers(1, 3))

    def each(low: int, high: int) -> tuple[int, ...]:
        return tuple(draw(st.integers(low, high)) for _ in range(spatial))

    kernel, dilation = each(1, 3), each(1, 2)
    stride = draw(st.sampled_from([(1,) * spatial, each(1, 3)]))
    padding = tuple(zip(each(-1, 3), each(-1, 3), strict=True))
    sizes = tuple(
        draw(st.integers(max(1, d * (k - 1) + 1 - sum(p), 2), 7))
        for k, d, p in zip(kernel, dilation, padding, strict=True)
    )
    attributes = {"kernel_shape": kernel, "stride": stride, "padding": padding, "dilation": dilation, "groups": groups}
    return sizes, attributes


@settings(max_examples=40, deadline=None)
@given(geometries(), st.sampled_from([(FEW, 5), (SOME, 5), (SOME, SOME), (MANY, MANY)]), st.integers(1, 2))
def test_it_is_the_kernel_s(geometry: Any, channels: tuple[int, int], batch: int) -> None:
    sizes, attributes = geometry
    check_onnx(OpCase("conv_weight_gradient", operands(batch, channels, sizes, attributes), attributes), "float32")


@settings(max_examples=20, deadline=None)
@given(geometries(groups=2), st.sampled_from([(2, 4), (2 * SOME, 2), (2 * MANY, 2 * MANY)]))
def test_groups_stay_apart(geometry: Any, channels: tuple[int, int]) -> None:
    sizes, attributes = geometry
    check_onnx(OpCase("conv_weight_gradient", operands(2, channels, sizes, attributes), attributes), "float32")


@pytest.mark.parametrize("channels", [FEW, SOME, MANY])
@pytest.mark.parametrize("symbolic", [(0,), (0, 2, 3)])
def test_sizes_may_be_symbolic(channels: int, symbolic: tuple[int, ...]) -> None:
    attributes = {
        "kernel_shape": (3, 2), "stride": (1, 1), "padding": ((1, 2), (0, 1)), "dilation": (2, 1), "groups": 1,
    }  # fmt: skip
    x, g = (array.astype(np.float32) for array in operands(2, (channels, 5), (7, 6), attributes))
    sizes = {0: symbol("batch"), 2: symbol("rows"), 3: symbol("columns")}
    shape = tuple(sizes[axis] if axis in symbolic else size for axis, size in enumerate(x.shape))
    counts = (shape[2] + 3 - 4, shape[3] + 1 - 1)
    program = build(
        lambda *arrays: convolution.conv_weight_gradient(*arrays, **attributes), shape, (shape[0], 5, *counts)
    )
    expected = convolution.conv_weight_gradient(x, g, **attributes)
    np.testing.assert_allclose(ms.compile(program, "cpu")(x, g), expected, rtol=1e-4, atol=1e-4)
