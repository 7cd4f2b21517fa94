"""Where the sizes of symbols come from: the shapes of inputs, and nodes that determine a size at run time."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from .dims import SymbolicDim, symbols_in
from .types import Node, Value

READ_SIZES = "read_sizes"  # the op that takes sizes from the elements of a tensor


@dataclass(frozen=True, slots=True)
class Reading:
    """A symbol whose size is known once a node has run.

    Attributes:
        symbol: its name.
        output: index of the node's output that holds the size.
        axis: the axis of that output with this size; None if the size is an element of the output.
        element: which element, in flat order.
        dim: the dimension of the axis, which is solved for the symbol.
    """

    symbol: str
    output: int
    axis: int | None = None
    element: int = 0
    dim: SymbolicDim | None = None

    def size(self, outputs: Sequence[np.ndarray[Any, Any]]) -> int:
        """Return the size, from the outputs that the node computed."""
        array = outputs[self.output]
        if self.axis is None:
            return int(array.reshape(-1)[self.element])
        assert self.dim is not None
        solved = self.dim.solve(array.shape[self.axis])
        assert solved is not None
        return solved[1]


def readings(node: Node, known_symbols: Iterable[str]) -> list[Reading]:
    """Return the symbols that become known when `node` has run."""
    if node.op == READ_SIZES:
        return [Reading(name, 0, element=i) for i, name in enumerate(node.attributes["symbols"])]
    result: dict[str, Reading] = {}
    for i, value in enumerate(node.outputs):
        if value.type.sizes is not None:
            continue
        for axis, dim in enumerate(value.shape):
            if isinstance(dim, SymbolicDim) and (solved := dim.solve(0)) and solved[0] not in known_symbols:
                result.setdefault(solved[0], Reading(solved[0], i, axis, dim=dim))
    return list(result.values())


def input_symbols(inputs: Iterable[Value]) -> set[str]:
    """Return the symbols that the shapes of a program's inputs determine."""
    return {
        solved[0]
        for value in inputs
        for dim in value.shape
        if isinstance(dim, SymbolicDim) and (solved := dim.solve(0))
    }


def symbols_used(node: Node) -> set[str]:
    """Return the symbols whose sizes must be known before a node runs."""
    symbols: set[str] = set()
    for attribute in node.attributes.values():
        if isinstance(attribute, (tuple, SymbolicDim)):
            symbols |= symbols_in(attribute)
    return symbols
