"""ATen operators that read a tensor's memory by strides, as gathers at computed indices."""

from __future__ import annotations

from typing import Any

from ....runtime.ir.dims import Dim, product
from ....runtime.ir.types import INT64, is_floating
from ....runtime.ops import creation, indexing, shaping, slicing
from ....runtime.ops.higher_order.own_gradient import own_gradient
from ....runtime.programs.subprograms import trace_subprogram
from ....runtime.tracing import SymbolicTensor
from ...unsupported import Unsupported
from .table import Context, aten, cast, operands


@aten("aten.as_strided.default", "aten.as_strided_copy.default")
def as_strided(context: Context, self: SymbolicTensor, size: Any, stride: Any, storage_offset: Any = None) -> Any:
    """as_strided(Tensor(a) self, SymInt[] size, SymInt[] stride, SymInt? storage_offset=None) -> Tensor(a)"""
    memory, _, begin = _memory(context, self)
    return indexing.take(memory, _places(context, context.shape, stride, storage_offset, memory, begin), axis=0)


@aten("aten.as_strided_scatter.default")
def as_strided_scatter(
    context: Context, self: SymbolicTensor, src: SymbolicTensor, size: Any, stride: Any, storage_offset: Any = None
) -> Any:
    """as_strided_scatter(Tensor self, Tensor src, SymInt[] size, SymInt[] stride, SymInt? storage_offset=None)"""
    memory, order, begin = _memory(context, self)
    return _from_memory(_write(context, memory, src, stride, storage_offset, begin)[0], self, order)


@aten("cellbridge.as_strided_scatter.default")
def explicit_as_strided_scatter(
    context: Context, self: SymbolicTensor, src: SymbolicTensor, size: Any, stride: Any, storage_offset: Any = None
) -> Any:
    """`as_strided_scatter` with torch's own gradient, the cotangent where `self` is overwritten: see `strided_marks`"""
    memory, order, begin = _memory(context, self)
    result, places, updates = _write(context, memory, src, stride, storage_offset, begin)
    if not is_floating(result.dtype):
        return _from_memory(result, self, order)

    def backward(
        memory: SymbolicTensor,
        updates: SymbolicTensor,
        places: SymbolicTensor,
        result: SymbolicTensor,
        g: SymbolicTensor,
    ) -> list[Any]:
        overwritten = indexing.take(g, places, axis=0)
        return [indexing.scatter(creation.full_like(g, 0, shape=g.shape), places, overwritten, axis=0), overwritten]

    types = [x.value.type for x in (memory, updates, places, result, result)]
    program = trace_subprogram(backward, types, "as_strided_scatter.backward")
    return _from_memory(own_gradient(result, memory, updates, places, outputs=1, backward=program), self, order)


def _write(
    context: Context, memory: SymbolicTensor, src: SymbolicTensor, stride: Any, offset: Dim | None, begin: int
) -> tuple[Any, Any, Any]:
    """The memory after writing, the flat indices of the writes, and the flat numbers."""
    places = _places(context, src.shape, stride, offset, memory, begin)
    flat = (product(src.shape),)
    places, updates = (shaping.reshape(x, shape=flat) for x in (places, cast(src, memory.dtype)))
    return indexing.scatter(memory, places, updates, axis=0), places, updates


def _from_memory(memory: SymbolicTensor, x: SymbolicTensor, order: list[int]) -> Any:
    """The contents of the memory as a tensor of the shape of `x`, whose axes have this order in memory."""
    laid = shaping.reshape(memory, shape=tuple(x.shape[axis] for axis in order))
    return shaping.transpose(laid, permutation=tuple(order.index(axis) for axis in range(x.ndim)))


@aten("aten.resize.default")
def resize(context: Context, self: SymbolicTensor, size: Any) -> Any:
    """resize(Tensor self, SymInt[] size, *, MemoryFormat? memory_format=None) -> Tensor"""
    memory, _, _ = _memory(context, self)
    old_size, new_size = product(self.shape), product(context.shape)
    if not isinstance(old_size, int) or not isinstance(new_size, int):
        raise Unsupported("symbolic sizes")
    if new_size > old_size:  # the contents of new elements aren't defined
        memory = slicing.concat(memory, creation.full_like(memory, 0, shape=(new_size - old_size,)), axis=0)
    kept = slicing.slice(memory, starts=(0,), stops=(new_size,), steps=(1,), axes=(0,))
    return shaping.reshape(kept, shape=context.shape)


def _memory(context: Context, x: SymbolicTensor) -> tuple[Any, list[int], int]:
    """The elements of a tensor in memory order, the order of its axes in memory, and the offset of the first element.

    Raises:
        Unsupported: the elements aren't contiguous in memory.
    """
    laid_out = context.operands[0]
    try:
        order = sorted(range(x.ndim), key=lambda axis: (-laid_out.stride(axis), -laid_out.shape[axis]))
        dense = laid_out.permute(order).is_contiguous()
    except (TypeError, RuntimeError):  # symbolic strides have no order
        order, dense = list(range(x.ndim)), laid_out.is_contiguous()
    if not dense:
        raise Unsupported("of a part of a tensor, whose memory also contains other elements")
    lying = x if order == list(range(x.ndim)) else shaping.transpose(x, permutation=tuple(order))
    return shaping.reshape(lying, shape=(product(x.shape),)), order, int(laid_out.storage_offset())


def _places(context: Context, shape: Any, strides: Any, offset: Dim | None, memory: SymbolicTensor, begin: int) -> Any:
    """The position of each element in memory: the offset plus, for each axis, the index times the stride."""
    start = 0 if offset is None else offset - begin
    dims = (start, *shape, *strides, memory.shape[0])
    if all(isinstance(dim, int) for dim in dims) and 0 not in shape:
        last = start + sum((size - 1) * stride for size, stride in zip(shape, strides, strict=True))
        if start < 0 or last >= memory.shape[0]:
            raise Unsupported("which reads memory outside of its operand")
    (places,) = operands(context, INT64, start)
    for axis, (size, stride) in enumerate(zip(shape, strides, strict=True)):
        steps = context.builder.create(creation.arange, stop=size, dtype=INT64) * operands(context, INT64, stride)[0]
        places = places + shaping.reshape(steps, shape=(size, *[1] * (len(shape) - axis - 1)))
    return places
