"""Conversion of nodes of opset 18 to opset 17: the rules of ops are written for opset 18 and newer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from .deferred import DeferredTensor, array_of
from .opsets import NewerOpset

Array = np.ndarray[Any, Any]
Form = tuple[tuple[str, ...], dict[str, Any]]

# reductions whose axes are an attribute before opset 18 (ReduceSum has taken them as an input since opset 13)
REDUCTIONS = frozenset(
    f"Reduce{kind}" for kind in ("L1", "L2", "LogSum", "LogSumExp", "Max", "Mean", "Min", "Prod", "SumSquare")
)
SCATTERS = ("ScatterElements", "ScatterND")


def to_opset17(
    op_type: str, inputs: tuple[str, ...], attributes: dict[str, Any], constants: Mapping[str, Array | DeferredTensor]
) -> Form:
    """Return inputs and attributes of a node in opset 17; raise `NewerOpset` if opset 17 can't express it."""
    if op_type in REDUCTIONS and len(inputs) == 2:
        return inputs[:1], attributes | {"axes": array_of(constants[inputs[1]]).tolist()}
    if op_type == "Split" and "num_outputs" in attributes:  # into equal parts, as without `split` in 17
        return inputs, {name: value for name, value in attributes.items() if name != "num_outputs"}
    if op_type in SCATTERS and attributes.get("reduction") in ("max", "min"):
        raise NewerOpset(18, f"{op_type} with reduction {attributes['reduction']!r}")
    return inputs, attributes
