"""Ops that move elements without changing them: reshaping, permuting, broadcasting.

Shapes among the attributes are complete, without -1, and may be symbolic. See `slicing` for slices, concatenation and
padding, and `creation` for `full` and `arange`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..ir import dims
from ..ir.dims import Dim, SymbolicDim
from ..traits import Traits
from .common import normalize_axes, normalize_axis, unbroadcast
from .registry import Array, OnnxGraph, Tensor, Type, operator, require

Shape = tuple[Dim, ...]


@operator
def reshape(x: Tensor, *, shape: Shape) -> Tensor:
    """The elements of `x`, in row-major order, as a tensor of `shape`: ATen `view`, ONNX Reshape-14."""


reshape.traits = Traits(moves="first", view=True)


@reshape.infer
def _(x: Type, *, shape: Shape) -> Type:
    before, after = dims.product(x.shape), dims.product(shape)
    is_static = isinstance(before, int) and isinstance(after, int)
    require(not is_static or before == after, f"shape {shape} has {after} elements, the operand {before}")
    return x.with_shape(shape)


@reshape.native_kernel
def _(x: Array, *, shape: tuple[int, ...]) -> Array:
    return x.reshape(shape)


@reshape.vjp
def _(g: Tensor, y: Tensor, x: Tensor, *, shape: Shape) -> Any:
    return reshape(g, shape=x.shape)


@reshape.onnx
def _(graph: OnnxGraph, x: str, *, shape: Shape) -> Any:
    if sum(isinstance(d, SymbolicDim) for d in shape) == 1 and 0 not in shape:
        target = graph.constant([-1 if isinstance(d, SymbolicDim) else d for d in shape], np.int64)
        return graph.op("Reshape", x, target)
    return graph.op("Reshape", x, graph.dims(shape), allowzero=1)


@operator
def transpose(x: Tensor, *, permutation: tuple[int, ...]) -> Tensor:
    """Axis i of the result is axis `permutation[i]` of `x`: ATen `permute`, ONNX Transpose-13."""


transpose.traits = Traits(moves="first", view=True)


@transpose.infer
def _(x: Type, *, permutation: tuple[int, ...]) -> Type:
    require(sorted(permutation) == list(range(x.rank)), f"{permutation} is not a permutation of {x.rank} axes")
    return x.with_shape(tuple(x.shape[axis] for axis in permutation))


@transpose.native_kernel
def _(x: Array, *, permutation: tuple[int, ...]) -> Array:
    return x.transpose(permutation)


@transpose.vjp
def _(g: Tensor, y: Tensor, x: Tensor, *, permutation: tuple[int, ...]) -> Any:
    return transpose(g, permutation=tuple(permutation.index(axis) for axis in range(len(permutation))))


@transpose.onnx
def _(graph: OnnxGraph, x: str, *, permutation: tuple[int, ...]) -> Any:
    return graph.op("Transpose", x, perm=list(permutation)) if permutation else x


@operator
def expand(x: Tensor, *, shape: Shape) -> Tensor:
    """`x` broadcast to `shape`, as NumPy does: ATen `expand`, ONNX Expand-13."""


expand.traits = Traits(moves="first", view=True, bfloat16_kernel=False)


@expand.infer
def _(x: Type, *, shape: Shape) -> Type:
    lead = len(shape) - x.rank
    fits = lead >= 0 and all(size in (1, to) for size, to in zip(x.shape, shape[lead:], strict=True))
    require(fits, f"shape {x.shape} does not broadcast to {shape}")
    return x.with_shape(shape)


@expand.native_kernel
def _(x: Array, *, shape: tuple[int, ...]) -> Array:
    return np.broadcast_to(x, shape)


@expand.vjp
def _(g: Tensor, y: Tensor, x: Tensor, *, shape: Shape) -> Any:
    return unbroadcast(g, x)


@expand.onnx
def _(graph: OnnxGraph, x: str, *, shape: Shape) -> Any:
    return graph.op("Expand", x, graph.dims(shape))


@operator
def flip(x: Tensor, *, axes: tuple[int, ...]) -> Tensor:
    """`x` in reverse order along `axes`: ATen `flip`, ONNX Slice-13 with step -1."""


flip.traits = Traits(moves="first", view=True)


@flip.infer
def _(x: Type, *, axes: tuple[int, ...]) -> Type:
    normalize_axes(axes, x.rank)
    return x


@flip.native_kernel
def _(x: Array, *, axes: tuple[int, ...]) -> Array:
    return np.flip(x, normalize_axes(axes, x.ndim))


@flip.vjp
def _(g: Tensor, y: Tensor, x: Tensor, *, axes: tuple[int, ...]) -> Any:
    return flip(g, axes=axes)


@flip.onnx
def _(graph: OnnxGraph, x: str, *, axes: tuple[int, ...]) -> Any:
    at = normalize_axes(axes, graph.type(x).rank)
    if not at:
        return x
    bounds = [-1] * len(at), [np.iinfo(np.int64).min] * len(at), list(at), [-1] * len(at)
    return graph.op("Slice", x, *(graph.constant(bound, np.int64) for bound in bounds))


@operator
def roll(x: Tensor, *, shifts: tuple[int, ...], axes: tuple[int, ...]) -> Tensor:
    """`x` cyclically shifted by `shifts[i]` along `axes[i]`: ATen `roll`."""


roll.traits = Traits(moves="first")


@roll.infer
def _(x: Type, *, shifts: tuple[int, ...], axes: tuple[int, ...]) -> Type:
    require(len(shifts) == len(axes), f"needed one shift for each axis, given {shifts} and {axes}")
    for axis in axes:
        normalize_axis(axis, x.rank)
    return x


@roll.native_kernel
def _(x: Array, *, shifts: tuple[int, ...], axes: tuple[int, ...]) -> Array:
    return np.roll(x, shifts, axes) if x.ndim else x


@roll.vjp
def _(g: Tensor, y: Tensor, x: Tensor, *, shifts: tuple[int, ...], axes: tuple[int, ...]) -> Any:
    return roll(g, shifts=tuple(-shift for shift in shifts), axes=axes)


@roll.onnx
def _(graph: OnnxGraph, x: str, *, shifts: tuple[int, ...], axes: tuple[int, ...]) -> Any:
    shape = graph.type(x).shape
    rolled = x
    for shift, axis in zip(shifts, axes, strict=True):
        if not shape or shape[axis] == 0:
            continue
        cut, at = -shift % dims.maximum(shape[axis], 1), graph.constant([axis], np.int64)
        last = graph.op("Slice", rolled, graph.dims((cut,)), graph.dims((shape[axis],)), at)
        first = graph.op("Slice", rolled, graph.dims((0,)), graph.dims((cut,)), at)
        rolled = graph.op("Concat", last, first, axis=axis)
    return rolled


@operator
def triangle(x: Tensor, *, k: Dim = 0, upper: bool) -> Tensor:
    """The matrices `x` (..., n, m) with zeros below (`upper`) or above their k-th diagonal.

    ATen `triu` and `tril`, ONNX Trilu-14.
    """


triangle.traits = Traits(moves="several", wider_integers="all", bfloat16_kernel=False)


@triangle.infer
def _(x: Type, *, k: Dim, upper: bool) -> Type:
    require(x.rank >= 2, f"needed matrices, given {x.rank} dimensions")
    return x


@triangle.native_kernel
def _(x: Array, *, k: int, upper: bool) -> Array:
    lower = np.tri(x.shape[-2], x.shape[-1], k - 1 if upper else k, dtype=bool)
    return np.where(~lower if upper else lower, x, np.zeros((), x.dtype))


@triangle.vjp
def _(g: Tensor, y: Tensor, x: Tensor, *, k: Dim, upper: bool) -> Any:
    return triangle(g, k=k, upper=upper)


@triangle.onnx
def _(graph: OnnxGraph, x: str, *, k: Dim, upper: bool) -> Any:
    return graph.op("Trilu", x, graph.op("Squeeze", graph.dims((k,))), upper=int(upper))
