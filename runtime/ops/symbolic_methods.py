"""The operators of symbolic tensors (`a + b` etc.) and `astype`, with which the rules of ops are written."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..tensor_like import Compound
from ..tracing import SymbolicTensor
from . import elementwise, linear
from .registry import Op

BINARY = {
    "add": elementwise.add,
    "sub": elementwise.sub,
    "mul": elementwise.mul,
    "truediv": elementwise.div,
    "matmul": linear.matmul,
    "pow": elementwise.pow,
}
REFLECTED = ("add", "sub", "mul", "truediv")


def astype(self: SymbolicTensor, dtype: np.dtype[Any], copy: bool = True) -> SymbolicTensor:
    """Return the value in another dtype; the value itself if it already has that dtype."""
    cast: SymbolicTensor = self if dtype == self.dtype else elementwise.cast(self, dtype=dtype)
    return cast


def _attach(name: str, op: Op) -> None:
    def method(self: SymbolicTensor, other: Any) -> Any:
        return NotImplemented if isinstance(other, Compound) else op(self, other)

    def reflected_method(self: SymbolicTensor, other: Any) -> Any:
        return op(other, self)

    setattr(SymbolicTensor, f"__{name}__", method)
    if name in REFLECTED:
        setattr(SymbolicTensor, f"__r{name}__", reflected_method)


for _name, _op in BINARY.items():
    _attach(_name, _op)
SymbolicTensor.astype = astype  # type: ignore[method-assign]
SymbolicTensor.__neg__ = lambda self: elementwise.neg(self)  # type: ignore[method-assign]
