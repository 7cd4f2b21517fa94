"""`guard`: a check at run time of an assumption made when the program was built."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..errors import ShapeError
from ..ir.types import BOOL, INT64
from ..traits import Traits
from .registry import Array, OnnxGraph, Tensor, Type, operator, require


@operator
def guard(x: Tensor, condition: Tensor, *, message: str) -> Tensor:
    """Identity of x that raises an error if the condition is false.

    Args:
        x: any tensor.
        condition: bool, without dimensions.
        message: the message of the error.
    """


guard.traits = Traits(moves="first", view=True)


@guard.infer
def _(x: Type, condition: Type, *, message: str) -> Type:
    require(condition == Type(BOOL, ()), f"needed a bool without dimensions as condition, given {condition}")
    return x


@guard.native_kernel
def _(x: Array, condition: Array, *, message: str) -> Array:
    if not condition:
        raise ShapeError(message)
    return x


@guard.vjp
def _(g: Tensor, y: Tensor, x: Tensor, condition: Tensor, *, message: str) -> Any:
    return g, None


@guard.onnx
def _(graph: OnnxGraph, x: str, condition: str, *, message: str) -> Any:
    # take the only slice, or a nonexistent one, for which ONNX Runtime reports an index out of range
    position = graph.op("Where", condition, graph.constant(np.array(0), INT64), graph.constant(np.array(1), INT64))
    return graph.op("Gather", graph.op("Unsqueeze", x, graph.constant(np.array([0]), INT64)), position, axis=0)
