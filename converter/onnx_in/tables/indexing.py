"""ONNX operators that read and write at indices."""

from __future__ import annotations

from typing import Any

from ....runtime.errors import ShapeError
from ....runtime.ir.dims import product
from ....runtime.ir.types import INT64, Type
from ....runtime.ops import creation, elementwise, embeddings, indexing, rounding, shaping, slicing
from ....runtime.ops.common import normalize_axis
from ....runtime.tracing import SymbolicTensor
from .context import Context
from .table import cast, onnx

_REDUCTIONS = ("none", "add", "mul", "max", "min")


@onnx("Gather")
def gather(context: Context, data: SymbolicTensor, indices: SymbolicTensor, *, axis: int = 0) -> Any:
    """Gather-1..13(data, indices) -> output"""
    if context.metadata.get(embeddings.PADDING, "").isdigit() and data.ndim == 2 and axis == 0:
        return embeddings.embedding(data, indices, padding_index=int(context.metadata[embeddings.PADDING]))
    return indexing.take(data, indices, axis=normalize_axis(axis, data.ndim))


@onnx("GatherElements")
def gather_elements(context: Context, data: SymbolicTensor, indices: SymbolicTensor, *, axis: int = 0) -> Any:
    """GatherElements-11..13(data, indices) -> output"""
    return indexing.gather(data, indices, axis=normalize_axis(axis, data.ndim))


@onnx("GatherND")
def gather_nd(context: Context, data: SymbolicTensor, indices: SymbolicTensor, *, batch_dims: int = 0) -> Any:
    """GatherND-11..13(data, indices) -> output"""
    if not batch_dims:
        return indexing.gather_nd(data, cast(indices, INT64))
    places = [cast(indices, INT64)]
    lead = indices.shape[:-1]
    for axis in reversed(range(batch_dims)):
        counted = context.builder.create(creation.arange, stop=data.shape[axis], dtype=INT64)
        shape = tuple(data.shape[axis] if i == axis else 1 for i in range(len(lead) + 1))
        counted = shaping.reshape(counted, shape=shape)
        places.insert(0, shaping.expand(counted, shape=(*lead, 1)))
    return indexing.gather_nd(data, slicing.concat(*places, axis=len(lead)))


@onnx("Scatter", "ScatterElements")
def scatter_elements(
    context: Context,
    data: SymbolicTensor,
    indices: SymbolicTensor,
    updates: SymbolicTensor,
    *,
    axis: int = 0,
    reduction: str = "none",
) -> Any:
    """Scatter-9, ScatterElements-11..18(data, indices, updates) -> output"""
    _check(reduction)
    return indexing.scatter(data, indices, updates, axis=normalize_axis(axis, data.ndim), reduction=reduction)


@onnx("ScatterND")
def scatter_nd(
    context: Context, data: SymbolicTensor, indices: SymbolicTensor, updates: SymbolicTensor, *, reduction: str = "none"
) -> Any:
    """ScatterND-11..18(data, indices, updates) -> output"""
    _check(reduction)
    depth = indices.shape[-1]
    if isinstance(depth, int):
        updates = _with_shape(updates, (*indices.shape[:-1], *data.shape[depth:]))
    return indexing.scatter_nd(data, cast(indices, INT64), updates, reduction=reduction)


def _with_shape(x: SymbolicTensor, shape: tuple[Any, ...]) -> SymbolicTensor:
    """`x` with the sizes of `shape`; symbols that differ are checked at run time."""
    pairs = zip(x.shape, shape, strict=False)
    if x.shape == shape or x.ndim != len(shape) or any(a != b for a, b in pairs if {type(a), type(b)} == {int}):
        return x
    result: SymbolicTensor = shaping.reshape(x, shape=shape)
    return result


def _check(reduction: str) -> None:
    if reduction not in _REDUCTIONS:
        raise ShapeError(f"reduction must be one of {', '.join(_REDUCTIONS)}, given {reduction!r}")


@onnx("TensorScatter")
def tensor_scatter(
    context: Context, past_cache: SymbolicTensor, update: SymbolicTensor, write_indices: Any = None, *, axis: int = -2,
    mode: str = "linear",
) -> Any:  # fmt: skip
    """TensorScatter-24(past_cache, update, write_indices?) -> present_cache"""
    at = normalize_axis(axis, past_cache.ndim)
    steps = context.builder.create(creation.arange, stop=update.shape[at], dtype=INT64)
    steps = shaping.reshape(steps, shape=tuple(update.shape[at] if i == at else 1 for i in range(update.ndim)))
    if write_indices is not None:
        starts = shaping.reshape(cast(write_indices, INT64), shape=(update.shape[0], *(1,) * (update.ndim - 1)))
        steps = elementwise.add(steps, starts)
    if mode == "circular":
        steps = rounding.remainder(steps, context.full((), past_cache.shape[at], INT64))
    return indexing.scatter(past_cache, shaping.expand(steps, shape=tuple(update.shape)), update, axis=at)


@onnx("Compress", values=("condition",))
def compress(context: Context, input: SymbolicTensor, condition: Any, *, axis: int | None = None) -> Any:
    """Compress-9..28(input, condition) -> output"""
    if axis is None:
        input, axis = shaping.reshape(input, shape=(product(input.shape),)), 0
    at = normalize_axis(axis, input.ndim)
    shape = tuple(context.new_symbol() if i == at else size for i, size in enumerate(input.shape))
    return context.runtime_shaped("Compress", input, condition, types=(Type(input.dtype, shape),), axis=at)
