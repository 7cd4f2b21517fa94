"""Reductions over axes. `axes=None` reduces over all of them, `axes=()` over none.

See `sorting` for `argmax` and `topk`, `scanning` for cumulative ops.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..ir import dims
from ..ir.dims import Dim
from ..ir.types import BOOL, INT64, at_least_float32, is_floating
from ..traits import Traits
from . import comparison, creation, elementwise, shaping
from .common import in_float32, normalize_axes
from .reduction_onnx import onnx_extremum_of_int64, onnx_log_sum_exp, reduce_onnx
from .registry import Array, OnnxGraph, Op, Tensor, Type, operator, require
from .summation import pairwise_sum

Axes = tuple[int, ...] | None


@operator
def reduce_sum(x: Tensor, *, axes: Axes = None, keepdims: bool = False) -> Tensor:
    """Sum in the dtype of `x` (integers wrap around): ATen `sum`, ONNX ReduceSum-13."""


reduce_sum.traits = Traits(mixed_precision="float32", wider_integers="all", family="reduction")


@reduce_sum.infer
def _(x: Type, *, axes: Axes, keepdims: bool) -> Type:
    require(x.dtype != BOOL, "needed numbers, given bool; cast first")
    return reduced_type(x, axes, keepdims)


@reduce_sum.kernel
def _(x: Array, *, axes: Axes, keepdims: bool) -> Array:
    return pairwise_sum(x, normalize_axes(axes, x.ndim), keepdims)


@reduce_sum.vjp
def _(g: Tensor, y: Tensor, x: Tensor, *, axes: Axes, keepdims: bool) -> Any:
    return shaping.expand(restore_axes(g, x, axes), shape=x.shape)


@reduce_sum.onnx
def _(graph: OnnxGraph, x: str, *, axes: Axes, keepdims: bool) -> Any:
    return reduce_onnx(graph, "ReduceSum", x, axes, keepdims)


@operator
def reduce_mean(x: Tensor, *, axes: Axes = None, keepdims: bool = False) -> Tensor:
    """Mean of floating-point `x`: ATen `mean`, ONNX ReduceMean-18."""


reduce_mean.traits = Traits(family="reduction")


@reduce_mean.infer
def _(x: Type, *, axes: Axes, keepdims: bool) -> Type:
    require(is_floating(x.dtype), "needed a floating-point operand; cast first")
    return reduced_type(x, axes, keepdims)


@reduce_mean.kernel
def _(x: Array, *, axes: Axes, keepdims: bool) -> Any:
    at = normalize_axes(axes, x.ndim)
    return pairwise_sum(x, at, keepdims) / x.dtype.type(dims.product(x.shape[axis] for axis in at))


@reduce_mean.vjp
@in_float32
def _(g: Tensor, y: Tensor, x: Tensor, *, axes: Axes, keepdims: bool) -> Any:
    return shaping.expand(restore_axes(g, x, axes) / element_count(x, axes), shape=x.shape)


@reduce_mean.onnx
def _(graph: OnnxGraph, x: str, *, axes: Axes, keepdims: bool) -> Any:
    type = graph.type(x)
    if empty := _empty_reduction(graph, x, axes, reduced_type(type, axes, keepdims)):
        return empty
    sizes = tuple(type.shape[axis] for axis in normalize_axes(axes, type.rank))
    if not graph.depend_on_data(sizes):
        return reduce_onnx(graph, "ReduceMean", x, axes, keepdims)
    # the tensor may be empty, and ONNX Runtime's ReduceMean would then return 0
    dtype = at_least_float32(type.dtype)
    total = reduce_onnx(graph, "ReduceSum", graph.cast(x, dtype), axes, keepdims, type.shape)
    count = graph.op("Squeeze", graph.cast(graph.dims((dims.product(sizes),)), dtype))
    return graph.op("Cast", graph.op("Div", total, count), to=type.dtype)


@operator
def reduce_max(x: Tensor, *, axes: Axes = None, keepdims: bool = False) -> Tensor:
    """Largest element, or NaN: ATen `amax`, ONNX ReduceMax-18. Elements that are equally large share the gradient."""


reduce_max.traits = Traits(ties="defined", exact=True, wider_integers="most", family="reduction")


@operator
def reduce_min(x: Tensor, *, axes: Axes = None, keepdims: bool = False) -> Tensor:
    """Smallest element, or NaN: ATen `amin`, ONNX ReduceMin-18. Elements that are equally small share the gradient."""


reduce_min.traits = Traits(ties="defined", exact=True, wider_integers="most", family="reduction")


def _set_extremum_rules(op: Op, ufunc: np.ufunc, name: str) -> None:
    @op.infer
    def _(x: Type, *, axes: Axes, keepdims: bool) -> Type:
        empty = [axis for axis in normalize_axes(axes, x.rank) if x.shape[axis] == 0]
        require(not empty, f"no element along axes {empty}: the result is undefined")
        return reduced_type(x, axes, keepdims)

    @op.kernel
    def _(x: Array, *, axes: Axes, keepdims: bool) -> Any:
        return ufunc.reduce(x, axis=normalize_axes(axes, x.ndim), keepdims=keepdims)

    @op.vjp
    @in_float32
    def _(g: Tensor, y: Tensor, x: Tensor, *, axes: Axes, keepdims: bool) -> Any:
        chosen = elementwise.cast(comparison.equal(x, restore_axes(y, x, axes)), dtype=g.dtype)
        return restore_axes(g, x, axes) / reduce_sum(chosen, axes=axes, keepdims=True) * chosen

    @op.onnx
    def _(graph: OnnxGraph, x: str, *, axes: Axes, keepdims: bool) -> Any:
        type = graph.type(x)
        at = normalize_axes(axes, type.rank)
        if type.dtype != INT64 or not at:
            return reduce_onnx(graph, f"Reduce{name}", x, axes, keepdims)
        kept = [axis for axis in range(type.rank) if axis not in at]
        rows = graph.op("Transpose", x, perm=[*kept, *at])
        count = dims.product(type.shape[axis] for axis in at)
        rows = graph.op("Reshape", rows, graph.dims((*(type.shape[axis] for axis in kept), count)))
        result = onnx_extremum_of_int64(graph, rows, name, len(kept))
        return graph.op("Reshape", result, graph.dims(reduced_type(type, axes, keepdims).shape))


_set_extremum_rules(reduce_max, np.maximum, "Max")
_set_extremum_rules(reduce_min, np.minimum, "Min")


@operator
def reduce_any(x: Tensor, *, axes: Axes = None, keepdims: bool = False) -> Tensor:
    """Whether any element of boolean `x` is true: ATen `any`, ONNX ReduceMax-18."""


@operator
def reduce_all(x: Tensor, *, axes: Axes = None, keepdims: bool = False) -> Tensor:
    """Whether all elements of boolean `x` are true: ATen `all`, ONNX ReduceMin-18."""


def _set_logical_rules(op: Op, ufunc: np.ufunc, onnx_name: str) -> None:
    @op.infer
    def _(x: Type, *, axes: Axes, keepdims: bool) -> Type:
        require(x.dtype == BOOL, "needed a boolean operand; compare with 0 first")
        return reduced_type(x, axes, keepdims)

    @op.native_kernel
    def _(x: Array, *, axes: Axes, keepdims: bool) -> Any:
        return ufunc.reduce(x, axis=normalize_axes(axes, x.ndim), keepdims=keepdims)

    @op.onnx
    def _(graph: OnnxGraph, x: str, *, axes: Axes, keepdims: bool) -> Any:
        # ReduceMax and ReduceMin support bool from opset 20 on; without elements they return a limit of the dtype
        number = reduce_onnx(graph, onnx_name, graph.cast(x, np.int32), axes, keepdims, graph.type(x).shape)
        return graph.op("Greater", number, graph.constant(0, np.int32))

    op.no_vjp("booleans have no gradient")


_set_logical_rules(reduce_any, np.logical_or, "ReduceMax")
_set_logical_rules(reduce_all, np.logical_and, "ReduceMin")


@operator
def logsumexp(x: Tensor, *, axes: Axes = None, keepdims: bool = False) -> Tensor:
    """log(sum(exp(x))), computed relative to the maximum: ATen `logsumexp`."""


logsumexp.traits = Traits(mixed_precision="float32")


@logsumexp.infer
def _(x: Type, *, axes: Axes, keepdims: bool) -> Type:
    require(is_floating(x.dtype), "needed a floating-point operand; cast first")
    return reduced_type(x, axes, keepdims)


@logsumexp.kernel
def _(x: Array, *, axes: Axes, keepdims: bool) -> Array:
    at = normalize_axes(axes, x.ndim)
    largest = np.maximum.reduce(x, axis=at, keepdims=True, initial=-np.inf)
    shift = np.where(np.isfinite(largest), largest, x.dtype.type(0))
    y = np.log(pairwise_sum(np.exp(x - shift), at, keepdims=True)) + shift
    return y if keepdims else y.reshape([size for axis, size in enumerate(x.shape) if axis not in at])


@logsumexp.vjp
@in_float32
def _(g: Tensor, y: Tensor, x: Tensor, *, axes: Axes, keepdims: bool) -> Any:
    return restore_axes(g, x, axes) * elementwise.exp(x - restore_axes(y, x, axes))


@logsumexp.onnx
def _(graph: OnnxGraph, x: str, *, axes: Axes, keepdims: bool) -> Any:
    type = graph.type(x)
    if empty := _empty_reduction(graph, x, axes, reduced_type(type, axes, keepdims), -np.inf):
        return empty
    # sums of exponentials easily overflow half precision
    dtype = at_least_float32(type.dtype)
    y = onnx_log_sum_exp(graph, graph.cast(x, dtype), normalize_axes(axes, type.rank), keepdims, dtype)
    return y if dtype == type.dtype else graph.op("Cast", y, to=type.dtype)


@operator
def variance(x: Tensor, *, axes: Axes = None, correction: int = 1, keepdims: bool = False) -> Tensor:
    """Sum of squared deviations from the mean, divided by max(0, n - `correction`): ATen `var.correction`."""


variance.traits = Traits(mixed_precision="float32")


@variance.infer
def _(x: Type, *, axes: Axes, correction: int, keepdims: bool) -> Type:
    require(is_floating(x.dtype), "needed a floating-point operand; cast first")
    return reduced_type(x, axes, keepdims)


@variance.kernel
def _(x: Array, *, axes: Axes, correction: int, keepdims: bool) -> Any:
    at = normalize_axes(axes, x.ndim)
    count = dims.product(x.shape[axis] for axis in at)
    deviation = x - pairwise_sum(x, at, keepdims=True) / x.dtype.type(count)
    total = pairwise_sum(deviation * deviation, at, keepdims)
    return total / x.dtype.type(dims.maximum(count - correction, 0))


@variance.vjp
@in_float32
def _(g: Tensor, y: Tensor, x: Tensor, *, axes: Axes, correction: int, keepdims: bool) -> Any:
    deviation = x - reduce_mean(x, axes=axes, keepdims=True)
    return restore_axes(g, x, axes) * 2.0 / element_count(x, axes, correction) * deviation


@variance.onnx
def _(graph: OnnxGraph, x: str, *, axes: Axes, correction: int, keepdims: bool) -> Any:
    type = graph.type(x)
    if empty := _empty_reduction(graph, x, axes, reduced_type(type, axes, keepdims)):
        return empty
    count = dims.product(type.shape[axis] for axis in normalize_axes(axes, type.rank))
    deviation = graph.op("Sub", x, reduce_onnx(graph, "ReduceMean", x, axes, True, type.shape))
    squares = graph.op("Mul", deviation, deviation)
    total = reduce_onnx(graph, "ReduceSum", squares, axes, keepdims, type.shape)
    divisor = graph.cast(graph.dims((dims.maximum(count - correction, 0),)), type.dtype)
    return graph.op("Div", total, graph.op("Squeeze", divisor))


def _empty_reduction(graph: OnnxGraph, x: str, axes: Axes, reduced: Type, value: float = np.nan) -> Any:
    """Return `value` as the reduction of an empty tensor (ONNX Runtime's mean is 0); None for any other tensor."""
    shape = graph.type(x).shape
    if all(shape[axis] != 0 for axis in normalize_axes(axes, len(shape))):
        return None
    return graph.op("Expand", graph.constant(value, reduced.dtype), graph.dims(reduced.shape))


def reduced_type(x: Type, axes: Axes, keepdims: bool) -> Type:
    """Return the type of `x` reduced over `axes`."""
    at = normalize_axes(axes, x.rank)
    if keepdims:
        return x.with_shape(tuple(1 if axis in at else size for axis, size in enumerate(x.shape)))
    return x.with_shape(tuple(size for axis, size in enumerate(x.shape) if axis not in at))


def restore_axes(reduced: Tensor, x: Tensor, axes: Axes) -> Tensor:
    """Restore the axes that the reduction of `x` removed, with size 1."""
    at = normalize_axes(axes, x.ndim)
    shape = tuple(1 if axis in at else size for axis, size in enumerate(x.shape))
    return reduced if tuple(reduced.shape) == shape else shaping.reshape(reduced, shape=shape)


def element_count(x: Tensor, axes: Axes, correction: int = 0) -> Any:
    """Return the number of elements per result, minus `correction`: a number, or a scalar tensor if symbolic."""
    count: Dim = dims.product(x.shape[axis] for axis in normalize_axes(axes, x.ndim))
    count = dims.maximum(count - correction, 0) if correction else count
    return count if isinstance(count, int) else creation.full_like(x, count, shape=())
