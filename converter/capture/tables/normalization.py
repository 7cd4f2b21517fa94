"""ATen normalizations.

Statistics and parameters may have a wider dtype than the input (float32 beside half precision): everything is then
computed in the wider dtype and rounded to that of the input at the end.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from ....runtime.ir.dims import product
from ....runtime.ir.types import FLOAT32, FLOAT64, is_half
from ....runtime.ops import (
    batch_normalization,
    boundary,
    creation,
    elementwise,
    group_normalization,
    reduction,
    shaping,
    standardization,
)
from ....runtime.ops import normalization as ops
from ....runtime.tracing import SymbolicTensor
from ...unsupported import Unsupported
from .table import Context, aten, cast, promote

Result = tuple[SymbolicTensor | None, ...]


@aten("aten.layer_norm.default")
def layer_norm(
    context: Context, input: SymbolicTensor, normalized_shape: Any, weight: Any = None, bias: Any = None,
    eps: float = 1e-5, cudnn_enable: bool = True,
) -> SymbolicTensor:  # fmt: skip
    """layer_norm(Tensor input, SymInt[] normalized_shape, Tensor? weight=None, Tensor? bias=None, float eps=1e-05,
    bool cudnn_enable=True) -> Tensor
    """
    operands = _in_one_dtype(input, weight, bias)
    return cast(ops.layer_norm(*operands, axes_count=len(normalized_shape), eps=eps), context.dtype)


@aten("aten.native_layer_norm.default")
def native_layer_norm(
    context: Context, input: SymbolicTensor, normalized_shape: Any, weight: Any, bias: Any, eps: float
) -> Result:
    """native_layer_norm(Tensor input, SymInt[] normalized_shape, Tensor? weight, Tensor? bias, float eps) -> (Tensor,
    Tensor, Tensor)
    """
    y = layer_norm(context, input, normalized_shape, weight, bias, eps)
    if not any(context.used[1:]):
        return y, None, None
    # torch's gradient of this operator ignores the statistics
    return y, *_statistics(context, boundary.stop_gradient(input), len(normalized_shape), eps)


@aten("aten.rms_norm.default")
def rms_norm(
    context: Context, input: SymbolicTensor, normalized_shape: Any, weight: Any = None, eps: float | None = None
) -> SymbolicTensor:
    """rms_norm(Tensor input, SymInt[] normalized_shape, Tensor? weight=None, float? eps=None) -> Tensor"""
    if eps is None:  # the machine epsilon of the dtype of the computation
        eps = float(np.finfo(np.float64 if input.dtype == FLOAT64 else np.float32).eps)
    operands = _in_one_dtype(input, weight)
    return cast(ops.rms_norm(*operands, axes_count=len(normalized_shape), eps=eps), context.dtype)


@aten("aten.group_norm.default")
def group_norm(
    context: Context, input: SymbolicTensor, num_groups: int, weight: Any = None, bias: Any = None,
    eps: float = 1e-5, cudnn_enabled: bool = True,
) -> SymbolicTensor:  # fmt: skip
    """group_norm(Tensor input, int num_groups, Tensor? weight=None, Tensor? bias=None, float eps=1e-05, bool
    cudnn_enabled=True) -> Tensor
    """
    operands = _in_one_dtype(input, weight, bias)
    return cast(group_normalization.group_norm(*operands, groups=num_groups, eps=eps), context.dtype)


@aten("aten.native_group_norm.default")
def native_group_norm(
    context: Context, input: SymbolicTensor, weight: Any, bias: Any, n: Any, c: Any, hxw: Any, group: int, eps: float
) -> Result:
    """native_group_norm(Tensor input, Tensor? weight, Tensor? bias, SymInt N, SymInt C, SymInt HxW, int group, float
    eps) -> (Tensor, Tensor, Tensor)
    """
    y = group_norm(context, input, group, weight, bias, eps)
    grouped = shaping.reshape(input, shape=(n, group, c * hxw // group)) if any(context.used[1:]) else input
    return y, *_statistics(context, grouped, 1, eps)


@aten("aten.instance_norm.default")
def instance_norm(
    context: Context, input: SymbolicTensor, weight: Any, bias: Any, running_mean: Any, running_var: Any,
    use_input_stats: bool, momentum: float, eps: float, cudnn_enabled: bool,
) -> Any:  # fmt: skip
    """instance_norm(Tensor input, Tensor? weight, Tensor? bias, Tensor? running_mean, Tensor? running_var, bool
    use_input_stats, float momentum, float eps, bool cudnn_enabled) -> Tensor
    """
    if not use_input_stats:
        return batch_norm(context, input, weight, bias, running_mean, running_var, momentum, eps)[0]
    if running_mean is not None:
        raise Unsupported("an update of running statistics, which torch.export leaves out")
    channels = input.shape[1]
    if not isinstance(channels, int):
        raise Unsupported("a varying number of channels")
    return group_norm(context, input, channels, weight, bias, eps)


@aten("aten._native_batch_norm_legit_no_training.default")
def batch_norm(
    context: Context, input: SymbolicTensor, weight: Any, bias: Any, running_mean: SymbolicTensor,
    running_var: SymbolicTensor,
    momentum: float, eps: float,
) -> Result:  # fmt: skip
    """_native_batch_norm_legit_no_training(Tensor input, Tensor? weight, Tensor? bias, Tensor running_mean, Tensor
    running_var, float momentum, float eps) -> (Tensor, Tensor, Tensor)
    """
    operands = _in_one_dtype(input, running_mean, running_var, weight, bias)
    saved = [
        context.builder.create(creation.full, shape=kind.shape, value=0, dtype=kind.dtype) if used and kind else None
        for kind, used in zip(context.types[1:3], context.used[1:3], strict=True)
    ]  # empty when not training
    return cast(batch_normalization.batch_norm(*operands, eps=eps), context.dtype), *saved


@aten("aten._native_batch_norm_legit.no_stats")
def batch_norm_without_statistics(
    context: Context, input: SymbolicTensor, weight: Any, bias: Any, training: bool, momentum: float, eps: float
) -> Result:
    """_native_batch_norm_legit.no_stats(Tensor input, Tensor? weight, Tensor? bias, bool training, float momentum,
    float eps) -> (Tensor, Tensor, Tensor)
    """
    y, mean, variance = _with_own_statistics(input, weight, bias, eps)
    return _cast_as_inferred(context, y, mean, elementwise.rsqrt(variance + eps) if context.used[2] else None)


@aten("aten._native_batch_norm_legit_functional.default")
def batch_norm_train(
    context: Context, input: SymbolicTensor, weight: Any, bias: Any, running_mean: SymbolicTensor,
    running_var: SymbolicTensor,
    training: bool, momentum: float, eps: float,
) -> Result:  # fmt: skip
    """_native_batch_norm_legit_functional(Tensor input, Tensor? weight, Tensor? bias, Tensor running_mean, Tensor
        running_var, bool training, float momentum, float eps) -> (Tensor, Tensor, Tensor, Tensor running_mean_out,
        Tensor running_var_out)

    The input is normalized with the biased variance; the running variance is updated with the unbiased one.
    """
    if not training:
        y, *saved = batch_norm(context, input, weight, bias, running_mean, running_var, momentum, eps)
        return y, *saved, running_mean, running_var
    y, mean, variance = _with_own_statistics(input, weight, bias, eps)
    running_mean, running_var = cast(running_mean, mean.dtype), cast(running_var, mean.dtype)
    return _cast_as_inferred(
        context,
        y,
        mean,
        elementwise.rsqrt(variance + eps) if context.used[2] else None,
        running_mean * (1.0 - momentum) + mean * momentum,
        running_var * (1.0 - momentum) + variance * _bessel(context, input, mean.dtype) * momentum,
    )


@aten("aten._batch_norm_with_update_functional.default")
def batch_norm_with_update(
    context: Context, input: SymbolicTensor, weight: Any, bias: Any, running_mean: SymbolicTensor,
    running_var: SymbolicTensor,
    momentum: float, eps: float,
) -> Result:  # fmt: skip
    """_batch_norm_with_update_functional(Tensor input, Tensor? weight, Tensor? bias, Tensor running_mean, Tensor
    running_var, float momentum, float eps) -> (Tensor, Tensor, Tensor, Tensor, Tensor running_mean_out, Tensor
    running_var_out): the fourth result is a buffer that only other devices need
    """
    chosen = (0, 1, 2, 4, 5)
    inner = replace(context, types=tuple(context.types[i] for i in chosen), used=tuple(context.used[i] for i in chosen))
    y, mean, deviation, *updated = batch_norm_train(
        inner, input, weight, bias, running_mean, running_var, True, momentum, eps
    )
    room = context.types[3]
    assert room is not None
    reserve = context.builder.create(creation.full, shape=room.shape, value=0, dtype=room.dtype)
    return y, mean, deviation, reserve, *updated


def _with_own_statistics(x: SymbolicTensor, weight: Any, bias: Any, eps: float) -> Any:
    """Batch norm with the statistics of `x`, in float32 for half precision, so that they aren't rounded."""
    operands = _in_one_dtype(x, weight, bias)
    if is_half(operands[0].dtype):
        operands = [None if t is None else cast(t, FLOAT32) for t in operands]
    return batch_normalization.batch_norm_train(*operands, eps=eps)


def _bessel(context: Context, x: SymbolicTensor, dtype: Any) -> Any:
    """n / (n - 1) for the n values of each channel."""
    count = product(x.shape[:1] + x.shape[2:])
    if isinstance(count, int):
        return count / (count - 1)
    n, rest = (context.builder.create(creation.full, shape=(), value=v, dtype=dtype) for v in (count, count - 1))
    return n / rest


def _cast_as_inferred(context: Context, *results: Any) -> Result:
    """Cast the results to the dtypes that torch infers."""
    return tuple(
        None if x is None or kind is None else cast(x, kind.dtype)
        for x, kind in zip(results, context.types, strict=True)
    )


def _in_one_dtype(*operands: Any) -> list[Any]:
    """Cast the operands to the dtype to which torch promotes them; absent ones stay None."""
    dtype = promote(*(x for x in operands if x is not None))
    return [None if x is None else cast(x, dtype) for x in operands]


def _statistics(context: Context, x: SymbolicTensor, axes_count: int, eps: float) -> Result:
    """Mean and reciprocal deviation over the last axes, in torch's shapes; None for an unused one."""
    _, mean_type, deviation_type = context.types
    _, mean_used, deviation_used = context.used
    mean = deviation = None
    if mean_used and mean_type is not None:
        axes = tuple(range(x.ndim - axes_count, x.ndim))
        mean = shaping.reshape(reduction.reduce_mean(x, axes=axes), shape=mean_type.shape)
    if deviation_used and deviation_type is not None:
        deviation = standardization.standardize(x, axes_count=axes_count, eps=eps)[1]
        deviation = shaping.reshape(deviation, shape=deviation_type.shape)
    return mean, deviation
