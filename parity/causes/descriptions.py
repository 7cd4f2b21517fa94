"""Differences of two programs in words, with what to do about them."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np

from ...runtime.ir.program import Program
from ...runtime.ir.types import Node, Source, Value
from ...runtime.ops.registry import get
from ...runtime.visible import visible_name
from ..results.cause import Cause
from ..sides.records import OUTPUT_GRADIENT, Array
from . import relative_positions
from .array_relations import numbers_in_words, relation
from .changes import Change, changes
from .differences import Comparison, Difference, Operand
from .fixed_values import array_of, exchanged_table
from .naming import cells_of_nodes, in_another_place, name_of_value, taken_by
from .roles import role_of_run
from .source_words import TORCH_OPERATOR, piece_in_words
from .sub_programs import compare_sub_programs

MAX_OPS = 3
"""Ops that are listed of a run of nodes."""


def describe(change: Change, comparison: Comparison, class_name: str, arrays: Mapping[str, Array]) -> Cause:
    """Return a change as a cause, without its proof.

    Args:
        change: one of those of `comparison`.
        comparison: the two programs.
        class_name: class of the Cell, for the fix; empty if its arguments have other names.
        arrays: the reference's parameters by name, with which one may have been exchanged.
    """
    describer = _Describer(comparison, class_name, arrays)
    first, *more = change.differences
    if change.is_exchange:
        cause = describer.exchanged(first, *more)
    elif change.moved:
        cause = Cause("structure", in_another_place(change.moved), source=describer.source_of(change.differences))
    else:
        cause = describer.describe(first)
    return in_places(cause, change.places)


def in_places(cause: Cause, places: int) -> Cause:
    """Return a cause with the number of places, if there are several."""
    others = places - 1
    return (
        replace(cause, summary=f"{cause.summary} (and in {others} more place{'s' * (others > 1)})") if others else cause
    )


_TURNED = {
    r"^(.+?) (is computed in the candidate), (.+?) in the reference": r"\3 \2, \1 in the reference",
    r"\bis (.+?) in the candidate, (.+?) in the reference": r"is \2 in the candidate, \1 in the reference",
    r"^(.+?) isn't (\w+) in the candidate": r"\1 is \2 in the candidate in addition",
    r"^(.+?) is left out of the candidate": r"\1 is computed in the candidate in addition",
}
"""The words for a change of the candidate, by those for the same change of the reference."""


def from_candidate(cause: Cause) -> Cause:
    """Return the cause of a change that was made in the candidate, to compute what the reference does."""
    changes = (re.subn(pattern, turned, cause.summary) for pattern, turned in _TURNED.items())
    summary = next((summary for summary, count in changes if count), cause.summary)
    reference_value, candidate_value = cause.candidate_value, cause.reference_value
    is_setting = cause.fix.startswith(f"use {cause.attribute}=")
    fix = f"use {cause.attribute}={spelling(reference_value)}" if is_setting else ""
    return replace(cause, summary=summary, fix=fix, reference_value=reference_value, candidate_value=candidate_value)


class _Describer:
    def __init__(self, comparison: Comparison, class_name: str, arrays: Mapping[str, Array]) -> None:
        self.arrays = arrays
        self.programs = comparison.reference.program, comparison.candidate.program
        self.comparison = comparison
        self.class_name = class_name

    def describe(self, difference: Difference) -> Cause:
        """Return the cause."""
        match difference.kind:
            case "attribute":
                return self._attribute(difference)
            case "constant":
                return self._constant(difference)
            case "parameter" | "buffer":
                return self._stored(difference)
            case "nodes":
                return self._nodes(difference)
            case "operand":
                return self._operand(difference)
            case "output":
                return self._output(difference)
            case "trained":
                how = "trained" if difference.candidate else "frozen"
                name = visible_name(difference.name)
                return Cause("gradient", f"{name} is {how} in the candidate only", attribute=difference.name)
            case "update":
                return Cause(
                    "state", f"the buffer {visible_name(difference.name)} is updated differently in the candidate"
                )

    def _attribute(self, d: Difference) -> Cause:
        node, other = self._nodes_of(d)
        reference_text, candidate_text = spelling(d.reference), spelling(d.candidate)
        if node.op == "slice":
            pieces = [piece_in_words(program, n) for program, n in zip(self.programs, (node, other), strict=True)]
            taken, other_taken = pieces if all(pieces) else (taken_by(node), taken_by(other))
            return Cause(
                "attribute", f"the candidate takes {other_taken} where the reference takes {taken}",
                op=node.op, attribute=d.name, reference_value=plain(d.reference), candidate_value=plain(d.candidate),
                source=place_of_node(other),
            )  # fmt: skip
        if isinstance(d.reference, Program) or isinstance(d.candidate, Program):
            return self._sub_program(d, node, other)
        name = _name_in_sources(d, node, other)
        summary = f"{name} is {candidate_text} in the candidate, {reference_text} in the reference"
        if self._is_ambiguous(node):
            summary = f"in {node.op}, {summary}"
        fix = f"{self.class_name}(..., {name}={reference_text})" if self.class_name else ""
        return Cause(
            "attribute", summary, fix, op=node.op, attribute=name,
            reference_value=plain(d.reference), candidate_value=plain(d.candidate), source=place_of_node(other),
        )  # fmt: skip

    def _sub_program(self, d: Difference, node: Node, other: Node) -> Cause:
        """Return what differs inside a branch or a body, if it is a single change."""
        place = f"{d.name.replace('_', ' ')} of {node.op}"
        if isinstance(d.reference, Program) and isinstance(d.candidate, Program):
            inside = compare_sub_programs(d.reference, d.candidate)
            inner_changes = [] if inside is None else changes(inside.differences, inside)
            if inside is not None and len(inner_changes) == 1:
                cause = describe(inner_changes[0], inside, "", {})
                return replace(
                    cause, summary=f"in the {place}, {cause.summary}", source=cause.source or place_of_node(other)
                )
        return Cause("structure", f"the {place} differs in the candidate", op=node.op, source=place_of_node(other))

    def _constant(self, d: Difference) -> Cause:
        node, other = self._nodes_of(d)
        reference, candidate = d.reference, d.candidate
        if reference.size == candidate.size == 1:
            a, b = reference.reshape(-1)[0].item(), candidate.reshape(-1)[0].item()
            summary = f"the number in {node.op} is {spelling(b)} in the candidate, {spelling(a)} in the reference"
            return Cause(
                "attribute", summary, f"use {spelling(a)}", op=node.op, reference_value=a, candidate_value=b,
                source=place_of_node(other),
            )  # fmt: skip
        if settings := self._positions(reference, candidate):
            return Cause(
                "attribute", f"in the constant in {node.op}, {settings}", op=node.op, source=place_of_node(other)
            )
        known = relation(reference, candidate)
        how = known or "has other values"
        return Cause(
            "attribute", f"the constant in {node.op} {how} in the candidate", op=node.op, source=place_of_node(other),
            values="" if known else numbers_in_words(reference, candidate),
        )  # fmt: skip

    def _stored(self, d: Difference) -> Cause:
        others = {n: data for n, data in self.arrays.items() if n != d.name}
        known, name = relation(d.reference, d.candidate, others), visible_name(d.name)
        return Cause(
            "weight" if d.kind == "parameter" else "state",
            f"{name} {known or 'has other values'} in the candidate",
            f"copy {name} from the reference",
            attribute=d.name,
            values="" if known else numbers_in_words(d.reference, d.candidate),
        )

    def _nodes(self, d: Difference) -> Cause:
        source = place_of_node(d.other_nodes[0]) if d.other_nodes else ""
        op = (d.nodes or d.other_nodes)[0].op
        kind = "gradient" if {node.op for node in (*d.nodes, *d.other_nodes)} == {"stop_gradient"} else "structure"
        if kind == "gradient":
            where = "candidate" if d.other_nodes else "reference"
            return Cause(kind, f"a gradient is stopped (detach) in the {where} only", op=op, source=source)
        operands = exchanged_table(self.comparison, d) or self.comparison.read_elsewhere(d)
        if operands is not None:
            return self._other_operand(*operands)
        if not d.other_nodes:
            cells, rest = cells_of_nodes(self.comparison.reference, d.nodes)
            fix = f"call {', '.join(cells)}" if cells and not rest else ""
            location = "" if cells or not place_of_node(d.nodes[0]) else f" ({place_of_node(d.nodes[0])})"
            if not cells and (known := role_of_run(self.comparison.reference, d.nodes)) is not None:
                node, role = known
                location = f" ({place_of_node(node)})" if place_of_node(node) else ""
                return Cause(kind, f"{role.left_out}{location}", fix, op=node.op)
            what = _listed(cells, self._ops(rest, 0))
            return Cause(kind, f"{what} {_is(rest, cells)} left out of the candidate{location}", fix, op=op)
        if not d.nodes:
            cells, rest = cells_of_nodes(self.comparison.candidate, d.other_nodes)
            if len(cells) == 1 and not rest:
                if cells[0] in {visible_name(call.path) for call in self.programs[0].calls}:
                    return Cause(kind, f"{cells[0]} is called once more in the candidate", op=op, source=source)
                if len(d.other_nodes) == 1:  # the op says more than the path
                    cells, rest = [], d.other_nodes
            node = d.other_nodes[0]
            if not cells and (known := role_of_run(self.comparison.candidate, d.other_nodes)) is not None:
                return Cause(kind, known[1].in_addition, op=known[0].op, source=place_of_node(known[0]))
            before = self.programs[1].producers.get(node.inputs[0]) if node.inputs and node.inputs[0] else None
            if len(d.other_nodes) == 1 and before is not None and before.op == node.op:
                return Cause(kind, f"{op} is computed twice in the candidate", op=op, source=source)
            what = _listed(cells, self._ops(rest, 1))
            summary = f"{what} {_is(rest, cells)} computed in the candidate in addition"
            return Cause(kind, summary, op=op, source=source)
        reference_ops, candidate_ops = _ops(d.nodes), _ops(d.other_nodes)
        summary = f"{candidate_ops} {_is(d.other_nodes)} computed in the candidate, {reference_ops} in the reference"
        return Cause(kind, summary, op=op, source=source)

    def _ops(self, nodes: Sequence[Node], side: int) -> str:
        """The ops of nodes; of a single one with what is stored and goes into it: a number or a parameter."""
        if len(nodes) != 1:
            return _ops(nodes)
        cell = (self.comparison.reference, self.comparison.candidate)[side]
        numbers = {c.value: c.data for c in cell.program.constants if c.data.size == 1}
        parameters = {p.value: visible_name(name) for name, p in cell.program.parameters.items()}
        stored = [
            spelling(numbers[value].reshape(-1)[0].item()) if value in numbers else parameters[value]
            for value in nodes[0].inputs
            if value in numbers or value in parameters
        ]
        return f"{nodes[0].op} with {' and '.join(stored)}" if stored else nodes[0].op

    def _operand(self, d: Difference) -> Cause:
        node, other = self._nodes_of(d)
        position = int(d.name)
        if (weight := self._weight(node.inputs, other.inputs, position)) is not None:
            return weight
        return self._other_operand((node, position), (other, position))

    def _other_operand(self, reference: Operand, candidate: Operand) -> Cause:
        """Return the cause of an operand that is another one in the candidate, with the numbers of tables."""
        (node, position), other = reference, candidate[0]
        values = tuple(n.inputs[at] if at < len(n.inputs) else None for n, at in (reference, candidate))
        cells = self.comparison.reference, self.comparison.candidate
        arrays = [array_of(cell, value) for cell, value in zip(cells, values, strict=True)]
        if (rearranged := self._rearranged(values, arrays)) is not None:
            return rearranged
        words, other_words = self._names_of(*values)
        name = self._operand_name(node, position)
        summary = f"{name} of {node.op} is {other_words} in the candidate, {words} in the reference"
        has_table = any(x is not None and x.size > 1 for x in arrays)
        numbers = numbers_in_words(*arrays) if has_table else ""
        return Cause("structure", summary, op=node.op, source=place_of_node(other), values=numbers)

    def _rearranged(self, values: Sequence[Value | None], arrays: Sequence[Array | None]) -> Cause | None:
        """Return the cause of a parameter's numbers in another order than the numbers that they meet.

        Nobody wrote the node that brings them in it: it is how the two sides were laid beside each other.
        """
        reference, candidate = arrays
        names = {p.value: name for name, p in self.programs[0].parameters.items()}
        node = None if values[1] is None else self.programs[1].producers.get(values[1])
        if values[0] not in names or reference is None or candidate is None or node is None or place_of_node(node):
            return None
        how, name = relation(reference, candidate), names[values[0]]
        if not how:
            return None
        summary = f"{visible_name(name)} {how} in the candidate, relative to its input"
        return Cause("weight", summary, op=node.op, attribute=name)

    def _weight(
        self, reference_operands: Sequence[Value | None], candidate_operands: Sequence[Value | None], position: int
    ) -> Cause | None:
        """Return the cause of a parameter that the candidate holds without its name, if the operand is one."""
        if position >= min(len(reference_operands), len(candidate_operands)):
            return None
        reference, candidate = self.programs
        names = {p.value: name for name, p in reference.parameters.items()}
        known = {p.value for name, p in candidate.parameters.items() if name in reference.parameters}
        name, value = names.get(reference_operands[position]), candidate_operands[position]  # type: ignore[arg-type]
        data = None if value is None or value in known else candidate.constant_data.get(value)
        if name is None or data is None:
            return None
        return self._stored(
            Difference("parameter", name=name, reference=reference.parameters[name].data, candidate=data)
        )

    def exchanged(self, first: Difference, second: Difference) -> Cause:
        """Return the cause of two operands in each other's place."""
        node, other = self._nodes_of(first)
        nodes = [node, self._nodes_of(second)[0]]
        names = [self._operand_name(n, int(d.name)) for n, d in zip(nodes, (first, second), strict=True)]
        if nodes[0] is nodes[1]:
            summary = f"{names[0]} and {names[1]} of {node.op} are exchanged in the candidate"
        else:
            value_names = [self._name_of(n.inputs[int(d.name)], 0) for n, d in zip(nodes, (first, second), strict=True)]
            places = " and ".join(f"{name} of {n.op}" for name, n in zip(names, nodes, strict=True))
            summary = f"{value_names[0]} and {value_names[1]} are exchanged in the candidate, as {places}"
        return Cause("structure", summary, op=node.op, source=place_of_node(other))

    def source_of(self, differences: Sequence[Difference]) -> str:
        """The line of the candidate in which the first of some differences is, if one is known."""
        nodes = [node for d in differences for node in d.other_nodes]
        nodes += [self._nodes_of(d)[1] for d in differences if None not in d.pair]
        return next(filter(None, map(place_of_node, nodes)), "")

    @staticmethod
    def _operand_name(node: Node, position: int) -> str:
        names = get(node.op).operand_names(len(node.inputs))
        return names[position] if position < len(names) else f"operand {position + 1}"

    def _output(self, d: Difference) -> Cause:
        reference_output, candidate_output = self.comparison.output_pairs[int(d.name)]
        key = self.comparison.reference.output_keys[int(d.name)]
        if lost := self._lost_cell(reference_output):
            return Cause(
                "structure", f"{visible_name(lost)} is left out of the candidate", f"call {visible_name(lost)}"
            )
        place = "the result" if key.kind == "output" else f"the value passed to {visible_name(key.path)}"
        cells = self.comparison.reference, self.comparison.candidate
        arrays = [
            array_of(cell, value) for cell, value in zip(cells, (reference_output, candidate_output), strict=True)
        ]
        source = self.comparison.candidate.places.get(candidate_output, "") if candidate_output is not None else ""
        if settings := self._positions(*arrays):
            return Cause("attribute", f"in {place}, {settings}", source=source)
        name, other = self._names_of(reference_output, candidate_output)
        summary = f"{place} is {other} in the candidate, {name} in the reference"
        numbers = numbers_in_words(*arrays) if any(x is not None and x.size > 1 for x in arrays) else ""
        return Cause("structure", summary, source=source, values=numbers)

    @staticmethod
    def _positions(reference: Array | None, candidate: Array | None) -> str:
        """The settings in which two tables of relative positions differ; "" for other tables."""
        return "" if reference is None or candidate is None else relative_positions.in_words(reference, candidate)

    def _lost_cell(self, value: Value) -> str:
        """Return the path of the Cell that returns a value in the reference, if the candidate never calls it."""
        cell = self.comparison.reference
        key = dict(zip(cell.program.inputs, cell.input_keys, strict=True)).get(value)
        called = {key.path for key in self.comparison.candidate.output_keys}
        return key.path if key is not None and key.kind == OUTPUT_GRADIENT and key.path not in called else ""

    def _nodes_of(self, d: Difference) -> tuple[Node, Node]:
        i, j = d.pair
        assert i is not None
        assert j is not None
        return self.programs[0].nodes[i], self.programs[1].nodes[j]

    def _is_ambiguous(self, node: Node) -> bool:
        return len({n.op for n in self.programs[0].nodes}) > 1

    def _name_of(self, value: Value | None, side: int) -> str:
        """What a value is, in words of its own side."""
        if value is None:
            return "absent"
        return name_of_value((self.comparison.reference, self.comparison.candidate)[side], value)

    def _names_of(self, reference: Value | None, candidate: Value | None) -> tuple[str, str]:
        """Two values that differ, in words: where these are the same on both sides, both in those of the reference."""
        names = self._name_of(reference, 0), self._name_of(candidate, 1)
        if names[0] != names[1] or candidate not in self._partners:
            return names
        return names[0], name_of_value(self.comparison.reference, self._partners[candidate])

    @cached_property
    def _partners(self) -> dict[Value, Value]:
        """The reference's value for each value of the candidate that nodes in a pair compute."""
        reference_nodes, candidate_nodes = (program.nodes for program in self.programs)
        pairs = [(i, j) for i, j in self.comparison.pairs if i is not None and j is not None]
        return {
            b: a for i, j in pairs for a, b in zip(reference_nodes[i].outputs, candidate_nodes[j].outputs, strict=True)
        }


def place_of_node(node: Node) -> str:
    """Return file, line and text of a node, or the node of a file; "" for an operator of torch, which nobody wrote."""
    source: Source | None = node.source
    is_known = source is not None and (source.file or not TORCH_OPERATOR.fullmatch(source.operator))
    return str(source) if is_known else ""


def _ops(nodes: Sequence[Node]) -> str:
    names = [node.op for node in nodes]
    more = f" and {len(names) - MAX_OPS} more" if len(names) > MAX_OPS else ""
    return ", ".join(names[:MAX_OPS]) + more


def _listed(cells: Sequence[str], ops: str) -> str:
    return " and ".join(filter(None, [", ".join(cells), ops]))


def _is(nodes: Sequence[Node], cells: Sequence[str] = ()) -> str:
    return "is" if len(nodes) + len(cells) == 1 else "are"


def spelling(item: Any) -> str:
    """An attribute as a person writes it."""
    if isinstance(item, float):
        return f"{item:g}" if math.isfinite(item) and item == int(item) and abs(item) <= 1e6 else repr(item)
    return visible_name(str(item)) if not isinstance(item, str) else repr(visible_name(item))


def plain(item: Any) -> Any:
    """An attribute in types that JSON has, with tuples for arrays."""
    if isinstance(item, np.dtype):
        return item.name
    if isinstance(item, (tuple, list)):
        return tuple(map(plain, item))
    return item if isinstance(item, (bool, int, float, str, type(None))) else str(item)


def _name_in_sources(d: Difference, node: Node, other: Node) -> str:
    """Return what both models call an attribute that differs, if their operators have one with these values.

    `is_causal` of torch's attention is `causal` in a program, say.
    """
    reference_settings, candidate_settings = (
        dict(n.source.settings) if n.source is not None else {} for n in (node, other)
    )
    values = [(type(d.reference), d.reference), (type(d.candidate), d.candidate)]
    if d.name in reference_settings or d.name in candidate_settings or isinstance(d.reference, Program):
        return d.name
    names = [
        name for name in reference_settings.keys() & candidate_settings.keys()
        if [(type(settings[name]), settings[name]) for settings in (reference_settings, candidate_settings)] == values
    ]  # fmt: skip
    return names[0] if len(names) == 1 else d.name
