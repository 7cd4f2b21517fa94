"""Norms of joined features, computed of each tensor before these are joined: a port may have one norm for all branches.

They are divided where the other side has no norm of as many features, but one for each of the parts.
"""

from __future__ import annotations

from ....runtime.ir.program import Program
from ....runtime.ir.types import Node, Value
from ..by_values.flat import FlatProgram
from ..by_values.joined_norms import CHANNELS, NORM, NormsBeforeJoining
from .rewriting import shape_of


def with_norms_apart(program: Program, other: Program) -> Program:
    """Return a program of known sizes with norms before what joins or repeats, where another program has those.

    Args:
        program: the program, without boundaries.
        other: the other side's.
    """
    norms = _Apart(program, other)
    return norms.program() if norms.behind else program


class _Apart(NormsBeforeJoining):
    def __init__(self, program: Program, other: Program) -> None:
        self.sizes = {_channels(node) for node in other.nodes if node.op == NORM}
        self.parts: set[Value] = set()
        super().__init__(FlatProgram(program))

    def is_own(self, value: Value) -> bool:
        """Whether a value is stored, or a part of what is, and a single node uses it."""
        return value in self.parts or super().is_own(value)

    def is_divided(self, norm: Node, moving: Node) -> bool:
        """Whether the other side has norms of the parts, and none of the whole."""
        if moving.op != "concat":
            return True
        parts = {shape_of(value)[CHANNELS] for value in moving.inputs if value is not None}
        return _channels(norm) not in self.sizes and parts <= self.sizes

    def part(self, value: Value, first: int, count: int) -> Value:
        """Return a slice of a stored tensor, which keeps its name."""
        if value.shape == (count,):
            return value
        part = Value(self.names.unique(f"{value.name} part"), value.type.with_shape((count,)))
        bounds = {"starts": (first,), "stops": (first + count,), "steps": (1,), "axes": (0,)}
        self.nodes[Node("slice", (value,), bounds, (part,))] = None
        self.parts.add(part)
        return part


def _channels(node: Node) -> int:
    return shape_of(node.outputs[0])[CHANNELS]
