"""Reading and writing at computed indices. Indices are integers; negative ones count from the end.

`take` and `index_add` address whole slices along an axis, `gather` and `scatter` single elements along an axis,
`gather_nd` and `scatter_nd` slices by several coordinates; the ops of each pair are each other's gradients.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..errors import ShapeError
from ..ir.dims import Dim, product
from ..ir.types import INT32, INT64
from ..traits import Traits
from . import creation, scatter_reductions, shaping, slicing
from .common import normalize_axis, require_same_dtype
from .registry import Array, OnnxGraph, Tensor, Type, operator, require
from .scatter_reductions import cast_back, combine, combine_slices, require_reduction, to_float32


@operator
def take(x: Tensor, indices: Tensor, *, axis: int) -> Tensor:
    """The slices of `x` at `indices` along `axis`, which is replaced by the axes of `indices`.

    ATen `index_select` and `embedding` (axis 0), ONNX Gather-13.
    """


take.traits = Traits(moves="first")


@take.infer
def _(x: Type, indices: Type, *, axis: int) -> Type:
    _require_integers(indices)
    require(x.rank > 0, "needed an x of at least one dimension")
    at = normalize_axis(axis, x.rank)
    return x.with_shape((*x.shape[:at], *indices.shape, *x.shape[at + 1 :]))


@take.native_kernel
def _(x: Array, indices: Array, *, axis: int) -> Array:
    return np.take(x, indices, axis)


@take.vjp
def _(g: Tensor, y: Tensor, x: Tensor, indices: Tensor, *, axis: int) -> tuple[Tensor, None]:
    at = normalize_axis(axis, x.ndim)
    count = product(indices.shape)
    updates = shaping.reshape(g, shape=(*x.shape[:at], count, *x.shape[at + 1 :]))
    flat = shaping.reshape(indices, shape=(count,))
    return index_add(creation.full_like(x, 0), flat, updates, axis=axis), None


@take.onnx
def _(graph: OnnxGraph, x: str, indices: str, *, axis: int) -> Any:
    dtype = graph.type(indices).dtype
    return graph.op("Gather", x, indices if dtype in (INT32, INT64) else graph.cast(indices, INT64), axis=axis)


@operator
def index_add(x: Tensor, indices: Tensor, updates: Tensor, *, axis: int) -> Tensor:
    """`x` with the i-th slice of `updates` along `axis` added at `indices[i]`.

    ATen `index_add`, ONNX ScatterElements-18.

    Args:
        x: (..., n, ...).
        indices: (k).
        updates: (..., k, ...).
    """


@index_add.infer
def _(x: Type, indices: Type, updates: Type, *, axis: int) -> Type:
    _require_integers(indices)
    require_same_dtype(x, updates)
    at = normalize_axis(axis, x.rank)
    require(x.rank > 0 and indices.rank == 1, "needed an x of at least one dimension, and a vector of indices")
    shape = (*x.shape[:at], indices.shape[0], *x.shape[at + 1 :])
    require(updates.shape == shape, f"needed updates of shape {shape}, given {updates.shape}")
    return x


@index_add.kernel
def _(x: Array, indices: Array, updates: Array, *, axis: int) -> Array:
    y = np.array(x)
    if indices.size and x.size:
        # sum the updates of equal indices first, so that each slice of y is written once
        indices = np.where(indices < 0, indices + x.shape[axis], indices)
        order = np.argsort(indices, kind="stable")
        ordered = indices[order]
        starts = np.flatnonzero(np.concatenate([[True], ordered[1:] != ordered[:-1]]))
        sums = np.add.reduceat(np.moveaxis(updates, axis, 0)[order], starts, axis=0, dtype=x.dtype)
        np.moveaxis(y, axis, 0)[ordered[starts]] += sums
    return y


@index_add.vjp
def _(g: Tensor, y: Tensor, x: Tensor, indices: Tensor, updates: Tensor, *, axis: int) -> tuple[Tensor, None, Tensor]:
    return g, None, take(g, indices, axis=axis)


@index_add.onnx
def _(graph: OnnxGraph, x: str, indices: str, updates: str, *, axis: int) -> str:
    type, shape = graph.type(x), graph.type(updates).shape
    at = normalize_axis(axis, type.rank)
    others = [i for i in range(type.rank) if i != at]
    places = graph.op("Unsqueeze", graph.cast(indices, np.int64), graph.constant(others, np.int64))
    x, updates = to_float32(graph, x), to_float32(graph, updates)
    return cast_back(graph, combine_slices(graph, x, places, updates, (type.shape, shape), at, "add"), type)


@operator
def gather(x: Tensor, indices: Tensor, *, axis: int) -> Tensor:
    """y[i][j][k] = x[i][indices[i][j][k]][k] for axis 1, and so on: ATen `gather`, ONNX GatherElements-13.

    `indices` have as many axes as `x`, and are no longer than `x` along those other than `axis`.
    """


gather.traits = Traits(moves="first")


@gather.infer
def _(x: Type, indices: Type, *, axis: int) -> Type:
    _require_element_indices(x, indices, axis)
    return indices.with_dtype(x.dtype)


@gather.native_kernel
def _(x: Array, indices: Array, *, axis: int) -> Array:
    return np.take_along_axis(_trim(x, indices, axis), indices, axis) if x.ndim else x


@gather.vjp
def _(g: Tensor, y: Tensor, x: Tensor, indices: Tensor, *, axis: int) -> tuple[Tensor, None]:
    return scatter(creation.full_like(x, 0), indices, g, axis=axis, reduction="add"), None


@gather.onnx
def _(graph: OnnxGraph, x: str, indices: str, *, axis: int) -> Any:
    if graph.type(x).rank == 0:
        return x
    return graph.op("GatherElements", x, indices, axis=axis)


@operator
def scatter(x: Tensor, indices: Tensor, updates: Tensor, *, axis: int, reduction: str = "none") -> Tensor:
    """`x` with y[i][indices[i][j][k]][k] = updates[i][j][k] for axis 1, and so on.

    ATen `scatter`, `scatter_add` and `scatter_reduce` (which includes `x`), ONNX ScatterElements-18.

    Args:
        x: any tensor.
        indices: as many axes as `x`, no longer than it along those other than `axis`.
        updates: of the shape of `indices`.
        axis: which axis `indices` address.
        reduction: how updates combine with `x` and each other: "none" replaces (with several updates of one element,
            any of them may win, and the gradient is undefined), "add", "mul", "max", "min".
    """


@scatter.infer
def _(x: Type, indices: Type, updates: Type, *, axis: int, reduction: str) -> Type:
    require_same_dtype(x, updates)
    _require_element_indices(x, indices, axis)
    require(updates.shape == indices.shape, f"needed updates of shape {indices.shape}, given {updates.shape}")
    require_reduction(x, reduction)
    return x


@scatter.kernel
def _(x: Array, indices: Array, updates: Array, *, axis: int, reduction: str) -> Array:
    y = np.array(x, order="C")  # so that flattening it yields a view
    at = normalize_axis(axis, x.ndim)
    if x.ndim == 0:
        combine(y.reshape(1), np.zeros(1, np.int64), updates.reshape(1), reduction)
    elif updates.size:
        indices = np.where(indices < 0, indices + x.shape[axis], indices)
        places = np.indices(indices.shape, sparse=True)
        flat = np.ravel_multi_index((*places[:at], indices, *places[at + 1 :]), x.shape)
        combine(y.reshape(-1), flat.reshape(-1), updates.reshape(-1), reduction)
    return y


@scatter.vjp
def _(
    g: Tensor, y: Tensor, x: Tensor, indices: Tensor, updates: Tensor, *, axis: int, reduction: str
) -> tuple[Tensor, None, Tensor]:
    def read(source: Tensor) -> Any:
        return gather(source, indices, axis=axis)

    def write(target: Tensor, values: Tensor, how: str) -> Any:
        return scatter(target, indices, values, axis=axis, reduction=how)

    to_x, to_updates = scatter_reductions.gradients(g, y, x, updates, reduction, read, write)
    return to_x, None, to_updates


@scatter.onnx
def _(graph: OnnxGraph, x: str, indices: str, updates: str, *, axis: int, reduction: str) -> Any:
    type = graph.type(x)
    if reduction != "none":
        x, updates = to_float32(graph, x), to_float32(graph, updates)
    if type.rank == 0:
        x, indices, updates = (graph.op("Reshape", i, graph.constant([1], np.int64)) for i in (x, indices, updates))
    y = graph.op("ScatterElements", x, indices, updates, axis=axis, reduction=reduction)
    if type.rank == 0:
        y = graph.op("Squeeze", y)
    return y if reduction == "none" else cast_back(graph, y, type)


@operator
def gather_nd(x: Tensor, indices: Tensor) -> Tensor:
    """The slices of `x` at coordinates for its first axes: ATen `index.Tensor`, ONNX GatherND-13.

    Args:
        x: (n_1, ..., n_k, ...).
        indices: (..., k).

    Returns:
        (..., ...): the first axes of `indices`, then the remaining ones of `x`.
    """


gather_nd.traits = Traits(moves="first")


@gather_nd.infer
def _(x: Type, indices: Type) -> Type:
    depth = _coordinates(x, indices)
    return x.with_shape((*indices.shape[:-1], *x.shape[depth:]))


@gather_nd.native_kernel
def _(x: Array, indices: Array) -> Any:
    return x[tuple(np.moveaxis(indices, -1, 0))]


@gather_nd.vjp
def _(g: Tensor, y: Tensor, x: Tensor, indices: Tensor) -> tuple[Tensor, None]:
    return scatter_nd(creation.full_like(x, 0), indices, g, reduction="add"), None


@gather_nd.onnx
def _(graph: OnnxGraph, x: str, indices: str) -> Any:
    return graph.op("GatherND", x, graph.cast(indices, np.int64))


@operator
def scatter_nd(x: Tensor, indices: Tensor, updates: Tensor, *, reduction: str = "none") -> Tensor:
    """`x` with `updates` written at coordinates for its first axes: ATen `index_put`, ONNX ScatterND-18.

    Args:
        x: (n_1, ..., n_k, ...).
        indices: (..., k).
        updates: the first axes of `indices`, then the remaining ones of `x`.
        reduction: as in `scatter`.
    """


@scatter_nd.infer
def _(x: Type, indices: Type, updates: Type, *, reduction: str) -> Type:
    require_same_dtype(x, updates)
    depth = _coordinates(x, indices)
    shape = (*indices.shape[:-1], *x.shape[depth:])
    require(updates.shape == shape, f"needed updates of shape {shape}, given {updates.shape}")
    require_reduction(x, reduction)
    return x


@scatter_nd.kernel
def _(x: Array, indices: Array, updates: Array, *, reduction: str) -> Array:
    y = np.array(x, order="C")  # so that flattening it yields a view
    depth = indices.shape[-1]
    if updates.size:
        sizes = x.shape[:depth]
        coordinates = [np.where(i < 0, i + size, i) for i, size in zip(np.moveaxis(indices, -1, 0), sizes, strict=True)]
        rows = np.ravel_multi_index(coordinates, sizes).reshape(-1, 1)
        width = int(np.prod(x.shape[depth:]))
        flat = (rows * width + np.arange(width)).reshape(-1)
        combine(y.reshape(-1), flat, updates.reshape(-1), reduction)
    return y


@scatter_nd.vjp
def _(
    g: Tensor, y: Tensor, x: Tensor, indices: Tensor, updates: Tensor, *, reduction: str
) -> tuple[Tensor, None, Tensor]:
    def read(source: Tensor) -> Any:
        return gather_nd(source, indices)

    def write(target: Tensor, values: Tensor, how: str) -> Any:
        return scatter_nd(target, indices, values, reduction=how)

    to_x, to_updates = scatter_reductions.gradients(g, y, x, updates, reduction, read, write)
    return to_x, None, to_updates


@scatter_nd.onnx
def _(graph: OnnxGraph, x: str, indices: str, updates: str, *, reduction: str) -> Any:
    rows, type = graph.cast(indices, np.int64), graph.type(x)
    if reduction == "none":
        return graph.op("ScatterND", x, rows, updates, reduction=reduction)
    *leading, depth = graph.type(indices).shape
    sizes, shape = type.shape[:depth], (product(leading), product(type.shape[depth:]))
    zero, ends = graph.constant(0, np.int64), graph.dims(sizes)
    rows = graph.op("Where", graph.op("Less", rows, zero), graph.op("Add", rows, ends), rows)
    # an index out of range must not become the number of another slice
    fits = graph.op("And", graph.op("GreaterOrEqual", rows, zero), graph.op("Less", rows, ends))
    rows = graph.op("Where", fits, rows, graph.dims((product(sizes),)))
    if depth > 1:  # convert coordinates to the number of the slice
        strides = tuple(product(sizes[i + 1 :]) for i in range(depth))
        rows = graph.op("ReduceSum", graph.op("Mul", rows, graph.dims(strides)), graph.constant([-1], np.int64))
    rows = graph.op("Reshape", rows, graph.dims((shape[0], 1)))
    whole = (product(sizes), shape[1])
    slices = graph.op("Reshape", to_float32(graph, x), graph.dims(whole))
    updates = graph.op("Reshape", to_float32(graph, updates), graph.dims(shape))
    y = combine_slices(graph, slices, rows, updates, (whole, shape), 0, reduction)
    return cast_back(graph, graph.op("Reshape", y, graph.dims(type.shape)), type)


@operator
def slice_scatter(x: Tensor, src: Tensor, *, axis: int, start: Dim, stop: Dim, step: int = 1) -> Tensor:
    """`x` with its slice `start:stop:step` along `axis` replaced by `src`: ATen `slice_scatter`.

    The bounds are as in `slice`: counted from the front and within the dimension, with a positive step.
    """


slice_scatter.traits = Traits(moves="several")


@slice_scatter.infer
def _(x: Type, src: Type, *, axis: int, start: Dim, stop: Dim, step: int) -> Type:
    require_same_dtype(x, src)
    require(step > 0, f"needed a positive step, given {step}")
    at = normalize_axis(axis, x.rank)
    shape = (*x.shape[:at], (stop - start + (step - 1)) // step, *x.shape[at + 1 :])
    require(src.shape == shape, f"needed a source of shape {shape}, given {src.shape}")
    return x


@slice_scatter.native_kernel
def _(x: Array, src: Array, *, axis: int, start: int, stop: int, step: int) -> Array:
    y = np.array(x)
    np.moveaxis(y, axis, 0)[start:stop:step] = np.moveaxis(src, axis, 0)
    return y


@slice_scatter.vjp
def _(
    g: Tensor, y: Tensor, x: Tensor, src: Tensor, *, axis: int, start: Dim, stop: Dim, step: int
) -> tuple[Tensor, Tensor]:
    to_x = slice_scatter(g, creation.full_like(src, 0), axis=axis, start=start, stop=stop, step=step)
    return to_x, slicing.slice(g, starts=(start,), stops=(stop,), steps=(step,), axes=(axis,))


@slice_scatter.onnx
def _(graph: OnnxGraph, x: str, src: str, *, axis: int, start: Dim, stop: Dim, step: int) -> Any:
    type = graph.type(x)
    if step == 1:
        at = graph.constant([axis], np.int64)
        first = graph.op("Slice", x, graph.dims((0,)), graph.dims((start,)), at)
        last = graph.op("Slice", x, graph.dims((stop,)), graph.dims((type.shape[axis],)), at)
        return graph.op("Concat", first, src, last, axis=axis)
    at_front = normalize_axis(axis, type.rank)
    order = [at_front, *(i for i in range(type.rank) if i != at_front)]
    bounds = (graph.op("Squeeze", graph.dims((bound,))) for bound in (start, stop))
    places = graph.op("Range", *bounds, graph.constant(step, np.int64))
    updated = graph.op(
        "ScatterND",
        graph.op("Transpose", x, perm=order),
        graph.op("Unsqueeze", places, graph.constant([1], np.int64)),
        graph.op("Transpose", src, perm=order),
    )
    return graph.op("Transpose", updated, perm=[order.index(i) for i in range(type.rank)])


def _require_integers(indices: Type) -> None:
    require(indices.dtype.kind in "iu", f"needed integers as indices, given {indices.dtype.name}")


def _require_element_indices(x: Type, indices: Type, axis: int) -> None:
    _require_integers(indices)
    require(x.rank == indices.rank, f"needed indices of {x.rank} dimensions, given {indices.rank}")
    at = normalize_axis(axis, x.rank)
    for i, (size, count) in enumerate(zip(x.shape, indices.shape, strict=True)):
        if i != at and isinstance(size, int) and isinstance(count, int):
            require(count <= size, f"axis {i} has {count} indices for {size} elements")


def _coordinates(x: Type, indices: Type) -> int:
    """Return the number of axes of x that the indices address."""
    _require_integers(indices)
    depth = indices.shape[-1] if indices.rank else 0
    if not isinstance(depth, int) or not 0 < depth <= x.rank:
        raise ShapeError(f"needed indices of 1 to {x.rank} coordinates, given {depth}")
    return depth


def _trim(x: Array, indices: Array, axis: int) -> Array:
    """Crop `x` to the sizes of the indices along the axes other than `axis`."""
    at = normalize_axis(axis, x.ndim)
    return x[tuple(slice(None if i == at else count) for i, count in enumerate(indices.shape))]
