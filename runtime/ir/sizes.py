"""Where the sizes come from that symbols stand for: shapes of inputs, and nodes that find a size when they run."""

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
        output: which output of the node tells it.
        axis: the axis of that output; None where it is an element of it.
        element: which element, in flat order.
        dim: the dimension that the axis has, of which the symbol is solved.
    """

    symbol: str
    output: int
    axis: int | None = None
    element: int = 0
    dim: SymbolicDim | None = None

    def size(self, outputs: Sequence[np.ndarray[Any, Any]]) -> int:
        """The size, of what the node has computed."""
        array = outputs[self.output]
        if self.axis is None:
            return int(array.reshape(-1)[self.element])
        assert self.dim is not None
        solved = self.dim.solve(array.shape[self.axis])
        assert solved is not None
        return solved[1]


def readings(node: Node, known: Iterable[str]) -> list[Reading]:
    """The symbols that are known once `node` has run, and weren't before."""
    if node.op == READ_SIZES:
        return [Reading(name, 0, element=i) for i, name in enumerate(node.attributes["symbols"])]
    found: dict[str, Reading] = {}
    for i, value in enumerate(node.outputs):
        for axis, dim in enumerate(value.shape):
            if isinstance(dim, SymbolicDim) and (solved := dim.solve(0)) and solved[0] not in known:
                found.setdefault(solved[0], Reading(solved[0], i, axis, dim=dim))
    return list(found.values())


def input_symbols(inputs: Iterable[Value]) -> set[str]:
    """Symbols that can be read off the shapes of a program's inputs."""
    return {
        solved[0]
        for value in inputs
        for dim in value.shape
        if isinstance(dim, SymbolicDim) and (solved := dim.solve(0))
    }


def symbols_used(node: Node) -> set[str]:
    """The symbols whose sizes a node must be told before it runs."""
    return symbols_in(*node.attributes.values())
