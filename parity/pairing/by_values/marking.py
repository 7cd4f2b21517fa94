"""The program of a file with the Cells of a module, and boundaries at their places."""

from __future__ import annotations

from dataclasses import dataclass

from ....runtime.ir.program import Program
from ....runtime.ir.types import Node, Value
from ...sides.records import INPUT, OUTPUT, Key
from .ownership import Ownership


@dataclass(frozen=True)
class MarkedProgram:
    """A program with boundaries.

    Attributes:
        program: the program; its boundaries have the module's names.
        kept: the boundaries of the module that it has.
        aliases: for a tensor that a Cell is given several times, the first boundary of that Cell that it crosses; the
            program has a boundary only there.
    """

    program: Program
    kept: frozenset[Key]
    aliases: dict[Key, Key]


def mark(program: Program, ownership: Ownership) -> MarkedProgram:
    """Return the program with a boundary wherever a tensor crosses one in the module."""
    return _Marker(program, ownership).build()


class _Marker:
    def __init__(self, program: Program, ownership: Ownership) -> None:
        self.program = program
        self.ownership = ownership
        self.at: dict[Value, list[tuple[int, Key]]] = {}
        self.aliases: dict[Key, Key] = {}
        first: dict[tuple[int, str, Value], Key] = {}
        for number, key, value in ownership.events:
            primary = first.setdefault((number, key.kind, value), key)
            if primary is key:
                self.at.setdefault(value, []).append((number, key))
            else:
                self.aliases[key] = primary
        self.crossed: dict[tuple[Value, tuple[Key, ...]], Value] = {}
        self.after: dict[Value, list[Node]] = {}
        self.names = program.new_names()

    def build(self) -> MarkedProgram:
        """Return the program."""
        program, owner = self.program, self.ownership.owner
        nodes: list[Node] = []
        for node in program.nodes:
            number = owner.get(node, 0)
            inputs = tuple(None if value is None else self._cross(value, number) for value in node.inputs)
            nodes.append(Node(node.op, inputs, node.attributes, node.outputs, number, node.source))
        outputs = tuple(self._cross(value, None) for value in program.outputs)
        for value, events in self.at.items():
            for number, key in events:  # a boundary that nothing uses is still compared
                self._cross(value, number if key.kind == INPUT else self.ownership.calls[number].parent)
        placed: list[Node] = [mark for value in program.inputs for mark in self.after.get(value, [])]
        for node in nodes:
            placed.append(node)
            placed += [mark for value in node.outputs for mark in self.after.get(value, [])]
        marked = program.replace(nodes=tuple(placed), outputs=outputs, calls=tuple(self.ownership.calls))
        return MarkedProgram(marked, frozenset(key for _, key, _ in self.ownership.events), self.aliases)

    def _cross(self, value: Value, number: int | None) -> Value:
        """Return a value as a call sees it (None: as a result), after the boundaries that it crosses on its way."""
        leaves, enters = [], []
        for call, key in self.at.get(value, []):
            inside = self.ownership.is_inside(number, call)
            if key.kind == OUTPUT and not inside:
                leaves.append((call, key))
            elif key.kind == INPUT and (inside or (number is None and not call)):
                enters.append((call, key))
        way: tuple[Key, ...] = ()
        current = value
        # a value that the module is given crosses its boundary first, a result the last
        for call, key in [*leaves, *enters] if number is not None else [*enters, *leaves]:
            way = (*way, key)
            if (value, way) not in self.crossed:
                crossed = Value(self.names.unique(f"{value.name}_{key.kind}"), value.type)
                attributes = {"call": call, "kind": key.kind, "slot": key.slot}
                self.after.setdefault(value, []).append(Node("boundary", (current,), attributes, (crossed,), call))
                self.crossed[value, way] = crossed
            current = self.crossed[value, way]
        return current
