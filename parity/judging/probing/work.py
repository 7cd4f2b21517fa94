"""The work of a run, counted rather than timed, so that the same probes are tried on an idle and on a busy machine."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode

from ....runtime.ir.program import Program
from ....runtime.ir.types import Value
from ....runtime.ops.registry import ops_with
from ...sides.abilities import RunsProgram
from ...sides.side import Side

OF_AN_OPERATION = 2.0e5
"""The work of calling an operation, whatever its size."""
LEAST = 1.0e10
"""The work that all probes of a side may take: in float64, about 10 s on one core."""
RUNS = 40.0
"""The work that they may take at least, in runs of the network: about as much as the comparison itself."""
GRADIENT_SHARE = 0.25
"""The share that is kept for gradients, which come after the outputs on all probes."""
OF_A_GRADIENT = 3.0
"""The work of a run with gradients, in runs forward."""

OPERATIONS_OF_A_STEP = 4.0
"""The calls of NumPy in a step of a recurrent layer, which are quicker than operations of their own."""
RECURRENT = ops_with(lambda of: of.recurrent)
MATRIX_PRODUCTS = frozenset({"mm", "addmm", "bmm", "baddbmm", "matmul", "linear"})


@dataclass
class Budget:
    """The work that the probes of a side may take.

    Attributes:
        run: the work of a run forward.
        most: the work of all probes.
        done: the work so far.
    """

    run: float
    most: float
    done: float = 0.0

    @classmethod
    def of(cls, run: float, share: float = 1.0) -> Budget:
        """The work of probing a side, or a share of it, by that of a run of the reference forward."""
        return cls(run, share * max(LEAST, RUNS * run))

    def has_room(self, *, grads: bool, kept: bool) -> bool:
        """Whether another probe may be tried; with `kept`, a share of the work is left for gradients."""
        return self.done < self.most * (1 - GRADIENT_SHARE if kept and not grads else 1)

    def add(self, runs: float, *, grads: bool, larger: float = 1.0) -> None:
        """Add the work of runs; `larger`, by a factor, if the inputs are."""
        self.done += runs * self.run * (OF_A_GRADIENT if grads else 1.0) * larger


def work_of_program(side: Side) -> float:
    """Return the work of a run of a program: multiplications, elements written, and calls; 0 for any other side."""
    return _of_program(side.own_program()) if isinstance(side, RunsProgram) else 0.0


def _of_operation(op: str, operands: Sequence[Sequence[int]], results: Sequence[Sequence[int]]) -> float:
    """Return the work of an operation on operands of these shapes, with results of those."""
    written = float(sum(map(math.prod, results)))
    if op in RECURRENT and operands and len(operands[0]) == 3:
        return _of_layer(operands)
    if op in MATRIX_PRODUCTS and len(operands) > 1 and results:
        first, second = operands[-2:] if op in ("addmm", "baddbmm") else operands[:2]
        return math.sqrt(math.prod(first) * math.prod(second) * math.prod(results[0])) + OF_AN_OPERATION
    if op.startswith(("conv", "_conv")) and len(operands) > 1 and results and len(results[0]) > 1:
        return written * math.prod(operands[1]) / max(1, results[0][1]) + OF_AN_OPERATION
    if "attention" in op and len(operands) > 1:
        return 2 * math.prod(operands[0]) * (operands[1][-2] if len(operands[1]) > 1 else 1) + OF_AN_OPERATION
    return written + OF_AN_OPERATION


def _of_layer(operands: Sequence[Sequence[int]]) -> float:
    """Return the work of a recurrent layer on an input (time, batch, features), states and weights."""
    time, batch, _ = operands[0]
    weights = sum(math.prod(shape) for shape in operands[1:] if len(shape) == 2)
    return time * (batch * weights + OPERATIONS_OF_A_STEP * OF_AN_OPERATION)


def _of_program(program: Program) -> float:
    return sum(
        _of_operation(node.op, [_shape(v) for v in node.inputs if v is not None], [_shape(v) for v in node.outputs])
        for node in program.nodes
    )


def _shape(value: Value) -> tuple[int, ...]:
    return tuple(dim if isinstance(dim, int) else 1 for dim in value.shape)


class CountedWork(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """A mode that counts the work of torch's operators: multiplications, elements written, and calls."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.work = 0.0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        shapes = [
            [leaf.shape for leaf in pytree.tree_leaves(tree) if isinstance(leaf, torch.Tensor)]
            for tree in ((args, kwargs or {}), result)
        ]
        self.work += _of_operation(func.overloadpacket.__name__, *shapes)
        return result
