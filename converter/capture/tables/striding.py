"""`as_strided`: reading a tensor's memory by strides of one's own."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ....runtime.ir.dims import Dim
from ....runtime.ir.types import INT64
from ....runtime.ops import indexing, shaping
from ....runtime.tracing import Traced
from ..table import Context, Unsupported, aten


@aten("aten.as_strided.default", "aten.as_strided_copy.default")
def as_strided(
    context: Context, self: Traced, size: list[Dim], stride: list[Dim], storage_offset: Dim | None = None
) -> Any:
    """as_strided(Tensor(a) self, SymInt[] size, SymInt[] stride, SymInt? storage_offset=None) -> Tensor(a)"""
    memory = _memory(context, self)
    positions = np.full((), _fixed(storage_offset or 0))
    for count, step in zip(size, stride, strict=True):
        positions = positions[..., None] + np.arange(_fixed(count)) * _fixed(step)
    if positions.size and positions.max() >= memory.shape[0]:
        raise Unsupported("which reads memory outside of its operand")
    return indexing.take(memory, context.builder.constant(positions, INT64), axis=0)


def _memory(context: Context, self: Traced) -> Any:
    """The elements in the order in which torch keeps them."""
    laid_out, sizes = context.operands[0], [_fixed(size) for size in self.shape]
    order = sorted(range(self.ndim), key=lambda axis: (-laid_out.stride(axis), -sizes[axis]))
    if laid_out.storage_offset() or not laid_out.permute(order).is_contiguous():
        raise Unsupported("of a part of a tensor")
    x = shaping.transpose(self, permutation=order) if order != sorted(order) else self
    return shaping.reshape(x, shape=(math.prod(sizes),))


def _fixed(number: Dim) -> int:
    if not isinstance(number, int):
        raise Unsupported("with sizes that vary")
    return number
