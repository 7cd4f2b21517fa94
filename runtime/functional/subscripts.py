"""`x[...]` and `x[...] = value` with NumPy's indexing rules, and slices as functions."""

from __future__ import annotations

import builtins
import operator
from typing import Any

import numpy as np

from ..common.dtype import bool_, int64
from ..common.placeholder import Placeholder
from ..common.tensor import Tensor, from_array
from ..ir.dims import product
from ..ops import elementwise, indexing, shaping, slicing
from ..ops.common import broadcast_shapes, normalize_axis
from ..tensor_like import TensorLike
from .arguments import integer, integers, is_symbolic, known_elements, known_size, symbolic_nonzero
from .joining import part
from .operands import as_tensor
from .public_op import Primitive, public_op, tensor_method

# ---- x[index] ----


@tensor_method("__getitem__")
def getitem(self: Any, index: Any) -> Any:
    """Index the tensor by ints, slices, `...`, None, and tensors, lists or arrays of ints or bools.

    Raises:
        IndexError: an int is out of bounds, there are more indices than axes, or an index has another type.
    """
    if isinstance(self._data, Placeholder):
        self._data.refuse("an index")
    items = _items(index, self.ndim)
    if any(isinstance(item, TensorLike) for item in items):
        # As in NumPy, ints next to tensors are treated as tensors.
        items = [_int_to_tensor(item) if isinstance(item, int) else item for item in items]
    x, advanced, gap = _basic_index(self, items)
    return _advanced_index(x, advanced, gap) if advanced else x


def _items(index: Any, rank: int) -> list[Any]:
    """Convert an index to one item for each axis and each None: ints, slices, None, and tensors of ints.

    Lists and masks become tensors. A `...` that matches no axis is kept, because it separates tensors on its two sides.
    """
    entries = list(index) if isinstance(index, tuple) else [index]
    items: list[Any] = []
    for item in entries:
        items.extend(_item(item))
    count = sum(item is not None and item is not Ellipsis for item in items)
    if count > rank:
        raise IndexError(f"too many indices: the tensor has {rank} dimensions, but {count} were indexed")
    dots = [i for i, item in enumerate(items) if item is Ellipsis]
    if len(dots) > 1:
        raise IndexError("an index can only have a single ellipsis ('...')")
    at = dots[0] if dots else len(items)
    return (
        items if dots and count == rank else [*items[:at], *[builtins.slice(None)] * (rank - count), *items[at + 1 :]]
    )


def _item(item: Any) -> list[Any]:
    if item is None or item is Ellipsis:
        return [item]
    if isinstance(item, builtins.slice):
        bounds = (item.start, item.stop, item.step)
        return [builtins.slice(*(None if bound is None else operator.index(bound) for bound in bounds))]
    if isinstance(item, (int, np.integer)) and not isinstance(item, bool):
        return [int(item)]
    if isinstance(item, (list, np.ndarray, range)):
        item = Tensor(np.zeros(0, np.int64) if len(item) == 0 else list(item) if isinstance(item, range) else item)
    if isinstance(item, TensorLike) and item.dtype == bool_:
        return _true_coordinates(item)
    if isinstance(item, TensorLike) and item.dtype.kind in "iu":
        return [item]
    what = f"dtype {item.dtype}" if isinstance(item, TensorLike) else f"{type(item).__name__}: {item!r}"
    raise IndexError(f"an index is an int, slice, '...', None, or tensor or list of ints or bools, but got {what}")


def _true_coordinates(mask: Any) -> list[Any]:
    """Return the coordinates of the true elements, one vector for each axis of the mask."""
    if not mask.ndim:
        raise IndexError("a 0-d mask can't be an index: needed bools for at least one axis")
    if is_symbolic(mask):
        coordinates = symbolic_nonzero(mask)
        columns = (part(coordinates, 1, axis, axis + 1) for axis in range(mask.ndim))
        return [shaping.reshape(column, shape=(coordinates.shape[0],)) for column in columns]
    return [from_array(places) for places in np.nonzero(known_elements(mask, "a mask as an index"))]


def _int_to_tensor(index: int) -> Any:
    return from_array(np.asarray(index, np.int64))


def _basic_index(x: Any, items: list[Any]) -> tuple[Any, list[tuple[int, Any]], int]:
    """Apply ints, slices and Nones; return the result, the remaining tensors with their axes, and the axis after `...`.

    Without `...`, that axis is 0.
    """
    cuts: list[tuple[int, Any, Any, int]] = []  # axis, start, stop, step
    backwards: list[int] = []
    shape: list[int | None] = []  # for each new axis, the axis of x; None for an added axis, -1 for an axis to remove
    advanced: list[tuple[int, Any]] = []
    axis = gap = 0
    for item in items:
        if item is Ellipsis:
            gap = len(shape)
            continue
        if item is None:
            shape.append(None)
            continue
        if isinstance(item, TensorLike):
            advanced.append((len(shape), item))
        elif isinstance(item, int):
            at = _normalize_index(item, x.shape[axis], axis)
            cuts.append((axis, at, at + 1, 1))
        elif item != builtins.slice(None):
            start, stop, step = _bounds(item, x.shape[axis])
            if step < 0:
                backwards.append(axis)
            cuts.append((axis, start, stop, abs(step)))
        shape.append(-1 if isinstance(item, int) else axis)
        axis += 1
    if cuts:
        axes, starts, stops, steps = zip(*cuts, strict=True)
        x = slicing.slice(x, starts=starts, stops=stops, steps=steps, axes=axes)
    if backwards:
        x = shaping.flip(x, axes=tuple(backwards))
    if None in shape or -1 in shape:
        x = shaping.reshape(x, shape=tuple(1 if s is None else x.shape[s] for s in shape if s != -1))
    return x, advanced, gap


def _normalize_index(index: int, size: Any, axis: int) -> Any:
    if isinstance(size, int) and not -size <= index < size:
        raise IndexError(f"index {index} is out of bounds for axis {axis} of size {size}")
    return index if index >= 0 else size + index


def _bounds(item: builtins.slice, size: Any) -> tuple[Any, Any, int]:
    """Return start, stop and step of a slice of an axis; a negative step is converted to forward order."""
    selected = range(known_size(size, "the size of a sliced axis"))[item]
    if not selected:
        return 0, 0, 1
    if selected.step < 0:
        return selected[-1], selected[0] + 1, selected.step
    return selected.start, selected[-1] + 1, selected.step


def _advanced_index(x: Any, advanced: list[tuple[int, Any]], gap: int) -> Any:
    """Index `x` by tensors, each for one axis; if these axes are adjacent, the new axes replace the first of them.

    Tensors on both sides of the axis `gap` aren't adjacent.
    """
    if len(advanced) == 1:
        ((axis, indices),) = advanced
        return indexing.take(x, indices, axis=axis)
    axes = [axis for axis, _ in advanced]
    others = [axis for axis in range(x.ndim) if axis not in axes]
    shape = _broadcast([indices for _, indices in advanced])
    result = indexing.gather_nd(shaping.transpose(x, permutation=(*axes, *others)), _stack(advanced, shape))
    if axes != list(range(axes[0], axes[0] + len(axes))) or axes[0] < gap <= axes[-1]:
        return result
    lead = len(shape)
    order = (*range(lead, lead + axes[0]), *range(lead), *range(lead + axes[0], result.ndim))
    return shaping.transpose(result, permutation=order)


def _broadcast(indices: list[Any]) -> tuple[Any, ...]:
    try:
        return broadcast_shapes(*(tuple(i.shape) for i in indices))
    except ValueError as error:
        raise IndexError(f"the tensors of an index don't fit each other: {error}") from None


def _stack(advanced: list[tuple[int, Any]], shape: tuple[Any, ...]) -> Any:
    columns = (
        shaping.reshape(shaping.expand(elementwise.cast(indices, dtype=int64), shape=shape), shape=(*shape, 1))
        for _, indices in advanced
    )
    return slicing.concat(*columns, axis=len(shape))


# ---- x[index] = value ----


@tensor_method("__setitem__")
def setitem(self: Any, index: Any, value: Any) -> None:
    """Write `value`, which broadcasts, to elements of the tensor, which keeps its dtype.

    Gradients flow to `value`, and to the previous values of the other elements.
    """
    self._rebind(replace_elements(self, index, value))


def replace_elements(x: Any, index: Any, value: Any) -> Any:
    """Return `x` with `value` at the elements `x[index]`."""
    v = as_tensor(value, "value", of="__setitem__")
    v = v if v.dtype == x.dtype else elementwise.cast(v, dtype=x.dtype)
    if is_symbolic(index) and index.dtype == bool_ and not v.ndim:
        mask = shaping.reshape(index, shape=(*index.shape, *(1,) * (x.ndim - index.ndim)))
        return elementwise.where(mask, v, x)
    size = known_size(product(x.shape), "the size of a tensor that is written to")
    numbered, items = np.arange(size).reshape(x.shape), _items(index, x.ndim)
    if any(map(is_symbolic, items)):
        places = getitem(from_array(numbered), tuple(items))
    else:
        places = from_array(
            numbered[tuple(known_elements(i, "an index") if isinstance(i, TensorLike) else i for i in items)]
        )
    count = product(places.shape)
    surplus = v.ndim - places.ndim
    if surplus > 0 and v.shape[:surplus] == (1,) * surplus:
        v = shaping.reshape(v, shape=tuple(v.shape[surplus:]))
    updates = shaping.reshape(shaping.expand(v, shape=places.shape), shape=(count,))
    flat, places = shaping.reshape(x, shape=(size,)), shaping.reshape(places, shape=(count,))
    return shaping.reshape(
        indexing.scatter(flat, places, updates, axis=0) if not isinstance(count, int) or count else flat,
        shape=tuple(x.shape),
    )


@public_op(
    method="index_put",
    primitive=Primitive("IndexPut", init_args=("accumulate",), call_args=("input", "values", "indices")),
)
def index_put(input: Any, indices: Any, values: Any, accumulate: bool = False) -> Any:
    """`input` with `values` written (or, if `accumulate`, added) at `indices`, which index its first axes."""
    x = as_tensor(input, of="index_put")
    if not isinstance(indices, (tuple, list)):
        raise TypeError(f"For 'index_put', 'indices' must be a tuple or list, but got {type(indices).__name__}")
    items = [item for index in indices for item in _item(index)]
    shape = _broadcast(items)
    v = as_tensor(values, "values", of="index_put")
    updates = shaping.expand(elementwise.cast(v, dtype=x.dtype), shape=(*shape, *x.shape[len(items) :]))
    coordinates = _stack(list(enumerate(items)), shape)
    return indexing.scatter_nd(x, coordinates, updates, reduction="add" if accumulate else "none")


# ---- slices as functions ----


@public_op(method="narrow")
def narrow(input: Any, axis: int, start: int, length: int) -> Any:
    """`length` elements along `axis`, from `start` on; `ValueError` if they are out of range."""
    x = as_tensor(input, of="narrow")
    at = normalize_axis(integer(axis, "axis", of="narrow"), x.ndim)
    first, count = integer(start, "start", of="narrow"), integer(length, "length", of="narrow")
    size = x.shape[at]
    first = first + size if isinstance(first, int) and first < 0 else first
    if count < 0 or first < 0 or first + count > size:
        raise ValueError(f"For 'narrow', {start=} and {length=} don't lie within axis {axis} of size {size}")
    return part(x, at, first, first + count)


@public_op(primitive="Slice")
def slice(input_x: Any, begin: Any, size: Any) -> Any:
    """Slice every axis i: `size[i]` elements (-1: all remaining) from `begin[i]` on.

    Raises:
        ValueError: there isn't a number for each axis, or a slice is out of range.
    """
    x = as_tensor(input_x, "input_x", of="slice")
    starts, sizes = integers(begin, "begin", of="slice"), integers(size, "size", of="slice")
    if not len(starts) == len(sizes) == x.ndim:
        raise ValueError(f"For 'slice', 'begin' and 'size' must have {x.ndim} numbers, but got {begin} and {size}")
    stops = tuple(
        total if count == -1 else start + count for start, count, total in zip(starts, sizes, x.shape, strict=True)
    )
    return slicing.slice(x, starts=starts, stops=stops, steps=(1,) * x.ndim, axes=tuple(range(x.ndim)))


@public_op(
    primitive=Primitive(
        "StridedSlice",
        init_args=("begin_mask", "end_mask", "ellipsis_mask", "new_axis_mask", "shrink_axis_mask"),
    )
)
def strided_slice(
    input_x: Any,
    begin: Any,
    end: Any,
    strides: Any,
    begin_mask: int = 0,
    end_mask: int = 0,
    ellipsis_mask: int = 0,
    new_axis_mask: int = 0,
    shrink_axis_mask: int = 0,
) -> Any:
    """`input_x[begin[0]:end[0]:strides[0], ...]`.

    Bit i of each mask changes the meaning of entry i of `begin`, `end` and `strides`, as described below.

    Args:
        input_x: any tensor.
        begin: first indices.
        end: end indices, exclusive.
        strides: steps, not 0.
        begin_mask: the slice has no begin.
        end_mask: the slice has no end.
        ellipsis_mask: the index is `...`; at most one bit may be set.
        new_axis_mask: the index is None.
        shrink_axis_mask: the index is the int in `begin`.

    Raises:
        ValueError: `begin`, `end` and `strides` differ in length, a stride is 0, or `ellipsis_mask` has several bits.
    """
    x = as_tensor(input_x, "input_x", of="strided_slice")
    bounds = [integers(numbers, name, of="strided_slice") for numbers, name in ((begin, "begin"), (end, "end"))]
    steps = integers(strides, "strides", of="strided_slice")
    if not len(bounds[0]) == len(bounds[1]) == len(steps):
        raise ValueError(
            f"For 'strided_slice', 'begin', 'end' and 'strides' must be of one length: {begin}, {end}, {strides}"
        )
    if ellipsis_mask & (ellipsis_mask - 1):
        raise ValueError(f"For 'strided_slice', 'ellipsis_mask' may have one bit, but got {ellipsis_mask:#b}")
    items: list[Any] = []
    for i, (start, stop, step) in enumerate(zip(*bounds, steps, strict=True)):
        bit = 1 << i
        if ellipsis_mask & bit:
            items.append(Ellipsis)
        elif new_axis_mask & bit:
            items.append(None)
        elif shrink_axis_mask & bit:
            items.append(start)
        else:
            items.append(builtins.slice(None if begin_mask & bit else start, None if end_mask & bit else stop, step))
    return getitem(x, tuple(items))
