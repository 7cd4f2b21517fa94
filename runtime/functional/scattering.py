"""Scattering of updates: at coordinates (`tensor_scatter_*`, `scatter_nd`), along an axis, and in whole slices.

The operators return the result and don't change their operands; see `updating` for in-place updates of Parameters.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..common.dtype import bool_, dtype_name
from ..common.tensor import from_array
from ..ir.dims import product
from ..ops import creation, elementwise, indexing, shaping, slicing
from ..ops.common import normalize_axis
from ..tensor_like import TensorLike
from .arguments import integer, integers, known_elements, known_size, require_integers
from .operands import as_tensor
from .public_op import Primitive, public_op, tensor_method
from .subscripts import getitem, replace_elements


def updates_for(updates: Any, x: Any, *, of: str) -> Any:
    """Convert `updates` to a tensor of the dtype of `x`; `TypeError` for a tensor of another dtype."""
    if isinstance(updates, TensorLike) and updates.dtype != x.dtype:
        raise TypeError(
            f"For '{of}', the updates must have the dtype of the tensor to update, {dtype_name(x.dtype)}, but got "
            f"{dtype_name(updates.dtype)}: cast them, updates.astype(dtype)"
        )
    u = as_tensor(updates, "updates", of=of)
    return u if u.dtype == x.dtype else elementwise.cast(u, dtype=x.dtype)


# ---- at coordinates ----


def _at_coordinates(input_x: Any, indices: Any, updates: Any, reduction: str, *, of: str) -> Any:
    x = as_tensor(input_x, "input_x", of=of)
    places = require_integers(indices, "indices", of=of)
    return indexing.scatter_nd(x, places, updates_for(updates, x, of=of), reduction=reduction)


@public_op(method="tensor_scatter_update", primitive="TensorScatterUpdate")
def tensor_scatter_update(input_x: Any, indices: Any, updates: Any) -> Any:
    """`input_x` with the elements at coordinates `indices` replaced by `updates`.

    Args:
        input_x: (n_1, ..., n_k, ...).
        indices: (..., k), integers.
        updates: of the dtype of `input_x`, with all axes of `indices` but the last, then the axes of `input_x` after
            the k-th.
    """
    return _at_coordinates(input_x, indices, updates, "none", of="tensor_scatter_update")


@public_op(primitive="TensorScatterAdd")
def tensor_scatter_add(input_x: Any, indices: Any, updates: Any) -> Any:
    """`input_x` with `updates` added at coordinates; see `tensor_scatter_update`."""
    return _at_coordinates(input_x, indices, updates, "add", of="tensor_scatter_add")


@public_op(method="scatter_sub", primitive="TensorScatterSub")
def tensor_scatter_sub(input_x: Any, indices: Any, updates: Any) -> Any:
    """`input_x` with `updates` subtracted at coordinates; see `tensor_scatter_update`."""
    u = elementwise.neg(updates_for(updates, as_tensor(input_x, "input_x"), of="tensor_scatter_sub"))
    return _at_coordinates(input_x, indices, u, "add", of="tensor_scatter_sub")


@public_op(method="scatter_mul", primitive="TensorScatterMul")
def tensor_scatter_mul(input_x: Any, indices: Any, updates: Any) -> Any:
    """`input_x` multiplied by `updates` at coordinates; see `tensor_scatter_update`."""
    return _at_coordinates(input_x, indices, updates, "mul", of="tensor_scatter_mul")


@public_op(method="scatter_div", primitive="TensorScatterDiv")
def tensor_scatter_div(input_x: Any, indices: Any, updates: Any) -> Any:
    """`input_x`, of floating-point numbers, divided by `updates` at coordinates; see `tensor_scatter_update`."""
    u = elementwise.reciprocal(updates_for(updates, as_tensor(input_x, "input_x"), of="tensor_scatter_div"))
    return _at_coordinates(input_x, indices, u, "mul", of="tensor_scatter_div")


@public_op(method="scatter_max", primitive="TensorScatterMax")
def tensor_scatter_max(input_x: Any, indices: Any, updates: Any) -> Any:
    """The larger of `input_x` and `updates` at coordinates; see `tensor_scatter_update`."""
    return _at_coordinates(input_x, indices, updates, "max", of="tensor_scatter_max")


@public_op(method="scatter_min", primitive="TensorScatterMin")
def tensor_scatter_min(input_x: Any, indices: Any, updates: Any) -> Any:
    """The smaller of `input_x` and `updates` at coordinates; see `tensor_scatter_update`."""
    return _at_coordinates(input_x, indices, updates, "min", of="tensor_scatter_min")


@tensor_method("scatter_add")
def _scatter_add(self: Any, indices: Any, updates: Any, src: Any = None) -> Any:
    """`ops.tensor_scatter_add`; with a third tensor, `(dim, index, src)` of `ops.tensor_scatter_elements`."""
    if src is not None:
        return tensor_scatter_elements(self, updates, src, indices, "add")
    return tensor_scatter_add(self, indices, updates)


@public_op(primitive="ScatterNd")
def scatter_nd(indices: Any, updates: Any, shape: Any) -> Any:
    """Zeros of `shape` with `updates` added at coordinates `indices`; see `tensor_scatter_update`."""
    u = as_tensor(updates, "updates", of="scatter_nd")
    places = require_integers(indices, "indices", of="scatter_nd")
    base = creation.full_like(u, 0, integers(shape, "shape", of="scatter_nd"))
    return indexing.scatter_nd(as_tensor(base), places, u, reduction="add")


# ---- along an axis ----

_REDUCTIONS = ("none", "add", "mul", "max", "min")


@public_op(primitive=Primitive("TensorScatterElements", init_args=("axis", "reduction")))
def tensor_scatter_elements(input_x: Any, indices: Any, updates: Any, axis: int = 0, reduction: str = "none") -> Any:
    """y[i][indices[i][j][k]][k] = updates[i][j][k] for `axis` 1, and so on.

    Args:
        input_x: any tensor.
        indices: integers, with as many axes as `input_x`; except for `axis`, they must not be longer than those of
            `input_x`.
        updates: of the shape of `indices` and the dtype of `input_x`.
        axis: the axis that the indices refer to.
        reduction: "none" replaces; "add", "mul", "max", "min" combine with the existing element.
    """
    x = as_tensor(input_x, "input_x", of="tensor_scatter_elements")
    if reduction not in _REDUCTIONS:
        raise ValueError(
            f"For 'tensor_scatter_elements', 'reduction' must be one of {list(_REDUCTIONS)}, but got {reduction!r}"
        )
    return indexing.scatter(
        x,
        require_integers(indices, "indices", of="tensor_scatter_elements"),
        updates_for(updates, x, of="tensor_scatter_elements"),
        axis=normalize_axis(integer(axis, "axis", of="tensor_scatter_elements"), x.ndim),
        reduction=reduction,
    )


@public_op(method="scatter")
def scatter(input: Any, axis: int, index: Any, src: Any) -> Any:
    """`tensor_scatter_elements` that replaces; `src` may be a number."""
    places = require_integers(index, "index", of="scatter")
    x = as_tensor(input, of="scatter")
    u = updates_for(src, x, of="scatter")
    return tensor_scatter_elements(x, places, shaping.expand(u, shape=tuple(places.shape)) if not u.ndim else u, axis)


@public_op(method="index_fill", primitive="IndexFill", alias="index_fill_")
def index_fill(x: Any, axis: int, index: Any, value: Any) -> Any:
    """`x` with `value`, a number or 0-d tensor, in the slices at the vector `index` along `axis`."""
    x = as_tensor(x, "x", of="index_fill")
    at = normalize_axis(integer(axis, "axis", of="index_fill"), x.ndim)
    places = as_tensor(index, "index", of="index_fill")
    return replace_elements(x, (*(slice(None),) * at, places), elementwise.cast(as_tensor(value), dtype=x.dtype))


@public_op(method="slice_scatter")
def slice_scatter(
    input: Any, src: Any, axis: int = 0, start: int | None = None, end: int | None = None, step: int = 1
) -> Any:
    """`input` with its slice `start:end:step` along `axis` replaced by `src`; `step` is positive."""
    x = as_tensor(input, of="slice_scatter")
    at = normalize_axis(axis, x.ndim)
    if step < 1:
        raise ValueError(f"For 'slice_scatter', 'step' must be positive, but got {step}")
    first, stop, _ = slice(start, end, step).indices(x.shape[at])
    values = elementwise.cast(as_tensor(src, "src", of="slice_scatter"), dtype=x.dtype)
    return indexing.slice_scatter(x, values, axis=at, start=first, stop=max(first, stop), step=step)


@public_op(method="select_scatter")
def select_scatter(input: Any, src: Any, axis: int, index: int) -> Any:
    """`input` with its slice at `index` along `axis` replaced by `src`."""
    x = as_tensor(input, of="select_scatter")
    at = normalize_axis(axis, x.ndim)
    s = as_tensor(src, "src", of="select_scatter")
    i = integer(index, "index", of="select_scatter")
    i = i if i >= 0 else i + x.shape[at]
    return slice_scatter(x, shaping.reshape(s, shape=(*s.shape[:at], 1, *s.shape[at:])), at, i, i + 1)


# ---- whole slices ----


def add_at_index(x: Any, indices: Any, y: Any, axis: int) -> Any:
    """`x` with the i-th slice of `y` along `axis` added at `indices[i]`."""
    places = require_integers(indices, "indices", of="index_add")
    at = normalize_axis(integer(axis, "axis", of="index_add"), x.ndim)
    return indexing.index_add(x, places, updates_for(y, x, of="index_add"), axis=at)


@tensor_method("index_add")
def _index_add(self: Any, indices: Any, y: Any, axis: Any) -> Any:
    """Add the i-th slice of `y` along `axis` at `indices[i]`; the arguments may also be (dim, index, source)."""
    if isinstance(indices, int):
        indices, y, axis = y, axis, indices
    return add_at_index(self, indices, y, axis)


def _rows(x: Any, v: Any, indices: Any, of: str) -> tuple[Any, tuple[int, ...], Any]:
    tensor = as_tensor(x, "x", of=of)
    return tensor, integers(indices, "indices", of=of), updates_for(v, tensor, of=of)


@public_op(method="inplace_update", primitive=Primitive("InplaceUpdate", init_args=("indices",)))
def inplace_update(x: Any, v: Any, indices: Any) -> Any:
    """`x` with the rows `v` at `indices` along the first axis."""
    tensor, rows, values = _rows(x, v, indices, "inplace_update")
    return replace_elements(tensor, list(rows), values)


@public_op(primitive=Primitive("InplaceAdd", init_args=("indices",)))
def inplace_add(x: Any, v: Any, indices: Any) -> Any:
    """`x` with the rows `v` added at `indices` along the first axis."""
    tensor, rows, values = _rows(x, v, indices, "inplace_add")
    return replace_elements(tensor, list(rows), getitem(tensor, list(rows)) + values)


@public_op(primitive=Primitive("InplaceSub", init_args=("indices",)))
def inplace_sub(x: Any, v: Any, indices: Any) -> Any:
    """`x` with the rows `v` subtracted at `indices` along the first axis."""
    tensor, rows, values = _rows(x, v, indices, "inplace_sub")
    return replace_elements(tensor, list(rows), getitem(tensor, list(rows)) - values)


@public_op(method="masked_scatter", primitive="MaskedScatter")
def masked_scatter(input: Any, mask: Any, source: Any) -> Any:
    """`input` with the elements where `mask` is true replaced by those of `source`, in order.

    Raises:
        TypeError: the mask isn't a tensor of bools.
        ValueError: `source` has fewer elements than the mask has true elements.
    """
    x = as_tensor(input, of="masked_scatter")
    chosen = as_tensor(mask, "mask", of="masked_scatter")
    if chosen.dtype != bool_:
        raise TypeError(f"For 'masked_scatter', 'mask' must be a Tensor of bools, but got dtype {chosen.dtype}")
    every = known_elements(shaping.expand(chosen, shape=tuple(x.shape)), "the mask of masked_scatter")
    places = np.flatnonzero(every)
    values = updates_for(source, x, of="masked_scatter")
    count = known_size(product(values.shape), "For 'masked_scatter', the size of 'source'")
    flat = shaping.reshape(values, shape=(count,))
    if len(places) > count:
        raise ValueError(f"For 'masked_scatter', 'source' must have {len(places)} elements at least, but got {count}")
    updates = slicing.slice(flat, starts=(0,), stops=(len(places),), steps=(1,), axes=(0,))
    rows = shaping.reshape(x, shape=(product(x.shape),))
    return shaping.reshape(indexing.scatter(rows, from_array(places), updates, axis=0), shape=tuple(x.shape))
