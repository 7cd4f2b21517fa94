"""ATen matrix products; `einsum` has its own file."""

from __future__ import annotations

from typing import Any

from ....runtime.ir.types import at_least_float32
from ....runtime.ops import linear, reduction, shaping
from ....runtime.tracing import SymbolicTensor
from ...rows import Row
from .table import Context, aten, cast, operands, pass_on


@aten(
    "aten.matmul.default",
    "aten.linalg_matmul.default",
    "aten.mm.default",
    "aten.bmm.default",
    "aten.mv.default",
    "aten.dot.default",
    "aten.vdot.default",
)
def matmul(context: Context, self: SymbolicTensor, other: SymbolicTensor) -> Any:
    """matmul(Tensor self, Tensor other) -> Tensor"""
    return linear.matmul(self, other)


@aten("aten.outer.default", "aten.ger.default")
def outer(context: Context, self: SymbolicTensor, vec2: SymbolicTensor) -> Any:
    """outer(Tensor self, Tensor vec2) -> Tensor"""
    a, b = operands(context, context.dtype, self, vec2)
    return shaping.reshape(a, shape=(a.shape[0], 1)) * b


@aten("aten.addmm.default", "aten.addmv.default", "aten.baddbmm.default")
def addmm(
    context: Context, self: SymbolicTensor, mat1: SymbolicTensor, mat2: SymbolicTensor, *, beta: Any = 1, alpha: Any = 1
) -> Any:
    """addmm(Tensor self, Tensor mat1, Tensor mat2, *, Scalar beta=1, Scalar alpha=1) -> Tensor"""
    if alpha != 1 or beta != 1:
        self, mat1, mat2 = operands(context, at_least_float32(context.dtype), self, mat1, mat2)
    return cast(_add_scaled(self, linear.matmul(mat1, mat2), beta, alpha), context.dtype)


@aten("aten.addbmm.default")
def addbmm(
    context: Context,
    self: SymbolicTensor,
    batch1: SymbolicTensor,
    batch2: SymbolicTensor,
    *,
    beta: Any = 1,
    alpha: Any = 1,
) -> Any:
    """addbmm(Tensor self, Tensor batch1, Tensor batch2, *, Scalar beta=1, Scalar alpha=1) -> Tensor"""
    return _add_scaled(self, reduction.reduce_sum(linear.matmul(batch1, batch2), axes=(0,)), beta, alpha)


@aten("aten.addr.default")
def addr(
    context: Context, self: SymbolicTensor, vec1: SymbolicTensor, vec2: SymbolicTensor, *, beta: Any = 1, alpha: Any = 1
) -> Any:
    """addr(Tensor self, Tensor vec1, Tensor vec2, *, Scalar beta=1, Scalar alpha=1) -> Tensor"""
    return _add_scaled(self, outer(context, vec1, vec2), beta, alpha)


def _add_scaled(x: SymbolicTensor, y: Any, beta: Any, alpha: Any) -> Any:
    """beta * x + alpha * y; if beta is 0, `x` is ignored, even its NaN."""
    scaled = y if alpha == 1 else y * alpha
    if beta == 0:
        return scaled
    return scaled + (x if beta == 1 else x * beta)


ROWS: dict[str, Row] = {
    "aten.linear.default": (linear.linear, "input, weight, bias"),
}
pass_on(ROWS)
