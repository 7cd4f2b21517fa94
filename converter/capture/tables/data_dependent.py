"""ATen operators whose result size depends on the elements: `nonzero`, masks as indices, `unique`."""

from __future__ import annotations

import re
from typing import Any

from ....runtime.ir.dims import Dim, SymbolicDim, product, symbol
from ....runtime.ir.types import INT64
from ....runtime.ops import comparison, creation, data_dependent, indexing, reduction, scanning, shaping, slicing
from ....runtime.ops.common import broadcast_shapes, normalize_axis
from ....runtime.tracing import SymbolicTensor
from .slicing import part
from .table import Context, aten, cast

_DATA_DEPENDENT = re.compile(r"u\d+")  # torch's names of data-dependent sizes


def is_data_dependent(dim: Dim) -> bool:
    """Whether a size is data-dependent: torch knows neither its value nor another size equal to it."""
    return isinstance(dim, SymbolicDim) and _DATA_DEPENDENT.fullmatch(str(dim)) is not None


def symbol_of(context: Context, count: Dim) -> str:
    """The symbol for the size of a result: torch's own, or a new one if torch knows it (see `with_known_size`)."""
    return str(count) if is_data_dependent(count) else context.builder.new_symbol()


def with_known_size(x: SymbolicTensor, count: Dim, axis: int = 0) -> Any:
    """The result with the size that torch knows along `axis`, which the model may use in `view`."""
    return x if x.shape[axis] == count else shaping.reshape(x, shape=(*x.shape[:axis], count, *x.shape[axis + 1 :]))


def indices_of_mask(context: Context, mask: SymbolicTensor, count: Dim | None) -> list[Any]:
    """The indices of a mask's true elements, int64 (count,) per axis; `count` is None if torch has no size for it."""
    if count is None:
        count = symbol(context.builder.new_symbol())
        indices = data_dependent.nonzero(mask, symbols=(str(count),))
    else:
        indices = _nonzero(context, mask, count)
    return [shaping.reshape(part(indices, 1, axis, axis + 1), shape=(count,)) for axis in range(mask.ndim)]


def _nonzero(context: Context, x: SymbolicTensor, count: Dim) -> Any:
    return with_known_size(data_dependent.nonzero(x, symbols=(symbol_of(context, count),)), count)


@aten("aten.nonzero.default")
def nonzero(context: Context, self: SymbolicTensor) -> Any:
    """nonzero(Tensor self) -> Tensor"""
    if context.shape[0] == 0:
        return context.builder.create(creation.full, shape=context.shape, value=0, dtype=INT64)
    return _nonzero(context, self, context.shape[0])


@aten("aten.nonzero_static.default")
def nonzero_static(context: Context, self: SymbolicTensor, *, size: int, fill_value: int = -1) -> Any:
    """nonzero_static(Tensor self, *, SymInt size, int fill_value=-1) -> Tensor"""
    if self.ndim == 0 or size == 0:
        return context.builder.create(creation.full, shape=context.shape, value=0, dtype=INT64)
    count = context.builder.new_symbol()
    indices = data_dependent.nonzero(self, symbols=(count,))
    filler = context.builder.create(creation.full, shape=(size, self.ndim), value=fill_value, dtype=INT64)
    rows = slicing.concat(indices, filler, axis=0)
    return part(rows, 0, 0, size)


@aten("aten.argwhere.default")
def argwhere(context: Context, self: SymbolicTensor) -> Any:
    """argwhere(Tensor self) -> Tensor"""
    return nonzero(context, self)


@aten("aten.nonzero_numpy.default")
def nonzero_numpy(context: Context, self: SymbolicTensor) -> Any:
    """nonzero_numpy(Tensor self) -> Tensor[]"""
    x = self if self.ndim else shaping.reshape(self, shape=(1,))
    return indices_of_mask(context, x, context.shape[0])


@aten("aten.masked_select.default")
def masked_select(context: Context, self: SymbolicTensor, mask: SymbolicTensor) -> Any:
    """masked_select(Tensor self, Tensor mask) -> Tensor"""
    shape = broadcast_shapes(self.shape, mask.shape)
    flat = (product(shape),)
    x, chosen = (shaping.reshape(shaping.expand(t, shape=shape), shape=flat) for t in (self, mask))
    (where,) = indices_of_mask(context, chosen, context.shape[0])
    return indexing.take(x, where, axis=0)


@aten("aten._unique2.default")
def unique2(
    context: Context,
    self: SymbolicTensor,
    sorted: bool = True,
    return_inverse: bool = False,
    return_counts: bool = False,
) -> Any:
    """_unique2(Tensor self, bool sorted=True, bool return_inverse=False, bool return_counts=False) -> (Tensor, ...)"""
    values, inverse, counts = _unique(context, self, context.shape[0], None)  # torch always sorts
    placed = shaping.reshape(inverse, shape=self.shape)
    return values, placed if return_inverse else _empty(context), counts if return_counts else _empty(context)


@aten("aten.unique_dim.default")
def unique_dim(
    context: Context,
    self: SymbolicTensor,
    dim: int,
    sorted: bool = True,
    return_inverse: bool = False,
    return_counts: bool = False,
) -> Any:
    """unique_dim(Tensor self, int dim, bool sorted=True, bool return_inverse=False, bool return_counts=False) -> ..."""
    axis = normalize_axis(dim, self.ndim)
    return _unique(context, self, context.shape[axis], axis)


def _unique(context: Context, x: SymbolicTensor, count: Dim, axis: int | None) -> tuple[Any, Any, Any]:
    values, _, inverse, counts = data_dependent.unique(x, symbols=(symbol_of(context, count),), axis=axis)
    return with_known_size(values, count, axis or 0), inverse, with_known_size(counts, count)


@aten("aten.unique_consecutive.default")
def unique_consecutive(
    context: Context,
    self: SymbolicTensor,
    return_inverse: bool = False,
    return_counts: bool = False,
    dim: int | None = None,
) -> Any:
    """unique_consecutive(Tensor self, bool return_inverse=False, bool return_counts=False, int? dim=None) -> ..."""
    axis = 0 if dim is None else normalize_axis(dim, self.ndim)
    x = shaping.reshape(self, shape=(product(self.shape),)) if dim is None else self
    size = x.shape[axis]
    differs = comparison.not_equal(part(x, axis, 1, size), part(x, axis, 0, size - 1))
    others = tuple(i for i in range(x.ndim) if i != axis)
    begins = reduction.reduce_any(differs, axes=others) if others else differs
    begins = slicing.concat(context.builder.constant([True]), begins, axis=0)
    (first,) = indices_of_mask(context, begins, context.shape[axis])
    values = indexing.take(x, first, axis=axis)
    inverse = scanning.cumsum(cast(begins, INT64), axis=0) - context.builder.constant(1, INT64)
    ends = slicing.concat(part(first, 0, 1, first.shape[0]), _full(context, size), axis=0)
    counts = ends - first
    shaped = shaping.reshape(inverse, shape=self.shape) if dim is None else inverse
    return values, shaped if return_inverse else _empty(context), counts if return_counts else _empty(context)


def _full(context: Context, size: Dim) -> Any:
    return context.builder.create(creation.full, shape=(1,), value=size, dtype=INT64)


def _empty(context: Context) -> Any:
    return context.builder.create(creation.full, shape=(0,), value=0, dtype=INT64)


@aten("aten.repeat_interleave.Tensor")
def repeat_interleave(context: Context, repeats: SymbolicTensor, *, output_size: Any = None) -> Any:
    """repeat_interleave.Tensor(Tensor repeats, *, SymInt? output_size=None) -> Tensor: index i, repeats[i] times"""
    ends = scanning.cumsum(cast(repeats, INT64), axis=0)
    total = context.shape[0]
    if is_data_dependent(total) and output_size is None:
        last = shaping.reshape(part(ends, 0, ends.shape[0] - 1, ends.shape[0]), shape=())
        data_dependent.read_sizes(last, symbols=(str(total),))
    places = context.builder.create(creation.arange, start=0, stop=total, step=1, dtype=INT64)
    # position p belongs to the first i with p < ends[i], which is the number of ends at or before p
    row = shaping.reshape(ends, shape=(1, ends.shape[0]))
    passed = comparison.less_equal(row, shaping.reshape(places, shape=(total, 1)))
    return reduction.reduce_sum(cast(passed, INT64), axes=(1,))
