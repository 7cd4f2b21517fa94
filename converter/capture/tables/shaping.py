"""ATen operators that change the shape or order of elements.

Slicing is in `slicing`, joining and padding in `joining`.
"""

from __future__ import annotations

from typing import Any

from ....runtime.ir.dims import product
from ....runtime.ops import shaping
from ....runtime.ops.common import normalize_axis
from ....runtime.tracing import SymbolicTensor
from .table import Context, aten

# The other arguments of these determine only the shape of the result, which torch has inferred, with -1 resolved.


@aten(
    "aten.view.default",
    "aten._unsafe_view.default",
    "aten.reshape.default",
    "aten._reshape_copy.default",
    "aten.view_copy.default",
    "aten.view_as.default",
    "aten.reshape_as.default",
    "aten.flatten.using_ints",
    "aten.unflatten.int",
    "aten.ravel.default",
    "aten.squeeze.default",
    "aten.squeeze.dim",
    "aten.squeeze.dims",
    "aten.unsqueeze.default",
    "aten.atleast_1d.default",
    "aten.atleast_2d.default",
    "aten.atleast_3d.default",
)
def view(context: Context, self: SymbolicTensor, *_: Any, **__: Any) -> Any:
    """view(Tensor(a) self, SymInt[] size) -> Tensor(a)"""
    return self if self.shape == context.shape else shaping.reshape(self, shape=context.shape)


@aten("aten.expand.default", "aten.expand_as.default", "aten.expand_copy.default", "aten.broadcast_to.default")
def expand(context: Context, self: SymbolicTensor, *_: Any, **__: Any) -> Any:
    """expand(Tensor(a) self, SymInt[] size, *, bool implicit=False) -> Tensor(a)"""
    return self if self.shape == context.shape else shaping.expand(self, shape=context.shape)


@aten("aten.permute.default", "aten.permute_copy.default")
def permute(context: Context, self: SymbolicTensor, dims: list[int]) -> Any:
    """permute(Tensor(a) self, int[] dims) -> Tensor(a)"""
    return shaping.transpose(self, permutation=tuple(normalize_axis(axis, self.ndim) for axis in dims))


@aten("aten.transpose.int", "aten.swapaxes.default", "aten.swapdims.default")
def transpose(context: Context, self: SymbolicTensor, dim0: int, dim1: int) -> Any:
    """transpose.int(Tensor(a) self, int dim0, int dim1) -> Tensor(a)"""
    if self.ndim == 0:
        return self
    order = list(range(self.ndim))
    order[dim0], order[dim1] = order[dim1], order[dim0]
    return shaping.transpose(self, permutation=tuple(order))


@aten("aten.t.default", "aten.numpy_T.default", "aten.matrix_H.default")
def reverse_axes(context: Context, self: SymbolicTensor) -> Any:
    """t(Tensor(a) self) -> Tensor(a)"""
    return shaping.transpose(self, permutation=tuple(reversed(range(self.ndim))))


@aten("aten.mT.default", "aten.adjoint.default", "aten.mH.default")
def transpose_matrices(context: Context, self: SymbolicTensor) -> Any:
    """mT(Tensor(a) self) -> Tensor(a)"""
    return transpose(context, self, -2, -1)


@aten("aten.movedim.intlist", "aten.movedim.int", "aten.moveaxis.intlist", "aten.moveaxis.int")
def movedim(context: Context, self: SymbolicTensor, source: Any, destination: Any) -> Any:
    """movedim.intlist(Tensor(a) self, int[] source, int[] destination) -> Tensor(a)"""
    if self.ndim == 0:
        return self
    sources, destinations = (
        [normalize_axis(axis, self.ndim) for axis in ([axes] if isinstance(axes, int) else axes)]
        for axes in (source, destination)
    )
    order = [axis for axis in range(self.ndim) if axis not in sources]
    for to, axis in sorted(zip(destinations, sources, strict=True)):
        order.insert(to, axis)
    return shaping.transpose(self, permutation=tuple(order))


@aten("aten.broadcast_tensors.default")
def broadcast_tensors(context: Context, tensors: list[SymbolicTensor]) -> Any:
    """broadcast_tensors(Tensor[] tensors) -> Tensor[]"""
    return [x if x.shape == context.shape else shaping.expand(x, shape=context.shape) for x in tensors]


@aten("aten.flip.default")
def flip(context: Context, self: SymbolicTensor, dims: list[int]) -> Any:
    """flip(Tensor self, int[] dims) -> Tensor"""
    return shaping.flip(self, axes=tuple(dims)) if self.ndim else self


@aten("aten.roll.default")
def roll(context: Context, self: SymbolicTensor, shifts: list[int], dims: Any = ()) -> Any:
    """roll(Tensor self, SymInt[1] shifts, int[1] dims=[]) -> Tensor"""
    if dims:
        return shaping.roll(self, shifts=tuple(shifts), axes=tuple(dims))
    flat = shaping.reshape(self, shape=(product(self.shape),))
    return shaping.reshape(shaping.roll(flat, shifts=tuple(shifts), axes=(0,)), shape=self.shape)


@aten("aten.rot90.default")
def rot90(context: Context, self: SymbolicTensor, k: int = 1, dims: Any = (0, 1)) -> Any:
    """rot90(Tensor self, int k=1, int[] dims=[0,1]) -> Tensor"""
    first, second = dims
    if k % 4 == 2:
        return shaping.flip(self, axes=(first, second))
    if k % 4 == 0:
        return self
    flipped = shaping.flip(self, axes=(second if k % 4 == 1 else first,))
    return transpose(context, flipped, first, second)
