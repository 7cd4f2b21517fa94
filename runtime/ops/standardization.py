"""`standardize`, and helpers that the normalizations share.

They divide by statistics of the input, so their gradients share one closed form (Ioffe and Szegedy 2015, section 3):
with `n = (x - mean) * r`, `r = 1 / sqrt(variance + eps)` and cotangent `g` of `n`,

    cotangent of x = r * (g - mean(g) - n * mean(g * n))

Variances are biased (divided by the count) and computed in two passes: the mean, then the mean of squared deviations.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from ..ir import dims
from ..ir.types import FLOAT32, at_least_float32, is_floating, is_half
from ..traits import Traits
from . import reduction
from .common import add_cotangents, in_float32, require_same_dtype
from .registry import Array, OnnxGraph, Tensor, Type, operator, require


@operator
def standardize(x: Tensor, *, axes_count: int, eps: float) -> tuple[Tensor, Tensor]:
    """`(x - mean) * r` and `r = 1 / sqrt(variance + eps)`, with statistics over the last `axes_count` axes.

    Args:
        x: floating-point.
        axes_count: number of trailing axes that are normalized.
        eps: added to the variance.

    Returns:
        The standardized tensor, of the shape of `x`, and `r`, with size 1 along the normalized axes.
    """


standardize.traits = Traits(mixed_precision="float32")


@standardize.infer
def _(x: Type, *, axes_count: int, eps: float) -> tuple[Type, Type]:
    check_normalization_operands(x, (), (), axes_count)
    return x, x.with_shape(x.shape[: x.rank - axes_count] + (1,) * axes_count)


@standardize.kernel
def _(x: Array, *, axes_count: int, eps: float) -> tuple[Array, Array]:
    return standardized_array(x, axes_count, eps)


@standardize.vjp
@in_float32
def _(g: tuple[Any, Any], y: tuple[Any, Any], x: Tensor, *, axes_count: int, eps: float) -> Any:
    return cotangent_from_both(g, *y, trailing_axes(x, axes_count))


@standardize.onnx
def _(graph: OnnxGraph, x: str, *, axes_count: int, eps: float) -> tuple[str, str]:
    return onnx_standardize_with_factor(graph, x, axes_count, eps)


def check_normalization_operands(
    x: Type, others: tuple[Type | None, ...], shape: tuple[dims.Dim, ...], axes_count: int
) -> None:
    """Check that `x` is floating-point with enough axes, and that the other operands have its dtype and `shape`."""
    require(is_floating(x.dtype), f"needed a floating-point input, given {x}")
    require(1 <= axes_count <= x.rank, f"can't normalize {axes_count} trailing axes of {x}")
    present = [other for other in others if other is not None]
    require_same_dtype(x, *present)
    for other in present:
        require(other.shape == shape, f"needed shape {shape} for weights and statistics, given {other}")


def trailing_axes(x: Any, axes_count: int) -> tuple[int, ...]:
    """Return the last `axes_count` axes, counted from the front."""
    rank = len(x.shape)
    return tuple(range(rank - axes_count, rank))


def flatten_to_rows(x: Array, axes_count: int) -> Array:
    """Return `x` as a matrix, one row for each slice that is normalized."""
    lead = x.ndim - axes_count
    return x.reshape(dims.product(x.shape[:lead]), dims.product(x.shape[lead:]))


def inverse_root(variance: Array, eps: float) -> Array:
    """Return `1 / sqrt(variance + eps)` in the dtype of `variance`."""
    one = variance.dtype.type(1)
    return np.asarray(one / np.sqrt(variance + variance.dtype.type(eps)))


def standardized_array(x: Array, axes_count: int, eps: float) -> tuple[Array, Array]:
    """Return `(x - mean) * r` (a new array) and `r`, with size 1 along the normalized axes."""
    rows = flatten_to_rows(x, axes_count)
    centered = rows - rows.mean(axis=1, keepdims=True)
    r = inverse_root(np.vecdot(centered, centered)[:, None] / rows.dtype.type(rows.shape[1]), eps)
    centered *= r
    return centered.reshape(x.shape), restore_normalized_axes(r, x, axes_count)


def restore_normalized_axes(column: Array, x: Array, axes_count: int) -> Array:
    """Reshape a number for each row of `flatten_to_rows` to have size 1 along the normalized axes of `x`."""
    return column.reshape(x.shape[: x.ndim - axes_count] + (1,) * axes_count)


def cotangent_from_standardized(g: Any, standardized: Any, r: Any, axes: tuple[int, ...]) -> Any:
    """Return the cotangent of the input from that of the standardized tensor, by the closed form above."""
    slope = reduction.reduce_mean(g * standardized, axes=axes, keepdims=True)
    offset = reduction.reduce_mean(g, axes=axes, keepdims=True)
    return (g - standardized * slope - offset) * r


def cotangent_from_both(g: tuple[Any, Any], standardized: Any, r: Any, axes: tuple[int, ...]) -> Any:
    """Return the cotangent of the input from those of the standardized tensor and of r; None stands for zero."""
    g_standardized, g_r = g
    direct = None if g_standardized is None else cotangent_from_standardized(g_standardized, standardized, r, axes)
    return add_cotangents(direct, cotangent_from_factor(g_r, standardized, r, axes))


def cotangent_from_factor(g_r: Any, standardized: Any, r: Any, axes: tuple[int, ...]) -> Any:
    """Return the cotangent of the input from that of r: dr/dx = -r^2 * standardized / count."""
    return None if g_r is None else -g_r * r * r / reduction.element_count(standardized, axes) * standardized


def onnx_widen(graph: OnnxGraph, x: str) -> str:
    """Cast `x` to float32 if it is in half precision."""
    return graph.cast(x, FLOAT32) if is_half(graph.type(x).dtype) else x


def onnx_narrow(graph: OnnxGraph, x: str, dtype: np.dtype[Any]) -> str:
    """Cast a result that was computed from `onnx_widen` back to `dtype`."""
    return graph.cast(x, dtype) if is_half(dtype) else x


def onnx_deviation(graph: OnnxGraph, x: str, eps: float, dtype: np.dtype[Any]) -> str:
    """Emit `sqrt(x + eps)`; `x` is computed from the result of `onnx_widen` for `dtype`."""
    eps_constant = graph.constant(eps, at_least_float32(dtype))
    return str(graph.op("Sqrt", graph.op("Add", x, eps_constant)))


def onnx_moments(graph: OnnxGraph, x: str, axes: Iterable[int]) -> tuple[str, str, str]:
    """Emit `x - mean`, mean and variance by elementary operators; the axes are kept with size 1."""
    axes_constant = graph.constant(np.array(list(axes)))
    mean = graph.op("ReduceMean", x, axes_constant)
    centered = graph.op("Sub", x, mean)
    return centered, mean, graph.op("ReduceMean", graph.op("Mul", centered, centered), axes_constant)


def onnx_standardize(
    graph: OnnxGraph, x: str, axes: Iterable[int], eps: float, dtype: np.dtype[Any]
) -> tuple[str, str]:
    """Emit `(x - mean) / deviation` and the deviation; `x` is the result of `onnx_widen` for `dtype`."""
    centered, _, variance = onnx_moments(graph, x, axes)
    deviation = onnx_deviation(graph, variance, eps, dtype)
    return str(graph.op("Div", centered, deviation)), deviation


def onnx_standardize_with_factor(graph: OnnxGraph, x: str, axes_count: int, eps: float) -> tuple[str, str]:
    """Emit the results of `standardize`."""
    dtype = graph.type(x).dtype
    standardized, deviation = onnx_standardize(graph, onnx_widen(graph, x), range(-axes_count, 0), eps, dtype)
    return onnx_narrow(graph, standardized, dtype), onnx_narrow(graph, graph.op("Reciprocal", deviation), dtype)


def affine_array(y: Array, weight: Array | None, bias: Array | None) -> Array:
    """Compute `y * weight + bias` in place."""
    if weight is not None:
        y *= weight
    if bias is not None:
        y += bias
    return y


def onnx_affine(graph: OnnxGraph, x: str, weight: str, bias: str) -> str:
    """Emit `x * weight + bias`; `""` for an absent operand."""
    scaled = graph.op("Mul", x, weight) if weight else x
    return graph.op("Add", scaled, bias) if bias else scaled
