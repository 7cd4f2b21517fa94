"""What do operations do with equal elements, and with numbers midway between whole ones?

`argmax`, and a maximum along an axis, take the first (torch.argmax; ONNX ArgMax-13), and `amax` shares its gradient
among equal elements. That says something only of values that are equal on both sides: those of the inputs, moved,
compared or negated, not sums and products, which rounding makes unequal. `topk` and an unstable sort may take any.
In the same way, it is defined to which side a number midway between whole ones is rounded, if it is one of the inputs.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import torch
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode

from ...runtime.errors import CellbridgeError
from ...runtime.ir.program import Program
from ...runtime.ir.types import Value, is_floating
from ..sides.interpreter_side import InterpreterSide
from ..sides.records import Run, Side
from ..sides.torch_side import TorchSide

EXACT = frozenset({
    # ops of programs
    "abs", "boundary", "cast", "ceil", "clamp", "concat", "equal", "expand", "flip", "floor", "full", "gather",
    "greater", "greater_equal", "hardtanh", "less", "less_equal", "max_pool", "maximum", "minimum", "neg", "not_equal",
    "pad", "reduce_max", "reduce_min", "relu", "reshape", "roll", "round", "sign", "slice", "tile", "transpose",
    "trunc", "where", "arange",
    # torch's operators
    "_reshape_alias", "_to_copy", "_unsafe_view", "alias", "amax", "amin", "cat", "clamp_max", "clamp_min", "clone",
    "constant_pad_nd", "copy", "detach", "eq", "full_like", "ge", "gt", "index", "index_select", "le", "lt",
    "masked_fill", "max", "max_pool2d_with_indices", "max_pool3d_with_indices", "min", "ne", "ones_like", "permute",
    "repeat", "select", "split", "squeeze", "stack", "t", "unbind", "unsqueeze", "view", "zeros_like",
})  # fmt: skip
"""Ops that compute numbers of their operands without rounding: equal ones stay equal."""
TAKING = frozenset({
    "argmax", "argmin", "reduce_max", "reduce_min", "max_pool", "adaptive_max_pool", "cummax", "cummin", "amax", "amin",
    "max", "min", "max_pool2d_with_indices", "max_pool3d_with_indices", "adaptive_max_pool2d",
    "adaptive_max_pool3d",
})  # fmt: skip
"""Ops that take one of several equal elements by a rule, or share the gradient among them."""
OPEN = frozenset({"topk", "sort", "argsort", "median", "nanmedian", "kthvalue", "mode", "unique", "unique_dim"})
"""Ops that may take any of them."""
KEEPING = frozenset({"sort", "topk"})
"""Those that keep the order of equal elements in a program, as ONNX's do (TopK-11)."""
ROUNDING = {
    "round": (-2.5, -1.5, -0.5, 0.5, 1.5, 2.5), "floor": (-1.0, 0.0, 1.0), "ceil": (-1.0, 0.0, 1.0),
    "trunc": (-1.0, 0.0, 1.0),
}  # fmt: skip
"""Ops that round to whole numbers, with numbers at which they jump."""


@dataclass
class Order:
    """What a network does with equal elements.

    Attributes:
        takes: whether it takes one of them.
        defined: whether it is defined which.
        jumps: numbers at which it rounds inputs to one whole number or the next.
    """

    takes: bool = False
    defined: bool = True
    jumps: set[float] = field(default_factory=set)

    def see(self, op: str, *, exact: bool, stable: bool = False) -> None:
        """Take account of an operation on operands that are, or aren't, exact."""
        if op in TAKING or op in OPEN:
            self.takes = True
            self.defined &= exact and (op in TAKING or stable)
        if exact:
            self.jumps.update(ROUNDING.get(op, ()))


def order_in(side: Side) -> Order:
    """Return what a side does with equal elements; nothing is defined where its operations can't be seen."""
    if isinstance(side, TorchSide):
        watching = _Watching()
        with watching:
            side.run(Run("float64", grads=False, inner=False))
        return watching.order
    if isinstance(side, InterpreterSide):
        try:
            return _of_program(side.in_interpreter().program)
        except CellbridgeError:
            return Order(takes=True, defined=False)
    return Order(takes=True, defined=False)


def _of_program(program: Program) -> Order:
    order, inexact = Order(), set[Value]()
    for node in program.nodes:
        exact = inexact.isdisjoint(node.inputs)
        order.see(node.op, exact=exact, stable=node.op in KEEPING)
        if not exact or (node.op not in EXACT and any(is_floating(value.dtype) for value in node.outputs)):
            inexact.update(node.outputs)
    return order


@dataclass
class _Seen:
    """Tensors by identity, kept alive so that no other has the same."""

    tensors: dict[int, torch.Tensor] = field(default_factory=dict)

    def __contains__(self, tensor: torch.Tensor) -> bool:
        return id(tensor) in self.tensors

    def add(self, tensor: torch.Tensor) -> None:
        self.tensors[id(tensor)] = tensor


class _Watching(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """A mode that follows which tensors are computed with rounding."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.order = Order()
        self._inexact = _Seen()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        given = pytree.tree_leaves((args, kwargs or {}))
        operands = [leaf for leaf in given if isinstance(leaf, torch.Tensor)]
        exact = not any(tensor in self._inexact for tensor in operands)
        op = func.overloadpacket.__name__
        self.order.see(op, exact=exact, stable=any(leaf is True for leaf in given))
        result = func(*args, **(kwargs or {}))
        results = [leaf for leaf in pytree.tree_leaves(result) if isinstance(leaf, torch.Tensor)]
        rounds = op.removesuffix("_") not in EXACT and any(tensor.is_floating_point() for tensor in results)
        if not exact or (rounds and operands):
            for tensor in results:
                self._inexact.add(tensor)
        return result
