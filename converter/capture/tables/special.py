"""ATen's special functions."""

from __future__ import annotations

from typing import Any

from ....runtime import ops
from ....runtime.ops import comparison, elementwise
from ....runtime.ops import special as special_ops
from ....runtime.tracing import SymbolicTensor
from .table import Context, aten, cast, operands

FUNCTIONS = {
    "erfinv": "erfinv", "lgamma": "lgamma", "i0": "i0", "special_i0e": "i0e", "special_i1": "i1", "special_i1e": "i1e",
    "special_entr": "entr", "special_erfcx": "erfcx", "special_ndtri": "ndtri", "special_log_ndtr": "log_ndtr",
    "special_modified_bessel_i0": "i0", "special_modified_bessel_i1": "i1",
    "special_modified_bessel_k0": "modified_bessel_k0", "special_modified_bessel_k1": "modified_bessel_k1",
    "special_scaled_modified_bessel_k0": "scaled_modified_bessel_k0",
    "special_scaled_modified_bessel_k1": "scaled_modified_bessel_k1",
    "special_bessel_j0": "bessel_j0", "special_bessel_j1": "bessel_j1", "special_bessel_y0": "bessel_y0",
    "special_bessel_y1": "bessel_y1", "special_spherical_bessel_j0": "spherical_bessel_j0",
    "special_airy_ai": "airy_ai",
}  # fmt: skip


def _function(name: str, op: ops.Op, parameter: str) -> None:
    @aten(f"aten.{name}.default")
    def translation(context: Context, x: SymbolicTensor) -> Any:
        return op(cast(x, context.dtype))

    translation.__name__ = name
    translation.__doc__ = f"{name}(Tensor {parameter}) -> Tensor"


for _name, _op in FUNCTIONS.items():
    _function(_name, ops.get(_op), "x" if "bessel" in _name or "airy" in _name else "self")


@aten("aten.digamma.default")
def digamma(context: Context, self: SymbolicTensor) -> Any:
    """digamma(Tensor self) -> Tensor"""
    return special_ops.polygamma(cast(self, context.dtype), order=0)


@aten("aten.polygamma.default")
def polygamma(context: Context, n: int, self: SymbolicTensor) -> Any:
    """polygamma(int n, Tensor self) -> Tensor"""
    return special_ops.polygamma(cast(self, context.dtype), order=n)


@aten("aten.igamma.default")
def igamma(context: Context, self: SymbolicTensor, other: SymbolicTensor) -> Any:
    """igamma(Tensor self, Tensor other) -> Tensor"""
    return special_ops.igamma(*operands(context, context.dtype, self, other))


@aten("aten.igammac.default")
def igammac(context: Context, self: SymbolicTensor, other: SymbolicTensor) -> Any:
    """igammac(Tensor self, Tensor other) -> Tensor"""
    return special_ops.igammac(*operands(context, context.dtype, self, other))


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
