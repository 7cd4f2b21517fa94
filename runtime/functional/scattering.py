"""Writing elements: at coordinates (`tensor_scatter_*`, `scatter_nd`), along an axis, and into Parameters."""

from __future__ import annotations

from typing import Any

from ..common.dtype import shown
from ..ops import creation, elementwise, indexing, shaping
from ..ops.common import normalize_axis
from ..tracing import Operand
from .arguments import integer, integers, require_integers
from .operands import as_tensor
from .spelling import Primitive, spelled, tensor_method
from .subscripts import getitem, written
from .tracking import adopted


def _updates(updates: Any, x: Any, *, of: str) -> Any:
    """`updates` as a tensor of the dtype of `x`: numbers take it, another dtype is a `TypeError`."""
    if isinstance(updates, Operand) and updates.dtype != x.dtype:
        raise TypeError(
            f"For '{of}', the updates must have the type of what they are written to, {shown(x.dtype)}, but got "
            f"{shown(updates.dtype)}: cast them, updates.astype(dtype)"
        )
    u = as_tensor(updates, "updates", of=of)
    return u if u.dtype == x.dtype else elementwise.cast(u, dtype=x.dtype)


# ---- at coordinates ----


def _at_coordinates(input_x: Any, indices: Any, updates: Any, reduction: str, *, of: str) -> Any:
    x = as_tensor(input_x, "input_x", of=of)
    places = require_integers(indices, "indices", of=of)
    return indexing.scatter_nd(x, places, _updates(updates, x, of=of), reduction=reduction)


@spelled(method="tensor_scatter_update", primitive="TensorScatterUpdate")
def tensor_scatter_update(input_x: Any, indices: Any, updates: Any) -> Any:
    """`input_x` with `updates` in place of the elements at coordinates `indices`.

    Args:
        input_x: (n_1, ..., n_k, ...).
        indices: (..., k), integers.
        updates: the first axes of `indices`, then the last ones of `input_x`; of its dtype.
    """
    return _at_coordinates(input_x, indices, updates, "none", of="tensor_scatter_update")


@spelled(primitive="TensorScatterAdd")
def tensor_scatter_add(input_x: Any, indices: Any, updates: Any) -> Any:
    """`input_x` with `updates` added at coordinates; see `tensor_scatter_update`."""
    return _at_coordinates(input_x, indices, updates, "add", of="tensor_scatter_add")


@spelled(method="scatter_sub", primitive="TensorScatterSub")
def tensor_scatter_sub(input_x: Any, indices: Any, updates: Any) -> Any:
    """`input_x` with `updates` subtracted at coordinates; see `tensor_scatter_update`."""
    u = elementwise.neg(_updates(updates, as_tensor(input_x, "input_x"), of="tensor_scatter_sub"))
    return _at_coordinates(input_x, indices, u, "add", of="tensor_scatter_sub")


@spelled(method="scatter_mul", primitive="TensorScatterMul")
def tensor_scatter_mul(input_x: Any, indices: Any, updates: Any) -> Any:
    """`input_x` multiplied by `updates` at coordinates; see `tensor_scatter_update`."""
    return _at_coordinates(input_x, indices, updates, "mul", of="tensor_scatter_mul")


@spelled(method="scatter_div", primitive="TensorScatterDiv")
def tensor_scatter_div(input_x: Any, indices: Any, updates: Any) -> Any:
    """`input_x`, of floating-point numbers, divided by `updates` at coordinates; see `tensor_scatter_update`."""
    u = elementwise.reciprocal(_updates(updates, as_tensor(input_x, "input_x"), of="tensor_scatter_div"))
    return _at_coordinates(input_x, indices, u, "mul", of="tensor_scatter_div")


@spelled(method="scatter_max", primitive="TensorScatterMax")
def tensor_scatter_max(input_x: Any, indices: Any, updates: Any) -> Any:
    """The larger of `input_x` and `updates` at coordinates; see `tensor_scatter_update`."""
    return _at_coordinates(input_x, indices, updates, "max", of="tensor_scatter_max")


@spelled(method="scatter_min", primitive="TensorScatterMin")
def tensor_scatter_min(input_x: Any, indices: Any, updates: Any) -> Any:
    """The smaller of `input_x` and `updates` at coordinates; see `tensor_scatter_update`."""
    return _at_coordinates(input_x, indices, updates, "min", of="tensor_scatter_min")


@tensor_method("scatter_add")
def _scatter_add(self: Any, indices: Any, updates: Any, src: Any = None) -> Any:
    """`ops.tensor_scatter_add`; with a third tensor, `(dim, index, src)` of `ops.tensor_scatter_elements`."""
    if src is not None:
        return tensor_scatter_elements(self, updates, src, indices, "add")
    return tensor_scatter_add(self, indices, updates)


@spelled(primitive="ScatterNd")
def scatter_nd(indices: Any, updates: Any, shape: Any) -> Any:
    """Zeros of `shape` with `updates` added at coordinates `indices`; see `tensor_scatter_update`."""
    u = as_tensor(updates, "updates", of="scatter_nd")
    places = require_integers(indices, "indices", of="scatter_nd")
    base = creation.full_like(u, 0, integers(shape, "shape", of="scatter_nd"))
    return indexing.scatter_nd(as_tensor(base), places, u, reduction="add")


# ---- along an axis ----

_REDUCTIONS = ("none", "add", "mul", "max", "min")


@spelled(primitive=Primitive("TensorScatterElements", made_with=("axis", "reduction")))
def tensor_scatter_elements(input_x: Any, indices: Any, updates: Any, axis: int = 0, reduction: str = "none") -> Any:
    """y[i][indices[i][j][k]][k] = updates[i][j][k] for `axis` 1, and so on.

    Args:
        input_x: any tensor.
        indices: integers, as many axes as `input_x`, no longer than it along those other than `axis`.
        updates: of the shape of `indices` and the dtype of `input_x`.
        axis: which axis the indices address.
        reduction: "none" replaces; "add", "mul", "max", "min" combine with what is there.
    """
    x = as_tensor(input_x, "input_x", of="tensor_scatter_elements")
    if reduction not in _REDUCTIONS:
        raise ValueError(
            f"For 'tensor_scatter_elements', 'reduction' must be one of {list(_REDUCTIONS)}, but got {reduction!r}"
        )
    return indexing.scatter(
        x,
        require_integers(indices, "indices", of="tensor_scatter_elements"),
        _updates(updates, x, of="tensor_scatter_elements"),
        axis=normalize_axis(integer(axis, "axis", of="tensor_scatter_elements"), x.ndim),
        reduction=reduction,
    )


@spelled(method="scatter")
def scatter(input: Any, axis: int, index: Any, src: Any) -> Any:
    """`tensor_scatter_elements` that replaces; `src` may be a number."""
    places = require_integers(index, "index", of="scatter")
    x = as_tensor(input, of="scatter")
    u = _updates(src, x, of="scatter")
    return tensor_scatter_elements(x, places, shaping.expand(u, shape=tuple(places.shape)) if not u.ndim else u, axis)


@spelled(method="index_fill", primitive="IndexFill", alias="index_fill_")
def index_fill(x: Any, axis: int, index: Any, value: Any) -> Any:
    """`x` with `value`, a number or 0-d tensor, in the slices at the vector `index` along `axis`."""
    x = as_tensor(x, "x", of="index_fill")
    at = normalize_axis(integer(axis, "axis", of="index_fill"), x.ndim)
    places = as_tensor(index, "index", of="index_fill")
    return written(x, (*(slice(None),) * at, places), elementwise.cast(as_tensor(value), dtype=x.dtype))


@spelled(method="slice_scatter")
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


@spelled(method="select_scatter")
def select_scatter(input: Any, src: Any, axis: int, index: int) -> Any:
    """`input` with its slice at `index` along `axis` replaced by `src`."""
    x = as_tensor(input, of="select_scatter")
    at = normalize_axis(axis, x.ndim)
    s = as_tensor(src, "src", of="select_scatter")
    i = integer(index, "index", of="select_scatter")
    i = i if i >= 0 else i + x.shape[at]
    return slice_scatter(x, shaping.reshape(s, shape=(*s.shape[:at], 1, *s.shape[at:])), at, i, i + 1)


# ---- into Parameters ----


def _slices(x: Any, indices: Any, updates: Any, reduction: str, *, of: str) -> Any:
    """`updates` combined with the slices of `x` at `indices` along its first axis."""
    places = require_integers(indices, "indices", of=of)
    u = _updates(updates, x, of=of)
    expected = (*places.shape, *x.shape[1:])
    if not u.ndim:
        u = shaping.expand(u, shape=expected)
    return indexing.scatter_nd(x, shaping.reshape(places, shape=(*places.shape, 1)), u, reduction=reduction)


@spelled(primitive="ScatterUpdate")
def scatter_update(input_x: Any, indices: Any, updates: Any) -> Any:
    """Replace the slices of the Parameter `input_x` at `indices` along its first axis; returns its new value.

    `updates` has the axes of `indices`, then the last ones of `input_x`.
    """
    return adopted(input_x, _slices(input_x, indices, updates, "none", of="scatter_update"))


@spelled(primitive="ScatterAdd")
def scatter_add(input_x: Any, indices: Any, updates: Any) -> Any:
    """Add to the slices of a Parameter; see `scatter_update`."""
    return adopted(input_x, _slices(input_x, indices, updates, "add", of="scatter_add"))


@spelled(primitive="ScatterSub")
def scatter_sub(input_x: Any, indices: Any, updates: Any) -> Any:
    """Subtract from the slices of a Parameter; see `scatter_update`."""
    u = elementwise.neg(_updates(updates, input_x, of="scatter_sub"))
    return adopted(input_x, _slices(input_x, indices, u, "add", of="scatter_sub"))


@spelled(primitive="ScatterMul")
def scatter_mul(input_x: Any, indices: Any, updates: Any) -> Any:
    """Multiply the slices of a Parameter; see `scatter_update`."""
    return adopted(input_x, _slices(input_x, indices, updates, "mul", of="scatter_mul"))


@spelled(primitive="ScatterDiv")
def scatter_div(input_x: Any, indices: Any, updates: Any) -> Any:
    """Divide the slices of a Parameter of floating-point numbers; see `scatter_update`."""
    u = elementwise.reciprocal(_updates(updates, input_x, of="scatter_div"))
    return adopted(input_x, _slices(input_x, indices, u, "mul", of="scatter_div"))


@spelled(primitive="ScatterMax")
def scatter_max(input_x: Any, indices: Any, updates: Any) -> Any:
    """The larger of what is there and the updates, in the slices of a Parameter; see `scatter_update`."""
    return adopted(input_x, _slices(input_x, indices, updates, "max", of="scatter_max"))


@spelled(primitive="ScatterMin")
def scatter_min(input_x: Any, indices: Any, updates: Any) -> Any:
    """The smaller of what is there and the updates, in the slices of a Parameter; see `scatter_update`."""
    return adopted(input_x, _slices(input_x, indices, updates, "min", of="scatter_min"))


@spelled(primitive="ScatterNdUpdate")
def scatter_nd_update(input_x: Any, indices: Any, updates: Any) -> Any:
    """Replace elements of a Parameter at coordinates; returns its new value. See `tensor_scatter_update`."""
    return adopted(input_x, tensor_scatter_update(input_x, indices, updates))


@spelled(primitive="ScatterNdAdd")
def scatter_nd_add(input_x: Any, indices: Any, updates: Any) -> Any:
    """Add to elements of a Parameter at coordinates; see `scatter_nd_update`."""
    return adopted(input_x, tensor_scatter_add(input_x, indices, updates))


@spelled(primitive="ScatterNdSub")
def scatter_nd_sub(input_x: Any, indices: Any, updates: Any) -> Any:
    """Subtract from elements of a Parameter at coordinates; see `scatter_nd_update`."""
    return adopted(input_x, tensor_scatter_sub(input_x, indices, updates))


@spelled()
def scatter_nd_mul(input_x: Any, indices: Any, updates: Any) -> Any:
    """Multiply elements of a Parameter at coordinates; see `scatter_nd_update`."""
    return adopted(input_x, tensor_scatter_mul(input_x, indices, updates))


@spelled()
def scatter_nd_div(input_x: Any, indices: Any, updates: Any) -> Any:
    """Divide elements of a Parameter at coordinates; see `scatter_nd_update`."""
    return adopted(input_x, tensor_scatter_div(input_x, indices, updates))


@spelled()
def scatter_nd_max(input_x: Any, indices: Any, updates: Any) -> Any:
    """The larger of elements of a Parameter and updates at coordinates; see `scatter_nd_update`."""
    return adopted(input_x, tensor_scatter_max(input_x, indices, updates))


@spelled()
def scatter_nd_min(input_x: Any, indices: Any, updates: Any) -> Any:
    """The smaller of elements of a Parameter and updates at coordinates; see `scatter_nd_update`."""
    return adopted(input_x, tensor_scatter_min(input_x, indices, updates))


def _index_add(x: Any, indices: Any, y: Any, axis: int) -> Any:
    places = require_integers(indices, "indices", of="index_add")
    at = normalize_axis(integer(axis, "axis", of="index_add"), x.ndim)
    return indexing.index_add(x, places, _updates(y, x, of="index_add"), axis=at)


@spelled(primitive=Primitive("IndexAdd", made_with=("axis",)))
def index_add(x: Any, indices: Any, y: Any, axis: int) -> Any:
    """Add the i-th slice of `y` along `axis` to that of the Parameter `x` at `indices[i]`; returns its new value."""
    return adopted(x, _index_add(x, indices, y, axis))


@tensor_method("index_add")
def _index_add_method(self: Any, indices: Any, y: Any, axis: Any) -> Any:
    """The tensor with the i-th slice of `y` along `axis` added at `indices[i]`; or called with (dim, index, source)."""
    if isinstance(indices, int):
        indices, y, axis = y, axis, indices
    return _index_add(self, indices, y, axis)


def _rows(x: Any, v: Any, indices: Any, of: str) -> tuple[Any, tuple[int, ...], Any]:
    tensor = as_tensor(x, "x", of=of)
    return tensor, integers(indices, "indices", of=of), _updates(v, tensor, of=of)


@spelled(method="inplace_update", primitive=Primitive("InplaceUpdate", made_with=("indices",)))
def inplace_update(x: Any, v: Any, indices: Any) -> Any:
    """`x` with the rows `v` at `indices` along the first axis."""
    tensor, rows, values = _rows(x, v, indices, "inplace_update")
    return written(tensor, list(rows), values)


@spelled(primitive=Primitive("InplaceAdd", made_with=("indices",)))
def inplace_add(x: Any, v: Any, indices: Any) -> Any:
    """`x` with the rows `v` added at `indices` along the first axis."""
    tensor, rows, values = _rows(x, v, indices, "inplace_add")
    return written(tensor, list(rows), getitem(tensor, list(rows)) + values)


@spelled(primitive=Primitive("InplaceSub", made_with=("indices",)))
def inplace_sub(x: Any, v: Any, indices: Any) -> Any:
    """`x` with the rows `v` subtracted at `indices` along the first axis."""
    tensor, rows, values = _rows(x, v, indices, "inplace_sub")
    return written(tensor, list(rows), getitem(tensor, list(rows)) - values)
