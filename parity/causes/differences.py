"""The differences of two programs of one Cell.

Both programs are aligned node by node. What differs is an attribute, a constant, a parameter's data, an operand, or a
run of nodes.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal

import numpy as np

from ...runtime.ir.types import Node, Value
from ..sides.records import Array
from .alignment import Pair, align, comparable
from .cell_program import CellProgram

FEW_NODES = 4
"""So many nodes in place of others may be one change, even if the Cell has no more."""

Operand = tuple[Node, int]
"""A node, and which of its operands is meant."""
Kind = Literal["attribute", "constant", "operand", "nodes", "output", "update", "parameter", "buffer", "trained"]


@dataclass(frozen=True, eq=False)
class Difference:
    """One difference between two programs.

    Attributes:
        kind: the kind: an "attribute" of a node; the data of a "constant", "parameter" or "buffer"; another "operand"
            of a node, "output" of the Cell or "update" of a buffer; a run of "nodes" in place of another; or whether
            a parameter is "trained".
        pair: for an attribute, constant or operand, the positions of the two nodes.
        name: the attribute, parameter or buffer; the position of the operand or output as a decimal number.
        reference: the reference's attribute or array.
        candidate: the candidate's.
        nodes: for runs of nodes, the reference's nodes.
        other_nodes: the candidate's.
    """

    kind: Kind
    pair: Pair = (None, None)
    name: str = ""
    reference: Any = None
    candidate: Any = None
    nodes: tuple[Node, ...] = ()
    other_nodes: tuple[Node, ...] = ()


@dataclass(frozen=True)
class Comparison:
    """Two programs of one Cell, aligned.

    Attributes:
        reference: the reference's Cell.
        candidate: the candidate's.
        pairs: the pairs of nodes.
    """

    reference: CellProgram
    candidate: CellProgram
    pairs: list[Pair]
    _identities: tuple[dict[Value, Hashable], dict[Value, Hashable]] = field(default=({}, {}))

    @classmethod
    def of(cls, reference: CellProgram, candidate: CellProgram) -> Comparison | None:
        """Compare two programs; None if they are too large."""
        reference_leaves, candidate_leaves = leaves(reference), leaves(candidate)
        pairs = align(reference.program, candidate.program, reference_leaves, candidate_leaves)
        if pairs is None:
            return None
        for number, (i, j) in enumerate(pairs):
            if i is not None:
                _identify(reference.program.nodes[i], reference_leaves, ("node", number))
            if j is not None:
                _identify(candidate.program.nodes[j], candidate_leaves, ("node", number))
        return cls(reference, candidate, pairs, (reference_leaves, candidate_leaves))

    @cached_property
    def differences(self) -> list[Difference]:
        """All differences, in the order of the nodes."""
        differences: list[Difference] = []
        reference, candidate = self.reference.program, self.candidate.program
        run: tuple[list[Node], list[Node]] = ([], [])
        for i, j in [*self.pairs, (-1, -1)]:
            if i is None or j is None:
                if i is not None:
                    run[0].append(reference.nodes[i])
                if j is not None:
                    run[1].append(candidate.nodes[j])
                continue
            if run[0] or run[1]:
                differences.append(Difference("nodes", nodes=tuple(run[0]), other_nodes=tuple(run[1])))
                run = ([], [])
            if i >= 0:
                differences += self._differences_of_pair(i, j)
        for position, (a, b) in enumerate(self.output_pairs):
            if self._differ(a, b):
                differences.append(Difference("output", name=str(position)))
        for name, before, after in self.update_pairs:
            if self._differ(before, after):
                differences.append(Difference("update", name=name))
        differences += self._stored("parameter", reference.parameters, candidate.parameters)
        differences += self._stored("buffer", reference.buffers, candidate.buffers)
        differences += [
            Difference("trained", name=name, reference=p.trainable, candidate=candidate.parameters[name].trainable)
            for name, p in reference.parameters.items()
            if name in candidate.parameters and candidate.parameters[name].trainable != p.trainable
        ]
        return differences

    def _differences_of_pair(self, i: int, j: int) -> list[Difference]:
        first, second = self.reference.program.nodes[i], self.candidate.program.nodes[j]
        differences = []
        for name in dict.fromkeys([*first.attributes, *second.attributes]):
            a, b = first.attributes.get(name), second.attributes.get(name)
            if comparable(a) != comparable(b):
                differences.append(Difference("attribute", (i, j), name, a, b))
        for position in range(max(len(first.inputs), len(second.inputs))):
            x, y = operand_at(first.inputs, position), operand_at(second.inputs, position)
            if self._differ(x, y):
                constants = self._constants[0].get(x), self._constants[1].get(y)
                if constants[0] is not None and constants[1] is not None:
                    differences.append(Difference("constant", (i, j), str(position), *constants))
                else:
                    differences.append(Difference("operand", (i, j), str(position)))
        return differences

    def _differ(self, reference: Value | None, candidate: Value | None) -> bool:
        """Whether two operands differ by more than nodes that only one side has: these count as a run of nodes."""
        first = None if reference is None else self._identities[0][reference]
        second = None if candidate is None else self._identities[1][candidate]
        return first != second and not (self._alone(first, 1) or self._alone(second, 0))

    def _alone(self, identity: Hashable, side: int) -> bool:
        """Whether a value is computed by a node without a partner on a side (0 or 1)."""
        if not isinstance(identity, tuple) or identity[0] != "node":
            return False
        return self.pairs[identity[1]][side] is None

    def is_another_program(self, adopted: Sequence[Difference]) -> bool:
        """Whether some differences together exchange so much of the program that they say nothing of a cause.

        The candidate's values follow from its own nodes, so that this much is proved of any two programs.
        """
        replaced = sum(len(d.nodes) for d in adopted), sum(len(d.other_nodes) for d in adopted)
        sizes = len(self.reference.program.nodes), len(self.candidate.program.nodes)
        return max(replaced) > FEW_NODES and any(2 * n > size for n, size in zip(replaced, sizes, strict=True))

    def is_structural(self, difference: Difference) -> bool:
        """Whether a difference is in how the program is built: in nodes, operands, results or shapes."""
        return difference.kind in ("nodes", "operand", "output") or self._is_shape(difference)

    def _is_shape(self, difference: Difference) -> bool:
        """Whether a difference is in the shape that a node gives to what it makes."""
        i = difference.pair[0]
        return i is not None and difference.kind == "attribute" and difference.name in ("shape", "permutation", "axes")

    @cached_property
    def _constants(self) -> tuple[dict[Value | None, Array], dict[Value | None, Array]]:
        programs = self.reference.program, self.candidate.program
        return tuple({c.value: c.data for c in program.constants} for program in programs)  # type: ignore[return-value]

    @cached_property
    def output_pairs(self) -> list[tuple[Value, Value | None]]:
        """The outputs of both programs, by their boundaries."""
        candidate_outputs = dict(zip(self.candidate.output_keys, self.candidate.program.outputs, strict=True))
        keys = self.reference.output_keys
        return [(v, candidate_outputs.get(key)) for v, key in zip(self.reference.program.outputs, keys, strict=True)]

    @cached_property
    def update_pairs(self) -> list[tuple[str, Value | None, Value | None]]:
        """The new values of the buffers that either program updates."""
        candidate_updates = self.candidate.program.updates
        return [
            (name, buffer.update, candidate_updates.get(name))
            for name, buffer in self.reference.program.buffers.items()
            if buffer.update is not None or name in candidate_updates
        ]

    @staticmethod
    def _stored(
        kind: Literal["parameter", "buffer"], reference: Mapping[str, Any], candidate: Mapping[str, Any]
    ) -> list[Difference]:
        return [
            Difference(kind, name=name, reference=reference[name].data, candidate=candidate[name].data)
            for name in reference
            if name in candidate and not np.array_equal(reference[name].data, candidate[name].data, equal_nan=True)
        ]

    def operands_from(self, difference: Difference) -> list[tuple[Operand, Operand]]:
        """Return the operands of nodes in a pair that a run of nodes computes, of either side, in both programs."""
        made = [{v for node in nodes for v in node.outputs} for nodes in (difference.nodes, difference.other_nodes)]
        operand_pairs: list[tuple[Operand, Operand]] = []
        for i, j in self.pairs:
            if i is None or j is None:
                continue
            node, other = self.reference.program.nodes[i], self.candidate.program.nodes[j]
            for position, values in enumerate(zip(node.inputs, other.inputs, strict=False)):
                if any(value in own for value, own in zip(values, made, strict=True)):
                    operand_pairs.append(((node, position), (other, position)))
        return operand_pairs

    def read_elsewhere(self, difference: Difference) -> tuple[Operand, Operand] | None:
        """Return the first operand that nodes which only the candidate has compute from another value.

        They aren't computed in addition there: what enters them is something else than the reference's operand.

        Returns:
            The operand of the reference and that of the candidate; None if there is none, or it isn't known.
        """
        made = {value for node in difference.other_nodes for value in node.outputs}
        entering = {value for node in difference.other_nodes for value in node.inputs if value is not None} - made
        names, other_names = self._identities
        given = {other_names[value] for value in entering}
        if difference.nodes or any(self._alone(name, 0) for name in given):
            return None
        for (node, position), other in self.operands_from(difference):
            value = node.inputs[position]
            if value is not None and names[value] not in given and not self._alone(names[value], 1):
                return (node, position), other
        return None

    def are_exchanged(self, first: Difference, second: Difference) -> bool:
        """Whether two differences are operands, of one node or of two, that the candidate has in each other's place."""
        if first.kind != "operand" or second.kind != "operand":
            return False
        first_operands, second_operands = self._operands(first), self._operands(second)
        return None not in first_operands and first_operands == second_operands[::-1]

    def _operands(self, difference: Difference) -> tuple[Hashable, Hashable]:
        """The identities of an operand in the reference and in the candidate; None for one that is absent."""
        (i, j), position = difference.pair, int(difference.name)
        assert i is not None
        assert j is not None
        reference_operand = operand_at(self.reference.program.nodes[i].inputs, position)
        candidate_operand = operand_at(self.candidate.program.nodes[j].inputs, position)
        names, other_names = self._identities
        return None if reference_operand is None else names[
            reference_operand
        ], None if candidate_operand is None else other_names[candidate_operand]


def leaves(cell: CellProgram) -> dict[Value, Hashable]:
    """Return a name for each value that no node of the program computes; equal ones of two programs correspond."""
    names: dict[Value, Hashable] = {}
    counts: dict[Hashable, int] = {}
    for value, key, array in zip(cell.program.inputs, cell.input_keys, cell.arrays, strict=True):
        name = ("input", key, array.shape)
        counts[name] = counts.get(name, -1) + 1
        names[value] = (*name, counts[name])
    for constant in cell.program.constants:
        names[constant.value] = ("constant", constant.data.shape, constant.data.tobytes())
    names |= {p.value: ("parameter", name) for name, p in cell.program.parameters.items()}
    return names | {b.value: ("buffer", name) for name, b in cell.program.buffers.items()}


def operand_at(values: Sequence[Value | None], position: int) -> Value | None:
    """Return a node's operand; None if it has no operand at this position."""
    return values[position] if position < len(values) else None


def _identify(node: Node, names: dict[Value, Hashable], name: tuple[str, int]) -> None:
    names.update({value: (*name, position) for position, value in enumerate(node.outputs)})
