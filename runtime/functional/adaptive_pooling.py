"""Adaptive pooling along one to three axes: the number of windows is given, and determines their sizes."""

from __future__ import annotations

from typing import Any

from .. import checks
from ..ops import adaptive_pooling, shaping
from ..tensor_like import TensorLike
from .arguments import integers
from .operands import as_tensor, require_floating
from .pooling import with_batch
from .public_op import Primitive, public_op


@public_op()
def adaptive_avg_pool1d(input: Any, output_size: Any) -> Any:
    """Adaptive average pooling of (N, C, L); see `adaptive_avg_pool2d`."""
    return _avg_pool(input, output_size, 1, of="adaptive_avg_pool1d")


@public_op(primitive=Primitive("AdaptiveAvgPool2D", init_args=("output_size",)))
def adaptive_avg_pool2d(input: Any, output_size: Any) -> Any:
    """Adaptive average pooling: the mean of each of `output_size` windows (ATen `adaptive_avg_pool2d`).

    Along an axis, window i of n starts at `floor(i * size / n)` and ends before `ceil((i + 1) * size / n)`.

    Args:
        input: (N, C, H, W) or (C, H, W), floating-point.
        output_size: the number of windows, an int for both axes or one for each; None keeps the size of an axis.

    Raises:
        TypeError: an argument has a wrong type.
        ValueError: an output size isn't positive, or `input` has another number of dimensions.
    """
    return _avg_pool(input, output_size, 2, of="adaptive_avg_pool2d")


@public_op(primitive=Primitive("AdaptiveAvgPool3D", init_args=("output_size",)))
def adaptive_avg_pool3d(input: Any, output_size: Any) -> Any:
    """Adaptive average pooling of (N, C, D, H, W); see `adaptive_avg_pool2d`."""
    return _avg_pool(input, output_size, 3, of="adaptive_avg_pool3d")


@public_op()
def adaptive_max_pool1d(input: Any, output_size: Any) -> Any:
    """Adaptive max pooling of (N, C, L); see `adaptive_max_pool2d`."""
    return _max_pool(input, output_size, 1, of="adaptive_max_pool1d")[0]


@public_op(
    primitive=Primitive("AdaptiveMaxPool2D", init_args=("output_size",), defaults={"return_indices": True}),
)
def adaptive_max_pool2d(input: Any, output_size: Any, return_indices: bool = False) -> Any:
    """Adaptive max pooling: the largest element of each of `output_size` windows (ATen `adaptive_max_pool2d`).

    With `return_indices`, it also returns the positions of these elements: int64 indices into the flattened plane. The
    windows, other arguments and errors are those of `adaptive_avg_pool2d`.
    """
    values, indices = _max_pool(input, output_size, 2, of="adaptive_max_pool2d")
    return (
        (values, indices)
        if checks.of_type(return_indices, "return_indices", bool, of="adaptive_max_pool2d")
        else values
    )


@public_op(primitive=Primitive("AdaptiveMaxPool3D", defaults={"return_indices": True}))
def adaptive_max_pool3d(input: Any, output_size: Any, return_indices: bool = False) -> Any:
    """Adaptive max pooling of (N, C, D, H, W); see `adaptive_max_pool2d`."""
    values, indices = _max_pool(input, output_size, 3, of="adaptive_max_pool3d")
    return (
        (values, indices)
        if checks.of_type(return_indices, "return_indices", bool, of="adaptive_max_pool3d")
        else values
    )


def _avg_pool(input: Any, output_size: Any, count: int, *, of: str) -> Any:
    x = require_floating(input, of=of)
    batch = with_batch(x, count, of=of)
    y = adaptive_pooling.adaptive_avg_pool(batch, output_size=_bins(output_size, batch, of=of))
    return y if batch is x else shaping.reshape(y, shape=tuple(y.shape[1:]))


def _max_pool(input: Any, output_size: Any, count: int, *, of: str) -> tuple[Any, Any]:
    x = as_tensor(input, of=of)
    batch = with_batch(x, count, of=of)
    values, indices = adaptive_pooling.adaptive_max_pool(batch, output_size=_bins(output_size, batch, of=of))
    if batch is x:
        return values, indices
    return tuple(shaping.reshape(y, shape=tuple(y.shape[1:])) for y in (values, indices))


def _bins(output_size: Any, x: Any, *, of: str) -> tuple[Any, ...]:
    if isinstance(output_size, TensorLike):
        output_size = integers(output_size, "output_size", of=of)
    sizes = tuple(output_size) if isinstance(output_size, (tuple, list)) else (output_size,) * (x.ndim - 2)
    if len(sizes) != x.ndim - 2:
        raise ValueError(f"For '{of}', 'output_size' must be an int or {x.ndim - 2} ints, but got {output_size}")
    return tuple(
        input_size if size is None else checks.positive_int(size, "output_size", of=of)
        for size, input_size in zip(sizes, x.shape[2:], strict=True)
    )
