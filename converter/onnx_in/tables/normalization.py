"""ONNX normalizations and dropout."""

from __future__ import annotations

from typing import Any

import numpy as np

from ....runtime.errors import ShapeError
from ....runtime.ir.dims import product
from ....runtime.ir.types import BOOL
from ....runtime.ops import average_pooling, comparison, elementwise, normalization, random, reduction, shaping
from ....runtime.ops import batch_normalization as batch_ops
from ....runtime.ops import group_normalization as group_ops
from ....runtime.ops.common import normalize_axis
from ....runtime.tracing import SymbolicTensor
from ...unsupported import Unsupported
from ..model import protos
from ..model.values import KnownTensor, known_tensor
from .context import Context
from .table import cast, onnx


@onnx("BatchNormalization", buffers=("input_mean", "input_var"))
def batch_normalization(
    context: Context, X: SymbolicTensor, scale: SymbolicTensor, B: SymbolicTensor, input_mean: SymbolicTensor,
    input_var: SymbolicTensor, *,
    epsilon: float = 1e-5, momentum: float = 0.9, training_mode: int = 0, spatial: int = 1, is_test: int = 1,
) -> Any:  # fmt: skip
    """BatchNormalization-6..15(X, scale, B, input_mean, input_var) -> Y, running_mean?, running_var?"""
    training_mode = training_mode or not is_test
    if not spatial:
        raise Unsupported("statistics of each element (spatial = 0)")
    if not training_mode:
        mean, variance = cast(input_mean, scale.dtype), cast(input_var, scale.dtype)
        wide = cast(X, scale.dtype)
        return cast(batch_ops.batch_norm(wide, mean, variance, scale, B, eps=epsilon), X.dtype), None, None
    y, mean, variance = batch_ops.batch_norm_train(X, scale, B, eps=epsilon)
    keep = momentum
    new_mean = input_mean * keep + cast(mean, input_mean.dtype) * (1.0 - keep)
    new_variance = input_var * keep + cast(variance, input_var.dtype) * (1.0 - keep)
    return y, new_mean, new_variance


@onnx("InstanceNormalization")
def instance_normalization(
    context: Context, input: SymbolicTensor, scale: SymbolicTensor, B: SymbolicTensor, *, epsilon: float = 1e-5
) -> Any:
    """InstanceNormalization-6..22(input, scale, B) -> output"""
    return group_ops.group_norm(input, scale, B, groups=input.shape[1], eps=epsilon)


@onnx("GroupNormalization")
def group_normalization(
    context: Context, X: SymbolicTensor, scale: SymbolicTensor, bias: SymbolicTensor, *, epsilon: float = 1e-5,
    num_groups: int,
    stash_type: int = 1,
) -> Any:  # fmt: skip
    """GroupNormalization-18..21(X, scale, bias) -> Y; before 21, scale and bias are per group"""
    if context.opset < 21:
        each = X.shape[1] // num_groups
        scale, bias = (_repeat(x, num_groups, each) for x in (scale, bias))
    return group_ops.group_norm(X, scale, bias, groups=num_groups, eps=epsilon)


def _repeat(x: SymbolicTensor, groups: int, each: Any) -> Any:
    spread = shaping.expand(shaping.reshape(x, shape=(groups, 1)), shape=(groups, each))
    return shaping.reshape(spread, shape=(groups * each,))


@onnx("LayerNormalization")
def layer_normalization(
    context: Context, X: SymbolicTensor, Scale: SymbolicTensor, B: SymbolicTensor | None = None, *, axis: int = -1,
    epsilon: float = 1e-5,
    stash_type: int = 1,
) -> Any:  # fmt: skip
    """LayerNormalization-17(X, Scale, B?) -> Y, Mean?, InvStdDev?"""
    at = normalize_axis(axis, X.ndim)
    count = X.ndim - at
    whole = tuple(X.shape[at:])
    if tuple(Scale.shape) == whole and (B is None or tuple(B.shape) == whole):
        y = normalization.layer_norm(X, Scale, B, axes_count=count, eps=epsilon)
    else:
        y = elementwise.mul(normalization.layer_norm(X, axes_count=count, eps=epsilon), Scale)
        y = y if B is None else elementwise.add(y, B)
    if not context.uses(1) and not context.uses(2):
        return y
    wide = cast(X, protos.dtype_of(stash_type, "LayerNormalization"))
    axes = tuple(range(at, X.ndim))
    mean = reduction.reduce_mean(wide, axes=axes, keepdims=True)
    variance = reduction.variance(wide, axes=axes, correction=0, keepdims=True)
    return y, mean, elementwise.rsqrt(variance + epsilon)


@onnx("RMSNormalization")
def rms_normalization(
    context: Context,
    X: SymbolicTensor,
    scale: SymbolicTensor,
    *,
    axis: int = -1,
    epsilon: float = 1e-5,
    stash_type: int = 1,
) -> Any:
    """RMSNormalization-23(X, scale) -> Y, in the dtype of the scale"""
    at = normalize_axis(axis, X.ndim)
    if tuple(scale.shape) == tuple(X.shape[at:]) and scale.dtype == X.dtype:
        return normalization.rms_norm(X, scale, axes_count=X.ndim - at, eps=epsilon)
    normal = normalization.rms_norm(X, axes_count=X.ndim - at, eps=epsilon)
    return elementwise.mul(cast(normal, scale.dtype), scale)


@onnx("MeanVarianceNormalization")
def mean_variance_normalization(context: Context, X: SymbolicTensor, *, axes: Any = (0, 2, 3)) -> Any:
    """MeanVarianceNormalization-9..13(X) -> Y"""
    at = tuple(normalize_axis(axis, X.ndim) for axis in axes)
    centred = X - reduction.reduce_mean(X, axes=at, keepdims=True)
    deviation = elementwise.sqrt(reduction.reduce_mean(centred * centred, axes=at, keepdims=True))
    return centred / (deviation + 1e-9)


@onnx("LpNormalization")
def lp_normalization(context: Context, input: SymbolicTensor, *, axis: int = -1, p: int = 2) -> Any:
    """LpNormalization-1..22(input) -> output; 0 where the norm is 0"""
    at = (normalize_axis(axis, input.ndim),)
    if p == 1:
        norm = reduction.reduce_sum(elementwise.abs(input), axes=at, keepdims=True)
    elif p == 2:
        norm = elementwise.sqrt(reduction.reduce_sum(input * input, axes=at, keepdims=True))
    else:
        raise ShapeError(f"p must be 1 or 2, given {p}")
    zero = np.zeros((), input.dtype)
    safe = elementwise.where(comparison.equal(norm, zero), np.ones((), input.dtype), norm)
    return input / safe


@onnx("LRN")
def lrn(
    context: Context, X: SymbolicTensor, *, alpha: float = 1e-4, beta: float = 0.75, bias: float = 1.0, size: int
) -> Any:
    """LRN-1..13(X) -> Y: divided by (bias + alpha / size * the sum of squares over `size` channels) ** beta"""
    n, c = X.shape[:2]
    if size < 1:
        raise ShapeError(f"size must be at least 1, given {size}")
    flat = shaping.reshape(X * X, shape=(n, 1, c, product(X.shape[2:])))
    before, after = (size - 1) // 2, size // 2
    if isinstance(c, int):  # zeros beyond the channels
        before, after = min(before, max(c - 1, 0)), min(after, max(c - 1, 0))
    width = before + 1 + after
    pads = ((before, after), (0, 0))
    mean = average_pooling.avg_pool(flat, kernel=(width, 1), stride=(1, 1), padding=pads, count_include_pad=True)
    total = shaping.reshape(mean, shape=tuple(X.shape)) * (alpha * (width / size)) + bias
    return X / elementwise.pow(total, np.asarray(beta).astype(X.dtype))


@onnx("Dropout", values=("ratio", "training_mode"), folds=False)
def dropout(
    context: Context, data: SymbolicTensor, ratio: Any = None, training_mode: Any = None, *, seed: int | None = None,
    is_test: int = 1,
) -> Any:  # fmt: skip
    """Dropout-6..22(data, ratio?, training_mode?) -> output, mask?; identity unless in training mode

    Before version 12 the ratio is an attribute, and a model in inference has only that mode.
    """
    if training_mode is None or (isinstance(training_mode, KnownTensor) and not training_mode.data.any()):
        return data, context.full(tuple(data.shape), True, BOOL) if context.uses(1) else None
    wide = np.dtype(np.float64)
    probability = cast(context.tensor(known_tensor(0.5) if ratio is None else ratio), wide)
    sampled = context.builder.create(random.uniform, shape=tuple(data.shape), dtype=wide)
    kept = comparison.greater_equal(sampled, probability)
    if not isinstance(training_mode, KnownTensor):
        training = shaping.reshape(context.tensor(training_mode), shape=())
        kept = comparison.logical_or(kept, comparison.logical_not(training))
        probability = elementwise.where(training, probability, np.zeros((), wide))
    scale = cast(1.0 / (1.0 - probability), data.dtype)
    return elementwise.where(kept, data * scale, np.zeros((), data.dtype)), kept
