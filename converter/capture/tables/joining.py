"""ATen operators that join, repeat and pad tensors."""

from __future__ import annotations

from typing import Any

import numpy as np

from ....runtime.ir.dims import Dim, product
from ....runtime.ops import indexing, shaping, slicing
from ....runtime.ops.common import normalize_axis
from ....runtime.tracing import SymbolicTensor
from ...rows import Row
from ...unsupported import Unsupported
from .table import Context, aten, cast, pass_on


@aten("aten.cat.default", "aten.concat.default", "aten.concatenate.default")
def cat(context: Context, tensors: list[SymbolicTensor], dim: int = 0) -> Any:
    """cat(Tensor[] tensors, int dim=0) -> Tensor"""
    rank = len(context.shape)
    # torch accepts an empty vector beside tensors of any rank
    parts = [cast(x, context.dtype) for x in tensors if x.ndim == rank and (rank == 1 or x.shape != (0,))]
    return parts[0] if len(parts) == 1 else slicing.concat(*parts, axis=normalize_axis(dim, rank))


@aten("aten.stack.default")
def stack(context: Context, tensors: list[SymbolicTensor], dim: int = 0) -> Any:
    """stack(Tensor[] tensors, int dim=0) -> Tensor"""
    axis = normalize_axis(dim, len(context.shape))
    parts = [shaping.reshape(cast(x, context.dtype), shape=(*x.shape[:axis], 1, *x.shape[axis:])) for x in tensors]
    return parts[0] if len(parts) == 1 else slicing.concat(*parts, axis=axis)


@aten("aten.repeat.default", "aten.tile.default")
def repeat(context: Context, self: SymbolicTensor, repeats: list[Dim]) -> Any:
    """repeat(Tensor self, SymInt[] repeats) -> Tensor"""
    rank = max(len(repeats), self.ndim)
    x = self if self.ndim == rank else shaping.reshape(self, shape=(*[1] * (rank - self.ndim), *self.shape))
    return slicing.tile(x, repeats=(*[1] * (rank - len(repeats)), *repeats))


@aten("aten.repeat_interleave.self_int")
def repeat_interleave(
    context: Context, self: SymbolicTensor, repeats: Dim, dim: int | None = None, *, output_size: Any = None
) -> Any:
    """repeat_interleave.self_int(Tensor self, SymInt repeats, int? dim=None, *, SymInt? output_size=None) -> Tensor"""
    x = shaping.reshape(self, shape=(product(self.shape),)) if dim is None or self.ndim == 0 else self
    after = normalize_axis(dim or 0, x.ndim) + 1
    spread = shaping.reshape(x, shape=(*x.shape[:after], 1, *x.shape[after:]))
    repeated = shaping.expand(spread, shape=(*x.shape[:after], repeats, *x.shape[after:]))
    return shaping.reshape(repeated, shape=context.shape)


@aten("aten.meshgrid.default", "aten.meshgrid.indexing")
def meshgrid(context: Context, tensors: list[SymbolicTensor], *, indexing: str = "ij") -> Any:
    """meshgrid.indexing(Tensor[] tensors, *, str indexing) -> Tensor[]"""
    order = list(range(len(tensors)))
    if indexing == "xy" and len(tensors) > 1:
        order[:2] = [1, 0]
    grids = []
    for axis, x in zip(order, tensors, strict=True):
        sizes = [1] * len(tensors)
        line = shaping.reshape(x, shape=(*sizes[:axis], product(x.shape), *sizes[axis + 1 :]))
        grids.append(shaping.expand(line, shape=context.shape))
    return tuple(grids)


@aten("aten.pad.default")
def pad(context: Context, self: SymbolicTensor, pad: list[Dim], mode: str = "constant", value: Any = None) -> Any:
    """pad(Tensor self, SymInt[] pad, str mode="constant", float? value=None) -> Tensor"""
    return _pad(self, pad, mode, value or 0)


def _pad(x: SymbolicTensor, amounts: list[Dim], mode: str, value: Any = 0) -> Any:
    """Pad by amounts in pairs (before, after), the last axis first."""
    untouched = [0] * (x.ndim - len(amounts) // 2)
    before, after = ((*untouched, *reversed(amounts[side::2])) for side in (0, 1))
    if mode == "replicate" and any(isinstance(amount, int) and amount < 0 for amount in amounts):
        return _replicate_cropped(x, before, after)
    return slicing.pad(x, before=before, after=after, mode=mode, value=value)


def _replicate_cropped(x: SymbolicTensor, before: tuple[Dim, ...], after: tuple[Dim, ...]) -> Any:
    """Replication with cropped edges: each position reads the nearest element of the whole tensor."""
    for axis, (b, a) in enumerate(zip(before, after, strict=True)):
        size = x.shape[axis]
        if (b, a) == (0, 0):
            continue
        if not isinstance(size, int) or not isinstance(b, int) or not isinstance(a, int):
            raise Unsupported("symbolic sizes beside a negative amount")
        places = np.minimum(np.maximum(np.arange(size + b + a) - b, 0), size - 1)
        x = indexing.take(x, x.builder.constant(places), axis=axis)
    return x


ROWS: dict[str, Row] = {
    "aten.constant_pad_nd.default": (_pad, 'self, pad, "constant", value'),
    "aten.reflection_pad1d.default": (_pad, 'self, padding, "reflect"'),
    "aten.reflection_pad2d.default": (_pad, 'self, padding, "reflect"'),
    "aten.reflection_pad3d.default": (_pad, 'self, padding, "reflect"'),
    "aten.replication_pad1d.default": (_pad, 'self, padding, "replicate"'),
    "aten.replication_pad2d.default": (_pad, 'self, padding, "replicate"'),
    "aten.replication_pad3d.default": (_pad, 'self, padding, "replicate"'),
    "aten._pad_circular.default": (_pad, 'self, pad, "circular"'),
}
pass_on(ROWS)
