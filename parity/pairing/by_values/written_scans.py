"""Loops over slices of a known number, written out: layers whose weights a program has stacked, and recurrences.

A loop's body is one node, inside of which no value is a place. Written out, each turn has its own values, and where a
stacked parameter is only taken slice by slice, each turn may have its own parameter.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace

import numpy as np

from ....runtime.ir.program import Program
from ....runtime.ir.types import Buffer, Node, ProgramParameter, Type, Value
from ....runtime.ops.shaping import reshape, transpose
from ....runtime.ops.slicing import concat
from ....runtime.ops.slicing import slice as slice_
from ....runtime.programs.subprograms import inline
from ....runtime.tracing import Builder, SymbolicTensor
from ...sides.records import Array
from .divided_products import PART

MOST_NODES = 20_000
"""The most nodes that the turns of one loop may add."""
MOST_LEVELS = 4


def with_scans_written_out(program: Program, *, divide: bool) -> Program:
    """Return a program with the turns of each `scan` of a known length in its place, also of those inside of scans.

    Args:
        program: the program.
        divide: whether its stacked parameters that are only sliced by such loops become one for each turn.
    """
    for _ in range(MOST_LEVELS):
        if not any(map(_is_short, program.nodes)):
            break
        program = _Writing(program, dict(_stacks(program)) if divide else {}).program()
    return program


def _is_short(node: Node) -> bool:
    """Whether a node is a loop that can be written out."""
    return node.op == "scan" and 0 < _length(node) * len(node.attributes["body"].nodes) <= MOST_NODES


def _length(node: Node) -> int:
    """Return the number of turns of a scan; 0 if it isn't known before a run."""
    first = node.inputs[node.attributes["carried"]]
    assert first is not None, "a scan has a tensor to slice"
    return first.shape[0] if isinstance(first.shape[0], int) else 0


@dataclass(frozen=True)
class _Stack:
    """A stored tensor of which a loop takes slices.

    Attributes:
        parameter: the name of the parameter.
        axis: the axis of the parameter along which it is sliced.
        permutation: the order of the other axes in a slice.
    """

    parameter: str
    axis: int
    permutation: tuple[int, ...]


@dataclass
class _Writing:
    """A program whose loops are written out."""

    before: Program
    stacks: dict[Value, _Stack]
    builder: Builder = field(init=False)
    values: dict[Value, SymbolicTensor] = field(default_factory=dict)
    parameters: dict[str, ProgramParameter] = field(init=False)
    constants: dict[Value, Array] = field(init=False)
    slices: dict[tuple[str, int], list[SymbolicTensor]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.builder = Builder.from_program(self.before)
        self.builder.nodes = []
        self.parameters = dict(self.before.parameters)
        self.constants = {constant.value: constant.data for constant in self.before.constants}
        self.constants |= {b.value: b.data for b in self.before.buffers.values() if b.update is None}

    def program(self) -> Program:
        """Return the program."""
        stacked = {stack.parameter for stack in self.stacks.values()}
        dropped = {self.parameters[name].value for name in stacked}
        for node in self.before.nodes:
            if node.op == "transpose" and node.inputs[0] in dropped:
                dropped.update(node.outputs)
            elif _is_short(node):
                with self.builder.at(node.cell, node.source):
                    self.values.update(zip(node.outputs, self._turns(node), strict=True))
            else:
                inputs = tuple(None if value is None else self._of(value).value for value in node.inputs)
                self.builder.nodes.append(replace(node, inputs=inputs))
        buffers = {
            name: Buffer(buffer.value, buffer.data, None if buffer.update is None else self._of(buffer.update).value)
            for name, buffer in self.before.buffers.items()
        }
        return self.before.replace(
            nodes=tuple(self.builder.nodes),
            constants=tuple(self.builder.constants),
            parameters={name: item for name, item in self.parameters.items() if name not in stacked},
            buffers=buffers,
            outputs=tuple(self._of(value).value for value in self.before.outputs),
        )

    def _of(self, value: Value) -> SymbolicTensor:
        return self.values.get(value) or SymbolicTensor(self.builder, value)

    def _turns(self, node: Node) -> list[SymbolicTensor]:
        """Add the turns of a loop, and return its results."""
        carried, scanned = node.attributes["carried"], node.attributes["scanned"]
        operands = [value for value in node.inputs if value is not None]
        state = [self._of(value) for value in operands[:carried]]
        sliced = [self._slices(value) for value in operands[carried : carried + scanned]]
        captured = [self._of(value) for value in operands[carried + scanned :]]
        turns = list(zip(*sliced, strict=True))
        rows: list[list[SymbolicTensor]] = []
        for slices in reversed(turns) if node.attributes["reverse"] else turns:
            results = inline(self.builder, node.attributes["body"], [*state, *slices, *captured])
            state = results[:carried]
            rows.append(results[carried:])
        ordered = rows[::-1] if node.attributes["reverse"] else rows
        return [*state, *(_stacked(column) for column in zip(*ordered, strict=True))]

    def _slices(self, value: Value) -> list[SymbolicTensor]:
        """Return the slices of a tensor along its first axis."""
        if value in self.constants:
            return [self.builder.constant(row, value.dtype) for row in self.constants[value]]
        stack = self.stacks.get(value)
        if stack is None:
            count = value.shape[0]
            assert isinstance(count, int), "only loops of known lengths are written out"
            return [_row(self._of(value), number) for number in range(count)]
        own = self._own_parameters(stack)
        if stack.permutation == tuple(range(len(stack.permutation))):
            return own
        return [transpose(tensor, permutation=stack.permutation) for tensor in own]

    def _own_parameters(self, stack: _Stack) -> list[SymbolicTensor]:
        """Return the parameters that the slices of one are."""
        key = stack.parameter, stack.axis
        if key not in self.slices:
            whole = self.parameters[stack.parameter]
            self.slices[key] = []
            for number, data in enumerate(np.moveaxis(whole.data, stack.axis, 0)):
                name = f"{stack.parameter}{PART}{number}"
                tensor = self.builder.new_value(name, Type(whole.value.dtype, data.shape))
                self.parameters[name] = ProgramParameter(tensor.value, np.ascontiguousarray(data), whole.trainable)
                self.slices[key].append(tensor)
        return self.slices[key]


def _row(tensor: SymbolicTensor, number: int) -> SymbolicTensor:
    sliced: SymbolicTensor = slice_(tensor, starts=(number,), stops=(number + 1,), steps=(1,), axes=(0,))
    result: SymbolicTensor = reshape(sliced, shape=sliced.shape[1:])
    return result


def _stacked(rows: Iterable[SymbolicTensor]) -> SymbolicTensor:
    result: SymbolicTensor = concat(*(reshape(row, shape=(1, *row.shape)) for row in rows), axis=0)
    return result


def _stacks(program: Program) -> Iterator[tuple[Value, _Stack]]:
    """Yield parameters that are only sliced along one axis by loops, and their transposes that loops slice."""
    users: dict[Value, list[Node]] = {}
    for node in program.nodes:
        for value in dict.fromkeys(value for value in node.inputs if value is not None):
            users.setdefault(value, []).append(node)

    def of(name: str, value: Value, axes: tuple[int, ...]) -> Iterator[tuple[Value, _Stack] | None]:
        """Yield the stack that a value with these axes of the parameter is; None for another use."""
        if value in program.outputs:
            yield None
        for node in users.get(value, []):
            if node.op == "transpose":
                yield from of(name, node.outputs[0], tuple(axes[axis] for axis in node.attributes["permutation"]))
            elif _is_short(node) and _only_slices(node, value):
                yield value, _Stack(name, axes[0], tuple(int(place) for place in np.argsort(np.argsort(axes[1:]))))
            else:
                yield None

    for name, parameter in program.parameters.items():
        stacks = list(of(name, parameter.value, tuple(range(len(parameter.value.shape)))))
        known = [stack for stack in stacks if stack is not None]
        if known and len(known) == len(stacks) and len({stack.axis for _, stack in known}) == 1:
            yield from known


def _only_slices(node: Node, value: Value) -> bool:
    """Whether a loop uses a value only as a tensor to slice."""
    start, count = node.attributes["carried"], node.attributes["scanned"]
    return value not in (*node.inputs[:start], *node.inputs[start + count :])
