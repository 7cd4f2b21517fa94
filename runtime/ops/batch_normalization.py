"""Batch normalization with given statistics, and with those of the batch."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..ir import dims
from ..ir.types import FLOAT32, FLOAT64, at_least_float32, is_half
from ..traits import Traits
from . import elementwise, reduction, shaping
from .common import add_cotangents, in_float32
from .per_channel import batch_axes, channel_array, channel_sums, per_channel
from .reduction_onnx import reduce_onnx
from .registry import Array, OnnxGraph, Tensor, Type, operator, require
from .standardization import check_normalization_operands, inverse_root, onnx_narrow, onnx_widen
from .summation import pairwise_sum


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


batch_norm.traits = Traits(mixed_precision="float32")


@batch_norm.infer
def _(x: Type, mean: Type, variance: Type, weight: Type | None, bias: Type | None, *, eps: float) -> Type:
    require(x.rank >= 2, f"needed (batch, channels, ...), given {x}")
    check_normalization_operands(x, (mean, variance, weight, bias), (x.shape[1],), 1)
    return x


@batch_norm.kernel
def _(x: Array, mean: Array, variance: Array, weight: Array | None, bias: Array | None, *, eps: float) -> Array:
    return _scale_and_shift(x - channel_array(mean, x), weight, bias, variance, eps)


@batch_norm.vjp
@in_float32
def _(
    g: Tensor, y: Tensor, x: Tensor, mean: Tensor, variance: Tensor, weight: Any, bias: Any, *, eps: float
) -> tuple[Tensor | None, ...]:
    r = elementwise.rsqrt(variance + eps)
    scale = r if weight is None else weight * r
    g_sum = channel_sums(g)
    g_scale = channel_sums(g * (x - per_channel(mean, x)))
    return (
        g * per_channel(scale, x),
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

    ATen _native_batch_norm_legit.no_stats. The caller updates running statistics.

    Args:
        x: floating-point, (batch, channels, *spatial).
        weight: (channels,).
        bias: (channels,).
        eps: added to the variance.

    Returns:
        The normalized tensor, the mean (channels,) and the biased variance (channels,).
    """


batch_norm_train.traits = Traits(mixed_precision="float32")


@batch_norm_train.infer
def _(x: Type, weight: Type | None, bias: Type | None, *, eps: float) -> tuple[Type, Type, Type]:
    require(x.rank >= 2, f"needed (batch, channels, ...), given {x}")
    statistics = x.with_shape((x.shape[1],))
    check_normalization_operands(x, (weight, bias), statistics.shape, 1)
    return x, statistics, statistics


@batch_norm_train.kernel
def _(x: Array, weight: Array | None, bias: Array | None, *, eps: float) -> tuple[Array, Array, Array]:
    (batch, channels), plane = x.shape[:2], dims.product(x.shape[2:])
    count = x.dtype.type(batch * plane)
    mean = (np.sum(x, axis=batch_axes(x), dtype=np.float64) / count).astype(x.dtype)  # as ATen sums it
    centered = x - channel_array(mean, x)
    planes = centered.reshape(batch, channels, plane)
    variance = pairwise_sum(np.vecdot(planes, planes), (0,)) / count
    return _scale_and_shift(centered, weight, bias, variance, eps), mean, variance


@batch_norm_train.vjp
def _(g: tuple[Any, Any, Any], y: tuple[Any, Any, Any], x: Tensor, weight: Any, bias: Any, *, eps: float) -> Any:
    if is_half(x.dtype):  # the rounded mean among the outputs is too imprecise to subtract
        y = batch_norm_train(elementwise.cast(x, dtype=FLOAT32), eps=eps)
    return _batch_norm_train_vjp(g, y, x, weight, bias, eps=eps)


@batch_norm_train.onnx
def _(graph: OnnxGraph, x: str, weight: str, bias: str, *, eps: float) -> tuple[str, str, str]:
    # ONNX Runtime's inference builds lack the training mode of BatchNormalization. Here the operator scales and shifts
    # the centered tensor: that is one pass over the data, and the gradient needs the centered tensor too.
    kind = graph.type(x)
    wide, axes = onnx_widen(graph, x), batch_axes(kind)
    dtype = at_least_float32(kind.dtype)
    channels = (kind.shape[1],)
    mean = reduce_onnx(graph, "ReduceMean", wide, axes, False, kind.shape)
    shape = graph.dims((*channels, *(1,) * (kind.rank - 2)))
    centered = graph.op("Sub", wide, graph.op("Reshape", mean, shape, allowzero=1) if kind.rank > 2 else mean)
    variance = reduce_onnx(graph, "ReduceMean", graph.op("Mul", centered, centered), axes, False, kind.shape)
    y = _onnx_batch_norm(
        graph, centered, channels, dtype, "", variance, *(v and graph.cast(v, dtype) for v in (weight, bias)), eps=eps
    )
    mean, variance = (onnx_narrow(graph, v, kind.dtype) for v in (mean, variance))
    return onnx_narrow(graph, y, kind.dtype), mean, variance


@in_float32
def _batch_norm_train_vjp(
    g: tuple[Any, Any, Any], y: tuple[Any, Any, Any], x: Tensor, weight: Any, bias: Any, *, eps: float
) -> tuple[Tensor | None, ...]:
    (g_y, g_mean, g_variance), (_, mean, variance) = g, y
    count = reduction.element_count(x, batch_axes(x))
    centered = x - per_channel(mean, x)
    gx = g_weight = g_bias = None
    if g_y is not None:
        r = elementwise.rsqrt(variance + eps)
        g_bias, g_scale = channel_sums(g_y), channel_sums(g_y * centered)
        g_weight = g_scale * r
        slope, offset = per_channel(r * g_weight / count, x), per_channel(g_bias / count, x)
        gx = (g_y - centered * slope - offset) * per_channel(r if weight is None else weight * r, x)
    if g_variance is not None:
        through_variance = centered * per_channel(g_variance * 2.0 / count, x)
        gx = add_cotangents(gx, through_variance)
    if g_mean is not None:
        through_mean = shaping.expand(per_channel(g_mean / count, x), shape=x.shape)
        gx = add_cotangents(gx, through_mean)
    return gx, None if weight is None else g_weight, None if bias is None else g_bias


def _scale_and_shift(centered: Array, weight: Array | None, bias: Array | None, variance: Array, eps: float) -> Array:
    """Scale and shift `centered` in place."""
    r = inverse_root(variance, eps)
    centered *= channel_array(r if weight is None else weight * r, centered)
    if bias is not None:
        centered += channel_array(bias, centered)
    return centered


def _onnx_batch_norm(
    graph: OnnxGraph, x: str, channels: tuple[dims.Dim, ...], dtype: np.dtype[Any],
    mean: str, variance: str, weight: str, bias: str, *, eps: float,
) -> str:  # fmt: skip
    """Emit BatchNormalization-15 for an `x` of that dtype and number of channels; an absent mean is 0."""

    def expand_constant(value: float) -> str:
        return str(graph.op("Expand", graph.constant(value, dtype), graph.dims(channels)))

    if dtype == FLOAT64:  # the attribute epsilon is a float32
        variance, eps = graph.op("Add", variance, graph.constant(eps, FLOAT64)), 0.0
    operands = (weight or expand_constant(1.0), bias or expand_constant(0.0), mean or expand_constant(0.0), variance)
    return str(graph.op("BatchNormalization", x, *operands, epsilon=eps))
