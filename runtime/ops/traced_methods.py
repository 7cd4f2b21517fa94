"""The operators of traced values, `a + b` and the like, and `astype`: what the rules of ops are written with."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..tensor_like import Compound
from ..tracing import Traced
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


def astype(self: Traced, dtype: np.dtype[Any], copy: bool = True) -> Traced:
    """The value in another dtype; the value itself if it has that."""
    cast: Traced = self if dtype == self.dtype else elementwise.cast(self, dtype=dtype)
    return cast


def _attach(name: str, op: Op) -> None:
    def method(self: Traced, other: Any) -> Any:
        return NotImplemented if isinstance(other, Compound) else op(self, other)

    def reflected(self: Traced, other: Any) -> Any:
        return op(other, self)

    setattr(Traced, f"__{name}__", method)
    if name in REFLECTED:
        setattr(Traced, f"__r{name}__", reflected)


for _name, _op in BINARY.items():
    _attach(_name, _op)
Traced.astype = astype  # type: ignore[method-assign]
Traced.__neg__ = lambda self: elementwise.neg(self)  # type: ignore[method-assign]
