"""Convolution as functions and operator objects: against torch, the padding of "same", errors."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn import functional as F

import cellbridge.runtime as ms
from cellbridge.runtime import Tensor, ops
from tests.runtime.against_torch import assert_as_torch, normal

CONV = {1: ops.conv1d, 2: ops.conv2d, 3: ops.conv3d}
TORCH = {1: F.conv1d, 2: F.conv2d, 3: F.conv3d}
TRANSPOSED = {1: ops.conv_transpose1d, 2: ops.conv_transpose2d, 3: ops.conv_transpose3d}
TORCH_TRANSPOSED: dict[int, Any] = {1: F.conv_transpose1d, 2: F.conv_transpose2d, 3: F.conv_transpose3d}


@st.composite
def geometries(draw: st.DrawFn) -> dict[str, Any]:
    count = draw(st.integers(1, 3))

    def each(low: int, high: int) -> Any:
        return tuple(draw(st.integers(low, high)) for _ in range(count))

    kernel, dilation = each(1, 3), each(1, 2)
    return {
        "sizes": tuple(draw(st.integers(d * (k - 1) + 1, 7)) for k, d in zip(kernel, dilation, strict=True)),
        "kernel": kernel,
        "stride": each(1, 3),
        "dilation": dilation,
        "padding": each(0, 2),
        "groups": draw(st.sampled_from([1, 2])),
        "bias": draw(st.booleans()),
    }


def operands(geometry: dict[str, Any], *, transposed: bool = False) -> list[np.ndarray]:
    groups = geometry["groups"]
    x = normal(2, 4, *geometry["sizes"])
    weight = normal(*((4, 6 // groups) if transposed else (6, 4 // groups)), *geometry["kernel"], seed=1)
    return [x, weight, *([normal(6, seed=2)] if geometry["bias"] else [])]


@settings(max_examples=30, deadline=None)
@given(geometries())
def test_convolution_is_torch_s(geometry: dict[str, Any]) -> None:
    count = len(geometry["kernel"])
    attributes = {name: geometry[name] for name in ("stride", "padding", "dilation", "groups")}
    assert_as_torch(
        lambda *given: CONV[count](*given, pad_mode="pad", **attributes),
        lambda *given: TORCH[count](*given, **attributes),
        *operands(geometry),
    )


@settings(max_examples=30, deadline=None)
@given(geometries())
def test_same_pads_what_the_windows_need_and_the_extra_element_after(geometry: dict[str, Any]) -> None:
    count = len(geometry["kernel"])
    attributes = {name: geometry[name] for name in ("stride", "dilation", "groups")}

    def padded(x: torch.Tensor, *others: torch.Tensor) -> torch.Tensor:
        pads: list[int] = []
        for n, k, s, d in zip(x.shape[2:], geometry["kernel"], geometry["stride"], geometry["dilation"], strict=True):
            total = max((-(-n // s) - 1) * s + d * (k - 1) + 1 - n, 0)
            pads = [total // 2, total - total // 2, *pads]
        return TORCH[count](F.pad(x, pads), *others, **attributes)

    arrays = operands(geometry)
    assert_as_torch(lambda *given: CONV[count](*given, pad_mode="same", **attributes), padded, *arrays)
    y = CONV[count](*map(Tensor, arrays), pad_mode="same", **attributes)
    assert y.shape[2:] == tuple(-(-n // s) for n, s in zip(geometry["sizes"], geometry["stride"], strict=True))


@settings(max_examples=30, deadline=None)
@given(geometries(), st.data())
def test_transposed_convolution_is_torch_s(geometry: dict[str, Any], data: st.DataObject) -> None:
    count = len(geometry["kernel"])
    attributes = {name: geometry[name] for name in ("stride", "dilation", "groups")}
    attributes["output_padding"] = tuple(
        data.draw(st.integers(0, max(s, d) - 1)) for s, d in zip(geometry["stride"], geometry["dilation"], strict=True)
    )
    # something must be left of the output
    spans = [d * (k - 1) + 1 for k, d in zip(geometry["kernel"], geometry["dilation"], strict=True)]
    attributes["padding"] = tuple(min(p, (span - 1) // 2) for p, span in zip(geometry["padding"], spans, strict=True))
    assert_as_torch(
        lambda *given: TRANSPOSED[count](*given, **attributes),
        lambda *given: TORCH_TRANSPOSED[count](*given, **attributes),
        *operands(geometry, transposed=True),
    )


def test_operator_objects_are_told_what_the_weight_is_like() -> None:
    x, weight = Tensor(normal(1, 2, 6, 5)), Tensor(normal(3, 2, 3, 2, seed=1))
    pad = (1, 0, 2, 1)
    y = ops.Conv2D(3, (3, 2), pad_mode="pad", pad=pad, stride=2)(x, weight)
    expected = F.conv2d(
        F.pad(torch.from_numpy(x.asnumpy()), (2, 1, 1, 0)), torch.from_numpy(weight.asnumpy()), stride=2
    )
    np.testing.assert_allclose(y.asnumpy(), expected.numpy(), rtol=1e-12)
    with pytest.raises(ValueError, match="'weight' must have 4 output channels"):
        ops.Conv2D(4, (3, 2))(x, weight)
    with pytest.raises(ValueError, match="the kernel"):
        ops.Conv2D(3, 3)(x, weight)
    volume = ops.Conv3D(3, 1)(Tensor(normal(1, 2, 2, 2, 2)), Tensor(normal(3, 2, 1, 1, 1)))
    assert volume.shape == (1, 3, 2, 2, 2)


@pytest.mark.parametrize(
    "attributes",
    [
        {},
        {"stride": 2},
        {"pad_mode": "same", "stride": 2},
        {"pad_mode": "same", "dilation": 2},
        {"pad_mode": "pad", "pad": (1, 0, 2, 1), "stride": 3},
    ],
)
def test_the_transposed_object_gives_the_gradient_in_the_input(attributes: dict[str, Any]) -> None:
    x, weight = Tensor(normal(2, 2, 7, 6)), Tensor(normal(3, 2, 3, 2, seed=1))
    forward = ops.Conv2D(3, (3, 2), **attributes)
    dout = Tensor(normal(*forward(x, weight).shape, seed=2))
    expected = ms.grad(lambda x: (forward(x, weight) * dout).sum())(x)
    actual = ops.Conv2DTranspose(3, (3, 2), **attributes)(dout, weight, x.shape)
    np.testing.assert_allclose(actual.asnumpy(), expected.asnumpy(), rtol=1e-12, atol=1e-12)
    with pytest.raises(ValueError, match="doesn't give a 'dout'"):
        ops.Conv2DTranspose(3, (3, 2), **attributes)(dout, weight, (2, 2, 17, 6))


def test_bias_add_goes_by_channel() -> None:
    assert_as_torch(ops.BiasAdd(), lambda x, b: x + b[None, :, None, None], normal(2, 3, 4, 2), normal(3, seed=1))
    assert_as_torch(ops.bias_add, lambda x, b: x + b, normal(2, 3), normal(3, seed=1))
    with pytest.raises(ValueError, match="one element per channel"):
        ops.bias_add(Tensor(normal(2, 3, 4)), Tensor(normal(4)))


X, W = normal(1, 2, 5, 5).astype(np.float32), normal(4, 2, 3, 3).astype(np.float32)


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"pad_mode": "SAME"}, ValueError, "'pad_mode' must be one of .* but got 'SAME'"),
        ({"pad_mode": 1}, TypeError, "'pad_mode' must be str"),
        ({"padding": 1}, ValueError, "'padding' must be 0 unless 'pad_mode' is 'pad'"),
        ({"pad_mode": "pad", "padding": (1, 1, 1, 1)}, ValueError, "'padding' must be an int or 2 ints"),
        ({"pad_mode": "pad", "padding": -1}, ValueError, "'padding' must be int >= 0"),
        ({"stride": 0}, ValueError, "'stride' must be int >= 1"),
        ({"stride": 1.0}, TypeError, "'stride' must be int"),
        ({"dilation": (1, 0)}, ValueError, "'dilation' must be int >= 1"),
        ({"dilation": 3}, ValueError, "the kernel is too large"),
        ({"groups": 2}, RuntimeError, "2 for each of 2 groups"),
        ({"groups": 0}, ValueError, "'groups' must be an int > 0"),
        ({"bias": Tensor(np.zeros(3, np.float32))}, ValueError, "bias must have the shape"),
        ({"bias": Tensor(np.zeros(4, np.float16))}, TypeError, "must have one type, but got Float32 and Float16"),
        ({"input": Tensor(X[0])}, ValueError, "must have 4 dimensions"),
        ({"input": Tensor(X.astype(np.float16))}, TypeError, "must have one type, but got Float16 and Float32"),
        ({"input": "x"}, TypeError, "'input' must be a Tensor"),
    ],
)
def test_what_does_not_fit_is_refused(arguments: dict[str, Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        ops.conv2d(**{"input": Tensor(X), "weight": Tensor(W), **arguments})


def test_output_padding_is_below_stride_or_dilation() -> None:
    with pytest.raises(ValueError, match="'output_padding' must be smaller than the stride or the dilation"):
        ops.conv_transpose2d(Tensor(X), Tensor(normal(2, 4, 3, 3).astype(np.float32)), output_padding=1)
