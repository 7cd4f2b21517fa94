"""Normalization by the mean and the variance of a batch, of a sample, of groups of channels, or by a norm."""

from __future__ import annotations

from typing import Any

from .. import checks
from ..common.dtype import float32, promote
from ..errors import ShapeError
from ..ops import (
    average_pooling,
    batch_normalization,
    boundary,
    elementwise,
    group_normalization,
    normalization,
    reduction,
    shaping,
)
from ..ops.common import normalize_axis
from ..precision import compute_dtype, compute_in
from .arguments import integers
from .operands import as_tensor, require_floating
from .public_op import Primitive, public_op


@public_op()
def batch_norm(
    input_x: Any, running_mean: Any, running_var: Any, weight: Any, bias: Any, training: bool = False,
    momentum: float = 0.1, eps: float = 1e-5,
) -> Any:  # fmt: skip
    """Normalize each channel to mean 0 and variance 1, then scale and shift it (Ioffe and Szegedy 2015).

    Args:
        input_x: (N, C, ...), floating-point.
        running_mean: (C,), the mean to use unless `training`.
        running_var: (C,), the variance to use unless `training`.
        weight: (C,), the scale, or None.
        bias: (C,), the shift, or None.
        training: whether to use the mean and (biased) variance of the batch, and to update `running_mean` and
            `running_var`, in place, with the mean and the unbiased variance of the batch.
        momentum: the weight of the batch in this update, in [0, 1]; the weight of the old statistic is 1 - momentum.
        eps: added to the variance.

    Returns:
        A tensor of the shape and dtype of `input_x`. Half-precision inputs are normalized in float32, the dtype of the
        statistics.

    Raises:
        TypeError: `input_x` isn't floating-point.
        ValueError: shapes don't fit, `momentum` is out of range, or a training batch has one element per channel.
    """
    checks.in_range(momentum, "momentum", "[0, 1]", of="batch_norm")
    x = require_floating(input_x, "input_x", of="batch_norm")
    return _batch_norm(x, weight, bias, running_mean, running_var, training, momentum, eps, of="batch_norm")[0]


@public_op(primitive=Primitive("BatchNorm", init_args=("is_training", "epsilon", "momentum", "data_format")))
def _batch_norm_object(
    input_x: Any, scale: Any, bias: Any, mean: Any, variance: Any, is_training: bool = False, epsilon: float = 1e-5,
    momentum: float = 0.1, data_format: str = "NCHW",
) -> tuple[Any, ...]:  # fmt: skip
    """The output of `batch_norm`, and twice the mean and variance that it used."""
    checks.one_of(data_format, "data_format", ("NCHW",), of="BatchNorm")
    checks.in_range(momentum, "momentum", "[0, 1]", of="BatchNorm")
    x = require_floating(input_x, "input_x", of="BatchNorm")
    y, *statistics = _batch_norm(x, scale, bias, mean, variance, is_training, momentum, epsilon, of="BatchNorm")
    return (y, *statistics, *statistics)


def _batch_norm(
    x: Any, weight: Any, bias: Any, mean: Any, variance: Any, training: bool, momentum: float, eps: float, *, of: str
) -> tuple[Any, Any, Any]:
    """Return the output, and the mean and variance that were used."""
    checks.of_type(training, "training", bool, of=of)
    output_dtype = compute_dtype() or x.dtype
    with compute_in(None):  # the statistics keep float32 where a Cell computes in half precision
        dtype = promote(promote(output_dtype, mean.dtype), float32)
        x = elementwise.cast(_cast(x, output_dtype), dtype=dtype)
        weight, bias = (None if v is None else _cast(v, dtype) for v in (weight, bias))
        if training:
            count = reduction.element_count(x, (0, *range(2, x.ndim)))
            if isinstance(count, int) and count < 2:
                raise ShapeError(
                    f"For '{of}', training needs more than one element per channel, but got shape {tuple(x.shape)}"
                )
            y, used_mean, used_variance = batch_normalization.batch_norm_train(x, weight, bias, eps=eps)
            _update_statistic(mean, used_mean, momentum)
            _update_statistic(variance, used_variance * (count / (count - 1)), momentum)
        else:
            used_mean, used_variance = mean, variance
            y = batch_normalization.batch_norm(x, _cast(mean, dtype), _cast(variance, dtype), weight, bias, eps=eps)
        return _cast(y, output_dtype), used_mean, used_variance


def _update_statistic(statistic: Any, observed: Any, momentum: float) -> None:
    """Update a statistic with an observed value, with the weight `momentum`, in place and without a gradient."""
    updated = statistic * (1.0 - momentum) + _cast(observed, statistic.dtype) * momentum
    statistic.assign_value(boundary.stop_gradient(updated))


def instance_norm(
    x: Any, moving_mean: Any, moving_variance: Any, gamma: Any, beta: Any, training: bool, momentum: float, eps: float
) -> Any:
    """Normalize each channel of each sample to mean 0 and variance 1, then scale and shift it (Ulyanov et al. 2016).

    In training, the moving statistics are updated, with the weight `momentum`, by the mean and the unbiased variance,
    averaged over the samples. The output doesn't depend on the moving statistics.
    """
    if training:
        with compute_in(None):
            wide, axes = _cast(x, promote(x.dtype, moving_mean.dtype)), tuple(range(2, x.ndim))
            variances = reduction.variance(wide, axes=axes, correction=1)
            _update_statistic(moving_mean, reduction.reduce_mean(wide, axes=(0, *axes)), momentum)
            _update_statistic(moving_variance, reduction.reduce_mean(variances, axes=(0,)), momentum)
    return group_norm(x, gamma.shape[0], gamma, beta, eps)


@public_op()
def layer_norm(input: Any, normalized_shape: Any, weight: Any = None, bias: Any = None, eps: float = 1e-5) -> Any:
    """Normalize the last axes to mean 0 and variance 1, then scale and shift them (Ba et al. 2016).

    Args:
        input: (..., *normalized_shape), floating-point.
        normalized_shape: the sizes of the axes to normalize, an int or a tuple or list.
        weight: (*normalized_shape), the scale.
        bias: (*normalized_shape), the shift.
        eps: added to the variance.

    Raises:
        TypeError: `input` isn't floating-point.
        ValueError: shapes don't fit.
    """
    x = require_floating(input, of="layer_norm")
    shape = integers(normalized_shape, "normalized_shape", of="layer_norm")
    if not shape or tuple(x.shape[-len(shape) :]) != shape:
        raise ValueError(f"For 'layer_norm', the input must end in {shape}, but got shape {tuple(x.shape)}")
    weight, bias = (None if v is None else _cast(v, x.dtype) for v in (weight, bias))
    return normalization.layer_norm(x, weight, bias, axes_count=len(shape), eps=eps)


@public_op(primitive=Primitive("LayerNorm", init_args=("begin_norm_axis", "begin_params_axis", "epsilon")))
def _layer_norm_object(
    input_x: Any, gamma: Any, beta: Any, begin_norm_axis: int = 1, begin_params_axis: int = 1, epsilon: float = 1e-7
) -> tuple[Any, Any, Any]:
    """Layer normalization, and the mean and (biased) variance that it used.

    The axes from `begin_norm_axis` on are normalized; those from `begin_params_axis` on are scaled and shifted.
    """
    x = require_floating(input_x, "input_x", of="LayerNorm")
    y = layer_norm_from(x, gamma, beta, begin_norm_axis, begin_params_axis, epsilon)
    axes = tuple(range(normalize_axis(begin_norm_axis, x.ndim), x.ndim))
    return (
        y,
        reduction.reduce_mean(x, axes=axes, keepdims=True),
        reduction.variance(x, axes=axes, correction=0, keepdims=True),
    )


def layer_norm_from(x: Any, gamma: Any, beta: Any, begin_norm_axis: int, begin_params_axis: int, epsilon: float) -> Any:
    """Normalize the axes from `begin_norm_axis` on; scale and shift those from `begin_params_axis` on.

    Raises:
        ValueError: `gamma` or `beta` doesn't have the shape of the axes from `begin_params_axis` on.
    """
    begin = normalize_axis(begin_norm_axis, x.ndim)
    needed = tuple(x.shape[normalize_axis(begin_params_axis, x.ndim) :])
    for name, v in (("gamma", gamma), ("beta", beta)):
        if tuple(v.shape) != needed:
            raise ShapeError(
                f"For 'LayerNorm', '{name}' must have the shape {needed} of the axes from {begin_params_axis} of an "
                f"input {tuple(x.shape)}, but got {tuple(v.shape)}"
            )
    gamma, beta = _cast(gamma, x.dtype), _cast(beta, x.dtype)
    if needed == tuple(x.shape[begin:]):
        return normalization.layer_norm(x, gamma, beta, axes_count=x.ndim - begin, eps=epsilon)
    return normalization.layer_norm(x, axes_count=x.ndim - begin, eps=epsilon) * gamma + beta


@public_op()
def group_norm(input: Any, num_groups: int, weight: Any = None, bias: Any = None, eps: float = 1e-5) -> Any:
    """Normalize groups of channels of each sample to mean 0 and variance 1, then scale and shift (Wu and He 2018).

    Args:
        input: (N, C, ...), floating-point.
        num_groups: number of groups; divides C.
        weight: (C,), the scale.
        bias: (C,), the shift.
        eps: added to the variance.

    Raises:
        TypeError: `input` isn't floating-point.
        ValueError: shapes don't fit, or the channels don't divide into the groups.
    """
    x = require_floating(input, of="group_norm")
    checks.positive_int(num_groups, "num_groups", of="group_norm")
    weight, bias = (None if v is None else _cast(v, x.dtype) for v in (weight, bias))
    return group_normalization.group_norm(x, weight, bias, groups=num_groups, eps=eps)


@public_op(primitive=Primitive("RmsNorm", init_args=("epsilon",)))
def rms_norm(x: Any, gamma: Any, epsilon: float = 1e-6) -> tuple[Any, Any]:
    """RMS normalization: `x / sqrt(mean(x^2) + epsilon) * gamma` over the axes of `gamma` (Zhang and Sennrich 2019).

    Returns:
        The result, and `1 / sqrt(mean(x^2) + epsilon)` with size 1 for the last axes, those of `gamma`.
    """
    x, gamma = require_floating(x, "x", of="rms_norm"), as_tensor(gamma, "gamma", of="rms_norm")
    count = gamma.ndim
    y = normalization.rms_norm(x, _cast(gamma, x.dtype), axes_count=count, eps=epsilon)
    squares = reduction.reduce_mean(x * x, axes=tuple(range(-count, 0)), keepdims=True)
    return y, elementwise.rsqrt(squares + epsilon)


@public_op(primitive=Primitive("L2Normalize", init_args=("axis", "epsilon")))
def l2_normalize(x: Any, axis: Any = 0, epsilon: float = 1e-4) -> Any:
    """`x / sqrt(max(sum(x^2), epsilon))`, the sum along `axis`: an int, or a tuple or list of one."""
    x = require_floating(x, "x", of="L2Normalize")
    axes = integers(axis, "axis", of="L2Normalize")
    squares = reduction.reduce_sum(x * x, axes=axes, keepdims=True)
    return x * elementwise.rsqrt(elementwise.clamp(squares, minimum=epsilon))


@public_op(primitive=Primitive("LRN", init_args=("depth_radius", "bias", "alpha", "beta", "norm_region")))
def lrn(
    x: Any, depth_radius: int = 5, bias: float = 1.0, alpha: float = 1.0, beta: float = 0.5,
    norm_region: str = "ACROSS_CHANNELS",
) -> Any:  # fmt: skip
    """Local response normalization (Krizhevsky et al. 2012).

    `x / (bias + alpha * s)^beta`, where s is the sum of squares of the channels at most `depth_radius` away. `x` is
    (N, C, H, W), floating-point. `ValueError` for another number of dimensions or another `norm_region`.
    """
    x = require_floating(x, "x", of="lrn")
    checks.one_of(norm_region, "norm_region", ("ACROSS_CHANNELS",), of="lrn")
    checks.in_range(depth_radius, "depth_radius", "[0, inf)", of="lrn")
    if x.ndim != 4:
        raise ValueError(f"For 'lrn', 'x' must have 4 dimensions, but got shape {tuple(x.shape)}")
    batch, channels, *plane = x.shape
    columns = shaping.reshape(x * x, shape=(batch, 1, channels, plane[0] * plane[1]))
    sums = average_pooling.avg_pool(
        columns, kernel=(2 * depth_radius + 1, 1), stride=(1, 1), padding=((depth_radius, depth_radius), (0, 0)),
        divisor_override=1,
    )  # fmt: skip
    scale = shaping.reshape(sums, shape=tuple(x.shape)) * alpha + bias
    return x * elementwise.pow(scale, -beta)


def _cast(x: Any, dtype: Any) -> Any:
    return x if x.dtype == dtype else elementwise.cast(x, dtype=dtype)
