"""Turning NumPy code into ONNX: functions composed of NumPy's elementwise functions and `np.where` run on `OnnxArray`s.

Thus one definition of a special function serves as kernel and as ONNX rule. It may use the functions in `OPERATORS`,
and must not branch on elements (no masks as indices, no `if` on a value), except through `iterate`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..ir.dims import Dim
from ..ir.types import FLOAT64
from . import float64_forms
from .common import broadcast_shapes
from .float64_forms import Writer
from .registry import OnnxGraph, Rule, Type

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
    """A float64 or bool tensor of an ONNX graph that NumPy code can compute with.

    Attributes:
        graph: the graph to emit to.
        name: name of the tensor.
        shape: shape of all tensors in the function.
    """

    def __init__(self, graph: OnnxGraph, name: str, shape: tuple[Dim, ...]) -> None:
        self.graph = graph
        self.name = name
        self.shape = shape

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
        return OnnxArray(self.graph, name, self.shape)


def iterate(
    step: Callable[..., tuple[Any, ...]], state: Sequence[Any], captured: Sequence[Any], limit: int
) -> list[Any]:
    """Repeat a step on a state until no element needs to continue, and return the final state.

    Args:
        step: takes the number of the step, counted from 1, the state and `captured`; returns which elements continue,
            and the new state.
        state: the initial state, arrays of one shape.
        captured: values that are the same in every step, arrays of the same shape.
        limit: the largest number of steps.
    """
    first = state[0]
    if isinstance(first, OnnxArray):
        return _loop(first, step, state, captured, limit)
    state = list(state)
    for k in range(1, limit + 1):
        going, *state = step(float(k), *state, *captured)
        if not np.any(going):
            break
    return state


def _loop(first: OnnxArray, step: Rule, state: Sequence[Any], captured: Sequence[Any], limit: int) -> list[Any]:
    """Emit `iterate` as an ONNX Loop-21."""
    shape = first.shape
    number, flag, numbers = Type(np.dtype(np.int64), ()), Type(np.dtype(bool), ()), Type(FLOAT64, shape)

    def body(graph: OnnxGraph, iteration: str, _: str, *names: str) -> tuple[str, ...]:
        k = OnnxArray(graph, graph.op("Cast", iteration, to=FLOAT64), shape) + 1.0
        arrays = [OnnxArray(graph, name, shape) for name in (*names, *(x.name for x in captured))]
        going, *now = step(k, *arrays)
        any_continues = graph.op("ReduceMax", graph.op("Cast", going.name, to=np.dtype(np.int32)), keepdims=0)
        return graph.op("Cast", any_continues, to=np.dtype(bool)), *(x.name for x in now)

    count = len(state)
    body_graph = first.graph.body("terms", [number, flag, *[numbers] * count], [flag, *[numbers] * count], body)
    operands = [first.graph.constant(limit, np.int64), first.graph.constant(True), *(x.name for x in state)]
    names = first.graph.op("Loop", *operands, outputs=count, body=body_graph)
    return [OnnxArray(first.graph, name, shape) for name in ((names,) if count == 1 else names)]


def as_onnx_rule(function: Callable[..., Any]) -> Callable[..., str]:
    """Return the ONNX rule for a function of float64 arrays: cast the operands to float64, round the result once."""

    def rule(graph: OnnxGraph, *inputs: str, **attributes: Any) -> str:
        types = [graph.type(x) for x in inputs]
        shape = broadcast_shapes(*(type.shape for type in types))
        arrays = []
        for x, type in zip(inputs, types, strict=True):
            wide = graph.cast(x, FLOAT64)
            whole = wide if type.shape == shape else graph.op("Expand", wide, graph.dims(shape))
            arrays.append(OnnxArray(graph, whole, shape))
        return graph.cast(function(*arrays, **attributes).name, types[0].dtype)

    return rule
