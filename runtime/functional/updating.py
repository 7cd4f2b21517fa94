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
    """`updates` combined with the slices of `x` at `indices` along its first axis."""
    places = require_integers(indices, "indices", of=of)
    u = updates_for(updates, x, of=of)
    expected = (*places.shape, *x.shape[1:])
    if not u.ndim:
        u = shaping.expand(u, shape=expected)
    return indexing.scatter_nd(x, shaping.reshape(places, shape=(*places.shape, 1)), u, reduction=reduction)


@public_op(primitive=Primitive("ScatterUpdate", without_effect=LOCKING))
def scatter_update(input_x: Any, indices: Any, updates: Any) -> Any:
    """Replace the slices of the Parameter `input_x` at `indices` along its first axis; returns its new value.

    `updates` has the axes of `indices`, then the last ones of `input_x`.
    """
    return assign_in_place(input_x, _slices(input_x, indices, updates, "none", of="scatter_update"))


@public_op(primitive=Primitive("ScatterAdd", without_effect=LOCKING))
def scatter_add(input_x: Any, indices: Any, updates: Any) -> Any:
    """Add to the slices of a Parameter; see `scatter_update`."""
    return assign_in_place(input_x, _slices(input_x, indices, updates, "add", of="scatter_add"))


@public_op(primitive=Primitive("ScatterSub", without_effect=LOCKING))
def scatter_sub(input_x: Any, indices: Any, updates: Any) -> Any:
    """Subtract from the slices of a Parameter; see `scatter_update`."""
    u = elementwise.neg(updates_for(updates, input_x, of="scatter_sub"))
    return assign_in_place(input_x, _slices(input_x, indices, u, "add", of="scatter_sub"))


@public_op(primitive=Primitive("ScatterMul", without_effect=LOCKING))
def scatter_mul(input_x: Any, indices: Any, updates: Any) -> Any:
    """Multiply the slices of a Parameter; see `scatter_update`."""
    return assign_in_place(input_x, _slices(input_x, indices, updates, "mul", of="scatter_mul"))


@public_op(primitive=Primitive("ScatterDiv", without_effect=LOCKING))
def scatter_div(input_x: Any, indices: Any, updates: Any) -> Any:
    """Divide the slices of a Parameter of floating-point numbers; see `scatter_update`."""
    u = elementwise.reciprocal(updates_for(updates, input_x, of="scatter_div"))
    return assign_in_place(input_x, _slices(input_x, indices, u, "mul", of="scatter_div"))


@public_op(primitive=Primitive("ScatterMax", without_effect=LOCKING))
def scatter_max(input_x: Any, indices: Any, updates: Any) -> Any:
    """The larger of the elements and the updates, in slices of a Parameter; see `scatter_update`."""
    return assign_in_place(input_x, _slices(input_x, indices, updates, "max", of="scatter_max"))


@public_op(primitive=Primitive("ScatterMin", without_effect=LOCKING))
def scatter_min(input_x: Any, indices: Any, updates: Any) -> Any:
    """The smaller of the elements and the updates, in slices of a Parameter; see `scatter_update`."""
    return assign_in_place(input_x, _slices(input_x, indices, updates, "min", of="scatter_min"))


@public_op(primitive=Primitive("ScatterNdUpdate", without_effect=LOCKING))
def scatter_nd_update(input_x: Any, indices: Any, updates: Any) -> Any:
    """Replace elements of a Parameter at coordinates; returns its new value. See `tensor_scatter_update`."""
    return assign_in_place(input_x, tensor_scatter_update(input_x, indices, updates))


@public_op(primitive=Primitive("ScatterNdAdd", without_effect=LOCKING))
def scatter_nd_add(input_x: Any, indices: Any, updates: Any, use_locking: bool = False) -> Any:
    """Add to elements of a Parameter at coordinates; see `scatter_nd_update`."""
    return assign_in_place(input_x, tensor_scatter_add(input_x, indices, updates))


@public_op(primitive=Primitive("ScatterNdSub", without_effect=LOCKING))
def scatter_nd_sub(input_x: Any, indices: Any, updates: Any, use_locking: bool = False) -> Any:
    """Subtract from elements of a Parameter at coordinates; see `scatter_nd_update`."""
    return assign_in_place(input_x, tensor_scatter_sub(input_x, indices, updates))


@public_op(primitive=Primitive("ScatterNdMul", without_effect=LOCKING))
def scatter_nd_mul(input_x: Any, indices: Any, updates: Any, use_locking: bool = False) -> Any:
    """Multiply elements of a Parameter at coordinates; see `scatter_nd_update`."""
    return assign_in_place(input_x, tensor_scatter_mul(input_x, indices, updates))


@public_op(primitive=Primitive("ScatterNdDiv", without_effect=LOCKING))
def scatter_nd_div(input_x: Any, indices: Any, updates: Any, use_locking: bool = False) -> Any:
    """Divide elements of a Parameter at coordinates; see `scatter_nd_update`."""
    return assign_in_place(input_x, tensor_scatter_div(input_x, indices, updates))


@public_op(primitive=Primitive("ScatterNdMax", without_effect=LOCKING))
def scatter_nd_max(input_x: Any, indices: Any, updates: Any, use_locking: bool = False) -> Any:
    """The larger of elements of a Parameter and updates at coordinates; see `scatter_nd_update`."""
    return assign_in_place(input_x, tensor_scatter_max(input_x, indices, updates))


@public_op(primitive=Primitive("ScatterNdMin", without_effect=LOCKING))
def scatter_nd_min(input_x: Any, indices: Any, updates: Any, use_locking: bool = False) -> Any:
    """The smaller of elements of a Parameter and updates at coordinates; see `scatter_nd_update`."""
    return assign_in_place(input_x, tensor_scatter_min(input_x, indices, updates))


@public_op(
    primitive=Primitive("IndexAdd", made_with=("axis",), without_effect={"use_lock": True, "check_index_bound": True})
)
def index_add(x: Any, indices: Any, y: Any, axis: int, use_lock: bool = True, check_index_bound: bool = True) -> Any:
    """Add the i-th slice of `y` along `axis` to that of the Parameter `x` at `indices[i]`; returns its new value.

    The flags have no effect.
    """
    return assign_in_place(x, add_at_index(x, indices, y, axis))
