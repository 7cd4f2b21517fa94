"""ATen operators that create, convert and move complex numbers."""

from __future__ import annotations

import math
from typing import Any

from ....runtime.ir.dims import product
from ....runtime.ir.types import BOOL
from ....runtime.ops import comparison, elementwise, shaping, trigonometry
from ....runtime.ops.common import broadcast_shapes
from ....runtime.ops.complex_numbers import Complex, magnitude
from ....runtime.tracing import SymbolicTensor
from . import bookkeeping, creation
from .complex_table import aten_complex, numbers, pair_context, register_partwise
from .indexing import index, index_put
from .shaping import expand, transpose_matrices
from .table import TABLE, Context, aten, cast, operands

# ---- to and from real numbers ----


@aten_complex("aten.complex.default")
def complex_(context: Context, real: SymbolicTensor, imag: SymbolicTensor) -> Any:
    """complex(Tensor real, Tensor imag) -> Tensor"""
    a, b = (expand(context, x) for x in operands(context, context.dtype, real, imag))
    return Complex(a, b)


@aten_complex("aten.polar.default")
def polar(context: Context, abs: SymbolicTensor, angle: SymbolicTensor) -> Any:
    """polar(Tensor abs, Tensor angle) -> Tensor"""
    return Complex(abs * trigonometry.cos(angle), abs * trigonometry.sin(angle))


@aten_complex("aten.view_as_complex.default", "aten.view_as_complex_copy.default")
def view_as_complex(context: Context, self: SymbolicTensor) -> Any:
    """view_as_complex(Tensor(a) self) -> Tensor(a)"""
    return Complex.from_pair(self)


@aten_complex("aten.view_as_real.default", "aten.view_as_real_copy.default")
def view_as_real(context: Context, self: Complex) -> Any:
    """view_as_real(Tensor(a) self) -> Tensor(a)"""
    return self.pair()


@aten_complex("aten.real.default")
def real(context: Context, self: Complex) -> Any:
    """real(Tensor(a) self) -> Tensor(a)"""
    return self.real


@aten_complex("aten.imag.default")
def imag(context: Context, self: Complex) -> Any:
    """imag(Tensor(a) self) -> Tensor(a)"""
    return self.imaginary


@aten_complex("aten.abs.default")
def abs_(context: Context, self: Complex) -> Any:
    """abs(Tensor self) -> Tensor"""
    return magnitude(self.real, self.imaginary)


@aten_complex("aten.angle.default")
def angle(context: Context, self: Complex) -> Any:
    """angle(Tensor self) -> Tensor"""
    return trigonometry.atan2(self.imaginary, self.real)


@aten("aten.angle.default")
def angle_of_reals(context: Context, self: SymbolicTensor) -> Any:
    """angle(Tensor self) -> Tensor: pi for negative numbers, 0 for others"""
    x = cast(self, context.dtype)
    zero, half_turn = operands(context, x.dtype, 0.0, math.pi)
    turned = elementwise.where(comparison.less(x, zero), half_turn, zero)
    return elementwise.where(comparison.isnan(x), x, turned)


@aten_complex("aten.conj.default", "aten._conj.default", "aten._conj_copy.default")
@aten_complex("aten.conj_physical.default", "aten._conj_physical.default")
def conj(context: Context, self: Complex) -> Any:
    """conj(Tensor(a) self) -> Tensor(a)"""
    return self.conjugate()


@aten("aten.conj.default", "aten._conj.default", "aten.conj_physical.default", "aten._conj_physical.default")
@aten("aten.resolve_conj.default", "aten.resolve_neg.default", "aten.real.default")
def itself(context: Context, self: SymbolicTensor) -> Any:
    """real(Tensor(a) self) -> Tensor(a)"""
    return self


@aten_complex("aten.matrix_H.default", "aten.adjoint.default", "aten.mH.default")
def adjoint(context: Context, self: Complex) -> Any:
    """adjoint(Tensor(a) self) -> Tensor(a)"""
    return self.conjugate().each(lambda part: transpose_matrices(context, part))


@aten_complex(*(name for name, translation in TABLE.items() if translation is bookkeeping.to_dtype))
def to_dtype(context: Context, self: Any, *_: Any, **__: Any) -> Any:
    """_to_copy(Tensor self, *, ScalarType? dtype=None, ...) -> Tensor"""
    if context.is_complex:
        return numbers(context, Complex.from_real(self if isinstance(self, Complex) else cast(self, context.dtype)))[0]
    return truth(self) if context.dtype == BOOL else cast(self.real, context.dtype)


def truth(x: Any) -> Any:
    """Whether a number, real or complex, isn't zero."""
    if not isinstance(x, Complex):
        return cast(x, BOOL)
    return comparison.logical_or(cast(x.real, BOOL), cast(x.imaginary, BOOL))


@aten_complex("aten.copy.default")
def copy(context: Context, self: Any, src: Any, non_blocking: bool = False) -> Any:
    """copy(Tensor self, Tensor src, bool non_blocking=False) -> Tensor"""
    x = to_dtype(context, src)
    if isinstance(x, Complex):
        return x.each(lambda part: expand(context, part))
    return expand(context, x)


# ---- the same for both parts ----

register_partwise(
    "self",
    *("alias.default", "clone.default", "contiguous.default", "detach.default", "positive.default"),
    *("lift.default", "lift_fresh.default", "lift_fresh_copy.default", "resolve_conj.default", "resolve_neg.default"),
    *("view.default", "_unsafe_view.default", "reshape.default", "_reshape_copy.default", "view_copy.default"),
    *("flatten.using_ints", "unflatten.int", "ravel.default", "squeeze.default", "squeeze.dim", "squeeze.dims"),
    *("unsqueeze.default", "atleast_1d.default", "atleast_2d.default", "atleast_3d.default"),
    *("view_as.default", "reshape_as.default", "expand_as.default", "expand.default", "expand_copy.default"),
    *("broadcast_to.default", "permute.default", "permute_copy.default", "transpose.int", "swapaxes.default"),
    *("swapdims.default", "t.default", "numpy_T.default", "mT.default", "movedim.intlist", "movedim.int"),
    *("moveaxis.intlist", "moveaxis.int", "flip.default", "roll.default", "rot90.default"),
    *("slice.Tensor", "slice_copy.Tensor", "narrow.default", "select.int", "select_copy.int", "unbind.int"),
    *("unbind_copy.int", "split.Tensor", "split.sizes", "split_with_sizes.default", "split_copy.Tensor"),
    *("split_with_sizes_copy.default", "unsafe_split.Tensor", "unsafe_split_with_sizes.default", "chunk.default"),
    *("unsafe_chunk.default", "tensor_split.sections", "tensor_split.indices", "unfold.default", "unfold_copy.default"),
    *("diagonal.default", "diagonal_copy.default", "trace.default", "tril.default", "triu.default"),
    *("index_select.default", "take.default", "gather.default", "take_along_dim.default"),
    *("repeat.default", "tile.default", "repeat_interleave.self_int"),
    *("reflection_pad1d.default", "reflection_pad2d.default", "reflection_pad3d.default", "_pad_circular.default"),
    *("replication_pad1d.default", "replication_pad2d.default", "replication_pad3d.default"),
    *("pixel_shuffle.default", "pixel_unshuffle.default", "channel_shuffle.default"),
    *("as_strided.default", "as_strided_copy.default", "narrow_copy.default"),
    *("sum.default", "sum.dim_IntList", "mean.default", "mean.dim", "cumsum.default", "neg.default"),
)
register_partwise("tensors", "cat.default", "concat.default", "concatenate.default", "stack.default")
register_partwise("tensors", "meshgrid.default", "meshgrid.indexing", "broadcast_tensors.default")
register_partwise("self src", "slice_scatter.default", "select_scatter.default", "diagonal_scatter.default")
register_partwise("self src", "scatter.src", "scatter_add.default")
register_partwise("self source", "index_add.default", "index_copy.default", "masked_scatter.default", "put.default")
register_partwise("self value", "pad.default", "constant_pad_nd.default", "masked_fill.Scalar", "masked_fill.Tensor")
register_partwise("self value", "scatter.value", "index_fill.int_Scalar", "index_fill.int_Tensor", "fill.Tensor")
register_partwise("self other", "where.self", "where.ScalarOther", "where.ScalarSelf", "where.Scalar")
register_partwise("fill_value", "full.default", "full_like.default", "fill.Scalar", "new_full.default")
register_partwise("s", "scalar_tensor.default")


@aten_complex(*(f"aten.{name}.default" for name in ("zeros", "zeros_like", "new_zeros", "zero", "empty_like")))
@aten_complex("aten.empty.memory_format", "aten.empty_permuted.default", "aten.empty_strided.default")
@aten_complex("aten.new_empty.default", "aten.new_empty_strided.default")
def zeros(context: Context, *_: Any, **__: Any) -> Any:
    """zeros(SymInt[] size, *, ScalarType? dtype=None) -> Tensor"""
    return _with_zero_imaginary(creation.filled(context, 0), context)


@aten_complex("aten.ones.default", "aten.ones_like.default", "aten.new_ones.default")
def ones(context: Context, *_: Any, **__: Any) -> Any:
    """ones(SymInt[] size, *, ScalarType? dtype=None) -> Tensor"""
    return _with_zero_imaginary(creation.filled(context, 1), context)


@aten_complex("aten.eye.default", "aten.eye.m")
def eye(context: Context, *_: Any, **__: Any) -> Any:
    """eye.m(SymInt n, SymInt m, *, ScalarType? dtype=None) -> Tensor"""
    return _with_zero_imaginary(creation.eye(context), context)


def _with_zero_imaginary(x: Any, context: Context) -> Any:
    """A tensor of `context` with real numbers."""
    return Complex.from_real(x) if context.is_complex else x


# ---- indexing, also by masks: applied to the pairs, so that the elements of a mask are counted once ----


@aten_complex("aten.index.Tensor", "aten._unsafe_index.Tensor")
def index_(context: Context, self: Complex, indices: list[SymbolicTensor | None]) -> Any:
    """index.Tensor(Tensor self, Tensor?[] indices) -> Tensor"""
    return Complex.from_pair(index(pair_context(context), self.pair(), indices))


@aten_complex("aten.index_put.default", "aten._unsafe_index_put.default")
def index_put_(
    context: Context, self: Complex, indices: list[SymbolicTensor | None], values: Any, accumulate: bool = False
) -> Any:
    """index_put(Tensor self, Tensor?[] indices, Tensor values, bool accumulate=False) -> Tensor"""
    return Complex.from_pair(
        index_put(pair_context(context), self.pair(), indices, Complex.from_real(values).pair(), accumulate)
    )


@aten_complex("aten.masked_select.default")
def masked_select(context: Context, self: Complex, mask: SymbolicTensor) -> Any:
    """masked_select(Tensor self, Tensor mask) -> Tensor"""
    shape = broadcast_shapes(self.shape, mask.shape)
    flat = (product(shape),)

    def flattened(x: Any) -> Any:
        return shaping.reshape(shaping.expand(x, shape=shape), shape=flat)

    return index_(context, self.each(flattened), [flattened(mask)])


@aten_complex("aten._assert_tensor_metadata.default")
def assertion(context: Context, *_: Any, **__: Any) -> None:
    """_assert_tensor_metadata(Tensor a, ...) -> (): holds for the example inputs, and nothing depends on it."""
