"""Maxima and minima, and their indices.

Over one axis, the first of several equal extremes determines the index and gets the gradient. Over several axes (and in
`amax`, `amin`) equal extremes share the gradient.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..common.dtype import bool_, int32, to_dtype, uint8
from ..ops import elementwise, indexing, reduction, shaping, sorting
from ..ops.registry import Op
from .arguments import integer
from .logic import where as choose
from .operands import as_tensor, promote_pair
from .public_op import Primitive, argument_aliases, public_op, tensor_method
from .reductions import axes_of

_AXIS_AND_KEPT = {"axis": "axis", "keep_dims": "keepdims"}


def _index_first(result: tuple[Any, Any]) -> tuple[Any, Any]:
    value, index = result
    return index, value


# ---- values with indices ----


@public_op(primitive=Primitive("ArgMaxWithValue", init_args=_AXIS_AND_KEPT, defaults={"axis": 0}, arrange=_index_first))
def max(input: Any, axis: Any = None, keepdims: bool = False, *, initial: Any = None, where: Any = None) -> Any:
    """Maximum along `axis`, and its indices (int64); without an axis, the maximum of all elements and index 0.

    Args:
        input: tensor of numbers.
        axis: the axis, an int; None for all.
        keepdims: whether to keep the axis, with size 1; has no effect without an axis.
        initial: a lower bound for the results.
        where: bool tensor; where it is False, `initial` replaces the element.
    """
    return _value_and_index(_LARGEST, input, axis, keepdims, initial, where)


@public_op(primitive=Primitive("ArgMinWithValue", init_args=_AXIS_AND_KEPT, defaults={"axis": 0}, arrange=_index_first))
def min(input: Any, axis: Any = None, keepdims: bool = False, *, initial: Any = None, where: Any = None) -> Any:
    """Minimum along `axis`, and its indices (int64); see `max`."""
    return _value_and_index(_SMALLEST, input, axis, keepdims, initial, where)


@tensor_method("argmax_with_value")
def _argmax_with_value(input: Any, axis: int = 0, keep_dims: bool = False) -> Any:
    """Maximum along `axis`, and its indices (int64)."""
    return max(input, axis, keep_dims)


@tensor_method("argmin_with_value")
def _argmin_with_value(input: Any, axis: int = 0, keep_dims: bool = False) -> Any:
    """Minimum along `axis`, and its indices (int64)."""
    return min(input, axis, keep_dims)


# ---- values alone ----


@public_op(method="amax", primitive=Primitive("ReduceMax", init_args={"keep_dims": "keepdims"}))
def amax(input: Any, axis: Any = None, keepdims: bool = False, *, initial: Any = None, where: Any = None) -> Any:
    """Maximum over `axis`, an int or several; None and `()` mean all axes. See `max` for the other arguments."""
    return _value(_LARGEST, input, axis, keepdims, initial, where)


@public_op(method="amin", primitive=Primitive("ReduceMin", init_args={"keep_dims": "keepdims"}))
def amin(input: Any, axis: Any = None, keepdims: bool = False, *, initial: Any = None, where: Any = None) -> Any:
    """Minimum over `axis`, an int or several; None and `()` mean all axes. See `max` for the other arguments."""
    return _value(_SMALLEST, input, axis, keepdims, initial, where)


@public_op()
def reduce_max(x: Any, axis: Any = ()) -> Any:
    """Maximum over `axis`; see `amax`."""
    return amax(x, axis)


@public_op()
def reduce_min(x: Any, axis: Any = ()) -> Any:
    """Minimum over `axis`; see `amin`."""
    return amin(x, axis)


def _extreme_method(with_index: Callable[..., Any], alone: Callable[..., Any]) -> Callable[..., Any]:
    def method(
        input: Any,
        axis: Any = None,
        keepdims: bool = False,
        *,
        initial: Any = None,
        where: Any = True,
        return_indices: bool = False,
        dim: Any = None,
        keepdim: bool = False,
    ) -> Any:
        where = None if where is True else where
        if dim is not None:
            return with_index(input, dim, keepdim or keepdims, initial=initial, where=where)
        if return_indices or isinstance(axis, int):
            values, indices = with_index(input, axis, keepdims, initial=initial, where=where)
            return (values, indices) if return_indices else values
        return alone(input, axis, keepdims, initial=initial, where=where)

    method.__doc__ = (
        f"The values of `{with_index.__name__}` over `axis`, an int or several; with `return_indices`, or if the axis "
        "is given as `dim`, also the indices."
    )
    return method


tensor_method("max")(_extreme_method(max, amax))
tensor_method("min")(_extreme_method(min, amin))


@public_op(method="aminmax")
def aminmax(input: Any, *, axis: int | None = 0, keepdims: bool = False) -> tuple[Any, Any]:
    """Minimum and maximum along `axis`."""
    return min(input, axis, keepdims)[0], max(input, axis, keepdims)[0]


@tensor_method("ptp")
def _ptp(input: Any, axis: Any = None, keepdims: bool = False) -> Any:
    """Range of values: the maximum minus the minimum over `axis`."""
    return elementwise.sub(amax(input, axis, keepdims), amin(input, axis, keepdims))


# ---- indices alone ----


@public_op(method="argmax")
@argument_aliases(axis="dim", keepdims="keepdim")
def argmax(input: Any, dim: int | None = None, keepdim: bool = False) -> Any:
    """Index (int64) of the first largest element along `dim`, or of `input` flattened."""
    return _index(sorting.argmax, input, dim, keepdim)


@public_op(method="argmin")
@argument_aliases(dim="axis", keepdim="keepdims")
def argmin(input: Any, axis: int | None = None, keepdims: bool = False) -> Any:
    """Index (int32) of the first smallest element along `axis`, or of `input` flattened."""
    return elementwise.cast(_index(sorting.argmin, input, axis, keepdims), dtype=int32)


@public_op(primitive=Primitive("Argmax", init_args=("axis", "output_type")))
def _argmax_along(x: Any, axis: int = -1, output_type: Any = int32) -> Any:
    """Index of the first largest element along `axis`, in dtype `output_type`."""
    return elementwise.cast(_index(sorting.argmax, x, axis, False), dtype=to_dtype(output_type))


@public_op(primitive=Primitive("Argmin", init_args=("axis", "output_type")))
def _argmin_along(x: Any, axis: int = -1, output_type: Any = int32) -> Any:
    """Index of the first smallest element along `axis`, in dtype `output_type`."""
    return elementwise.cast(_index(sorting.argmin, x, axis, False), dtype=to_dtype(output_type))


def _index(op: Op, input: Any, axis: int | None, keepdims: bool) -> Any:
    x = as_tensor(input, of=op.name)
    x = elementwise.cast(x, dtype=uint8) if x.dtype == bool_ else x
    return op(x, axis=None if axis is None else integer(axis, "axis", of=op.name), keepdims=keepdims)


# ---- shared by maximum and minimum ----

_LARGEST = ("max", reduction.reduce_max, sorting.argmax, elementwise.maximum)
_SMALLEST = ("min", reduction.reduce_min, sorting.argmin, elementwise.minimum)
End = tuple[str, Op, Op, Op]


def _value(end: End, input: Any, axis: Any, keepdims: bool, initial: Any, where: Any) -> Any:
    name, reduce, _, better = end
    x = _with_initial(input, initial, where, of=name)
    value = reduce(x, axes=axes_of(axis, of=name), keepdims=keepdims)
    return value if initial is None else better(value, np.asarray(initial, x.dtype))


def _value_and_index(end: End, input: Any, axis: Any, keepdims: bool, initial: Any, where: Any) -> tuple[Any, Any]:
    name, _, position, better = end
    if axis is None:
        value = _value(end, input, None, False, initial, where)
        return value, _index(position, value, None, False)  # of the only element
    x = _with_initial(input, initial, where, of=name)
    axis = integer(axis, "axis", of=name)
    index = _index(position, x, axis, True)
    value = indexing.gather(x, index, axis=axis) if x.ndim else x
    if initial is not None:
        value = better(value, np.asarray(initial, x.dtype))
    if keepdims or not x.ndim:
        return value, index
    shape = tuple(size for i, size in enumerate(x.shape) if i != axis % x.ndim)
    return shaping.reshape(value, shape=shape), shaping.reshape(index, shape=shape)


def _with_initial(input: Any, initial: Any, where: Any, *, of: str) -> Any:
    """Return the operand with `initial` where `where` is False."""
    x = as_tensor(input, of=of)
    if where is None:
        return x
    if initial is None:
        raise ValueError(f"For '{of}', 'initial' must be given with 'where': it replaces elements where that is False")
    return choose(where, *promote_pair(x, initial, of=of))
