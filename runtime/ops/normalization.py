"""Layer and root-mean-square normalization over the last axes; see `standardization` for the formulas."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..ir.types import FLOAT64
from ..traits import Traits
from . import reduction
from .common import add_cotangents, in_float32, unbroadcast
from .registry import Array, OnnxGraph, Tensor, Type, operator
from .standardization import (
    affine_array,
    check_normalization_operands,
    cotangent_from_both,
    cotangent_from_factor,
    flatten_to_rows,
    inverse_root,
    onnx_affine,
    onnx_deviation,
    onnx_narrow,
    onnx_standardize,
    onnx_standardize_with_factor,
    onnx_widen,
    restore_normalized_axes,
    standardize,
    standardized_array,
    trailing_axes,
)


@operator
def layer_norm(
    x: Tensor, weight: Tensor | None = None, bias: Tensor | None = None, *, axes_count: int, eps: float
) -> Tensor:
    """Layer normalization (Ba et al. 2016) over the last `axes_count` axes.

    ATen native_layer_norm, ONNX LayerNormalization-17.

    Args:
        x: floating-point, (..., *normalized).
        weight: (*normalized), multiplies the standardized input.
        bias: (*normalized), added.
        axes_count: number of trailing axes that are normalized.
        eps: added to the variance.
    """


layer_norm.traits = Traits(mixed_precision="float32")


@layer_norm.infer
def _(x: Type, weight: Type | None, bias: Type | None, *, axes_count: int, eps: float) -> Type:
    check_normalization_operands(x, (weight, bias), x.shape[x.rank - axes_count :], axes_count)
    return x


@layer_norm.kernel
def _(x: Array, weight: Array | None, bias: Array | None, *, axes_count: int, eps: float) -> Array:
    return affine_array(standardized_array(x, axes_count, eps)[0], weight, bias)


@layer_norm.vjp
@in_float32
def _(
    g: Tensor, y: Tensor, x: Tensor, weight: Tensor | None, bias: Tensor | None, *, axes_count: int, eps: float
) -> tuple[Tensor | None, ...]:
    _, standardized, r = layer_norm_with_statistics(x, weight, bias, axes_count=axes_count, eps=eps)
    return _layer_norm_vjp((g, None, None), standardized, r, x, weight, bias, axes_count)


@layer_norm.onnx
def _(graph: OnnxGraph, x: str, weight: str, bias: str, *, axes_count: int, eps: float) -> str:
    kind = graph.type(x)
    if kind.dtype == FLOAT64:  # the attribute epsilon is a float32
        standardized, _ = onnx_standardize(graph, x, range(-axes_count, 0), eps, kind.dtype)
        return onnx_affine(graph, standardized, weight, bias)
    if not weight:
        shape = graph.dims(kind.shape[kind.rank - axes_count :])
        weight = graph.op("Expand", graph.constant(1.0, kind.dtype), shape)
    return str(graph.op("LayerNormalization", x, weight, bias, axis=-axes_count, epsilon=eps))


@operator
def layer_norm_with_statistics(
    x: Tensor, weight: Tensor | None = None, bias: Tensor | None = None, *, axes_count: int, eps: float
) -> tuple[Tensor, Tensor, Tensor]:
    """`layer_norm` that also returns what its gradient needs.

    Args:
        x: see `layer_norm`.
        weight: see `layer_norm`.
        bias: see `layer_norm`.
        axes_count: see `layer_norm`.
        eps: see `layer_norm`.

    Returns:
        The result of `layer_norm`, and the two results of `standardize`.
    """


layer_norm_with_statistics.extends(layer_norm)


@layer_norm_with_statistics.infer
def _(x: Type, weight: Type | None, bias: Type | None, *, axes_count: int, eps: float) -> tuple[Type, ...]:
    attributes = {"axes_count": axes_count, "eps": eps}
    return *layer_norm.infer_types([x, weight, bias], attributes), *standardize.infer_types([x], attributes)


@layer_norm_with_statistics.kernel
def _(x: Array, weight: Array | None, bias: Array | None, *, axes_count: int, eps: float) -> tuple[Array, ...]:
    standardized, r = standardized_array(x, axes_count, eps)
    return affine_array(standardized.copy(), weight, bias), standardized, r


@layer_norm_with_statistics.vjp
@in_float32
def _(
    g: tuple[Any, Any, Any],
    y: tuple[Any, Any, Any],
    x: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    *,
    axes_count: int,
    eps: float,
) -> tuple[Tensor | None, ...]:
    return _layer_norm_vjp(g, *y[1:], x, weight, bias, axes_count)


@layer_norm_with_statistics.onnx
def _(graph: OnnxGraph, x: str, weight: str, bias: str, *, axes_count: int, eps: float) -> tuple[str, str, str]:
    standardized, r = onnx_standardize_with_factor(graph, x, axes_count, eps)
    return onnx_affine(graph, standardized, weight, bias), standardized, r


def _layer_norm_vjp(
    g: tuple[Any, Any, Any], standardized: Any, r: Any, x: Any, weight: Any, bias: Any, axes_count: int
) -> tuple[Any, ...]:
    g_y, g_standardized, g_r = g
    scaled = g_y if weight is None or g_y is None else g_y * weight
    return (
        cotangent_from_both(
            (add_cotangents(g_standardized, scaled), g_r), standardized, r, trailing_axes(x, axes_count)
        ),
        None if weight is None or g_y is None else unbroadcast(g_y * standardized, weight),
        None if bias is None or g_y is None else unbroadcast(g_y, bias),
    )


@operator
def rms_norm(x: Tensor, weight: Tensor | None = None, *, axes_count: int, eps: float) -> Tensor:
    """`x / sqrt(mean(x^2) + eps) * weight` over the last `axes_count` axes (Zhang and Sennrich 2019).

    ATen rms_norm, ONNX RMSNormalization-23.

    Args:
        x: floating-point, (..., *normalized).
        weight: (*normalized).
        axes_count: number of trailing axes that are normalized.
        eps: added to the mean of squares.
    """


rms_norm.traits = Traits(mixed_precision="float32")


@rms_norm.infer
def _(x: Type, weight: Type | None, *, axes_count: int, eps: float) -> Type:
    check_normalization_operands(x, (weight,), x.shape[x.rank - axes_count :], axes_count)
    return x


@rms_norm.kernel
def _(x: Array, weight: Array | None, *, axes_count: int, eps: float) -> Array:
    return affine_array(_scaled_array(x, axes_count, eps)[0], weight, None)


@rms_norm.vjp
@in_float32
def _(
    g: Tensor, y: Tensor, x: Tensor, weight: Tensor | None, *, axes_count: int, eps: float
) -> tuple[Tensor | None, ...]:
    _, standardized, r = rms_norm_with_statistics(x, weight, axes_count=axes_count, eps=eps)
    return _rms_norm_vjp((g, None, None), standardized, r, x, weight, axes_count)


@rms_norm.onnx
def _(graph: OnnxGraph, x: str, weight: str, *, axes_count: int, eps: float) -> str:
    kind = graph.type(x)
    if weight and kind.dtype != FLOAT64 and graph.has("RMSNormalization", 23):
        return str(graph.op("RMSNormalization", x, weight, axis=-axes_count, epsilon=eps))
    return _onnx_rms_norm(graph, x, weight, axes_count, eps)[0]


@operator
def rms_norm_with_statistics(
    x: Tensor, weight: Tensor | None = None, *, axes_count: int, eps: float
) -> tuple[Tensor, Tensor, Tensor]:
    """`rms_norm` that also returns what its gradient needs.

    Args:
        x: see `rms_norm`.
        weight: see `rms_norm`.
        axes_count: see `rms_norm`.
        eps: see `rms_norm`.

    Returns:
        The result of `rms_norm`; `x * r`; and `r = 1 / sqrt(mean(x^2) + eps)`, with size 1 along the normalized axes.
    """


rms_norm_with_statistics.extends(rms_norm)


@rms_norm_with_statistics.infer
def _(x: Type, weight: Type | None, *, axes_count: int, eps: float) -> tuple[Type, ...]:
    attributes = {"axes_count": axes_count, "eps": eps}
    return *rms_norm.infer_types([x, weight], attributes), *standardize.infer_types([x], attributes)


@rms_norm_with_statistics.kernel
def _(x: Array, weight: Array | None, *, axes_count: int, eps: float) -> tuple[Array, ...]:
    scaled, r = _scaled_array(x, axes_count, eps)
    return affine_array(scaled.copy(), weight, None), scaled, r


@rms_norm_with_statistics.vjp
@in_float32
def _(
    g: tuple[Any, Any, Any], y: tuple[Any, Any, Any], x: Tensor, weight: Tensor | None, *, axes_count: int, eps: float
) -> tuple[Tensor | None, ...]:
    return _rms_norm_vjp(g, *y[1:], x, weight, axes_count)


@rms_norm_with_statistics.onnx
def _(graph: OnnxGraph, x: str, weight: str, *, axes_count: int, eps: float) -> tuple[str, str, str]:
    return _onnx_rms_norm(graph, x, weight, axes_count, eps)


def _scaled_array(x: Array, axes_count: int, eps: float) -> tuple[Array, Array]:
    """Return `x * r` (a new array) and `r`."""
    rows = flatten_to_rows(x, axes_count)
    r = inverse_root(np.vecdot(rows, rows)[:, None] / rows.dtype.type(rows.shape[1]), eps)
    return (rows * r).reshape(x.shape), restore_normalized_axes(r, x, axes_count)


def _rms_norm_vjp(
    g: tuple[Any, Any, Any], scaled: Any, r: Any, x: Any, weight: Any, axes_count: int
) -> tuple[Any, ...]:
    (g_y, g_scaled, g_r), axes = g, trailing_axes(x, axes_count)
    total = add_cotangents(g_scaled, g_y if weight is None or g_y is None else g_y * weight)
    direct = None
    if total is not None:
        direct = (total - scaled * reduction.reduce_mean(total * scaled, axes=axes, keepdims=True)) * r
    g_weight = None if weight is None or g_y is None else unbroadcast(g_y * scaled, weight)
    return add_cotangents(direct, cotangent_from_factor(g_r, scaled, r, axes)), g_weight


def _onnx_rms_norm(graph: OnnxGraph, x: str, weight: str, axes_count: int, eps: float) -> tuple[str, str, str]:
    """Return the result, `x / deviation` and `1 / deviation`."""
    wide, dtype = onnx_widen(graph, x), graph.type(x).dtype
    squares = graph.op("ReduceMean", graph.op("Mul", wide, wide), graph.constant(np.arange(-axes_count, 0)))
    deviation = onnx_deviation(graph, squares, eps, dtype)
    scaled = onnx_narrow(graph, graph.op("Div", wide, deviation), dtype)
    r = onnx_narrow(graph, graph.op("Reciprocal", deviation), dtype)
    return onnx_affine(graph, scaled, weight, ""), scaled, r
