"""Largest and smallest elements, and their positions.

Over one axis, the first of equally large elements determines the index and gets the gradient. Over several axes (and in
`amax`, `amin`) equally large elements share the gradient.
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
from .operands import as_tensor, pair
from .public_op import Primitive, argument_aliases, public_op, tensor_method
from .reductions import axes_of

_AXIS_AND_KEPT = {"axis": "axis", "keep_dims": "keepdims"}


def _index_first(result: tuple[Any, Any]) -> tuple[Any, Any]:
    value, index = result
    return index, value


# ---- with their index ----


@public_op(primitive=Primitive("ArgMaxWithValue", made_with=_AXIS_AND_KEPT, defaults={"axis": 0}, arrange=_index_first))
def max(input: Any, axis: Any = None, keepdims: bool = False, *, initial: Any = None, where: Any = None) -> Any:
    """The largest elements along `axis` (an int) and their indices (int64); of all, the largest and index 0.

    Args:
        input: tensor of numbers.
        axis: the axis; None for all.
        keepdims: whether to keep the axis, with size 1; has no effect without an axis.
        initial: a lower bound for the results.
        where: bool tensor; where it is False, `initial` replaces the element.
    """
    return _value_and_index(_LARGEST, input, axis, keepdims, initial, where)


@public_op(primitive=Primitive("ArgMinWithValue", made_with=_AXIS_AND_KEPT, defaults={"axis": 0}, arrange=_index_first))
def min(input: Any, axis: Any = None, keepdims: bool = False, *, initial: Any = None, where: Any = None) -> Any:
    """The smallest elements along `axis` (an int) and their indices (int64); see `max`."""
    return _value_and_index(_SMALLEST, input, axis, keepdims, initial, where)


@tensor_method("argmax_with_value")
def _argmax_with_value(input: Any, axis: int = 0, keep_dims: bool = False) -> Any:
    """The largest elements along `axis` and their indices (int64)."""
    return max(input, axis, keep_dims)


@tensor_method("argmin_with_value")
def _argmin_with_value(input: Any, axis: int = 0, keep_dims: bool = False) -> Any:
    """The smallest elements along `axis` and their indices (int64)."""
    return min(input, axis, keep_dims)


# ---- values alone ----


@public_op(method="amax", primitive=Primitive("ReduceMax", made_with={"keep_dims": "keepdims"}))
def amax(input: Any, axis: Any = None, keepdims: bool = False, *, initial: Any = None, where: Any = None) -> Any:
    """The largest elements over `axis`, an int or several; None and `()` stand for all. See `max` for the rest."""
    return _value(_LARGEST, input, axis, keepdims, initial, where)


@public_op(method="amin", primitive=Primitive("ReduceMin", made_with={"keep_dims": "keepdims"}))
def amin(input: Any, axis: Any = None, keepdims: bool = False, *, initial: Any = None, where: Any = None) -> Any:
    """The smallest elements over `axis`, an int or several; None and `()` stand for all. See `max` for the rest."""
    return _value(_SMALLEST, input, axis, keepdims, initial, where)


@public_op()
def reduce_max(x: Any, axis: Any = ()) -> Any:
    """The largest elements over `axis`; see `amax`."""
    return amax(x, axis)


@public_op()
def reduce_min(x: Any, axis: Any = ()) -> Any:
    """The smallest elements over `axis`; see `amin`."""
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
            found = with_index(input, axis, keepdims, initial=initial, where=where)
            return found if return_indices else found[0]
        return alone(input, axis, keepdims, initial=initial, where=where)

    method.__doc__ = (
        f"The values of `{with_index.__name__}` over `axis`, an int or several; with `return_indices`, or an axis that "
        "is given as `dim`, the indices too."
    )
    return method


tensor_method("max")(_extreme_method(max, amax))
tensor_method("min")(_extreme_method(min, amin))


@public_op(method="aminmax")
def aminmax(input: Any, *, axis: int | None = 0, keepdims: bool = False) -> tuple[Any, Any]:
    """The smallest and the largest elements along `axis`."""
    return min(input, axis, keepdims)[0], max(input, axis, keepdims)[0]


@tensor_method("ptp")
def _ptp(input: Any, axis: Any = None, keepdims: bool = False) -> Any:
    """The largest element over `axis` less the smallest."""
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


@public_op(primitive=Primitive("Argmax", made_with=("axis", "output_type")))
def _argmax_along(x: Any, axis: int = -1, output_type: Any = int32) -> Any:
    """Index of the first largest element along `axis`, in dtype `output_type`."""
    return elementwise.cast(_index(sorting.argmax, x, axis, False), dtype=to_dtype(output_type))


@public_op(primitive=Primitive("Argmin", made_with=("axis", "output_type")))
def _argmin_along(x: Any, axis: int = -1, output_type: Any = int32) -> Any:
    """Index of the first smallest element along `axis`, in dtype `output_type`."""
    return elementwise.cast(_index(sorting.argmin, x, axis, False), dtype=to_dtype(output_type))


def _index(op: Op, input: Any, axis: int | None, keepdims: bool) -> Any:
    x = as_tensor(input, of=op.name)
    x = elementwise.cast(x, dtype=uint8) if x.dtype == bool_ else x
    return op(x, axis=None if axis is None else integer(axis, "axis", of=op.name), keepdims=keepdims)


# ---- the larger and the smaller ends ----

_LARGEST = ("max", reduction.reduce_max, sorting.argmax, elementwise.maximum)
_SMALLEST = ("min", reduction.reduce_min, sorting.argmin, elementwise.minimum)
End = tuple[str, Op, Op, Op]


def _value(end: End, input: Any, axis: Any, keepdims: bool, initial: Any, where: Any) -> Any:
    name, reduce, _, better = end
    x = _with_initial(input, initial, where, of=name)
    value = reduce(x, axes=axes_of(axis, of=name), keepdims=keepdims)
    return value if initial is None else better(value, np.asarray(initial, x.dtype))


def _value_and_index(end: End, input: Any, axis: Any, keepdims: bool, initial: Any, where: Any) -> tuple[Any, Any]:
    name, _, place, better = end
    if axis is None:
        value = _value(end, input, None, False, initial, where)
        return value, _index(place, value, None, False)  # of the only element
    x = _with_initial(input, initial, where, of=name)
    axis = integer(axis, "axis", of=name)
    index = _index(place, x, axis, True)
    value = indexing.gather(x, index, axis=axis) if x.ndim else x
    if initial is not None:
        value = better(value, np.asarray(initial, x.dtype))
    if keepdims or not x.ndim:
        return value, index
    shape = tuple(size for i, size in enumerate(x.shape) if i != axis % x.ndim)
    return shaping.reshape(value, shape=shape), shaping.reshape(index, shape=shape)


def _with_initial(input: Any, initial: Any, where: Any, *, of: str) -> Any:
    """The operand, with `initial` where `where` doesn't hold."""
    x = as_tensor(input, of=of)
    if where is None:
        return x
    if initial is None:
        raise ValueError(f"For '{of}', 'initial' must be given with 'where': it counts where 'where' doesn't hold")
    return choose(where, *pair(x, initial, of=of))
