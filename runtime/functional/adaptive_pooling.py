"""Pooling along one to three axes into a given number of windows."""

from __future__ import annotations

from typing import Any

from .. import checks
from ..ops import adaptive_pooling, shaping
from ..tensor_like import TensorLike
from .arguments import integers
from .operands import as_tensor, floating
from .pooling import with_batch
from .public_op import Primitive, public_op


@public_op()
def adaptive_avg_pool1d(input: Any, output_size: Any) -> Any:
    """Means of `output_size` windows of (N, C, L); see `adaptive_avg_pool2d`."""
    return _average(input, output_size, 1, of="adaptive_avg_pool1d")


@public_op(primitive=Primitive("AdaptiveAvgPool2D", made_with=("output_size",)))
def adaptive_avg_pool2d(input: Any, output_size: Any) -> Any:
    """Means of `output_size` windows along each axis (ATen `adaptive_avg_pool2d`).

    Window i of n goes from `floor(i * size / n)` to before `ceil((i + 1) * size / n)`.

    Args:
        input: (N, C, H, W) or (C, H, W), floating-point.
        output_size: an int for both axes or one for each; None keeps the size of an axis.

    Raises:
        TypeError: an argument has a wrong type.
        ValueError: an output size isn't positive, or `input` has another number of dimensions.
    """
    return _average(input, output_size, 2, of="adaptive_avg_pool2d")


@public_op(primitive=Primitive("AdaptiveAvgPool3D", made_with=("output_size",)))
def adaptive_avg_pool3d(input: Any, output_size: Any) -> Any:
    """Means of `output_size` windows of (N, C, D, H, W); see `adaptive_avg_pool2d`."""
    return _average(input, output_size, 3, of="adaptive_avg_pool3d")


@public_op()
def adaptive_max_pool1d(input: Any, output_size: Any) -> Any:
    """The largest element of `output_size` windows of (N, C, L); see `adaptive_max_pool2d`."""
    return _largest(input, output_size, 1, of="adaptive_max_pool1d")[0]


@public_op(
    primitive=Primitive("AdaptiveMaxPool2D", made_with=("output_size",), defaults={"return_indices": True}),
)
def adaptive_max_pool2d(input: Any, output_size: Any, return_indices: bool = False) -> Any:
    """The largest element of `output_size` windows along each axis, which are those of `adaptive_avg_pool2d`.

    With `return_indices`, also their positions: int64 indices into the flattened plane. Other arguments and errors are
    those of `adaptive_avg_pool2d`.
    """
    values, indices = _largest(input, output_size, 2, of="adaptive_max_pool2d")
    return (
        (values, indices)
        if checks.of_type(return_indices, "return_indices", bool, of="adaptive_max_pool2d")
        else values
    )


@public_op(primitive=Primitive("AdaptiveMaxPool3D", defaults={"return_indices": True}))
def adaptive_max_pool3d(input: Any, output_size: Any, return_indices: bool = False) -> Any:
    """The largest element of `output_size` windows of (N, C, D, H, W); see `adaptive_max_pool2d`."""
    values, indices = _largest(input, output_size, 3, of="adaptive_max_pool3d")
    return (
        (values, indices)
        if checks.of_type(return_indices, "return_indices", bool, of="adaptive_max_pool3d")
        else values
    )


def _average(input: Any, output_size: Any, count: int, *, of: str) -> Any:
    x = floating(input, of=of)
    batch = with_batch(x, count, of=of)
    y = adaptive_pooling.adaptive_avg_pool(batch, output_size=_bins(output_size, batch, of=of))
    return y if batch is x else shaping.reshape(y, shape=tuple(y.shape[1:]))


def _largest(input: Any, output_size: Any, count: int, *, of: str) -> tuple[Any, Any]:
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
        kept if size is None else checks.positive_int(size, "output_size", of=of)
        for size, kept in zip(sizes, x.shape[2:], strict=True)
    )
