"""Makes the `CellGraph` of a failing Cell from its program, and from what differs in the candidate's."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import replace
from typing import Literal

import numpy as np

from ...runtime.ir.program import Program
from ...runtime.ir.types import Node, Value
from ..results.cell_graph import CellGraph, GraphNode
from ..sides.records import INPUT, OUTPUT_GRADIENT, Array, Key
from .alignment import Pair
from .cell_program import CellProgram
from .descriptions import spelling
from .differences import Comparison, Difference, leaves

MAX_NODES = 60
"""Larger graphs are cut to this many nodes around those that differ."""
MAX_TEXT = 80
"""Characters of an attribute that are kept."""

Side = Literal[0, 1]
REFERENCE: Side = 0
CANDIDATE: Side = 1


def cell_graph(cell: CellProgram, comparison: Comparison | None = None, causes: Sequence[Difference] = ()) -> CellGraph:
    """Return the graph of a Cell's program, cut to the neighbourhood of what differs if it is large.

    Args:
        cell: the reference's program of the Cell.
        comparison: the comparison of this program with the candidate's, if there is one.
        causes: those of its differences that were proved to cause the failure.
    """
    call = next((key.call for key in cell.output_keys if key.path == cell.path and key.kind != INPUT), 0)
    return _around_differences(_GraphBuilder(cell, comparison, causes).nodes(), call)


def _around_differences(nodes: list[GraphNode], call: int) -> CellGraph:
    """Return the nodes as a graph: those nearest to the ones that differ, if there are many."""
    if len(nodes) <= MAX_NODES:
        return CellGraph(tuple(nodes), call=call)
    neighbours: list[list[int]] = [[] for _ in nodes]
    for position, node in enumerate(nodes):
        for operand in (*node.operands, *node.candidate_operands):
            neighbours[position].append(operand)
            neighbours[operand].append(position)
    kept = dict.fromkeys([p for p, node in enumerate(nodes) if node.difference][:MAX_NODES])
    waiting = deque(kept)
    while waiting:
        for other in neighbours[waiting.popleft()]:
            if other not in kept and len(kept) < MAX_NODES:
                kept[other] = None
                waiting.append(other)
    numbers = {position: number for number, position in enumerate(sorted(kept))}

    def renumber(operands: Sequence[int]) -> tuple[int, ...]:
        return tuple(numbers[operand] for operand in operands if operand in numbers)

    shown = [
        replace(
            nodes[position],
            operands=renumber(nodes[position].operands),
            candidate_operands=renumber(nodes[position].candidate_operands),
        )
        for position in numbers
    ]
    return CellGraph(tuple(shown), len(nodes) - len(shown), call)


class _GraphBuilder:
    """Builds the nodes of a graph: the reference's, and those of the candidate that a cause names."""

    def __init__(self, cell: CellProgram, comparison: Comparison | None, causes: Sequence[Difference]) -> None:
        self.cells = (cell, cell if comparison is None else comparison.candidate)
        self.comparison = comparison
        self.causes = causes
        self.graph_nodes: list[GraphNode] = []
        self.places: tuple[dict[Value, int], dict[Value, int]] = ({}, {})
        self.leaves = (leaves(cell), leaves(self.cells[CANDIDATE]))
        self.stored = tuple(_stored_names(cell_program.program) for cell_program in self.cells)
        self.by_leaf = {name: value for value, name in self.leaves[REFERENCE].items()}
        self.of_pairs = {(d.kind, d.pair, d.name): d for d in causes}
        self.of_names = {(d.kind, d.name): d for d in causes}
        self.dropped = {id(node) for d in causes for node in d.nodes}
        self.added = {id(node) for d in causes for node in d.other_nodes}

    def nodes(self) -> list[GraphNode]:
        """Return the nodes, operands first."""
        reference, candidate = self.cells[REFERENCE].program, self.cells[CANDIDATE].program
        pairs = [(i, None) for i in range(len(reference.nodes))] if self.comparison is None else self.comparison.pairs
        for pair in pairs:
            i, j = pair
            if i is not None:
                self._add_node(pair, reference.nodes[i], None if j is None else candidate.nodes[j])
            elif j is not None and id(candidate.nodes[j]) in self.added:
                self._add_candidate_node(candidate.nodes[j])
        self._add_outputs()
        self._add_updates()
        return self.graph_nodes

    def _add(self, node: GraphNode, *values: tuple[Side, Sequence[Value]]) -> int:
        position = len(self.graph_nodes)
        self.graph_nodes.append(node)
        for side, results in values:
            self.places[side].update(dict.fromkeys(results, position))
        return position

    def _add_node(self, pair: Pair, node: Node, other: Node | None) -> None:
        differences = ["in the reference alone"] if id(node) in self.dropped else []
        for name in dict.fromkeys([*node.attributes, *(other.attributes if other is not None else ())]):
            if d := self.of_pairs.get(("attribute", pair, name)):
                differences.append(f"{name}={_short(d.reference)}, in the candidate {_short(d.candidate)}")
        operands: list[int] = []
        more: list[int] = []
        others: list[str] = []
        for position in range(max(len(node.inputs), 0 if other is None else len(other.inputs))):
            reference_value = node.inputs[position] if position < len(node.inputs) else None
            candidate_value = other.inputs[position] if other is not None and position < len(other.inputs) else None
            constant = self.of_pairs.get(("constant", pair, str(position)))
            if reference_value is not None:
                operands.append(self._place(reference_value, REFERENCE, _of_constants(constant)))
            if ("operand", pair, str(position)) in self.of_pairs:
                others.append(str(position + 1))
                more += self._candidate_place(candidate_value)
            elif candidate_value is not None and self._is_added(candidate_value):
                more += self._candidate_place(candidate_value)
        if others:
            several = f"operands {' and '.join(others)} are other values" if len(others) > 1 else ""
            differences.append(f"{several or f'operand {others[0]} is another value'} in the candidate")
        more = [operand for operand in more if operand not in operands]
        graph_node = _op(node, operands, difference="; ".join(differences))
        self._add(
            replace(graph_node, candidate_operands=tuple(more)),
            (REFERENCE, node.outputs),
            (CANDIDATE, () if other is None else other.outputs),
        )

    def _add_candidate_node(self, node: Node) -> None:
        operands = [place for value in node.inputs if value is not None for place in self._candidate_place(value)]
        graph_node = _op(node, operands, difference="in the candidate alone")
        self._add(replace(graph_node, in_candidate_alone=True), (CANDIDATE, node.outputs))

    def _add_outputs(self) -> None:
        cell = self.cells[REFERENCE]
        candidate_outputs: list[Value | None] = [None] * len(cell.output_keys)
        if self.comparison is not None:
            candidate_outputs = [other for _, other in self.comparison.output_pairs]
        for position, (key, value, other) in enumerate(
            zip(cell.output_keys, cell.program.outputs, candidate_outputs, strict=True)
        ):
            kind, name = ("passed value", f"{key.path} {key.slot}") if key.kind == INPUT else ("output", key.slot)
            differs = ("output", str(position)) in self.of_names
            more = self._candidate_place(other) if differs or (other is not None and self._is_added(other)) else []
            self._add_result(kind, name, value, more, "another value in the candidate" if differs else "")

    def _add_updates(self) -> None:
        updates = [] if self.comparison is None else self.comparison.update_pairs
        candidate_updates = {name: other for name, _, other in updates}
        for name, buffer in self.cells[REFERENCE].program.buffers.items():
            differs, other = ("update", name) in self.of_names, candidate_updates.get(name)
            more = self._candidate_place(other) if differs or (other is not None and self._is_added(other)) else []
            difference = "updated differently in the candidate" if differs else ""
            if buffer.update is not None:
                self._add_result("buffer update", name, buffer.update, more, difference)
            elif differs:
                self._add(
                    GraphNode("buffer update", name, str(buffer.value.type), candidate_operands=tuple(more),
                              difference=difference, in_candidate_alone=True)
                )  # fmt: skip

    def _add_result(self, kind: str, name: str, value: Value, more: list[int], difference: str) -> None:
        operand = self._place(value, REFERENCE)
        others = tuple(place for place in more if place != operand)
        self._add(GraphNode(kind, name, str(value.type), (operand,), others, difference=difference))

    def _is_added(self, value: Value) -> bool:
        """Whether a node of the candidate that a cause names computes the value."""
        producer = self.cells[CANDIDATE].program.producers.get(value)
        return producer is not None and id(producer) in self.added

    def _candidate_place(self, value: Value | None) -> list[int]:
        """Return the position of a value of the candidate; nothing for a node that no cause names."""
        if value is None:
            return []
        if value in self.places[CANDIDATE]:
            return [self.places[CANDIDATE][value]]
        leaf = self.leaves[CANDIDATE].get(value)
        if leaf in self.by_leaf:
            return [self._place(self.by_leaf[leaf], REFERENCE)]
        return [] if leaf is None else [self._place(value, CANDIDATE)]

    def _place(self, value: Value, side: Side, difference: str = "") -> int:
        """Return the position of a value; one that no node computes is added, a constant once for each use."""
        if value in self.places[side]:
            return self.places[side][value]
        kind, name = self._leaf(value, side)
        if kind in ("parameter", "buffer"):
            difference = self._of_stored(kind, name)
        node = GraphNode(kind, name, str(value.type), in_candidate_alone=side == CANDIDATE, difference=difference)
        return self._add(node, (side, () if kind == "constant" else (value,)))

    def _leaf(self, value: Value, side: Side) -> tuple[str, str]:
        """Return kind and name of a value that no node computes."""
        cell = self.cells[side]
        if value in self.stored[side]:
            return self.stored[side][value]
        if value not in cell.program.inputs:
            data = cell.program.constant_data[value]
            return "constant", _number(data)
        key: Key | None = cell.input_keys[cell.program.inputs.index(value)]
        if key is None:
            return "input", value.name
        return ("result of a Cell", f"{key.path} {key.slot}") if key.kind == OUTPUT_GRADIENT else ("input", key.slot)

    def _of_stored(self, kind: str, name: str) -> str:
        """Return how a parameter or buffer differs, in words."""
        if trained := self.of_names.get(("trained", name)):
            return f"{'trained' if trained.candidate else 'frozen'} in the candidate only"
        return "other values in the candidate" if (kind, name) in self.of_names else ""


def _stored_names(program: Program) -> dict[Value, tuple[str, str]]:
    names = {p.value: ("parameter", name) for name, p in program.parameters.items()}
    return names | {b.value: ("buffer", name) for name, b in program.buffers.items()}


def _op(node: Node, operands: Sequence[int], *, difference: str) -> GraphNode:
    attributes = tuple((name, _short(item)) for name, item in node.attributes.items() if item is not None)
    types = ", ".join(str(value.type) for value in node.outputs)
    source = "" if node.source is None else str(node.source)
    used = tuple(dict.fromkeys(operands))
    return GraphNode("op", node.op, types, used, attributes=attributes, difference=difference, source=source)


def _of_constants(d: Difference | None) -> str:
    """How a constant differs, in words."""
    if d is None:
        return ""
    return f"in the candidate {_number(d.candidate)}" if d.candidate.size == 1 else "other numbers in the candidate"


def _number(data: Array) -> str:
    return spelling(data.reshape(-1)[0].item()) if data.size == 1 else "constant"


def _short(item: object) -> str:
    """An attribute as a person writes it, shortened."""
    if isinstance(item, Program):
        return "a program"
    text = spelling(item.name if isinstance(item, np.dtype) else item)
    return text if len(text) <= MAX_TEXT else f"{text[: MAX_TEXT - 1]}…"
