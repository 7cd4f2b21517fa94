"""ATen `einsum`."""

from __future__ import annotations

from typing import Any

from ....runtime.errors import ShapeError
from ....runtime.ops.contraction import einsum as composed
from ....runtime.tracing import SymbolicTensor
from ...unsupported import Unsupported
from .table import Context, aten


@aten("aten.einsum.default")
def einsum(context: Context, equation: str, tensors: list[SymbolicTensor], *, path: Any = None) -> Any:
    """einsum(str equation, Tensor[] tensors, *, int[]? path=None) -> Tensor"""
    try:
        return composed(equation, tensors)  # from left to right, as in torch's default path
    except ShapeError as error:
        raise Unsupported(str(error)) from None
