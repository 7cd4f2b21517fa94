"""Grouped matrix products: ATen's, and the one that transformers registers for mixtures of experts."""

from __future__ import annotations

from typing import Any

from ....runtime.ops import grouped, linear, shaping
from ....runtime.tracing import SymbolicTensor
from ...unsupported import Unsupported
from .table import Context, aten, cast


@aten("aten._grouped_mm.default")
def grouped_mm(
    context: Context,
    self: SymbolicTensor,
    mat2: SymbolicTensor,
    offs: SymbolicTensor | None = None,
    bias: Any = None,
    out_dtype: Any = None,
) -> Any:
    """_grouped_mm(Tensor self, Tensor mat2, Tensor? offs=None, Tensor? bias=None, ScalarType? out_dtype=None) -> Tensor

    `offs` splits the dimension that all groups share in one operand: the rows of `self`, the columns of `mat2` or, for
    two matrices, the dimension that is summed over.
    """
    if bias is not None:
        raise Unsupported("with a bias")
    return cast(_product(self, mat2, offs), context.dtype)


@aten("transformers.grouped_mm_fallback.default")
def grouped_mm_fallback(context: Context, input: SymbolicTensor, weight: SymbolicTensor, offs: SymbolicTensor) -> Any:
    """grouped_mm_fallback(Tensor input, Tensor weight, Tensor offs) -> Tensor"""
    return grouped.grouped_matmul(input, weight, offs)


def _product(a: SymbolicTensor, b: SymbolicTensor, ends: SymbolicTensor | None) -> Any:
    if ends is None:
        return linear.matmul(a, b)
    if b.ndim == 3:
        return grouped.grouped_matmul(a, b, ends)
    if a.ndim == 3:
        return _transpose(grouped.grouped_matmul(_transpose(b), shaping.transpose(a, permutation=(0, 2, 1)), ends))
    return grouped.grouped_outer(_transpose(a), b, ends)


def _transpose(x: SymbolicTensor) -> Any:
    return shaping.transpose(x, permutation=(1, 0))
