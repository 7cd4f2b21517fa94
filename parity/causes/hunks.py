"""The lines of both sides at a place where two programs of a Cell part."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Literal

from ...runtime.ir.program import Program
from ...runtime.ir.types import Node, Value
from ...runtime.visible import visible_name
from ..results.hunk import CodeLine, Hunk
from .cell_program import CellProgram, TensorKey
from .descriptions import place_of_node
from .differences import Comparison, Difference
from .statements import whole_statement

MAX_LINES = 12
"""Lines of a side that are kept: a Cell may be written in more, which say little."""

_OWN_CODE = str(Path(__file__).parents[1])
"""Where there is nothing that a user has written."""

Side = Literal[0, 1]
REFERENCE: Side = 0
CANDIDATE: Side = 1


def lines_of(nodes: Iterable[Node]) -> tuple[CodeLine, ...]:
    """Return the lines that nodes come from, each once with all of its ops; nodes of no known line together."""
    ops: dict[CodeLine, dict[str, None]] = {}
    for node in nodes:
        ops.setdefault(_line_of(node), {})[node.op] = None
    lines = [CodeLine(line.file, line.line, line.text, tuple(names)) for line, names in ops.items()]
    return tuple(lines[:MAX_LINES])


def _line_of(node: Node) -> CodeLine:
    source = node.source
    if source is None or not place_of_node(node) or source.file.startswith(_OWN_CODE):
        return CodeLine()
    if not source.file:
        return CodeLine(text=visible_name(source.operator))
    text = whole_statement(source.file, source.line, source.text)
    return CodeLine(visible_name(source.file), source.line, visible_name(text))


def hunk_of(differences: Sequence[Difference], comparison: Comparison) -> Hunk:
    """Return the lines of both programs in which some differences are.

    What one program has in addition has no line in the other: there stands what uses it, or what it uses.
    """
    aligned = AlignedPrograms(comparison)
    own, other = aligned.nodes_of(differences)
    return Hunk(lines_of(own or aligned.beside(other, CANDIDATE)), lines_of(other or aligned.beside(own, REFERENCE)))


def hunk_of_change(
    differences: Sequence[Difference], changed: Comparison, comparison: Comparison | None, of: Side
) -> Hunk:
    """Return the lines of both programs, where one of them was changed to compute what the other does.

    Args:
        differences: those of the program and the changed one.
        changed: the program compared with the changed one.
        comparison: the comparison of both sides' programs; None if there is none.
        of: the side whose program was changed.
    """
    aligned = AlignedPrograms(changed)
    nodes, added = aligned.nodes_of(differences)
    own = nodes or aligned.beside(added, CANDIDATE)
    other: Sequence[Node] = () if comparison is None else AlignedPrograms(comparison).partners(own, of)
    return Hunk(lines_of(own), lines_of(other)) if of == REFERENCE else Hunk(lines_of(other), lines_of(own))


def hunk_of_keys(cells: Sequence[CellProgram | None], keys: Collection[TensorKey]) -> Hunk:
    """Return the lines of both programs that compute some outputs of a Cell or, without any, use what keys name.

    Args:
        cells: the Cell in the reference and in the candidate; None where there is no program.
        keys: outputs, gradients, parameters and buffers that differ.
    """
    reference, candidate = (() if cell is None else lines_of(_nodes_at(cell, keys)) for cell in cells)
    return Hunk(reference, candidate)


def _nodes_at(cell: CellProgram, keys: Collection[TensorKey]) -> list[Node]:
    program = cell.program
    outputs = [v for v, key in zip(program.outputs, cell.output_keys, strict=True) if key in keys]
    outputs += [value for name, value in program.updates.items() if ("update", name) in keys]
    if outputs:
        return [node for node in program.nodes if not set(outputs).isdisjoint(node.outputs)]
    given = {v for v, key in zip(program.inputs, cell.input_keys, strict=True) if key in keys}
    given |= {p.value for name, p in program.parameters.items() if ("parameter", name) in keys}
    return _users(program, given)


def _users(program: Program, values: Collection[Value]) -> list[Node]:
    """Return the nodes that use some values, as they are or as nodes of no code have arranged them."""
    reached, users = set(values), []
    for node in program.nodes:
        if not reached.isdisjoint(node.inputs):
            if node.source is None:
                reached.update(node.outputs)
            else:
                users.append(node)
    return users


def _stored(program: Program, name: str) -> set[Value]:
    """Return the value of a parameter or buffer, if the program has it."""
    return {item.value for items in (program.parameters, program.buffers) for n, item in items.items() if n == name}


@dataclass(frozen=True)
class AlignedPrograms:
    """Two programs of a Cell with their pairs of nodes."""

    comparison: Comparison

    @cached_property
    def programs(self) -> tuple[Program, Program]:
        """The reference's and the candidate's."""
        return self.comparison.reference.program, self.comparison.candidate.program

    @cached_property
    def _partner(self) -> tuple[dict[int, Node], dict[int, Node]]:
        """For each side, the partners of its nodes by identity."""
        partners: tuple[dict[int, Node], dict[int, Node]] = ({}, {})
        for i, j in self.comparison.pairs:
            if i is not None and j is not None:
                reference_node, candidate_node = self.programs[0].nodes[i], self.programs[1].nodes[j]
                partners[0][id(reference_node)], partners[1][id(candidate_node)] = candidate_node, reference_node
        return partners

    def nodes_of(self, differences: Sequence[Difference]) -> tuple[list[Node], list[Node]]:
        """Return the nodes of both sides that some differences are in."""
        sides: tuple[list[Node], list[Node]] = ([], [])
        for d in differences:
            for own, nodes in zip(sides, self._nodes_of(d), strict=True):
                own += nodes
        return sides

    def _nodes_of(self, d: Difference) -> tuple[Sequence[Node], Sequence[Node]]:
        i, j = d.pair
        if i is not None and j is not None:
            return [self.programs[0].nodes[i]], [self.programs[1].nodes[j]]
        if d.kind == "nodes":
            return d.nodes, d.other_nodes
        if d.kind == "output":
            return self._computing(self.comparison.output_pairs[int(d.name)])
        if d.kind == "update":
            return self._computing(next((x, y) for name, x, y in self.comparison.update_pairs if name == d.name))
        reference_nodes, candidate_nodes = (_users(program, _stored(program, d.name)) for program in self.programs)
        return reference_nodes, candidate_nodes

    def _computing(self, values: tuple[Value | None, Value | None]) -> tuple[list[Node], list[Node]]:
        """Return the nodes that compute two values; none for a value that enters the Cell, or that is stored."""
        nodes = [
            [program.producers[value]] if value in program.producers else []
            for program, value in zip(self.programs, values, strict=True)
        ]
        return nodes[0], nodes[1]

    def partners(self, nodes: Sequence[Node], side: Side) -> Sequence[Node]:
        """Return what the other side has in place of some nodes of a side."""
        partners = [self._partner[side][id(node)] for node in nodes if id(node) in self._partner[side]]
        given = {id(node) for node in nodes}
        for d in self.comparison.differences:
            runs = d.nodes, d.other_nodes
            if d.kind == "nodes" and not given.isdisjoint(map(id, runs[side])):
                partners += [node for node in runs[1 - side] if node not in partners]
        return partners or self.beside(nodes, side)

    def beside(self, nodes: Sequence[Node], side: Side) -> Sequence[Node]:
        """Return the other side's node that uses what some nodes of a side compute, or else computes what they use."""
        program, partner = self.programs[side], self._partner[side]
        results = {value for node in nodes for value in node.outputs}
        for node in program.nodes:
            if not results.isdisjoint(node.inputs):
                if id(node) in partner:
                    return [partner[id(node)]]
                results.update(node.outputs)
        needed = {value for node in nodes for value in node.inputs if value is not None}
        for node in reversed(program.nodes):
            if not needed.isdisjoint(node.outputs):
                if id(node) in partner:
                    return [partner[id(node)]]
                needed.update(value for value in node.inputs if value is not None)
        return []
