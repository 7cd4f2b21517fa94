"""Permutation of axes, and of elements along axes."""

from __future__ import annotations

from typing import Any

from ..ir.dims import product
from ..ops import shaping
from ..ops.common import normalize_axes, normalize_axis
from .arguments import integer, integers, unpack_varargs
from .operands import as_tensor
from .public_op import Primitive, argument_aliases, public_op, tensor_method

# ---- axes ----


@public_op(primitive="Transpose")
@argument_aliases(dims="input_perm")
def transpose(input: Any, input_perm: Any) -> Any:
    """Permute the axes: axis i of the result is axis `input_perm[i]` of `input`.

    `ValueError` unless `input_perm` is a permutation.
    """
    x = as_tensor(input, of="transpose")
    axes = integers(input_perm, "input_perm", of="transpose")
    return shaping.transpose(x, permutation=tuple(normalize_axis(axis, x.ndim) for axis in axes) if x.ndim else axes)


@public_op()
def permute(input: Any, axis: Any) -> Any:
    """Same as `transpose`."""
    return transpose(input, axis)


@tensor_method("transpose")
def _transpose(self: Any, *axes: Any) -> Any:
    """Permute the axes to the order `axes`, given one by one or as one tuple; without arguments, reverse them.

    Two axes of a tensor with more dimensions are swapped.
    """
    order = unpack_varargs(axes)
    if len(order) == 2 and self.ndim > 2:
        return swapaxes(self, *order)
    return transpose(self, order if len(order) else tuple(reversed(range(self.ndim))))


@tensor_method("permute")
def _permute(self: Any, *axis: Any) -> Any:
    """Permute the axes to the order `axis`, given one by one or as one tuple."""
    return transpose(self, unpack_varargs(axis))


@public_op(method="swapaxes")
def swapaxes(input: Any, axis0: int, axis1: int) -> Any:
    """Swap `axis0` and `axis1`."""
    x = as_tensor(input, of="swapaxes")
    first = normalize_axis(integer(axis0, "axis0", of="swapaxes"), x.ndim)
    second = normalize_axis(integer(axis1, "axis1", of="swapaxes"), x.ndim)
    order = list(range(x.ndim))
    if order:
        order[first], order[second] = order[second], order[first]
    return shaping.transpose(x, permutation=tuple(order))


@public_op(method="swapdims")
def swapdims(input: Any, dim0: int, dim1: int) -> Any:
    """Same as `swapaxes`."""
    return swapaxes(input, dim0, dim1)


@public_op(method="moveaxis")
def moveaxis(x: Any, source: Any, destination: Any) -> Any:
    """Move the axes `source` to the positions `destination`; the others keep their order.

    Raises:
        ValueError: `source` and `destination` differ in length, or name an axis twice.
    """
    x = as_tensor(x, "x", of="moveaxis")
    sources, places = integers(source, "source", of="moveaxis"), integers(destination, "destination", of="moveaxis")
    if len(sources) != len(places):
        raise ValueError(f"For 'moveaxis', there must be as many sources as destinations: {source}, {destination}")
    normalize_axes(sources, x.ndim)
    normalize_axes(places, x.ndim)
    moved = {normalize_axis(to, x.ndim): normalize_axis(axis, x.ndim) for axis, to in zip(sources, places, strict=True)}
    others = (axis for axis in range(x.ndim) if axis not in moved.values())
    return shaping.transpose(x, permutation=tuple(moved[i] if i in moved else next(others) for i in range(x.ndim)))


@public_op(method="movedim")
def movedim(x: Any, source: Any, destination: Any) -> Any:
    """Same as `moveaxis`."""
    return moveaxis(x, source, destination)


@public_op(method="t")
def t(input: Any) -> Any:
    """The transpose of a matrix; a tensor with another number of dimensions is returned unchanged."""
    x = as_tensor(input, of="t")
    return shaping.transpose(x, permutation=(1, 0)) if x.ndim == 2 else x


def _reverse_axes(self: Any) -> Any:
    """The tensor with its axes in reverse order."""
    return shaping.transpose(self, permutation=tuple(reversed(range(self.ndim))))


def _transpose_matrices(self: Any) -> Any:
    """The tensor with its last two axes swapped."""
    return swapaxes(self, -2, -1)


tensor_method("T")(property(_reverse_axes))
tensor_method("mT")(property(_transpose_matrices))


# ---- elements along an axis ----


@public_op(method="flip")
def flip(input: Any, dims: Any) -> Any:
    """Reverse the order of elements along the axes `dims`."""
    x = as_tensor(input, of="flip")
    return shaping.flip(x, axes=normalize_axes(integers(dims, "dims", of="flip"), x.ndim))


@public_op(method="reverse", primitive=Primitive("ReverseV2", init_args=("axis",)))
def reverse(x: Any, axis: Any) -> Any:
    """Same as `flip`."""
    return flip(x, axis)


@public_op(method="fliplr")
def fliplr(input: Any) -> Any:
    """Flip left to right: reverse the order of elements along the second axis."""
    return flip(input, 1)


@public_op(method="flipud")
def flipud(input: Any) -> Any:
    """Flip upside down: reverse the order of elements along the first axis."""
    return flip(input, 0)


@public_op(method="roll", primitive=Primitive("Roll", init_args=("shifts", "dims")))
def roll(input: Any, shifts: Any, dims: Any = None) -> Any:
    """Roll by `shifts[i]` along `dims[i]`, or the flattened elements if `dims` is None.

    Raises:
        ValueError: the numbers of shifts and axes differ.
    """
    x = as_tensor(input, of="roll")
    amounts = integers(shifts, "shifts", of="roll")
    if dims is None:
        flat = shaping.reshape(x, shape=(product(x.shape),))
        return shaping.reshape(shaping.roll(flat, shifts=(sum(amounts),), axes=(0,)), shape=tuple(x.shape))
    axes = integers(dims, "dims", of="roll")
    if len(amounts) == 1:
        amounts *= len(axes)
    return shaping.roll(x, shifts=amounts, axes=tuple(normalize_axis(axis, x.ndim) for axis in axes))


@public_op(method="rot90")
def rot90(input: Any, k: int, dims: Any) -> Any:
    """Rotate `k` times by 90 degrees in the plane of two axes, from the first of `dims` towards the second."""
    x = as_tensor(input, of="rot90")
    axes = integers(dims, "dims", of="rot90")
    if len(axes) != 2 or len(normalize_axes(axes, x.ndim)) != 2:
        raise ValueError(f"For 'rot90', 'dims' must be two different axes, but got {dims}")
    turns = integer(k, "k", of="rot90") % 4
    if turns == 2:
        return flip(x, axes)
    if turns == 1:
        return swapaxes(flip(x, axes[1]), *axes)
    return flip(swapaxes(x, *axes), axes[1]) if turns else x
