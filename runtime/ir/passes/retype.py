"""`retype`: the same program in another floating-point dtype."""

from __future__ import annotations

import math
from typing import Any

import ml_dtypes
import numpy as np

from ..program import Program
from ..types import Buffer, Constant, DTypeLike, Node, ProgramParameter, Value, as_dtype, is_floating


def retype(program: Program, dtype: DTypeLike) -> Program:
    """Change every floating-point value, and every floating-point dtype among the attributes, to `dtype`.

    A cast between floating-point dtypes thus becomes a cast from `dtype` to itself. Finite numbers beyond the range of
    `dtype` become its largest finite number (so that, for example, the lowest float64 in a mask stays finite).

    Raises:
        TypeError: `dtype` isn't floating-point.
    """
    target = as_dtype(dtype)
    if not is_floating(target):
        raise TypeError(f"astype needs a floating-point dtype, given {target.name}")
    largest = float(ml_dtypes.finfo(target).max)  # type: ignore[no-untyped-call]
    renewed: dict[Value, Value] = {}

    def new(value: Value) -> Value:
        if value not in renewed:
            kind = target if is_floating(value.dtype) else value.dtype
            renewed[value] = Value(value.name, value.type.with_dtype(kind))
        return renewed[value]

    def optional(value: Value | None) -> Value | None:
        return None if value is None else new(value)

    def attribute(item: Any) -> Any:
        if isinstance(item, Program):
            return retype(item, target)
        if type(item) is tuple:  # such as the options of an operator, with a dtype among them
            return tuple(map(attribute, item))
        if isinstance(item, float) and math.isfinite(item):
            return min(max(item, -largest), largest)
        return target if isinstance(item, np.dtype) and is_floating(item) else item

    def clamp(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        if not is_floating(array.dtype) or float(ml_dtypes.finfo(array.dtype).max) <= largest:  # type: ignore[no-untyped-call]
            return array
        return np.where(np.isfinite(array), np.clip(array, -largest, largest), array)

    def data(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        if array.ndim and array.size and not any(array.strides):  # one number in place of data, which takes no memory
            return np.broadcast_to(data(np.asarray(array[(0,) * array.ndim])), array.shape)
        return clamp(array).astype(target) if is_floating(array.dtype) else array

    return Program(
        inputs=tuple(new(value) for value in program.inputs),
        outputs=tuple(new(value) for value in program.outputs),
        nodes=tuple(
            Node(
                node.op,
                tuple(optional(value) for value in node.inputs),
                {name: attribute(item) for name, item in node.attributes.items()},
                tuple(new(value) for value in node.outputs),
                node.cell,
                node.source,
            )
            for node in program.nodes
        ),
        parameters={
            n: ProgramParameter(new(p.value), data(p.data), p.trainable, p.aliases)
            for n, p in program.parameters.items()
        },
        buffers={n: Buffer(new(b.value), data(b.data), optional(b.update)) for n, b in program.buffers.items()},
        # a constant keeps its digits: it is rounded when it is used
        constants=tuple(Constant(new(c.value), clamp(c.data)) for c in program.constants),
        calls=program.calls,
        arguments=program.arguments,
        result=program.result,
        train=program.train,
    )
