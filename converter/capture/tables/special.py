"""ATen's special functions."""

from __future__ import annotations

from typing import Any

from ....runtime.ops import comparison, elementwise
from ....runtime.ops import special as special_ops
from ....runtime.tracing import SymbolicTensor
from .table import Context, aten, cast, operands


@aten("aten.digamma.default")
def digamma(context: Context, self: SymbolicTensor) -> Any:
    """digamma(Tensor self) -> Tensor"""
    return special_ops.polygamma(cast(self, context.dtype), order=0)


@aten("aten.polygamma.default")
def polygamma(context: Context, n: int, self: SymbolicTensor) -> Any:
    """polygamma(int n, Tensor self) -> Tensor"""
    return special_ops.polygamma(cast(self, context.dtype), order=n)


@aten("aten.special_zeta.default", "aten.special_zeta.self_scalar", "aten.special_zeta.other_scalar")
def zeta(context: Context, self: Any, other: Any) -> Any:
    """special_zeta(Tensor self, Tensor other) -> Tensor"""
    return special_ops.zeta(*operands(context, context.dtype, self, other))


@aten("aten.special_xlog1py.default", "aten.special_xlog1py.self_scalar", "aten.special_xlog1py.other_scalar")
def xlog1py(context: Context, self: Any, other: Any) -> Any:
    """special_xlog1py(Tensor self, Tensor other) -> Tensor: x log(1 + y), 0 where x is 0 unless y is NaN"""
    x, y = operands(context, context.dtype, self, other)
    zero, one = operands(context, context.dtype, 0.0, 1.0)
    nothing = comparison.logical_and(comparison.equal(x, zero), comparison.logical_not(comparison.isnan(y)))
    outside = comparison.logical_and(nothing, comparison.less_equal(y, -one))
    return elementwise.where(outside, zero, x * elementwise.log1p(elementwise.where(outside, zero, y)))
