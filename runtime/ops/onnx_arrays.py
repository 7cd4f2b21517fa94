"""NumPy code that writes ONNX: a function of NumPy's elementwise functions and `np.where`, run on `OnnxArray`s.

So a special function is written down once, for the kernel and for ONNX. What it uses must stand in `OPERATORS`; it may
not look at the elements (no masks as indices, no `if` on a value).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..ir.types import FLOAT64
from . import float64_forms
from .float64_forms import Writer
from .registry import OnnxGraph

OPERATORS: dict[np.ufunc, str | Callable[..., str]] = {
    np.add: "Add",
    np.subtract: "Sub",
    np.multiply: "Mul",
    np.divide: "Div",
    np.negative: "Neg",
    np.absolute: "Abs",
    np.sign: "Sign",
    np.floor: "Floor",
    np.maximum: "Max",
    np.minimum: "Min",
    np.power: "Pow",
    np.sqrt: "Sqrt",
    np.exp: "Exp",
    np.log: "Log",
    np.sin: "Sin",
    np.cos: "Cos",
    np.log1p: float64_forms.log1p,
    np.expm1: float64_forms.expm1,
    np.less: "Less",
    np.less_equal: "LessOrEqual",
    np.greater: "Greater",
    np.greater_equal: "GreaterOrEqual",
    np.equal: "Equal",
    np.bitwise_and: "And",
    np.bitwise_or: "Or",
    np.invert: "Not",
    np.isnan: "IsNaN",
}


class OnnxArray(np.lib.mixins.NDArrayOperatorsMixin):
    """A float64 or bool tensor of an ONNX graph, in the hands of NumPy code."""

    def __init__(self, graph: OnnxGraph, name: str) -> None:
        self.graph = graph
        self.name = name

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **kwargs: Any) -> Any:
        if method != "__call__" or kwargs or ufunc not in OPERATORS:
            return NotImplemented
        operator = OPERATORS[ufunc]
        if callable(operator):
            return self._array(operator(Writer(self.graph, FLOAT64), *map(self._name, inputs)))
        return self._array(self.graph.op(operator, *map(self._name, inputs)))

    def __array_function__(self, function: Any, types: Any, args: Any, kwargs: Any) -> Any:
        if function is not np.where or kwargs:
            return NotImplemented
        return self._array(self.graph.op("Where", *map(self._name, args)))

    def _name(self, operand: Any) -> str:
        return operand.name if isinstance(operand, OnnxArray) else self.graph.constant(operand, FLOAT64)

    def _array(self, name: str) -> OnnxArray:
        return OnnxArray(self.graph, name)


def written_by(function: Callable[..., Any]) -> Callable[..., str]:
    """The ONNX rule of a function of float64 arrays: operands are widened to float64, the result is rounded once."""

    def rule(graph: OnnxGraph, *inputs: str, **attributes: Any) -> str:
        arrays = [OnnxArray(graph, graph.cast(x, FLOAT64)) for x in inputs]
        return graph.cast(function(*arrays, **attributes).name, graph.type(inputs[0]).dtype)

    return rule
