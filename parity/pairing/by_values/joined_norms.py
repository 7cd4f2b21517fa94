"""Norms of joined features, and what follows them, computed of each tensor before these are joined.

A network of several branches has a batch norm in each, where a port may join them first and have one norm for all. A
norm with given statistics treats each channel by itself: it can be computed before, and as well before a tensor is
repeated along other axes.
"""

from __future__ import annotations

from dataclasses import replace

from ....runtime.ir.program import Program
from ....runtime.ir.types import Constant, Node, Value
from ....runtime.ops.registry import get
from .divided_products import PART
from .flat import FlatProgram, without_idle_nodes

NORM, CHANNELS = "batch_norm", 1
MOVING = ("concat", "expand")


def with_norms_before_joining(flat: FlatProgram) -> Program | None:
    """Return the program with a norm for each of the tensors that are joined before one; None if none are.

    Args:
        flat: the program, without boundaries.
    """
    rewriting = NormsBeforeJoining(flat)
    return rewriting.program() if rewriting.behind else None


class NormsBeforeJoining:
    """A program in which norms come before what joins or repeats.

    Args:
        flat: the program, without boundaries.

    Attributes:
        behind: the nodes that join or repeat tensors behind a norm, before which they were.
        names: the names of values that aren't free.
        nodes: the nodes so far.
    """

    def __init__(self, flat: FlatProgram) -> None:
        self.behind: set[Node] = set()
        self._flat = flat
        self.names = flat.program.new_names()
        self.nodes: dict[Node, None] = {}
        self._moving: dict[Value, Node] = {}
        self._parameters = {p.value: (name, p) for name, p in flat.program.parameters.items()}
        self._numbers = {constant.value: constant.data for constant in flat.program.constants}
        self._numbers |= {b.value: b.data for b in flat.program.buffers.values() if b.update is None}
        self._constants: list[Constant] = []
        for node in flat.program.nodes:
            self._add(node)

    def program(self) -> Program:
        """Return the program."""
        before = self._flat.program
        parameters = dict(self._parameters.values())
        constants = (*before.constants, *self._constants)
        return without_idle_nodes(before.replace(nodes=tuple(self.nodes), parameters=parameters, constants=constants))

    def _add(self, node: Node) -> None:
        """Add a node, or several that compute the same before what joins or repeats its operand."""
        moving = self._moving.get(node.inputs[0]) if node.inputs and node.inputs[0] is not None else None
        if moving is None or not self._can_be_before(node, moving):
            self._append(node)
            return
        del self.nodes[moving]
        first, parts, (whole,) = 0, list[Value](), node.outputs
        for operand in moving.inputs:
            assert operand is not None, "what is joined or repeated is there"
            parts.append(Value(self.names.unique(f"{whole.name} part"), whole.type.with_shape(operand.shape)))
            count = _channels(operand)
            numbers = (None if value is None else self.part(value, first, count) for value in node.inputs[1:])
            self._add(replace(node, inputs=(operand, *numbers), outputs=(parts[-1],)))
            first += count
        behind = replace(moving, inputs=tuple(parts), outputs=node.outputs)
        self.behind.add(behind)
        self._append(behind)

    def _append(self, node: Node) -> None:
        self.nodes[node] = None
        if node.op in MOVING and self._is_alone(node):
            self._moving[node.outputs[0]] = node

    def _is_alone(self, node: Node) -> bool:
        """Whether a single node uses what a node computes, and all sizes are known."""
        (whole,), program = node.outputs, self._flat.program
        has_sizes = all(value is not None and value.type.sizes is not None for value in node.inputs)
        return has_sizes and whole not in program.outputs and len(self._flat.consumers.get(whole, ())) <= 1

    def _can_be_before(self, node: Node, moving: Node) -> bool:
        """Whether a node computes the same of what a moving node is given."""
        if moving in self.behind and len(node.inputs) == len(node.outputs) == 1:
            traits = get(node.op).traits
            return traits.elementwise and not traits.draws
        numbers = [value for value in node.inputs[1:] if value is not None]
        if node.op != NORM or not all(self.is_own(value) for value in numbers) or not self.is_divided(node, moving):
            return False
        rank = len(moving.outputs[0].shape)
        if moving.op == "concat":
            return bool(moving.attributes["axis"] % rank == CHANNELS)
        operand = moving.inputs[0]
        return operand is not None and len(operand.shape) == rank and _channels(operand) == _channels(moving.outputs[0])

    def is_divided(self, norm: Node, moving: Node) -> bool:
        """Whether a norm that can be computed before what joins or repeats is computed there."""
        return True

    def is_own(self, value: Value) -> bool:
        """Whether a value is stored, and a single node uses it."""
        is_stored = value in self._parameters or value in self._numbers
        return is_stored and len(self._flat.consumers.get(value, ())) <= 1

    def part(self, value: Value, first: int, count: int) -> Value:
        """Return some of the stored numbers of a norm, as a stored tensor of its own."""
        if value.shape == (count,):
            return value
        part = Value(self.names.unique(f"{value.name}{PART}{first}"), value.type.with_shape((count,)))
        if value in self._parameters:
            name, parameter = self._parameters[value]
            data = parameter.data[first : first + count]
            self._parameters[part] = f"{name}{PART}{first}", replace(parameter, value=part, data=data)
        else:
            self._numbers[part] = self._numbers[value][first : first + count]
            self._constants.append(Constant(part, self._numbers[part]))
        return part


def _channels(value: Value) -> int:
    sizes = value.type.sizes
    assert sizes is not None, "only values of known sizes are divided"
    return sizes[CHANNELS]
