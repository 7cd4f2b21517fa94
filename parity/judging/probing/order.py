"""What do operations do with equal elements, and with numbers midway between whole ones?

`argmax`, and a maximum along an axis, take the first (torch.argmax; ONNX ArgMax-13), and `amax` shares its gradient
among equal elements. That says something only of values that are equal on both sides: those of the inputs, moved,
compared or negated, not sums and products, which rounding makes unequal. `topk` and an unstable sort may take any.
In the same way, it is defined to which side a number midway between whole ones is rounded, if it is one of the inputs,
or one times a number (`round(x * 10) / 10`): then there are inputs whose product is such a number without rounding.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, MutableMapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.weak import WeakTensorKeyDictionary

from ....runtime.errors import CellbridgeError
from ....runtime.ir.program import Program
from ....runtime.ir.types import Value, is_floating
from ....runtime.ops.registry import get, ops_with
from ...sides.abilities import RunsProgram
from ...sides.side import Side

EXACT = ops_with(lambda of: of.exact or of.moves or of.compares) | {
    # torch's operators
    "_reshape_alias", "_to_copy", "_unsafe_view", "alias", "amax", "amin", "cat", "clamp_max", "clamp_min", "clone",
    "constant_pad_nd", "copy", "detach", "eq", "full_like", "ge", "gt", "index", "index_select", "le", "lift_fresh",
    "lt", "masked_fill", "max", "max_pool2d_with_indices", "max_pool3d_with_indices", "min", "ne", "ones_like",
    "permute", "repeat", "select", "split", "squeeze", "stack", "t", "unbind", "unsqueeze", "view", "zeros_like",
}  # fmt: skip
"""Operations that compute numbers of their operands without rounding: equal ones stay equal."""
TAKING = frozenset({
    "argmax", "argmin", "amax", "amin", "cummax", "cummin", "max", "min", "max_pool2d_with_indices",
    "max_pool3d_with_indices", "adaptive_max_pool2d", "adaptive_max_pool3d",
})  # fmt: skip
"""torch operators that take one of several equal elements by a rule, or share the gradient among them."""
OPEN = frozenset({"topk", "sort", "argsort", "median", "nanmedian", "kthvalue", "mode", "unique", "unique_dim"})
"""torch operators that may take any of them, unless they are asked for a stable order."""
ROUNDING = {
    "round": (-2.5, -1.5, -0.5, 0.5, 1.5, 2.5), "floor": (-1.0, 0.0, 1.0), "ceil": (-1.0, 0.0, 1.0),
    "trunc": (-1.0, 0.0, 1.0),
}  # fmt: skip
"""Ops that round to whole numbers, with numbers at which they jump."""
SCALING = {"mul": False, "div": True}
"""Ops that scale a tensor by a number, with whether they divide by it."""
MOST_HALVINGS = 12
"""The largest power of two that inputs are multiples of the inverse of, for products without rounding."""
FEW = 4
"""Number of jumps that are tried for each scale, of either sign."""


def _scaled(op: str, factor: float) -> float:
    """Return the scale of a product or a quotient; 0 if it is none."""
    if not math.isfinite(factor) or factor == 0:
        return 0.0
    return 1.0 / factor if SCALING[op] else factor


def jumps_behind(scale: float, numbers: Iterable[float]) -> Iterator[float]:
    """Yield inputs whose product with `scale` has, without rounding, the fraction of one of these numbers."""
    fractions = {number % 1.0 for number in numbers}
    for halvings in range(MOST_HALVINGS):
        unit = 2.0**-halvings
        fitting = [n * unit for n in range(1, 2 * FEW) if (n * unit * scale) % 1.0 in fractions]
        if fitting:
            yield from (sign * x for x in fitting[:FEW] for sign in (-1.0, 1.0))
            return


@dataclass
class Order:
    """What a network does with equal elements.

    Attributes:
        takes: whether it takes one of them.
        defined: whether it is defined which.
        jumps: numbers at which it rounds inputs, or their products with a number, to one whole number or the next.
        clear: whether its whole numbers and truth values are computed of inputs without rounding.
    """

    takes: bool = False
    defined: bool = True
    jumps: set[float] = field(default_factory=set)
    clear: bool = True

    def see(self, op: str, ties: str, *, exact: bool, scale: float | None = None) -> None:
        """Take account of an operation on operands that are, or aren't, exact, or that are inputs times `scale`.

        `ties` says what it does with equal elements, as `Traits.ties` does.
        """
        if ties:
            self.takes = True
            self.defined &= exact and ties == "defined"
        if exact:
            self.jumps.update(ROUNDING.get(op, ()))
        elif scale and op in ROUNDING:
            self.jumps.update(jumps_behind(scale, ROUNDING[op]))


def order_of_program(side: Side) -> Order:
    """Return what a program does with equal elements; nothing is defined where a side's operations can't be read."""
    if isinstance(side, RunsProgram):
        try:
            return _of_program(side.own_program())
        except CellbridgeError:
            return Order(takes=True, defined=False, clear=False)
    return Order(takes=True, defined=False, clear=False)


def _of_program(program: Program) -> Order:
    order, inexact, scales, data = Order(), set[Value](), dict[Value, float](), program.constant_data
    for node in program.nodes:
        exact = inexact.isdisjoint(node.inputs)
        operand = node.inputs[0] if node.inputs else None
        scale = None if operand is None else scales.get(operand)
        order.see(node.op, get(node.op).traits.ties, exact=exact, scale=scale)
        if node.op in SCALING:
            factor = node.inputs[1]
            if exact and factor is not None and factor in data and data[factor].size == 1:
                scales[node.outputs[0]] = _scaled(node.op, float(data[factor].reshape(-1)[0]))
        elif scale is not None and node.op in EXACT:
            scales[node.outputs[0]] = scale
        order.clear &= exact or all(is_floating(value.dtype) for value in node.outputs)
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


class WatchedOrder(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """A mode that follows which tensors are computed with rounding."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.order = Order()
        self._inexact = _Seen()
        self._scales: MutableMapping[torch.Tensor, float] = WeakTensorKeyDictionary()  # identities are used again

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        given = pytree.tree_leaves((args, kwargs or {}))
        operands = [leaf for leaf in given if isinstance(leaf, torch.Tensor)]
        exact = not any(tensor in self._inexact for tensor in operands)
        op = func.overloadpacket.__name__
        scale = self._scales.get(operands[0]) if len(operands) == 1 else None
        stable = any(leaf is True for leaf in given)
        ties = "defined" if op in TAKING or (op in OPEN and stable) else "open" if op in OPEN else ""
        self.order.see(op, ties, exact=exact, scale=scale)
        result = func(*args, **(kwargs or {}))
        results = [leaf for leaf in pytree.tree_leaves(result) if isinstance(leaf, torch.Tensor)]
        self.order.clear &= exact or all(tensor.is_floating_point() for tensor in results)
        rounds = op.removesuffix("_") not in EXACT and any(tensor.is_floating_point() for tensor in results)
        if not exact or (rounds and operands):
            for tensor in results:
                self._inexact.add(tensor)
        if op in SCALING and exact and len(args) > 1 and (factor := _number(args[1])) is not None:
            self._scales[result] = _scaled(op, factor)
        elif scale is not None and op in EXACT and len(results) == 1:
            self._scales[results[0]] = scale
        return result


def _number(value: Any) -> float | None:
    """A Python number, or a tensor of one without dimensions; None for anything else."""
    if isinstance(value, torch.Tensor):
        return float(value) if value.ndim == 0 and not value.is_complex() else None
    return float(value) if isinstance(value, (int, float)) else None
