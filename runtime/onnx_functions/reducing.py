"""Functions for ONNX reductions, whose axes are an operand since version 13 (ReduceSum) and 18 (the others)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..ir.dims import SymbolicDim, product
from ..ir.types import BOOL, FLOAT32, INT32, is_floating
from ..ops import creation, elementwise, products, reduction
from ..ops.common import normalize_axes
from ..ops.registry import Tensor
from .registry import onnx_function


def _register(name: str, body: Callable[..., Any]) -> Callable[..., Any]:
    """Register the function of a reduction; `body` gets the tensor, its axes and `keepdims`."""

    @onnx_function(name, "axes")
    def reduce(data: Tensor, axes: Any = None, *, keepdims: int = 1, noop_with_empty_axes: int = 0) -> Any:
        if not axes and noop_with_empty_axes:
            return body(data, (), False)
        return body(data, normalize_axes(axes or None, data.ndim), bool(keepdims))

    reduce.__doc__ = f"{name}-18: over all axes if none are given, unless `noop_with_empty_axes`."
    return reduce


def _sum(x: Tensor, axes: Any, keepdims: bool) -> Any:
    return reduction.reduce_sum(x, axes=axes, keepdims=keepdims) if axes else x


def _mean(x: Tensor, axes: Any, keepdims: bool) -> Any:
    if not axes:
        return x
    if is_floating(x.dtype):
        return reduction.reduce_mean(x, axes=axes, keepdims=keepdims)
    total = elementwise.cast(reduction.reduce_sum(x, axes=axes, keepdims=keepdims), dtype=np.dtype(np.float64))
    count = product(x.shape[axis] for axis in axes)
    divisor = creation.full_like(total, count, ()) if isinstance(count, SymbolicDim) else float(count)
    return elementwise.cast(total / divisor, dtype=x.dtype)


def _extremum(op: Any, *, largest: bool) -> Callable[..., Any]:
    def body(x: Tensor, axes: Any, keepdims: bool) -> Any:
        if not axes:
            return x
        if x.dtype == BOOL:
            both = reduction.reduce_any if largest else reduction.reduce_all
            return both(x, axes=axes, keepdims=keepdims)
        if any(isinstance(x.shape[axis], int) and x.shape[axis] == 0 for axis in axes):
            return creation.full_like(x, _limit(x.dtype, largest), _reduced_shape(x.shape, axes, keepdims))
        return op(x, axes=axes, keepdims=keepdims)

    return body


def _limit(dtype: np.dtype[Any], largest: bool) -> int | float:
    """Return the extremum of an empty tensor."""
    if is_floating(dtype):
        return float("-inf") if largest else float("inf")
    info = np.iinfo(dtype)
    return int(info.min if largest else info.max)


def _reduced_shape(shape: tuple[Any, ...], axes: Any, keepdims: bool) -> tuple[Any, ...]:
    return tuple(1 if i in axes else size for i, size in enumerate(shape) if keepdims or i not in axes)


def _in_floating_point(x: Tensor, compute: Callable[[Tensor], Any]) -> Any:
    """Apply `compute` in floating point, and round the result for integers."""
    if is_floating(x.dtype):
        return compute(x)
    wide = np.dtype(np.float64) if x.dtype.itemsize > INT32.itemsize else FLOAT32
    return elementwise.cast(compute(elementwise.cast(x, dtype=wide)), dtype=x.dtype)


def _l2(x: Tensor, axes: Any, keepdims: bool) -> Any:
    return _in_floating_point(x, lambda a: elementwise.sqrt(_sum(a * a, axes, keepdims)))


def _log_sum(x: Tensor, axes: Any, keepdims: bool) -> Any:
    return _in_floating_point(x, lambda a: elementwise.log(_sum(a, axes, keepdims)))


def _log_sum_exp(x: Tensor, axes: Any, keepdims: bool) -> Any:
    if any(isinstance(size, int) and size == 0 for size in x.shape):
        return _in_floating_point(x, lambda a: elementwise.log(_sum(elementwise.exp(a), axes, keepdims)))
    if not axes:
        return x
    return _in_floating_point(x, lambda a: reduction.logsumexp(a, axes=axes, keepdims=keepdims))


reduce_sum = _register("ReduceSum", _sum)
reduce_mean = _register("ReduceMean", _mean)
reduce_max = _register("ReduceMax", _extremum(reduction.reduce_max, largest=True))
reduce_min = _register("ReduceMin", _extremum(reduction.reduce_min, largest=False))
reduce_prod = _register(
    "ReduceProd", lambda x, axes, keepdims: products.reduce_prod(x, axes=axes, keepdims=keepdims) if axes else x
)
reduce_l1 = _register("ReduceL1", lambda x, axes, keepdims: _sum(elementwise.abs(x), axes, keepdims))
reduce_l2 = _register("ReduceL2", _l2)
reduce_log_sum = _register("ReduceLogSum", _log_sum)
reduce_log_sum_exp = _register("ReduceLogSumExp", _log_sum_exp)
reduce_sum_square = _register("ReduceSumSquare", lambda x, axes, keepdims: _sum(x * x, axes, keepdims))
