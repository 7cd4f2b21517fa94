"""The program of an ONNX file without boundaries, and the module paths that the file gives for its nodes."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from functools import cached_property

from ....runtime.ir.program import Program
from ....runtime.ir.types import Buffer, Node, Value, is_floating
from ...results.cell_report import is_inside
from ...sides.boundary_observer import own_key
from ...sides.records import Key

COPYING = ("reshape", "transpose")
"""Ops whose result has the numbers of their operand, in another layout."""


@dataclass(frozen=True)
class Ends:
    """The values that enter and leave the nodes of a path."""

    entering: tuple[Value, ...]
    leaving: tuple[Value, ...]


class FlatProgram:
    """A file's program without boundaries.

    Attributes:
        program: the program; its nodes still have the numbers of the Cell calls that the file gives.
    """

    def __init__(self, program: Program) -> None:
        self.program = with_computed_results(without_boundaries(program))
        self._ends: dict[str, Ends] = {}
        self._after: dict[tuple[Value, Value | None], frozenset[Value]] = {}
        self._trained_by: dict[Value, frozenset[Value]] = {}
        self._position = {value: n for n, node in enumerate(self.program.nodes) for value in node.outputs}

    @cached_property
    def consumers(self) -> dict[Value, list[Node]]:
        """The nodes that use each value, in order."""
        consumers: dict[Value, list[Node]] = {}
        for node in self.program.nodes:
            for value in dict.fromkeys(value for value in node.inputs if value is not None):
                consumers.setdefault(value, []).append(node)
        return consumers

    def after(self, value: Value, but_not_by: Value | None = None) -> frozenset[Value]:
        """The values that depend on a value, or those that do by another way than by another value alone."""
        known = self._after.get((value, but_not_by))
        if known is None:
            reached = {value}
            for node in self.program.nodes[self._position.get(value, 0) :]:
                if not reached.isdisjoint(node.inputs):
                    reached.update(v for v in node.outputs if v is not but_not_by)
            known = self._after[value, but_not_by] = frozenset(reached - {value})
        return known

    def trained_by(self, value: Value) -> frozenset[Value]:
        """The values from which a gradient passes back to a value."""
        if value not in self._trained_by:
            reached = {value}
            for node in self.program.nodes[self._position.get(value, 0) :]:
                if node.op != "stop_gradient" and not reached.isdisjoint(node.inputs):
                    reached.update(output for output in node.outputs if is_floating(output.dtype))
            self._trained_by[value] = frozenset(reached - {value})
        return self._trained_by[value]

    def copies(self, value: Value) -> set[Value]:
        """The values that have the numbers of a value in another layout."""
        copies: set[Value] = set()
        waiting = [value]
        while waiting:
            following = [node.outputs[0] for node in self.consumers.get(waiting.pop(), []) if node.op in COPYING]
            waiting += [copy for copy in following if copy not in copies]
            copies.update(following)
        return copies

    @cached_property
    def needed(self) -> frozenset[Value]:
        """The values on which a result depends."""
        return frozenset(_needed_for(self.program, self.program.outputs))

    def path_of(self, node: Node) -> str:
        """The path that the file gives for a node; empty if it gives none."""
        return self.program.calls[node.cell].path

    @cached_property
    def paths(self) -> frozenset[str]:
        """All paths that the file gives."""
        return frozenset(map(self.path_of, self.program.nodes)) - {""}

    def ends(self, path: str) -> Ends:
        """The values that enter and leave the nodes of a path."""
        if path not in self._ends:
            own = [node for node in self.program.nodes if self.path_of(node) == path or self._is_within(node, path)]
            inside, stored = set(own), set(self.program.constant_data)
            produced = {value for node in own for value in node.outputs}
            used = dict.fromkeys(value for node in own for value in node.inputs if value is not None)
            outside = {v for v in produced if any(node not in inside for node in self.consumers.get(v, []))}
            outside |= produced & set(self.program.outputs)
            leaving = tuple(value for node in own for value in node.outputs if value in outside)
            self._ends[path] = Ends(tuple(v for v in used if v not in produced | stored), leaving)
        return self._ends[path]

    def _is_within(self, node: Node, path: str) -> bool:
        return path != "" and is_inside(self.path_of(node), path)


def without_boundaries(program: Program, keeps: Callable[[Key], bool] = lambda key: False) -> Program:
    """Return the program without its boundaries, but for those that `keeps` accepts."""
    plain: dict[Value, Value] = {}

    def before(value: Value) -> Value:
        return plain.get(value, value)

    nodes: list[Node] = []
    for node in program.nodes:
        inputs = tuple(None if value is None else before(value) for value in node.inputs)
        if node.op == "boundary" and not keeps(own_key(program, node)):
            assert inputs[0] is not None, "a boundary has an operand"
            plain[node.outputs[0]] = inputs[0]
        else:
            nodes.append(Node(node.op, inputs, node.attributes, node.outputs, node.cell, node.source))
    buffers = {
        name: Buffer(buffer.value, buffer.data, None if buffer.update is None else before(buffer.update))
        for name, buffer in program.buffers.items()
    }
    outputs = tuple(map(before, program.outputs))
    return program.replace(nodes=tuple(nodes), outputs=outputs, buffers=buffers)


def with_computed_results(program: Program) -> Program:
    """Return the program with a node for each result that is a constant, a parameter or a buffer: a place for it."""
    stored = program.constant_data
    copies = {value: Value(f"{value.name}_result", value.type) for value in program.outputs if value in stored}
    nodes = [Node("reshape", (value,), {"shape": value.shape}, (copy,)) for value, copy in copies.items()]
    if not nodes:
        return program
    outputs = tuple(copies.get(value, value) for value in program.outputs)
    return program.replace(nodes=(*program.nodes, *nodes), outputs=outputs)


def without_idle_nodes(program: Program, kept: Collection[Value] = ()) -> Program:
    """Return the program without nodes, parameters and constants that neither results nor `kept` depend on."""
    used = _needed_for(program, (*program.outputs, *program.updates.values(), *kept))
    return program.replace(
        nodes=tuple(node for node in program.nodes if not used.isdisjoint(node.outputs)),
        parameters={name: p for name, p in program.parameters.items() if p.value in used},
        constants=tuple(c for c in program.constants if c.value in used),
    )


def _needed_for(program: Program, ends: Iterable[Value]) -> set[Value]:
    """Return some values of a program, and those on which they depend."""
    needed = set(ends)
    for node in reversed(program.nodes):
        if not needed.isdisjoint(node.outputs):
            needed.update(value for value in node.inputs if value is not None)
    return needed
