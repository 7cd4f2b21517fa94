"""Ops that move elements without changing them: reshaping, permuting, joining and cutting.

Shapes among the attributes are full ones: no -1, and sizes may be symbolic. See `padding` and `creation` for `pad`,
`full` and `arange`.
"""

from __future__ import annotations

import builtins
from typing import Any

import numpy as np

from ..ir import dims
from ..ir.dims import Dim, SymbolicDim
from . import padding, reduction
from .common import normalize_axes, normalize_axis, same_dtype, unbroadcast
from .registry import Array, OnnxGraph, Tensor, Type, operator, require

Shape = tuple[Dim, ...]


@operator
def reshape(x: Tensor, *, shape: Shape) -> Tensor:
    """The elements of `x`, in row-major order, as a tensor of `shape`: ATen `view`, ONNX Reshape-14."""


@reshape.infer
def _(x: Type, *, shape: Shape) -> Type:
    before, after = dims.product(x.shape), dims.product(shape)
    known = isinstance(before, int) and isinstance(after, int)
    require(not known or before == after, f"shape {shape} has {after} elements, the operand {before}")
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
def concat(*xs: Tensor, axis: int) -> Tensor:
    """The operands one after another along `axis`: ATen `cat`, ONNX Concat-13."""


@concat.infer
def _(*xs: Type, axis: int) -> Type:
    require(len(xs) > 0, "needed at least one operand")
    same_dtype(*xs)
    shape = list(xs[0].shape)
    require(len(shape) > 0, "needed operands with at least one dimension")
    at = normalize_axis(axis, len(shape))
    for x in xs[1:]:
        fits = x.rank == len(shape) and all(x.shape[i] == size for i, size in enumerate(xs[0].shape) if i != at)
        require(fits, f"shapes {xs[0].shape} and {x.shape} differ outside axis {at}")
        shape[at] = shape[at] + x.shape[at]
    return xs[0].with_shape(tuple(shape))


@concat.native_kernel
def _(*xs: Array, axis: int) -> Array:
    return np.concatenate(xs, axis=axis)


@concat.vjp
def _(g: Tensor, y: Tensor, *xs: Tensor, axis: int) -> Any:
    parts: list[Any] = []
    start: Dim = 0
    for x in xs:
        stop = start + x.shape[axis]
        parts.append(slice(g, starts=(start,), stops=(stop,), steps=(1,), axes=(axis,)))
        start = stop
    return parts[0] if len(parts) == 1 else tuple(parts)


@concat.onnx
def _(graph: OnnxGraph, *xs: str, axis: int) -> Any:
    return graph.op("Concat", *xs, axis=axis)


@operator
def slice(x: Tensor, *, starts: Shape, stops: Shape, steps: tuple[int, ...], axes: tuple[int, ...]) -> Tensor:
    """Every `steps[i]`-th element from `starts[i]` up to before `stops[i]` along `axes[i]`: ONNX Slice-13.

    `starts` and `stops` count from the front and lie within the dimension, with no start behind its stop; steps are
    positive.
    """


@slice.infer
def _(x: Type, *, starts: Shape, stops: Shape, steps: tuple[int, ...], axes: tuple[int, ...]) -> Type:
    require(len(starts) == len(stops) == len(steps) == len(axes), "needed one start, stop and step for each axis")
    shape = list(x.shape)
    normalize_axes(axes, x.rank)
    for start, stop, step, axis in zip(starts, stops, steps, axes, strict=True):
        require(step > 0, f"needed positive steps, given {steps}")
        size, at = x.shape[axis], normalize_axis(axis, x.rank)
        if isinstance(start, int) and isinstance(stop, int) and isinstance(size, int):
            require(0 <= start <= stop <= size, f"{start}:{stop} does not lie within axis {at} of size {size}")
        shape[at] = (stop - start + (step - 1)) // step
    return x.with_shape(tuple(shape))


@slice.native_kernel
def _(
    x: Array, *, starts: tuple[int, ...], stops: tuple[int, ...], steps: tuple[int, ...], axes: tuple[int, ...]
) -> Array:
    index = [builtins.slice(None)] * x.ndim
    for start, stop, step, axis in zip(starts, stops, steps, axes, strict=True):
        size = x.shape[axis]  # where it is symbolic, nothing was known of it before
        require(0 <= start <= stop <= size, f"{start}:{stop} does not lie within axis {axis} of size {size}")
        index[axis] = builtins.slice(start, stop, step)
    return x[tuple(index)]


@slice.vjp
def _(
    g: Tensor, y: Tensor, x: Tensor, *, starts: Shape, stops: Shape, steps: tuple[int, ...], axes: tuple[int, ...]
) -> Any:
    before: list[Dim] = [0] * x.ndim
    after: list[Dim] = [0] * x.ndim
    for start, step, axis in zip(starts, steps, axes, strict=True):
        at = normalize_axis(axis, x.ndim)
        g = _spread(g, at, step)
        before[at], after[at] = start, x.shape[at] - start - g.shape[at]
    return padding.pad(g, before=tuple(before), after=tuple(after))


@slice.onnx
def _(graph: OnnxGraph, x: str, *, starts: Shape, stops: Shape, steps: tuple[int, ...], axes: tuple[int, ...]) -> Any:
    at, by = graph.constant(axes, np.int64), graph.constant(steps, np.int64)
    return graph.op("Slice", x, graph.dims(starts), graph.dims(stops), at, by)


def _spread(g: Tensor, axis: int, step: int) -> Any:
    """Each element along `axis` followed by `step - 1` zeros."""
    if step == 1:
        return g
    shape = g.shape
    columns = reshape(g, shape=(*shape[: axis + 1], 1, *shape[axis + 1 :]))
    none = (0,) * columns.ndim
    padded = padding.pad(columns, before=none, after=(*none[: axis + 1], step - 1, *none[axis + 2 :]))
    return reshape(padded, shape=(*shape[:axis], shape[axis] * step, *shape[axis + 1 :]))


@operator
def flip(x: Tensor, *, axes: tuple[int, ...]) -> Tensor:
    """`x` in reverse order along `axes`: ATen `flip`, ONNX Slice-13 with step -1."""


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
def tile(x: Tensor, *, repeats: Shape) -> Tensor:
    """`x` repeated `repeats[i]` times along axis i, one number for each axis: ATen `repeat`, ONNX Tile-13."""


@tile.infer
def _(x: Type, *, repeats: Shape) -> Type:
    require(len(repeats) == x.rank, f"needed {x.rank} repeats, given {repeats}")
    return x.with_shape(tuple(size * count for size, count in zip(x.shape, repeats, strict=True)))


@tile.native_kernel
def _(x: Array, *, repeats: tuple[int, ...]) -> Array:
    return np.tile(x, repeats)


@tile.vjp
def _(g: Tensor, y: Tensor, x: Tensor, *, repeats: Shape) -> Any:
    copies = tuple(size for pair in zip(repeats, x.shape, strict=True) for size in pair)
    return reduction.reduce_sum(reshape(g, shape=copies), axes=tuple(range(0, 2 * x.ndim, 2)))


@tile.onnx
def _(graph: OnnxGraph, x: str, *, repeats: Shape) -> Any:
    return graph.op("Tile", x, graph.dims(repeats)) if repeats else x


@operator
def roll(x: Tensor, *, shifts: tuple[int, ...], axes: tuple[int, ...]) -> Tensor:
    """`x` moved by `shifts[i]` along `axes[i]`; what leaves at the end comes in at the front: ATen `roll`."""


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
def triangle(x: Tensor, *, k: int = 0, upper: bool) -> Tensor:
    """The matrices `x` (..., n, m) with zeros below (`upper`) or above their k-th diagonal.

    ATen `triu` and `tril`, ONNX Trilu-14.
    """


@triangle.infer
def _(x: Type, *, k: int, upper: bool) -> Type:
    require(x.rank >= 2, f"needed matrices, given {x.rank} dimensions")
    return x


@triangle.native_kernel
def _(x: Array, *, k: int, upper: bool) -> Array:
    lower = np.tri(x.shape[-2], x.shape[-1], k - 1 if upper else k, dtype=bool)
    return np.where(~lower if upper else lower, x, np.zeros((), x.dtype))


@triangle.vjp
def _(g: Tensor, y: Tensor, x: Tensor, *, k: int, upper: bool) -> Any:
    return triangle(g, k=k, upper=upper)


@triangle.onnx
def _(graph: OnnxGraph, x: str, *, k: int, upper: bool) -> Any:
    return graph.op("Trilu", x, graph.constant(k, np.int64), upper=int(upper))
