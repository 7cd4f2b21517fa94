"""Group and instance normalization; see `standardization` for the formulas."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..ir import dims
from ..ir.types import FLOAT32, is_half
from ..traits import Traits
from . import shaping
from .common import add_cotangents, in_float32
from .per_channel import channel_array, channel_sums, onnx_per_channel, per_channel
from .registry import Array, OnnxGraph, Tensor, Type, operator, require
from .standardization import (
    affine_array,
    check_normalization_operands,
    cotangent_from_both,
    onnx_affine,
    onnx_narrow,
    onnx_standardize,
    onnx_widen,
    standardized_array,
)


@operator
def group_norm(
    x: Tensor, weight: Tensor | None = None, bias: Tensor | None = None, *, groups: int, eps: float
) -> Tensor:
    """Group normalization (Wu and He 2018): each group of channels of each sample is standardized.

    ATen native_group_norm, ONNX GroupNormalization-21. With one channel per group it is instance normalization.

    Args:
        x: floating-point, (batch, channels, *spatial).
        weight: (channels,).
        bias: (channels,).
        groups: number of groups; divides the channels.
        eps: added to the variance.
    """


group_norm.traits = Traits(mixed_precision="float32")


@group_norm.infer
def _(x: Type, weight: Type | None, bias: Type | None, *, groups: int, eps: float) -> Type:
    require(x.rank >= 2, f"needed (batch, channels, ...), given {x}")
    channels = x.shape[1]
    require(groups > 0 and channels % groups == 0, f"{channels} channels don't divide into {groups} groups")
    check_normalization_operands(x, (weight, bias), (channels,), 1)
    return x


@group_norm.kernel
def _(x: Array, weight: Array | None, bias: Array | None, *, groups: int, eps: float) -> Array:
    y = standardized_array(x.reshape(_split_groups(x, groups)), 1, eps)[0].reshape(x.shape)
    return affine_array(y, *(None if v is None else channel_array(v, x) for v in (weight, bias)))


@group_norm.vjp
@in_float32
def _(
    g: Tensor, y: Tensor, x: Tensor, weight: Tensor | None, bias: Tensor | None, *, groups: int, eps: float
) -> tuple[Tensor | None, ...]:
    _, standardized, r = group_norm_with_statistics(x, weight, bias, groups=groups, eps=eps)
    return _group_norm_vjp((g, None, None), standardized, r, x, weight, bias, groups)


@group_norm.onnx
def _(graph: OnnxGraph, x: str, weight: str, bias: str, *, groups: int, eps: float) -> str:
    kind = graph.type(x)
    if is_half(kind.dtype) and weight and bias and graph.has("GroupNormalization", 21):
        return str(graph.op("GroupNormalization", x, weight, bias, num_groups=groups, epsilon=eps))
    if kind.dtype != FLOAT32:  # ONNX Runtime's InstanceNormalization has no other kernel
        return _onnx_group_norm(graph, x, weight, bias, groups, eps)[0]
    if groups == kind.shape[1] and kind.rank > 2 and weight and bias:
        return str(graph.op("InstanceNormalization", x, weight, bias, epsilon=eps))
    # ONNX Runtime has a kernel for InstanceNormalization but none for GroupNormalization, which it decomposes
    ones, zeros = (graph.constant(np.full(groups, value, kind.dtype)) for value in (1, 0))
    grouped = graph.op("Reshape", x, graph.constant(np.array([0, groups, -1])))
    y = graph.op("InstanceNormalization", grouped, ones, zeros, epsilon=eps)
    y = graph.op("Reshape", y, graph.dims(kind.shape), allowzero=1)
    return onnx_affine(graph, y, *(onnx_per_channel(graph, v, kind.rank) for v in (weight, bias)))


@operator
def group_norm_with_statistics(
    x: Tensor, weight: Tensor | None = None, bias: Tensor | None = None, *, groups: int, eps: float
) -> tuple[Tensor, Tensor, Tensor]:
    """`group_norm` that also returns what its gradient needs.

    Args:
        x: see `group_norm`.
        weight: see `group_norm`.
        bias: see `group_norm`.
        groups: see `group_norm`.
        eps: see `group_norm`.

    Returns:
        The result of `group_norm`; the standardized tensor, (batch, groups, channels / groups * places); and
        `1 / sqrt(variance + eps)`, (batch, groups, 1).
    """


group_norm_with_statistics.extends(group_norm)


@group_norm_with_statistics.infer
def _(x: Type, weight: Type | None, bias: Type | None, *, groups: int, eps: float) -> tuple[Type, ...]:
    (y,) = group_norm.infer_types([x, weight, bias], {"groups": groups, "eps": eps})
    grouped = x.with_shape(_split_groups(x, groups))
    return y, grouped, x.with_shape((*grouped.shape[:2], 1))


@group_norm_with_statistics.kernel
def _(x: Array, weight: Array | None, bias: Array | None, *, groups: int, eps: float) -> tuple[Array, ...]:
    standardized, r = standardized_array(x.reshape(_split_groups(x, groups)), 1, eps)
    y = standardized.reshape(x.shape).copy()
    y = affine_array(y, *(None if v is None else channel_array(v, x) for v in (weight, bias)))
    return y, standardized, r


@group_norm_with_statistics.vjp
@in_float32
def _(
    g: tuple[Any, Any, Any],
    y: tuple[Any, Any, Any],
    x: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    *,
    groups: int,
    eps: float,
) -> tuple[Tensor | None, ...]:
    return _group_norm_vjp(g, *y[1:], x, weight, bias, groups)


@group_norm_with_statistics.onnx
def _(graph: OnnxGraph, x: str, weight: str, bias: str, *, groups: int, eps: float) -> tuple[str, str, str]:
    return _onnx_group_norm(graph, x, weight, bias, groups, eps)


def _split_groups(x: Any, groups: int) -> tuple[Any, ...]:
    """(batch, groups, channels / groups * places)."""
    return (x.shape[0], groups, dims.product(x.shape[1:]) // groups)


def _group_norm_vjp(
    g: tuple[Any, Any, Any], standardized: Any, r: Any, x: Any, weight: Any, bias: Any, groups: int
) -> tuple[Any, ...]:
    g_y, g_standardized, g_r = g
    scaled = None
    if g_y is not None:
        scaled = shaping.reshape(
            g_y if weight is None else g_y * per_channel(weight, x), shape=_split_groups(x, groups)
        )
    return (
        shaping.reshape(
            cotangent_from_both((add_cotangents(g_standardized, scaled), g_r), standardized, r, (2,)), shape=x.shape
        ),
        None if weight is None or g_y is None else channel_sums(g_y * shaping.reshape(standardized, shape=x.shape)),
        None if bias is None or g_y is None else channel_sums(g_y),
    )


def _onnx_group_norm(graph: OnnxGraph, x: str, weight: str, bias: str, groups: int, eps: float) -> tuple[str, str, str]:
    """Return the result, the standardized tensor and `1 / deviation`."""
    kind = graph.type(x)
    grouped = graph.op("Reshape", onnx_widen(graph, x), graph.constant(np.array([0, groups, -1])))
    standardized, deviation = onnx_standardize(graph, grouped, [-1], eps, kind.dtype)
    standardized = onnx_narrow(graph, standardized, kind.dtype)
    y = graph.op("Reshape", standardized, graph.dims(kind.shape))
    y = onnx_affine(graph, y, *(onnx_per_channel(graph, v, kind.rank) for v in (weight, bias)))
    return y, standardized, onnx_narrow(graph, graph.op("Reciprocal", deviation), kind.dtype)
