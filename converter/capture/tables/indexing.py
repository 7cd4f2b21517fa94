"""ATen operators that read at computed indices, and `index_put`; the other writing operators are in `scattering`."""

from __future__ import annotations

from typing import Any

import numpy as np

from ....runtime.ir.dims import Dim, product
from ....runtime.ir.types import BOOL, INT64
from ....runtime.ops import creation, elementwise, indexing, shaping, slicing
from ....runtime.ops.common import broadcast_shapes, normalize_axis
from ....runtime.tracing import SymbolicTensor
from .data_dependent import indices_of_mask
from .table import Context, aten, cast

# ---- along one axis ----


@aten("aten.index_select.default")
def index_select(context: Context, self: SymbolicTensor, dim: int, index: SymbolicTensor) -> Any:
    """index_select(Tensor self, int dim, Tensor index) -> Tensor"""
    if self.ndim == 0:
        return self
    rows = shaping.reshape(index, shape=(product(index.shape),))
    return indexing.take(self, rows, axis=normalize_axis(dim, self.ndim))


@aten("aten.take.default")
def take(context: Context, self: SymbolicTensor, index: SymbolicTensor) -> Any:
    """take(Tensor self, Tensor index) -> Tensor"""
    return indexing.take(shaping.reshape(self, shape=(product(self.shape),)), index, axis=0)


@aten("aten.gather.default")
def gather(
    context: Context, self: SymbolicTensor, dim: int, index: SymbolicTensor, *, sparse_grad: bool = False
) -> Any:
    """gather(Tensor self, int dim, Tensor index, *, bool sparse_grad=False) -> Tensor"""
    if 0 in index.shape:  # an empty index may have any rank
        return creation.full_like(self, 0, shape=index.shape)
    if self.ndim == 0 or index.ndim == 0:  # a tensor of rank 0 counts as a vector of one element
        flat = (shaping.reshape(t, shape=(product(t.shape),)) for t in (self, index))
        return shaping.reshape(indexing.gather(*flat, axis=0), shape=index.shape)
    return indexing.gather(self, index, axis=normalize_axis(dim, self.ndim))


@aten("aten.take_along_dim.default")
def take_along_dim(context: Context, self: SymbolicTensor, indices: SymbolicTensor, dim: int | None = None) -> Any:
    """take_along_dim(Tensor self, Tensor indices, int? dim=None) -> Tensor"""
    if dim is None:
        flat = (shaping.reshape(x, shape=(product(x.shape),)) for x in (self, indices))
        return indexing.gather(*flat, axis=0)
    axis = normalize_axis(dim, self.ndim)
    shared = broadcast_shapes(*((*t.shape[:axis], 1, *t.shape[axis + 1 :]) for t in (self, indices)))
    x, at = (shaping.expand(t, shape=(*shared[:axis], t.shape[axis], *shared[axis + 1 :])) for t in (self, indices))
    return indexing.gather(x, at, axis=axis)


# ---- NumPy's advanced indexing ----


@aten("aten.index.Tensor", "aten._unsafe_index.Tensor")
def index(context: Context, self: SymbolicTensor, indices: list[SymbolicTensor | None]) -> Any:
    """index.Tensor(Tensor self, Tensor?[] indices) -> Tensor"""
    if any(map(_is_mask, indices)):
        indices = _without_masks(context, indices, context.shape[_last_indexed(indices)])
    axes = [axis for axis, i in enumerate(indices) if i is not None]
    if len(axes) == 1:
        return indexing.take(self, indices[axes[0]], axis=axes[0])
    order, inverse = _indexed_axes_first(axes, self.ndim, len(_broadcast(indices)))
    elements = indexing.gather_nd(_transpose(self, order), _coordinates(indices))
    return _transpose(elements, inverse)


@aten("aten.index_put.default", "aten._unsafe_index_put.default")
def index_put(
    context: Context,
    self: SymbolicTensor,
    indices: list[SymbolicTensor | None],
    values: SymbolicTensor,
    accumulate: bool = False,
) -> Any:
    """index_put(Tensor self, Tensor?[] indices, Tensor values, bool accumulate=False) -> Tensor"""
    if accumulate and self.dtype == BOOL:  # a sum is "or"
        return cast(index_put(context, cast(self, INT64), indices, cast(values, INT64), True), BOOL)
    if any(map(_is_mask, indices)):
        mask = indices[0] if len(indices) == 1 else None
        if mask is not None and _is_constant_along_mask(values, self.ndim - mask.ndim):
            return _assign_by_mask(self, mask, cast(values, self.dtype), accumulate)
        indices, values = _replace_masks(context, self, indices, values)
    axes = [axis for axis, i in enumerate(indices) if i is not None]
    shape = _broadcast(indices)
    order, result_order = _indexed_axes_first(axes, self.ndim, len(shape))
    lead = _transpose(self, order)
    # the shape of self[indices] has the indexed axes where `result_order` moves them; `values` broadcast to that
    leading_shape = (*shape, *lead.shape[len(axes) :])
    result_shape = tuple(leading_shape[axis] for axis in result_order)
    updates = shaping.expand(cast(values, self.dtype), shape=result_shape)
    updates = _transpose(updates, _inverse(result_order))
    result = indexing.scatter_nd(lead, _coordinates(indices), updates, reduction="add" if accumulate else "none")
    return _transpose(result, _inverse(order))


def _is_mask(index: SymbolicTensor | None) -> bool:
    return index is not None and index.dtype in (BOOL, np.uint8)


def _without_masks(
    context: Context, indices: list[SymbolicTensor | None], count: Dim | None
) -> list[SymbolicTensor | None]:
    """The indices, with each mask replaced by the indices of its true elements, one tensor per axis of the mask."""
    result: list[SymbolicTensor | None] = []
    for index in indices:
        result += indices_of_mask(context, index, count) if index is not None and _is_mask(index) else [index]
    return result


def _last_indexed(indices: list[SymbolicTensor | None]) -> int:
    """The axis of `x[indices]` for the elements that a mask selects: the last axis of the indices."""
    axes: list[int] = []
    axis, rank = 0, 1
    for index in indices:
        width = index.ndim if index is not None and _is_mask(index) else 1
        if index is not None:
            axes += range(axis, axis + width)
            rank = max(rank, 1 if _is_mask(index) else index.ndim)
        axis += width
    adjacent = axes == list(range(axes[0], axes[0] + len(axes)))
    return (axes[0] if adjacent else 0) + rank - 1


def _is_constant_along_mask(values: SymbolicTensor, rest: int) -> bool:
    """Whether the values are constant along the mask, which `rest` axes follow."""
    return values.ndim <= rest or (values.ndim == rest + 1 and values.shape[0] == 1)


def _assign_by_mask(x: SymbolicTensor, mask: SymbolicTensor, values: SymbolicTensor, accumulate: bool) -> Any:
    """`x[mask] = values` for values that are constant along the mask."""
    rest = x.ndim - mask.ndim
    if values.ndim > rest:
        values = shaping.reshape(values, shape=values.shape[1:])
    chosen = shaping.reshape(cast(mask, BOOL), shape=(*mask.shape, *[1] * rest))
    return elementwise.where(chosen, x + values if accumulate else values, x)


def _replace_masks(
    context: Context, x: SymbolicTensor, indices: list[SymbolicTensor | None], values: SymbolicTensor
) -> tuple[list[SymbolicTensor | None], SymbolicTensor]:
    """Indices without masks, and values broadcast to the number of elements that the masks select."""
    masked = sum(i.ndim - 1 for i in indices if i is not None and _is_mask(i))
    # the shape of x[indices] ends with the unindexed axes; values may lack leading axes
    result_rank = x.ndim - masked
    axis = _last_indexed(indices) - (result_rank - values.ndim)
    size = values.shape[axis] if axis >= 0 else 1
    return _without_masks(context, indices, None if size == 1 else size), values


def _broadcast(indices: list[SymbolicTensor | None]) -> tuple[Dim, ...]:
    return broadcast_shapes(*(i.shape for i in indices if i is not None))


def _coordinates(indices: list[SymbolicTensor | None]) -> Any:
    """Index tensors as one tensor of coordinates: (..., number of indexed axes)."""
    shape = _broadcast(indices)
    expanded = (shaping.expand(cast(i, INT64), shape=shape) for i in indices if i is not None)
    columns = [shaping.reshape(i, shape=(*shape, 1)) for i in expanded]
    return columns[0] if len(columns) == 1 else slicing.concat(*columns, axis=len(shape))


def _indexed_axes_first(axes: list[int], rank: int, index_rank: int) -> tuple[list[int], list[int]]:
    """The permutations that move the indexed axes to the front, and the axes of the indices to their final position.

    That is the position of the indexed axes if they are adjacent, and the front otherwise, as in NumPy.
    """
    order = [*axes, *(axis for axis in range(rank) if axis not in axes)]
    adjacent = axes == list(range(axes[0], axes[0] + len(axes)))
    before = axes[0] if adjacent else 0
    remaining = rank - len(axes)
    result = [
        *range(index_rank, index_rank + before),
        *range(index_rank),
        *range(index_rank + before, index_rank + remaining),
    ]
    return order, result


def _transpose(x: SymbolicTensor, order: list[int]) -> Any:
    return x if order == list(range(x.ndim)) else shaping.transpose(x, permutation=tuple(order))


def _inverse(order: list[int]) -> list[int]:
    return [order.index(axis) for axis in range(len(order))]
