"""ONNX operators whose result size depends on the elements."""

from __future__ import annotations

from typing import Any

from ....runtime.ops import data_dependent, shaping
from ....runtime.ops.common import normalize_axis
from ....runtime.tracing import SymbolicTensor
from .context import Context
from .table import onnx


@onnx("NonZero")
def nonzero(context: Context, X: SymbolicTensor) -> Any:
    """NonZero-9..13(X) -> Y, (rank, count)"""
    indices = data_dependent.nonzero(X, symbols=(context.builder.new_symbol(),))
    return shaping.transpose(indices, permutation=(1, 0))


@onnx("Unique")
def unique(context: Context, X: SymbolicTensor, *, axis: int | None = None, sorted: int = 1) -> Any:
    """Unique-11..28(X) -> Y, indices?, inverse_indices?, counts?"""
    at = None if axis is None else normalize_axis(axis, X.ndim)
    return data_dependent.unique(X, symbols=(context.builder.new_symbol(),), axis=at, sorted=bool(sorted))
