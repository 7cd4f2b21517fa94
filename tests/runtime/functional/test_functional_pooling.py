"""Pooling as functions and operator objects, against torch; errors."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn import functional as F

from cellbridge.runtime import Tensor, ops
from tests.runtime.against_torch import assert_as_torch, normal


@st.composite
def pools(draw: st.DrawFn, axes: tuple[int, ...]) -> tuple[int, dict[str, Any], tuple[int, ...]]:
    """Number of axes, attributes, and the shape of the input, with or without batch."""
    count = draw(st.sampled_from(axes))
    kernel = tuple(draw(st.integers(1, 3)) for _ in range(count))
    attributes = {
        "kernel_size": kernel,
        "stride": tuple(draw(st.integers(1, 3)) for _ in kernel),
        "padding": tuple(draw(st.integers(0, k // 2)) for k in kernel),
        "ceil_mode": draw(st.booleans()),
    }
    sizes = tuple(draw(st.integers(k, 6)) for k in kernel)
    return count, attributes, (*draw(st.sampled_from([(2, 2), (3,)])), *sizes)


@settings(max_examples=40, deadline=None)
@given(pools((2, 3)), st.integers(1, 2))
def test_max_pool_is_torch_s(pool: Any, dilation: int) -> None:
    count, attributes, shape = pool
    spans = [(k - 1) * dilation + 1 for k in attributes["kernel_size"]]
    shape = (*shape[:-count], *(max(n, span) for n, span in zip(shape[-count:], spans, strict=True)))
    attributes = {**attributes, "dilation": dilation}
    function, torch_function = {2: (ops.max_pool2d, F.max_pool2d), 3: (ops.max_pool3d, F.max_pool3d)}[count]
    assert_as_torch(lambda x: function(x, **attributes), lambda x: torch_function(x, **attributes), normal(*shape))
    _, indices = function(Tensor(normal(*shape)), return_indices=True, **attributes)
    _, expected = torch_function(torch.from_numpy(normal(*shape)), return_indices=True, **attributes)
    np.testing.assert_array_equal(indices.asnumpy(), expected.numpy())


@settings(max_examples=40, deadline=None)
@given(pools((1, 2, 3)), st.booleans(), st.integers(0, 4))
def test_avg_pool_is_torch_s(pool: Any, count_include_pad: bool, divisor: int) -> None:
    count, attributes, shape = pool
    function = {1: ops.avg_pool1d, 2: ops.avg_pool2d, 3: ops.avg_pool3d}[count]
    torch_function: Any = {1: F.avg_pool1d, 2: F.avg_pool2d, 3: F.avg_pool3d}[count]
    given = {**attributes, "count_include_pad": count_include_pad}
    padding = tuple(side for p in attributes["padding"] for side in (p, p))
    function_options = {"divisor_override": divisor} if count > 1 else {}
    torch_options = {"divisor_override": divisor or None} if count > 1 else {}
    assert_as_torch(
        lambda x: function(x, **{**given, **function_options, "padding": padding}),
        lambda x: torch_function(x, **given, **torch_options),
        normal(*shape),
    )


@pytest.mark.parametrize("kind", ["avg", "max"])
@pytest.mark.parametrize("output_size", [3, (3, 4), (None, 4), (3, 4, 1), (3, None, 2)], ids=str)
def test_adaptive_pools_are_torch_s(kind: str, output_size: Any) -> None:
    count = len(output_size) if isinstance(output_size, tuple) else 1
    name = f"adaptive_{kind}_pool{count}d"
    function, torch_function, x = getattr(ops, name), getattr(F, name), normal(2, 3, *(7, 5, 6)[:count])
    assert_as_torch(lambda x: function(x, output_size), lambda x: torch_function(x, output_size), x)
    assert_as_torch(lambda x: function(x, output_size), lambda x: torch_function(x, output_size), x[0])
    assert function(Tensor(x), 2).shape == (2, 3, *(2,) * count)


def test_objects_take_windows_when_made() -> None:
    x = normal(1, 2, 5, 5)
    y = Tensor(x)
    same = F.pad(torch.from_numpy(x), (0, 1, 0, 1), value=-np.inf)
    np.testing.assert_array_equal(ops.MaxPool(2, 2, "same")(y).asnumpy(), F.max_pool2d(same, 2).numpy())
    np.testing.assert_array_equal(ops.MaxPool(2, 2)(y).asnumpy(), F.max_pool2d(torch.from_numpy(x), 2).numpy())
    counts = F.avg_pool2d(F.pad(torch.ones(1, 2, 5, 5), (0, 1, 0, 1)), 2)
    mean = F.avg_pool2d(F.pad(torch.from_numpy(x), (0, 1, 0, 1)), 2) / counts
    np.testing.assert_allclose(ops.AvgPool(2, 2, "SAME")(y).asnumpy(), mean.numpy(), rtol=1e-12)
    values, indices = ops.MaxPoolWithArgmaxV2(2)(y)
    expected = F.max_pool2d(torch.from_numpy(x), 2, return_indices=True)
    np.testing.assert_array_equal(values.asnumpy(), expected[0].numpy())
    np.testing.assert_array_equal(indices.asnumpy(), expected[1].numpy())
    largest = F.adaptive_max_pool2d(torch.from_numpy(x), 2, return_indices=True)
    for pooled, torch_pooled in zip(ops.AdaptiveMaxPool2D(2)(y), largest, strict=True):
        np.testing.assert_array_equal(pooled.asnumpy(), torch_pooled.numpy())
    assert ops.AdaptiveAvgPool2D((None, 1))(y).shape == (1, 2, 5, 1)


@pytest.mark.parametrize(
    ("run", "error", "message"),
    [
        (lambda x: ops.max_pool2d(x, 6), ValueError, "a window of 6 doesn't fit into 5"),
        (lambda x: ops.max_pool2d(x, 3, padding=2), ValueError, "at most half a window"),
        (lambda x: ops.max_pool2d(x, 0), ValueError, "'kernel_size' must be int >= 1"),
        (lambda x: ops.max_pool2d(x, (2, 2, 2)), ValueError, "'kernel_size' must be an int or 2 ints"),
        (lambda x: ops.max_pool2d(x[0, 0], 2), ValueError, "must have 4 dimensions, or 3 without batch"),
        (lambda x: ops.max_pool2d(x, 2, ceil_mode=1), TypeError, "'ceil_mode' must be bool"),
        (lambda x: ops.avg_pool2d(x, 2, padding=(1, 1)), ValueError, "'padding' must be an int or 4 ints"),
        (lambda x: ops.avg_pool2d(x, 2, divisor_override=-1), ValueError, "'divisor_override' must be >= 0"),
        (lambda x: ops.avg_pool2d(x.astype("int32"), 2), TypeError, "must have a floating-point dtype"),
        (lambda x: ops.MaxPool(2, 2, "pad")(x), ValueError, "'pad_mode' must be one of"),
        (lambda x: ops.adaptive_avg_pool2d(x, 0), ValueError, "'output_size' must be an int > 0"),
        (lambda x: ops.adaptive_avg_pool2d(x, (1, 1, 1)), ValueError, "'output_size' must be an int or 2 ints"),
        (lambda x: ops.adaptive_max_pool2d(x, 2.0), TypeError, "'output_size' must be int"),
    ],
)
def test_what_does_not_fit_is_refused(run: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        run(Tensor(normal(1, 2, 5, 5)))
