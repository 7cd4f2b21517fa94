"""ATen operators that read a tensor's memory by strides: their elements are found at computed places."""

from __future__ import annotations

from typing import Any

import torch

from ....runtime.ir.dims import Dim, product
from ....runtime.ir.types import INT64
from ....runtime.ops import creation, indexing, shaping
from ....runtime.tracing import Traced
from ..table import Context, Unsupported, aten, cast, operands


@aten("aten.as_strided.default", "aten.as_strided_copy.default")
def as_strided(context: Context, self: Traced, size: Any, stride: Any, storage_offset: Any = None) -> Any:
    """as_strided(Tensor(a) self, SymInt[] size, SymInt[] stride, SymInt? storage_offset=None) -> Tensor(a)"""
    memory, _, start = _memory(context, self)
    return indexing.take(memory, _places(context, stride, start if storage_offset is None else storage_offset), axis=0)


@aten("aten.as_strided_scatter.default")
def as_strided_scatter(
    context: Context, self: Traced, src: Traced, size: Any, stride: Any, storage_offset: Any = None
) -> Any:
    """as_strided_scatter(Tensor self, Tensor src, SymInt[] size, SymInt[] stride, SymInt? storage_offset=None)"""
    memory, order, start = _memory(context, self)
    places = _places(context, stride, start if storage_offset is None else storage_offset, src.shape)
    flat = (product(src.shape),)
    places, updates = (shaping.reshape(x, shape=flat) for x in (places, cast(src, self.dtype)))
    written = indexing.scatter(memory, places, updates, axis=0)
    written = shaping.reshape(written, shape=tuple(self.shape[axis] for axis in order))
    return shaping.transpose(written, permutation=tuple(order.index(axis) for axis in range(self.ndim)))


@aten("aten.resize.default")
def resize(context: Context, self: Traced, size: Any) -> Any:
    """resize(Tensor self, SymInt[] size, *, MemoryFormat? memory_format=None) -> Tensor"""
    memory, _, _ = _memory(context, self)
    held, wanted = product(self.shape), product(context.shape)
    if not isinstance(held, int) or not isinstance(wanted, int):
        raise Unsupported("symbolic sizes")
    if wanted > held:  # what is new isn't defined
        memory = shaping.concat(memory, creation.full_like(memory, 0, shape=(wanted - held,)), axis=0)
    kept = shaping.slice(memory, starts=(0,), stops=(wanted,), steps=(1,), axes=(0,))
    return shaping.reshape(kept, shape=context.shape)


def _memory(context: Context, x: Traced) -> tuple[Any, list[int], int]:
    """The elements of a tensor in the order in which they lie in memory; the order of its axes there; where they begin.

    Raises:
        Unsupported: other elements lie between them.
    """
    assert context.node is not None
    operand = context.node.args[0]
    assert isinstance(operand, torch.fx.Node)
    fake = operand.meta["val"]
    strides = fake.stride()
    try:
        order = sorted(range(x.ndim), key=lambda axis: (-int(strides[axis]), -int(fake.shape[axis])))
        dense = fake.permute(order).is_contiguous()
    except (TypeError, RuntimeError):
        order, dense = list(range(x.ndim)), fake.is_contiguous()
    if not dense:
        raise Unsupported("a view of a part of a tensor, whose memory holds other elements too")
    lying = x if order == list(range(x.ndim)) else shaping.transpose(x, permutation=tuple(order))
    return shaping.reshape(lying, shape=(product(x.shape),)), order, int(fake.storage_offset())


def _places(context: Context, strides: Any, start: Dim, shape: tuple[Dim, ...] | None = None) -> Any:
    """Where in memory each element lies: the start plus, for each axis, the index times the stride."""
    shape = context.shape if shape is None else shape
    (places,) = operands(context, INT64, start)
    for axis, (size, stride) in enumerate(zip(shape, strides, strict=True)):
        steps = context.builder.create(creation.arange, stop=size, dtype=INT64) * operands(context, INT64, stride)[0]
        places = places + shaping.reshape(steps, shape=(size, *[1] * (len(shape) - axis - 1)))
    return places
