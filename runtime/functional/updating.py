"""In-place updates of elements of Parameters. See `scattering` for operators that return a new tensor."""

from __future__ import annotations

from typing import Any

from ..ops import elementwise, indexing, shaping
from .arguments import require_integers
from .public_op import Primitive, public_op
from .scattering import (
    add_at_index,
    tensor_scatter_add,
    tensor_scatter_div,
    tensor_scatter_max,
    tensor_scatter_min,
    tensor_scatter_mul,
    tensor_scatter_sub,
    tensor_scatter_update,
    updates_for,
)
from .tracking import assign_in_place

LOCKING = {"use_locking": False}  # there are no concurrent writes


def _slices(x: Any, indices: Any, updates: Any, reduction: str, *, of: str) -> Any:
    """Combine `updates` with the slices of `x` at `indices` along its first axis; return the new value of `x`."""
    places = require_integers(indices, "indices", of=of)
    u = updates_for(updates, x, of=of)
    expected = (*places.shape, *x.shape[1:])
    if not u.ndim:
        u = shaping.expand(u, shape=expected)
    return indexing.scatter_nd(x, shaping.reshape(places, shape=(*places.shape, 1)), u, reduction=reduction)


@public_op(primitive=Primitive("ScatterUpdate", ignored_args=LOCKING))
def scatter_update(input_x: Any, indices: Any, updates: Any) -> Any:
    """Replace the slices of the Parameter `input_x` at `indices` along its first axis; returns its new value.

    `updates` has the axes of `indices`, then the axes of `input_x` except for the first.
    """
    return assign_in_place(input_x, _slices(input_x, indices, updates, "none", of="scatter_update"))


@public_op(primitive=Primitive("ScatterAdd", ignored_args=LOCKING))
def scatter_add(input_x: Any, indices: Any, updates: Any) -> Any:
    """Add `updates` to slices of a Parameter; see `scatter_update`."""
    return assign_in_place(input_x, _slices(input_x, indices, updates, "add", of="scatter_add"))


@public_op(primitive=Primitive("ScatterSub", ignored_args=LOCKING))
def scatter_sub(input_x: Any, indices: Any, updates: Any) -> Any:
    """Subtract `updates` from slices of a Parameter; see `scatter_update`."""
    u = elementwise.neg(updates_for(updates, input_x, of="scatter_sub"))
    return assign_in_place(input_x, _slices(input_x, indices, u, "add", of="scatter_sub"))


@public_op(primitive=Primitive("ScatterMul", ignored_args=LOCKING))
def scatter_mul(input_x: Any, indices: Any, updates: Any) -> Any:
    """Multiply slices of a Parameter by `updates`; see `scatter_update`."""
    return assign_in_place(input_x, _slices(input_x, indices, updates, "mul", of="scatter_mul"))


@public_op(primitive=Primitive("ScatterDiv", ignored_args=LOCKING))
def scatter_div(input_x: Any, indices: Any, updates: Any) -> Any:
    """Divide slices of a floating-point Parameter by `updates`; see `scatter_update`."""
    u = elementwise.reciprocal(updates_for(updates, input_x, of="scatter_div"))
    return assign_in_place(input_x, _slices(input_x, indices, u, "mul", of="scatter_div"))


@public_op(primitive=Primitive("ScatterMax", ignored_args=LOCKING))
def scatter_max(input_x: Any, indices: Any, updates: Any) -> Any:
    """Replace slices of a Parameter by their maximum with `updates`, elementwise; see `scatter_update`."""
    return assign_in_place(input_x, _slices(input_x, indices, updates, "max", of="scatter_max"))


@public_op(primitive=Primitive("ScatterMin", ignored_args=LOCKING))
def scatter_min(input_x: Any, indices: Any, updates: Any) -> Any:
    """Replace slices of a Parameter by their minimum with `updates`, elementwise; see `scatter_update`."""
    return assign_in_place(input_x, _slices(input_x, indices, updates, "min", of="scatter_min"))


@public_op(primitive=Primitive("ScatterNdUpdate", ignored_args=LOCKING))
def scatter_nd_update(input_x: Any, indices: Any, updates: Any) -> Any:
    """Replace elements of a Parameter at coordinates; returns its new value. See `tensor_scatter_update`."""
    return assign_in_place(input_x, tensor_scatter_update(input_x, indices, updates))


@public_op(primitive=Primitive("ScatterNdAdd", ignored_args=LOCKING))
def scatter_nd_add(input_x: Any, indices: Any, updates: Any, use_locking: bool = False) -> Any:
    """Add `updates` to elements of a Parameter at coordinates; see `scatter_nd_update`."""
    return assign_in_place(input_x, tensor_scatter_add(input_x, indices, updates))


@public_op(primitive=Primitive("ScatterNdSub", ignored_args=LOCKING))
def scatter_nd_sub(input_x: Any, indices: Any, updates: Any, use_locking: bool = False) -> Any:
    """Subtract `updates` from elements of a Parameter at coordinates; see `scatter_nd_update`."""
    return assign_in_place(input_x, tensor_scatter_sub(input_x, indices, updates))


@public_op(primitive=Primitive("ScatterNdMul", ignored_args=LOCKING))
def scatter_nd_mul(input_x: Any, indices: Any, updates: Any, use_locking: bool = False) -> Any:
    """Multiply elements of a Parameter at coordinates by `updates`; see `scatter_nd_update`."""
    return assign_in_place(input_x, tensor_scatter_mul(input_x, indices, updates))


@public_op(primitive=Primitive("ScatterNdDiv", ignored_args=LOCKING))
def scatter_nd_div(input_x: Any, indices: Any, updates: Any, use_locking: bool = False) -> Any:
    """Divide elements of a Parameter at coordinates by `updates`; see `scatter_nd_update`."""
    return assign_in_place(input_x, tensor_scatter_div(input_x, indices, updates))


@public_op(primitive=Primitive("ScatterNdMax", ignored_args=LOCKING))
def scatter_nd_max(input_x: Any, indices: Any, updates: Any, use_locking: bool = False) -> Any:
    """Replace elements of a Parameter at coordinates by their maximum with `updates`; see `scatter_nd_update`."""
    return assign_in_place(input_x, tensor_scatter_max(input_x, indices, updates))


@public_op(primitive=Primitive("ScatterNdMin", ignored_args=LOCKING))
def scatter_nd_min(input_x: Any, indices: Any, updates: Any, use_locking: bool = False) -> Any:
    """Replace elements of a Parameter at coordinates by their minimum with `updates`; see `scatter_nd_update`."""
    return assign_in_place(input_x, tensor_scatter_min(input_x, indices, updates))


@public_op(
    primitive=Primitive("IndexAdd", init_args=("axis",), ignored_args={"use_lock": True, "check_index_bound": True})
)
def index_add(x: Any, indices: Any, y: Any, axis: int, use_lock: bool = True, check_index_bound: bool = True) -> Any:
    """Add the i-th slice of `y` along `axis` to the slice at `indices[i]` of the Parameter `x`; returns its new value.

    The flags have no effect.
    """
    return assign_in_place(x, add_at_index(x, indices, y, axis))
