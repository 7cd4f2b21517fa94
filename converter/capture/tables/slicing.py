"""ATen operators that read or write a part along an axis: slices, single elements, pieces."""

from __future__ import annotations

import sys
from typing import Any

from ....runtime.ir.dims import Dim, SymbolicDim, maximum, minimum
from ....runtime.ir.types import INT64
from ....runtime.ops import (
    comparison,
    creation,
    data_dependent,
    elementwise,
    indexing,
    reduction,
    rounding,
    shaping,
    slicing,
)
from ....runtime.ops.common import normalize_axis
from ....runtime.ops.diagonals import extract_diagonal, replace_diagonal
from ....runtime.tracing import SymbolicTensor
from .table import Context, aten, cast, operands


def part(x: SymbolicTensor, axis: int, start: Dim, stop: Dim, step: int = 1) -> Any:
    """`x[start:stop:step]` along `axis`; `x` itself if that is all of it. Bounds are those of `slicing.slice`."""
    if start == 0 and stop == x.shape[axis] and step == 1:
        return x
    return slicing.slice(x, starts=(start,), stops=(stop,), steps=(step,), axes=(axis,))


def bounds(size: Dim, start: Dim | None, stop: Dim | None) -> tuple[Dim, Dim]:
    """The bounds by Python's rules for slices, with absent, negative and too large bounds replaced."""
    first = 0 if start is None else _position(size, start)
    last = size if stop is None or (isinstance(stop, int) and stop >= sys.maxsize) else _position(size, stop)
    return first, last if first == 0 else _not_below(first, last)


def _position(size: Dim, index: Dim) -> Dim:
    """`index` counted from the front, clamped to the dimension."""
    if index == size:
        return size
    if _is_negative(index):
        return maximum(size + index, 0) if isinstance(size, int) else size + index
    return minimum(index, size) if isinstance(size, int) and isinstance(index, int) else index


def _not_below(first: Dim, last: Dim) -> Dim:
    return max(first, last) if isinstance(first, int) and isinstance(last, int) else last


def _is_negative(index: Dim) -> bool:
    """Whether an index counts from the end; a symbolic one does if it decreases with the sizes, like `1 - n`."""
    if isinstance(index, SymbolicDim):
        return all(coefficient < 0 for monomial, coefficient in index.terms if monomial)
    return index < 0


@aten("aten.slice.Tensor", "aten.slice_copy.Tensor")
def slice_tensor(
    context: Context, self: SymbolicTensor, dim: int = 0, start: Any = None, end: Any = None, step: int = 1
) -> Any:
    """slice.Tensor(Tensor(a) self, int dim=0, SymInt? start=None, SymInt? end=None, SymInt step=1) -> Tensor(a)"""
    axis = normalize_axis(dim, self.ndim)
    first, last = bounds(self.shape[axis], start, end)
    if _depends_on_bounds(context.shape[axis], start, end, *self.shape):
        return _slice_at_run_time(context, self, axis, start, end, step)
    if step == 1:  # torch knows the length, even if a symbolic bound may be beyond the end
        last = first + context.shape[axis]
    return part(self, axis, first, last, step)


def _depends_on_bounds(length: Dim, *sizes: Any) -> bool:
    """Whether a length is a separate symbol, which depends on the values of the bounds."""
    if not isinstance(length, SymbolicDim) or str(length) not in length.symbols():
        return False
    return not any(str(length) in dim.symbols() for dim in sizes if isinstance(dim, SymbolicDim))


def _slice_at_run_time(context: Context, x: SymbolicTensor, axis: int, start: Any, end: Any, step: int) -> Any:
    """A slice with data-dependent bounds, whose length is computed by Python's rules."""
    size, zero, stride = operands(context, INT64, x.shape[axis], 0, step)
    bounds = []
    for bound, absent in ((start, 0), (end, x.shape[axis])):
        number = absent if bound is None or (isinstance(bound, int) and bound >= sys.maxsize) else bound
        position = operands(context, INT64, number)[0]
        position = elementwise.where(comparison.less(position, zero), position + size, position)
        bounds.append(elementwise.minimum(elementwise.maximum(position, zero), size))
    first, last = bounds
    rounded = last - first + stride - operands(context, INT64, 1)[0]
    count = rounding.floor_divide(elementwise.maximum(rounded, zero), stride)
    data_dependent.read_sizes(count, symbols=(str(context.shape[axis]),))
    numbers = context.builder.create(creation.arange, stop=context.shape[axis], dtype=INT64)
    return indexing.take(x, first + numbers * stride, axis=axis)


@aten("aten.narrow.default", "aten.narrow_copy.default")
def narrow(context: Context, self: SymbolicTensor, dim: int, start: Dim, length: Dim) -> Any:
    """narrow(Tensor(a) self, int dim, SymInt start, SymInt length) -> Tensor(a)"""
    axis = normalize_axis(dim, self.ndim)
    first = _position(self.shape[axis], start)
    return part(self, axis, first, first + length)


@aten("aten.select.int", "aten.select_copy.int")
def select(context: Context, self: SymbolicTensor, dim: int, index: Dim) -> Any:
    """select.int(Tensor(a) self, int dim, SymInt index) -> Tensor(a)"""
    return shaping.reshape(_element(self, normalize_axis(dim, self.ndim), index), shape=context.shape)


def _element(x: SymbolicTensor, axis: int, index: Dim) -> Any:
    first = _position(x.shape[axis], index)
    return part(x, axis, first, first + 1)


@aten("aten.unbind.int", "aten.unbind_copy.int")
def unbind(context: Context, self: SymbolicTensor, dim: int = 0) -> Any:
    """unbind.int(Tensor(a -> *) self, int dim=0) -> Tensor(a)[]"""
    axis = normalize_axis(dim, self.ndim)
    shape = (*self.shape[:axis], *self.shape[axis + 1 :])
    return tuple(shaping.reshape(part(self, axis, i, i + 1), shape=shape) for i in range(len(context.types)))


@aten(
    "aten.split.Tensor",
    "aten.split.sizes",
    "aten.split_with_sizes.default",
    "aten.split_copy.Tensor",
    "aten.split_with_sizes_copy.default",
    "aten.unsafe_split.Tensor",
    "aten.unsafe_split_with_sizes.default",
    "aten.chunk.default",
    "aten.unsafe_chunk.default",
    "aten.tensor_split.sections",
    "aten.tensor_split.indices",
)
def split(context: Context, self: SymbolicTensor, _: Any, dim: int = 0) -> Any:
    """split.Tensor(Tensor(a -> *) self, SymInt split_size, int dim=0) -> Tensor(a)[]"""
    axis = normalize_axis(dim, self.ndim)
    pieces: list[Any] = []
    start: Dim = 0
    for type in context.types:
        assert type is not None
        stop = start + type.shape[axis]
        pieces.append(part(self, axis, start, stop))
        start = stop
    return tuple(pieces)


@aten("aten.slice_scatter.default")
def slice_scatter(
    context: Context,
    self: SymbolicTensor,
    src: SymbolicTensor,
    dim: int = 0,
    start: Any = None,
    end: Any = None,
    step: int = 1,
) -> Any:
    """slice_scatter(Tensor self, Tensor src, int dim=0, SymInt? start=None, SymInt? end=None, SymInt step=1)"""
    axis = normalize_axis(dim, self.ndim)
    first, last = bounds(self.shape[axis], start, end)
    return _write(self, cast(src, self.dtype), axis, first, last, step)


@aten("aten.select_scatter.default")
def select_scatter(context: Context, self: SymbolicTensor, src: SymbolicTensor, dim: int, index: Dim) -> Any:
    """select_scatter(Tensor self, Tensor src, int dim, SymInt index) -> Tensor"""
    axis = normalize_axis(dim, self.ndim)
    first = _position(self.shape[axis], index)
    return _write(self, cast(src, self.dtype), axis, first, first + 1, 1)


def _write(x: SymbolicTensor, src: SymbolicTensor, axis: int, start: Dim, stop: Dim, step: int) -> Any:
    if src.ndim < x.ndim:
        src = shaping.reshape(src, shape=(*x.shape[:axis], 1, *x.shape[axis + 1 :]))
    if step == 1 and start == 0 and stop == x.shape[axis]:
        return src
    return indexing.slice_scatter(x, src, axis=axis, start=start, stop=stop, step=step)


@aten("aten.unfold.default", "aten.unfold_copy.default")
def unfold(context: Context, self: SymbolicTensor, dimension: int, size: int, step: int) -> Any:
    """unfold(Tensor(a) self, int dimension, int size, int step) -> Tensor(a)"""
    if self.ndim == 0:
        return shaping.reshape(self, shape=context.shape)
    axis = normalize_axis(dimension, self.ndim)
    count = context.shape[axis]
    last = step * (count - 1) + 1  # the end of the windows' first elements
    windows = [part(self, axis, i, i + last, step) for i in range(size)]
    shape = (*windows[0].shape, 1)
    return slicing.concat(*(shaping.reshape(window, shape=shape) for window in windows), axis=len(shape) - 1)


@aten("aten.diagonal.default", "aten.diagonal_copy.default")
def diagonal(context: Context, self: SymbolicTensor, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Any:
    """diagonal(Tensor(a) self, int offset=0, int dim1=0, int dim2=1) -> Tensor(a)"""
    first, second = (normalize_axis(axis, self.ndim) for axis in (dim1, dim2))
    if context.shape[-1] == 0:
        return context.builder.create(creation.full, shape=context.shape, value=0, dtype=context.dtype)
    return extract_diagonal(self, first, second, offset, context.shape[-1])


@aten("aten.diagonal_scatter.default")
def diagonal_scatter(
    context: Context, self: SymbolicTensor, src: SymbolicTensor, offset: int = 0, dim1: int = 0, dim2: int = 1
) -> Any:
    """diagonal_scatter(Tensor self, Tensor src, int offset=0, int dim1=0, int dim2=1) -> Tensor"""
    first, second = (normalize_axis(axis, self.ndim) for axis in (dim1, dim2))
    if src.shape[-1] == 0:
        return self
    return replace_diagonal(self, cast(src, self.dtype), first, second, offset)


@aten("aten.trace.default")
def trace(context: Context, self: SymbolicTensor) -> Any:
    """trace(Tensor self) -> Tensor"""
    length = minimum(*self.shape)
    return reduction.reduce_sum(cast(extract_diagonal(self, 0, 1, length=length), context.dtype))
