"""Nodes whose result several Cells of a module compute for themselves, and the file computes once.

An exporter that merges equal nodes leaves one activation of a time embedding, or one cast of a mask, for all blocks
that compute it. The first of these Cells owns the node, and the others use a value from its inside. Each of them gets a
copy of the node, so that it can be judged by itself, gradients included.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace

from ....runtime.ir.program import Program
from ....runtime.ir.types import Node, Value
from ....runtime.ops.registry import get
from ...sides.records import INPUT, OUTPUT, Key
from .ownership import Ownership


def copy_shared_nodes(program: Program, ownership: Ownership) -> tuple[Program, Ownership]:
    """Return the program with a copy of each shared node for every further Cell that uses it, and who owns them.

    Nodes that draw random numbers are never copied, and those that use weights only for another call of the same Cell.
    A stored tensor of equal numbers, such as zeros to start from, isn't taken for a weight.
    """
    copier = _Copier(program, ownership)
    for node in reversed(program.nodes):  # a copy's own operands may have to be copied too
        if copier.can_copy(node):
            copier.copy_for_other_cells(node)
    return copier.result()


class _Copier:
    def __init__(self, program: Program, ownership: Ownership) -> None:
        self.program = program
        self.ownership = ownership
        self.inputs = {node: node.inputs for node in program.nodes}
        self.owner = dict(ownership.owner)
        self.events = list(ownership.events)
        self.events_at: dict[Value, list[int]] = {}
        for place, (_, _, value) in enumerate(self.events):
            self.events_at.setdefault(value, []).append(place)
        self.users: dict[Value, list[Node]] = {}
        for node in program.nodes:
            self._add_user(node)
        self.outputs = program.outputs
        self.copies: dict[Node, list[Node]] = {}
        self.names = program.new_names()

    def can_copy(self, node: Node) -> bool:
        """Whether a node computes one value from others, and no random numbers."""
        operands = [value for value in node.inputs if value is not None]
        stored = self.program.constant_data
        return (
            len(node.outputs) == 1
            and not get(node.op).traits.draws
            and not any(isinstance(attribute, Program) for attribute in node.attributes.values())
            and any(value not in stored for value in operands)
        )

    def copy_for_other_cells(self, node: Node) -> None:
        """Copy a node for each Cell that uses its result without getting it across a boundary; the root returns it."""
        (value,) = node.outputs
        computing = self.owner.get(node, 0)
        copies: dict[int, Value] = {}

        def copy_for(using: int) -> Value:
            cell = self._cell_without_it(node, computing, using)
            if cell is None:
                return value
            if cell not in copies:
                (copies[cell],) = self._copy(node, cell).outputs
                self._move_boundaries(value, copies[cell], cell, computing)
            return copies[cell]

        for user in self.users.get(value, []):
            copied = copy_for(self.owner.get(user, 0))
            if copied is not value:
                self.inputs[user] = tuple(copied if operand is value else operand for operand in self.inputs[user])
                self.users.setdefault(copied, []).append(user)
        if value in self.outputs and (copied := copy_for(0)) is not value:
            self.outputs = tuple(copied if output is value else output for output in self.outputs)
            self._move(value, copied, lambda call, key: not call and key.kind == OUTPUT)

    def _cell_without_it(self, node: Node, computing: int, using: int) -> int | None:
        """The call that should compute a node itself, for a user in call `using`; None if the result may come to it."""
        inner = self._outermost(computing, using)
        outer = self._outermost(using, computing)
        if inner is None or inner in self.ownership.changing:
            return None
        calls = self.ownership.calls
        same = outer is not None and calls[inner].path == calls[outer].path
        if not same and any(map(self._is_weight, node.inputs)):
            return None
        (value,) = node.outputs
        boundaries = {(self.events[place][0], self.events[place][1].kind) for place in self.events_at.get(value, ())}
        leaves, enters = (inner, OUTPUT) in boundaries, outer is not None and (outer, INPUT) in boundaries
        if outer is None:  # the user's call is around the computing one
            return None if leaves else using
        if leaves and enters:
            return None
        return calls[outer].parent if enters else outer

    def _is_weight(self, value: Value | None) -> bool:
        """Whether a value is a stored tensor of different numbers."""
        data = None if value is None else self.program.constant_data.get(value)
        return data is not None and bool((data != data.flat[:1]).any())

    def _outermost(self, call: int, other: int) -> int | None:
        """The outermost call that a call is inside and another isn't; None if it is around the other one."""
        outermost: int | None = None
        number: int | None = call
        while number is not None and not self.ownership.is_inside(other, number):
            outermost, number = number, self.ownership.calls[number].parent
        return outermost

    def _copy(self, node: Node, cell: int) -> Node:
        (value,) = node.outputs
        copied = Value(self.names.unique(value.name), value.type)
        result = Node(node.op, self.inputs[node], node.attributes, (copied,), node.cell, node.source)
        self.inputs[result] = self.inputs[node]
        self.owner[result] = cell
        self.copies.setdefault(node, []).append(result)
        self._add_user(result)
        return result

    def _move_boundaries(self, value: Value, copied: Value, cell: int, computing: int) -> None:
        """Place the boundaries inside a call, but for those around the original, at the copy."""
        around = self._outermost(computing, cell)

        def is_moved(call: int, _: Key) -> bool:
            inside = call != cell and self.ownership.is_inside(call, cell)
            return inside and not (around is not None and self.ownership.is_inside(call, around))

        self._move(value, copied, is_moved)

    def _move(self, value: Value, copied: Value, is_moved: Callable[[int, Key], bool]) -> None:
        """Place some of a value's boundaries at a copy."""
        for place in list(self.events_at.get(value, ())):
            call, key, _ = self.events[place]
            if is_moved(call, key):
                self.events[place] = (call, key, copied)
                self.events_at[value].remove(place)
                self.events_at.setdefault(copied, []).append(place)

    def _add_user(self, node: Node) -> None:
        for operand in dict.fromkeys(value for value in self.inputs[node] if value is not None):
            self.users.setdefault(operand, []).append(node)

    def result(self) -> tuple[Program, Ownership]:
        """Return the program with the copies, each after its original, and who owns them."""
        if not self.copies:
            return self.program, self.ownership
        nodes: list[Node] = []
        owner: dict[Node, int] = {}
        for node in self._in_order():
            same = Node(node.op, self.inputs[node], node.attributes, node.outputs, node.cell, node.source)
            nodes.append(same)
            if node in self.owner:
                owner[same] = self.owner[node]
        program = self.program.replace(nodes=tuple(nodes), outputs=self.outputs)
        return program, replace(self.ownership, owner=owner, events=self.events)

    def _in_order(self) -> Iterable[Node]:
        for node in self.program.nodes:
            yield node
            yield from self.copies.get(node, ())
