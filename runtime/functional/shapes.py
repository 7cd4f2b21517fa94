"""Reshaping, broadcasting, and queries of the shape. See `permuting` for other orders of the axes."""

from __future__ import annotations

from typing import Any

from ..common.tensor import Tensor
from ..errors import ShapeError
from ..ir.dims import product
from ..ops import shaping
from ..ops.common import normalize_axes, normalize_axis
from .arguments import integer, integers, unpack_varargs
from .operands import as_tensor
from .public_op import Primitive, public_op, tensor_method

# ---- reshaping ----


@public_op(primitive="Reshape")
def reshape(input: Any, shape: Any) -> Any:
    """Reshape `input` to `shape`, in row-major order; one size may be -1.

    Raises:
        ValueError: the number of elements differs, or several sizes are -1.
    """
    x = as_tensor(input, of="reshape")
    return shaping.reshape(x, shape=_resolve(integers(shape, "shape", of="reshape"), x))


def _resolve(shape: tuple[Any, ...], x: Any) -> tuple[Any, ...]:
    """Replace -1 in `shape` by the actual size."""
    if shape.count(-1) == 0:
        return shape
    if shape.count(-1) > 1:
        raise ShapeError(f"For 'reshape', one size of 'shape' may be -1, but got {shape}")
    others, size = product(s for s in shape if s != -1), product(x.shape)
    if others == 0 or (isinstance(others, int) and isinstance(size, int) and size % others):
        raise ShapeError(f"For 'reshape', {size} elements of shape {tuple(x.shape)} don't fit 'shape' {shape}")
    return tuple(size // others if s == -1 else s for s in shape)


@tensor_method("reshape", "view")
def _reshape(self: Any, *shape: Any) -> Any:
    """Reshape the tensor to `shape`, given as sizes or as one tuple."""
    return reshape(self, unpack_varargs(shape))


@public_op(method=("view_as", "reshape_as"))
def view_as(input: Any, other: Any) -> Any:
    """Reshape `input` to the shape of `other`."""
    return shaping.reshape(as_tensor(input, of="view_as"), shape=tuple(as_tensor(other, "other", of="view_as").shape))


@public_op(method="ravel")
def ravel(input: Any) -> Any:
    """Flatten `input` to a vector."""
    return reshape(input, (-1,))


@public_op()
def flatten(input: Any, order: str = "C", *, start_dim: int = 1, end_dim: int = -1) -> Any:
    """Flatten the axes from `start_dim` to `end_dim` into one; in column-major order if `order` is "F".

    A tensor of fewer than two dimensions becomes a vector.

    Raises:
        ValueError: `order` is neither "C" nor "F", or `start_dim` is after `end_dim`.
    """
    x = as_tensor(input, of="flatten")
    if order not in ("C", "F"):
        raise ValueError(f"For 'flatten', 'order' must be 'C' or 'F', but got {order!r}")
    if order == "F":
        x = shaping.transpose(x, permutation=tuple(reversed(range(x.ndim))))
    if x.ndim < 2:
        return shaping.reshape(x, shape=(product(x.shape),))
    start, end = (normalize_axis(integer(axis, "start_dim", of="flatten"), x.ndim) for axis in (start_dim, end_dim))
    if start > end:
        raise ValueError(f"For 'flatten', 'start_dim' must not be after 'end_dim', but got {start_dim} and {end_dim}")
    return shaping.reshape(x, shape=(*x.shape[:start], product(x.shape[start : end + 1]), *x.shape[end + 1 :]))


@tensor_method("flatten")
def _flatten(self: Any, order: str = "C", *, start_dim: int = 0, end_dim: int = -1) -> Any:
    """Flatten the axes from `start_dim` to `end_dim`, by default all, into one."""
    return flatten(self, order, start_dim=start_dim, end_dim=end_dim)


@public_op(primitive="Flatten")
def flatten_rows(input_x: Any) -> Any:
    """Flatten all axes but the first: (n, ...) becomes (n, m)."""
    x = as_tensor(input_x, "input_x", of="Flatten")
    if not x.ndim:
        raise ValueError("For 'Flatten', 'input_x' must have at least one dimension, but got a 0-d tensor")
    return shaping.reshape(x, shape=(x.shape[0], product(x.shape[1:])))


# ---- axes of size 1 ----


@public_op(method="squeeze", primitive=Primitive("Squeeze", init_args=("axis",), defaults={"axis": ()}))
def squeeze(input: Any, axis: Any = None) -> Any:
    """Remove the axes of size 1 among `axis` (None or (): among all axes)."""
    x = as_tensor(input, of="squeeze")
    axes = normalize_axes(None if axis in (None, ()) else integers(axis, "axis", of="squeeze"), x.ndim)
    return shaping.reshape(x, shape=tuple(size for i, size in enumerate(x.shape) if i not in axes or size != 1))


@public_op(method="expand_dims", primitive="ExpandDims")
def expand_dims(input_x: Any, axis: int) -> Any:
    """Insert an axis of size 1 at `axis`; `ValueError` if that is out of range."""
    x = as_tensor(input_x, "input_x", of="expand_dims")
    at = normalize_axis(integer(axis, "axis", of="expand_dims"), x.ndim + 1)
    return shaping.reshape(x, shape=(*x.shape[:at], 1, *x.shape[at:]))


@public_op(method="unsqueeze")
def unsqueeze(input: Any, dim: int) -> Any:
    """Same as `expand_dims`."""
    return expand_dims(input, dim)


def _at_least(rank: int, inputs: Any) -> Any:
    if isinstance(inputs, (tuple, list)):
        return tuple(_at_least(rank, x) for x in inputs)
    x = as_tensor(inputs, "inputs", of=f"atleast_{rank}d")
    sizes = tuple(x.shape)
    if rank == 3 and len(sizes) in (1, 2):
        sizes = (*sizes, 1)
    return x if x.ndim >= rank else shaping.reshape(x, shape=(1,) * (rank - len(sizes)) + sizes)


@public_op()
def atleast_1d(inputs: Any) -> Any:
    """Convert a 0-d tensor, or each 0-d tensor in a tuple, to a vector."""
    return _at_least(1, inputs)


@public_op()
def atleast_2d(inputs: Any) -> Any:
    """Convert a tensor with fewer dimensions, or each in a tuple, to a matrix; a vector becomes a row."""
    return _at_least(2, inputs)


@public_op()
def atleast_3d(inputs: Any) -> Any:
    """Convert a tensor with fewer dimensions, or each in a tuple, to 3-D: (n) to (1, n, 1), (n, m) to (n, m, 1)."""
    return _at_least(3, inputs)


# ---- broadcasting ----


@public_op(method="broadcast_to", primitive=Primitive("BroadcastTo", init_args=("shape",)))
def broadcast_to(input: Any, shape: Any) -> Any:
    """Broadcast `input` to `shape`, where -1 keeps a size; `ValueError` if it doesn't broadcast."""
    x = as_tensor(input, of="broadcast_to")
    sizes = integers(shape, "shape", of="broadcast_to")
    lead = len(sizes) - x.ndim
    if -1 in sizes[: max(lead, 0)]:
        raise ShapeError(f"For 'broadcast_to', there is no size to keep for the -1 at the front of {sizes}")
    resolved = tuple(x.shape[i - lead] if size == -1 and i >= lead else size for i, size in enumerate(sizes))
    return shaping.expand(x, shape=resolved)


@public_op()
def expand(input_x: Any, size: Any) -> Any:
    """Same as `broadcast_to`."""
    return broadcast_to(input_x, size)


@tensor_method("expand")
def _expand(self: Any, *size: Any) -> Any:
    """Broadcast the tensor to `size`, given as sizes or as one tuple; -1 keeps a size."""
    return broadcast_to(self, unpack_varargs(size))


@public_op(method="expand_as")
def expand_as(input: Any, other: Any) -> Any:
    """Broadcast `input` to the shape of `other`."""
    return broadcast_to(input, tuple(as_tensor(other, "other", of="expand_as").shape))


# ---- queries ----


@public_op(primitive="Shape")
def shape(input_x: Any) -> Any:
    """The shape, as a tuple of ints."""
    return tuple(as_tensor(input_x, "input_x", of="shape").shape)


@public_op(primitive="Rank")
def rank(input_x: Any) -> int:
    """The number of dimensions."""
    return int(as_tensor(input_x, "input_x", of="rank").ndim)


@public_op(primitive="Size")
def size(input_x: Any) -> Any:
    """The number of elements."""
    return product(as_tensor(input_x, "input_x", of="size").shape)


@public_op(primitive=("DynamicShape", "TensorShape"))
def dyn_shape(input_x: Any) -> Any:
    """The shape, as an int64 vector."""
    return Tensor(list(shape(input_x)), "int64")


@public_op()
def is_tensor(obj: Any) -> bool:
    """Whether an object is a Tensor."""
    return isinstance(obj, Tensor)


@tensor_method("ndimension")
def ndimension(self: Any) -> int:
    """Number of dimensions."""
    return int(self.ndim)


@tensor_method("nelement")
def nelement(self: Any) -> Any:
    """Number of elements."""
    return product(self.shape)
