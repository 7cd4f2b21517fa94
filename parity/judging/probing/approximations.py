"""Approximations that operations make beyond a threshold, by their definition, and that other formulas don't make.

torch's softplus returns x itself where x is above a threshold, 20 unless another is given: it is off by exp(-20), or
2e-9, which no working dtype below float64 shows (torch.nn.Softplus). A lower threshold shows, and isn't excused.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from torch.utils._python_dispatch import TorchDispatchMode

from ....runtime.ir.program import Program
from ....runtime.ops.registry import get
from ...sides.abilities import RunsModule
from ...sides.side import Side
from .operations import program_of

THRESHOLD = 20.0


def approximation(side: Side) -> float:
    """Return the largest relative error of the approximations that a side makes; 0 if it makes none that is known."""
    if isinstance(side, RunsModule):
        return side.watch_operators(_Watching()).error
    program = program_of(side)
    return 0.0 if program is None else _of_program(program)


def _of_program(program: Program) -> float:
    curves = [node for node in program.nodes if node.op == "softplus"]
    thresholds = [node.attributes["threshold"] for node in curves]
    operands = {node.inputs[0] for node in curves}
    for node in program.nodes:  # exported, it is a choice between x and ONNX's Softplus, which has no threshold
        if get(node.op).traits.compares and node.inputs[0] in operands:
            bound = node.inputs[1]
            if bound is not None and bound in program.constant_data:
                thresholds.append(float(program.constant_data[bound].astype(np.float64).max(initial=-math.inf)))
    inner = [value for node in program.nodes for value in node.attributes.values() if isinstance(value, Program)]
    return max([*map(_error, thresholds), *map(_of_program, inner)], default=0.0)


def _error(threshold: float) -> float:
    return math.exp(-threshold) if threshold >= THRESHOLD else 0.0


class _Watching(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """A mode that looks for calls of softplus."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.error = 0.0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func.overloadpacket.__name__ == "softplus":
            given = {"threshold": THRESHOLD, **dict(zip(("self", "beta", "threshold"), args, strict=False))}
            self.error = max(self.error, _error(float((given | (kwargs or {}))["threshold"])))
        return func(*args, **(kwargs or {}))
