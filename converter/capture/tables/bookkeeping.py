"""ATen operators without arithmetic: copies, conversions, gradient stops, and assertions about sizes."""

from __future__ import annotations

from typing import Any

from ....runtime.ops import boundary, shaping
from ....runtime.tracing import SymbolicTensor
from ...rows import Row
from .table import Context, aten, cast, pass_on


@aten(
    "aten.alias.default",
    "aten.clone.default",
    "aten.contiguous.default",
    "aten.lift.default",
    "aten.lift_fresh.default",
    "aten.lift_fresh_copy.default",
    "aten.positive.default",
)
def identity(context: Context, self: SymbolicTensor) -> Any:
    """clone(Tensor self, *, MemoryFormat? memory_format=None) -> Tensor"""
    return self


@aten(
    "aten._to_copy.default",
    "aten.to.device",
    "aten.to.dtype",
    "aten.to.dtype_layout",
    "aten.to.other",
    "aten.to.prim_Device",
    "aten.to.prim_dtype",
    "aten.to.prim_other",
    "aten.type_as.default",
)
def to_dtype(context: Context, self: SymbolicTensor, *options: Any, **_: Any) -> Any:
    """_to_copy(Tensor self, *, ScalarType? dtype=None, ...) -> Tensor"""
    return cast(self, context.dtype)


@aten("aten.copy.default")
def copy(context: Context, self: SymbolicTensor, src: SymbolicTensor, non_blocking: bool = False) -> Any:
    """copy(Tensor self, Tensor src, bool non_blocking=False) -> Tensor"""
    converted = cast(src, context.dtype)
    return converted if converted.shape == context.shape else shaping.expand(converted, shape=context.shape)


@aten(
    "aten._assert_tensor_metadata.default",
    "aten._assert_scalar.default",
    "aten._assert_async.default",
    "aten._assert_async.msg",
    "aten._functional_assert_scalar.default",
    "aten._functional_assert_async.msg",
    "aten._linalg_check_errors.default",
    "aten.sym_constrain_range.default",
    "aten.sym_constrain_range_for_size.default",
)
def assertion(context: Context, *_: Any, **__: Any) -> None:
    """_assert_tensor_metadata(Tensor a, ...) -> (): holds for the example inputs, and nothing depends on it.

    A failure of linear algebra raises its own error when the program runs.
    """


ROWS: dict[str, Row] = {
    "aten.detach.default": (boundary.stop_gradient, "self"),
    "aten.detach_copy.default": (boundary.stop_gradient, "self"),
}
pass_on(ROWS)
