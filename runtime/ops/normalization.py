"""Normalizations: layer, root-mean-square, group and batch. `standardization` has the formulas that they share."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..ir import dims
from ..ir.types import FLOAT32, FLOAT64, is_half
from . import elementwise, reduction, shaping
from .common import in_float32, unbroadcast
from .registry import Array, OnnxGraph, Tensor, Type, operator, require
from .standardization import (
    as_rows,
    check_operands,
    inverse_root,
    onnx_deviation,
    onnx_narrow,
    onnx_standardized,
    onnx_wide,
    standardize,
    standardized_array,
    through_statistics,
    trailing_axes,
)
from .summation import pairwise_sum


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
        axes_count: how many trailing axes are normalized.
        eps: added to the variance.
    """


@layer_norm.infer
def _(x: Type, weight: Type | None, bias: Type | None, *, axes_count: int, eps: float) -> Type:
    check_operands(x, (weight, bias), x.shape[x.rank - axes_count :], axes_count)
    return x


@layer_norm.kernel
def _(x: Array, weight: Array | None, bias: Array | None, *, axes_count: int, eps: float) -> Array:
    y, _ = standardized_array(x, axes_count, eps)
    if weight is not None:
        y *= weight
    if bias is not None:
        y += bias
    return y


@layer_norm.vjp
@in_float32
def _(
    g: Tensor, y: Tensor, x: Tensor, weight: Tensor | None, bias: Tensor | None, *, axes_count: int, eps: float
) -> tuple[Tensor | None, ...]:
    standardized, r = standardize(x, axes_count=axes_count, eps=eps)
    scaled = g if weight is None else g * weight
    return (
        through_statistics(scaled, standardized, r, trailing_axes(x, axes_count)),
        None if weight is None else unbroadcast(g * standardized, weight),
        None if bias is None else unbroadcast(g, bias),
    )


@layer_norm.onnx
def _(graph: OnnxGraph, x: str, weight: str, bias: str, *, axes_count: int, eps: float) -> str:
    kind = graph.type(x)
    if kind.dtype == FLOAT64:  # the attribute epsilon is a float32
        standardized, _ = onnx_standardized(graph, x, range(-axes_count, 0), eps, kind.dtype)
        return _onnx_affine(graph, standardized, weight, bias)
    if not weight:
        shape = graph.dims(kind.shape[kind.rank - axes_count :])
        weight = graph.op("Expand", graph.constant(1.0, kind.dtype), shape)
    return str(graph.op("LayerNormalization", x, weight, bias, axis=-axes_count, epsilon=eps))


@operator
def rms_norm(x: Tensor, weight: Tensor | None = None, *, axes_count: int, eps: float) -> Tensor:
    """`x / sqrt(mean(x^2) + eps) * weight` over the last `axes_count` axes (Zhang and Sennrich 2019).

    ATen rms_norm, ONNX RMSNormalization-23.

    Args:
        x: floating-point, (..., *normalized).
        weight: (*normalized).
        axes_count: how many trailing axes are normalized.
        eps: added to the mean of squares.
    """


@rms_norm.infer
def _(x: Type, weight: Type | None, *, axes_count: int, eps: float) -> Type:
    check_operands(x, (weight,), x.shape[x.rank - axes_count :], axes_count)
    return x


@rms_norm.kernel
def _(x: Array, weight: Array | None, *, axes_count: int, eps: float) -> Array:
    rows = as_rows(x, axes_count)
    y = (rows * inverse_root(np.vecdot(rows, rows)[:, None] / rows.dtype.type(rows.shape[1]), eps)).reshape(x.shape)
    if weight is not None:
        y *= weight
    return y


@rms_norm.vjp
@in_float32
def _(
    g: Tensor, y: Tensor, x: Tensor, weight: Tensor | None, *, axes_count: int, eps: float
) -> tuple[Tensor | None, ...]:
    axes = trailing_axes(x, axes_count)
    r = elementwise.rsqrt(reduction.reduce_mean(x * x, axes=axes, keepdims=True) + eps)
    n = x * r
    scaled = g if weight is None else g * weight
    through_r = n * reduction.reduce_mean(scaled * n, axes=axes, keepdims=True)
    return (scaled - through_r) * r, None if weight is None else unbroadcast(g * n, weight)


@rms_norm.onnx
def _(graph: OnnxGraph, x: str, weight: str, *, axes_count: int, eps: float) -> str:
    kind = graph.type(x)
    if graph.opset >= 23 and weight and kind.dtype != FLOAT64:
        return str(graph.op("RMSNormalization", x, weight, axis=-axes_count, epsilon=eps))
    wide = onnx_wide(graph, x)
    squares = graph.op("ReduceMean", graph.op("Mul", wide, wide), graph.constant(np.arange(-axes_count, 0)))
    y = graph.op("Div", wide, onnx_deviation(graph, squares, eps, kind.dtype))
    return _onnx_affine(graph, onnx_narrow(graph, y, kind.dtype), weight, "")


@operator
def group_norm(
    x: Tensor, weight: Tensor | None = None, bias: Tensor | None = None, *, groups: int, eps: float
) -> Tensor:
    """Group normalization (Wu and He 2018): each group of channels of each sample is standardized.

    ATen native_group_norm, ONNX GroupNormalization-21. With one channel a group it is instance normalization.

    Args:
        x: floating-point, (batch, channels, *spatial).
        weight: (channels,).
        bias: (channels,).
        groups: number of groups; divides the channels.
        eps: added to the variance.
    """


@group_norm.infer
def _(x: Type, weight: Type | None, bias: Type | None, *, groups: int, eps: float) -> Type:
    require(x.rank >= 2, f"needed (batch, channels, ...), given {x}")
    channels = x.shape[1]
    require(groups > 0 and channels % groups == 0, f"{channels} channels don't divide into {groups} groups")
    check_operands(x, (weight, bias), (channels,), 1)
    return x


@group_norm.kernel
def _(x: Array, weight: Array | None, bias: Array | None, *, groups: int, eps: float) -> Array:
    y = standardized_array(x.reshape(x.shape[0] * groups, dims.product(x.shape[1:]) // groups), 1, eps)[0].reshape(
        x.shape
    )
    if weight is not None:
        y *= _channel_array(weight, x)
    if bias is not None:
        y += _channel_array(bias, x)
    return y


@group_norm.vjp
@in_float32
def _(
    g: Tensor, y: Tensor, x: Tensor, weight: Tensor | None, bias: Tensor | None, *, groups: int, eps: float
) -> tuple[Tensor | None, ...]:
    grouped = (x.shape[0], groups, dims.product(x.shape[1:]) // groups)
    standardized, r = standardize(shaping.reshape(x, shape=grouped), axes_count=1, eps=eps)
    scaled = g if weight is None else g * _per_channel(weight, x)
    gx = through_statistics(shaping.reshape(scaled, shape=grouped), standardized, r, (2,))
    return (
        shaping.reshape(gx, shape=x.shape),
        None if weight is None else _channel_sums(g * shaping.reshape(standardized, shape=x.shape)),
        None if bias is None else _channel_sums(g),
    )


@group_norm.onnx
def _(graph: OnnxGraph, x: str, weight: str, bias: str, *, groups: int, eps: float) -> str:
    kind = graph.type(x)
    if graph.opset >= 21 and weight and bias and kind.dtype != FLOAT64:
        return str(graph.op("GroupNormalization", x, weight, bias, num_groups=groups, epsilon=eps))
    grouped = graph.op("Reshape", onnx_wide(graph, x), graph.constant(np.array([0, groups, -1])))
    standardized, _ = onnx_standardized(graph, grouped, [-1], eps, kind.dtype)
    y = graph.op("Reshape", onnx_narrow(graph, standardized, kind.dtype), graph.dims(kind.shape))
    return _onnx_affine(graph, y, *(_onnx_per_channel(graph, v, kind.rank) for v in (weight, bias)))


@operator
def batch_norm(
    x: Tensor, mean: Tensor, variance: Tensor, weight: Tensor | None = None, bias: Tensor | None = None, *, eps: float
) -> Tensor:
    """Batch normalization with given statistics (inference), per channel.

    ATen _native_batch_norm_legit_no_training, ONNX BatchNormalization-15.

    Args:
        x: floating-point, (batch, channels, *spatial).
        mean: (channels,).
        variance: (channels,).
        weight: (channels,).
        bias: (channels,).
        eps: added to the variance.
    """


@batch_norm.infer
def _(x: Type, mean: Type, variance: Type, weight: Type | None, bias: Type | None, *, eps: float) -> Type:
    require(x.rank >= 2, f"needed (batch, channels, ...), given {x}")
    check_operands(x, (mean, variance, weight, bias), (x.shape[1],), 1)
    return x


@batch_norm.kernel
def _(x: Array, mean: Array, variance: Array, weight: Array | None, bias: Array | None, *, eps: float) -> Array:
    return _batch_normalized(x - _channel_array(mean, x), weight, bias, variance, eps)


@batch_norm.vjp
@in_float32
def _(
    g: Tensor, y: Tensor, x: Tensor, mean: Tensor, variance: Tensor, weight: Any, bias: Any, *, eps: float
) -> tuple[Tensor | None, ...]:
    r = elementwise.rsqrt(variance + eps)
    scale = r if weight is None else weight * r
    g_sum = _channel_sums(g)
    g_scale = _channel_sums(g * (x - _per_channel(mean, x)))
    return (
        g * _per_channel(scale, x),
        -(g_sum * scale),
        g_scale * scale * r * r * -0.5,
        None if weight is None else g_scale * r,
        None if bias is None else g_sum,
    )


@batch_norm.onnx
def _(graph: OnnxGraph, x: str, mean: str, variance: str, weight: str, bias: str, *, eps: float) -> str:
    kind = graph.type(x)
    return _onnx_batch_norm(graph, x, kind.shape[1:2], kind.dtype, mean, variance, weight, bias, eps=eps)


@operator
def batch_norm_train(
    x: Tensor, weight: Tensor | None = None, bias: Tensor | None = None, *, eps: float
) -> tuple[Tensor, Tensor, Tensor]:
    """Batch normalization with the statistics of `x` itself (training; Ioffe and Szegedy 2015), per channel.

    ATen _native_batch_norm_legit.no_stats. Running statistics are the caller's to update.

    Args:
        x: floating-point, (batch, channels, *spatial).
        weight: (channels,).
        bias: (channels,).
        eps: added to the variance.

    Returns:
        The normalized tensor, the mean (channels,) and the biased variance (channels,).
    """


@batch_norm_train.infer
def _(x: Type, weight: Type | None, bias: Type | None, *, eps: float) -> tuple[Type, Type, Type]:
    require(x.rank >= 2, f"needed (batch, channels, ...), given {x}")
    statistics = x.with_shape((x.shape[1],))
    check_operands(x, (weight, bias), statistics.shape, 1)
    return x, statistics, statistics


@batch_norm_train.kernel
def _(x: Array, weight: Array | None, bias: Array | None, *, eps: float) -> tuple[Array, Array, Array]:
    (batch, channels), plane = x.shape[:2], dims.product(x.shape[2:])
    count = x.dtype.type(batch * plane)
    mean = (np.sum(x, axis=_batch_axes(x), dtype=np.float64) / count).astype(x.dtype)  # as ATen sums it
    centered = x - _channel_array(mean, x)
    planes = centered.reshape(batch, channels, plane)
    variance = pairwise_sum(np.vecdot(planes, planes), (0,)) / count
    return _batch_normalized(centered, weight, bias, variance, eps), mean, variance


@batch_norm_train.vjp
def _(g: tuple[Any, Any, Any], y: tuple[Any, Any, Any], x: Tensor, weight: Any, bias: Any, *, eps: float) -> Any:
    if is_half(x.dtype):  # the mean among the outputs is rounded too coarsely to be subtracted
        y = batch_norm_train(elementwise.cast(x, dtype=FLOAT32), eps=eps)
    return _batch_norm_train_vjp(g, y, x, weight, bias, eps=eps)


@batch_norm_train.onnx
def _(graph: OnnxGraph, x: str, weight: str, bias: str, *, eps: float) -> tuple[str, str, str]:
    # BatchNormalization's training mode is missing from ONNX Runtime's inference builds. Here it scales and shifts what
    # is centered already: that is one pass over the data, and the gradient needs the centered tensor too.
    kind = graph.type(x)
    wide, axes = onnx_wide(graph, x), graph.constant(np.array(_batch_axes(kind)))
    dtype = FLOAT32 if is_half(kind.dtype) else kind.dtype
    channels = (kind.shape[1],)
    mean = graph.op("ReduceMean", wide, axes, keepdims=0)
    shape = graph.dims((*channels, *(1,) * (kind.rank - 2)))
    centered = graph.op("Sub", wide, graph.op("Reshape", mean, shape, allowzero=1) if kind.rank > 2 else mean)
    variance = graph.op("ReduceMean", graph.op("Mul", centered, centered), axes, keepdims=0)
    y = _onnx_batch_norm(
        graph, centered, channels, dtype, "", variance, *(v and graph.cast(v, dtype) for v in (weight, bias)), eps=eps
    )
    mean, variance = (onnx_narrow(graph, v, kind.dtype) for v in (mean, variance))
    return onnx_narrow(graph, y, kind.dtype), mean, variance


def _batch_axes(x: Any) -> tuple[int, ...]:
    """All axes but that of the channels."""
    return (0, *range(2, len(x.shape)))


@in_float32
def _batch_norm_train_vjp(
    g: tuple[Any, Any, Any], y: tuple[Any, Any, Any], x: Tensor, weight: Any, bias: Any, *, eps: float
) -> tuple[Tensor | None, ...]:
    (g_y, g_mean, g_variance), (_, mean, variance) = g, y
    count = reduction.size_of(x, _batch_axes(x))
    centered = x - _per_channel(mean, x)
    gx = g_weight = g_bias = None
    if g_y is not None:
        r = elementwise.rsqrt(variance + eps)
        g_bias, g_scale = _channel_sums(g_y), _channel_sums(g_y * centered)
        g_weight = g_scale * r
        slope, offset = _per_channel(r * g_weight / count, x), _per_channel(g_bias / count, x)
        gx = (g_y - centered * slope - offset) * _per_channel(r if weight is None else weight * r, x)
    if g_variance is not None:
        through_variance = centered * _per_channel(g_variance * 2.0 / count, x)
        gx = through_variance if gx is None else gx + through_variance
    if g_mean is not None:
        through_mean = shaping.expand(_per_channel(g_mean / count, x), shape=x.shape)
        gx = through_mean if gx is None else gx + through_mean
    return gx, None if weight is None else g_weight, None if bias is None else g_bias


def _batch_normalized(centered: Array, weight: Array | None, bias: Array | None, variance: Array, eps: float) -> Array:
    """Scale and shift `centered` in place."""
    r = inverse_root(variance, eps)
    centered *= _channel_array(r if weight is None else weight * r, centered)
    if bias is not None:
        centered += _channel_array(bias, centered)
    return centered


def _channel_array(v: Array, x: Array) -> Array:
    return v.reshape((-1,) + (1,) * (x.ndim - 2))


def _per_channel(v: Tensor, x: Tensor) -> Tensor:
    """A vector over channels, shaped to broadcast against `x`."""
    reshaped: Tensor = shaping.reshape(v, shape=v.shape + (1,) * (len(x.shape) - 2))
    return reshaped


def _channel_sums(x: Tensor) -> Tensor:
    summed: Tensor = reduction.reduce_sum(x, axes=_batch_axes(x))
    return summed


def _onnx_batch_norm(
    graph: OnnxGraph, x: str, channels: tuple[dims.Dim, ...], dtype: np.dtype[Any],
    mean: str, variance: str, weight: str, bias: str, *, eps: float,
) -> str:  # fmt: skip
    """BatchNormalization-15 of an `x` of that dtype and number of channels; an absent mean is 0."""

    def each(value: float) -> str:
        return str(graph.op("Expand", graph.constant(value, dtype), graph.dims(channels)))

    if dtype == FLOAT64:  # the attribute epsilon is a float32
        variance, eps = graph.op("Add", variance, graph.constant(eps, FLOAT64)), 0.0
    operands = (weight or each(1.0), bias or each(0.0), mean or each(0.0), variance)
    return str(graph.op("BatchNormalization", x, *operands, epsilon=eps))


def _onnx_affine(graph: OnnxGraph, x: str, weight: str, bias: str) -> str:
    scaled = graph.op("Mul", x, weight) if weight else x
    return graph.op("Add", scaled, bias) if bias else scaled


def _onnx_per_channel(graph: OnnxGraph, v: str, rank: int) -> str:
    return graph.op("Unsqueeze", v, graph.constant(np.arange(1, rank - 1))) if v and rank > 2 else v
