"""Programs of a Cell that have some of the differences between the reference's and the candidate's.

A *mixture* is the reference's program with some differences adopted from the candidate's.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

import numpy as np

from ...runtime.errors import ConversionError
from ...runtime.ir.program import Program
from ...runtime.ir.types import Node, Type, Value
from ...runtime.ops.registry import get
from ...runtime.tracing import Builder, SymbolicTensor
from .alignment import Pair
from .differences import Comparison, Difference, leaves, operand_at
from .fixed_values import without_unused
from .rebuilding import append


def mixture(comparison: Comparison, adopted: Collection[Difference]) -> Program:
    """Return the reference's program with the given differences adopted.

    Raises:
        ConversionError: it can't be built, since an adopted node needs what the reference doesn't compute.
        CellbridgeError: types don't fit.
    """
    return _Mixer(comparison, adopted).program()


def leaves_unused(comparison: Comparison, adopted: Collection[Difference]) -> bool:
    """Whether nodes of the reference are of no use with the given differences, which don't have them."""
    program = mixture(comparison, adopted)
    return len(without_unused(program).nodes) < len(program.nodes)


class _Mixer:
    """Builds a mixture."""

    def __init__(self, comparison: Comparison, adopted: Collection[Difference]) -> None:
        self.comparison = comparison
        reference, candidate = comparison.reference.program, comparison.candidate.program
        self.base = _with_stored(reference, candidate, adopted)
        self.builder = Builder.from_program(self.base.replace(nodes=()))
        self.changed = {(d.kind, d.pair, d.name) for d in adopted}
        self.taken = {id(node) for d in adopted for node in d.other_nodes}
        self.dropped = {id(node) for d in adopted for node in d.nodes}
        self.first = {value: self._tensor(value) for value in (*reference.inputs, *self.base.constant_data)}
        self.first |= {
            p.value: self._tensor(self.base.parameters[name].value) for name, p in reference.parameters.items()
        }
        self.second: dict[Value, SymbolicTensor] = {}
        by_name = {name: value for value, name in leaves(comparison.reference).items()}
        constants = {c.value: c.data for c in candidate.constants}
        constants |= dict(zip(candidate.inputs, comparison.candidate.arrays, strict=True))
        for value, name in leaves(comparison.candidate).items():
            if name in by_name:
                self.second[value] = self.first[by_name[name]]
            elif value in constants:
                self.second[value] = self.builder.constant(constants[value], value.dtype)
            elif isinstance(name, tuple) and name[0] in ("parameter", "buffer"):
                stored = candidate.constant_data[value]
                self.second[value] = self.builder.constant(stored, value.dtype)

    def _tensor(self, value: Value) -> SymbolicTensor:
        return SymbolicTensor(self.builder, value)

    def program(self) -> Program:
        """Return the mixture."""
        reference, candidate = self.comparison.reference.program, self.comparison.candidate.program
        for i, j in self.comparison.pairs:
            first = None if i is None else reference.nodes[i]
            second = None if j is None else candidate.nodes[j]
            if first is not None and second is not None:
                self._append_pair((i, j), first, second)
            elif first is not None and id(first) not in self.dropped:
                self._append(first, [self._choose(v, None) for v in first.inputs], self.first)
            elif second is not None and id(second) in self.taken:
                self._append(second, [self._choose(None, v) for v in second.inputs], self.second)
        outputs = [self._output(position, *pair) for position, pair in enumerate(self.comparison.output_pairs)]
        buffers = dict(self.base.buffers)
        for name, a, b in self.comparison.update_pairs:
            adopted = ("update", (None, None), name) in self.changed
            lost = b is None and a not in self.first  # by nodes that aren't there any more
            chosen = None if lost or (b if adopted else a) is None else self._choose(a, b, prefer_second=adopted)
            buffers[name] = replace(buffers[name], update=None if chosen is None else chosen.value)
        results = tuple(tensor.value for tensor in outputs)
        used = {value for node in self.builder.nodes for value in node.inputs} | set(results)
        return self.base.replace(
            nodes=tuple(self.builder.nodes),
            constants=tuple(self.builder.constants),
            parameters={name: p for name, p in self.base.parameters.items() if p.value in used},
            buffers=buffers,
            outputs=results,
        )

    def _output(self, position: int, reference: Value, candidate: Value | None) -> SymbolicTensor:
        """Return an output; zeros for a value that is passed to a Cell which the candidate doesn't call."""
        if candidate is None and reference not in self.first:
            return self.builder.constant(np.zeros(reference.type.sizes or ()), reference.dtype)
        adopted = ("output", (None, None), str(position)) in self.changed
        chosen = self._choose(reference, candidate, prefer_second=adopted)
        assert chosen is not None
        return chosen

    def _append_pair(self, pair: Pair, first: Node, second: Node) -> None:
        attributes = dict(first.attributes)
        for name in dict.fromkeys([*first.attributes, *second.attributes]):
            if ("attribute", pair, name) in self.changed:
                attributes[name] = second.attributes.get(name)
        operands = []
        for position in range(max(len(first.inputs), len(second.inputs))):
            x, y = operand_at(first.inputs, position), operand_at(second.inputs, position)
            names = {("operand", pair, str(position)), ("constant", pair, str(position))}
            if names & self.changed:
                operands.append(None if y is None else self._choose(x, y, prefer_second=True))
            else:
                operands.append(None if x is None else self._choose(x, y))
        if get(first.op).variadic:
            while operands and operands[-1] is None:
                operands.pop()
        with self.builder.at(first.cell, first.source):
            results = append(self.builder, first.op, operands, attributes)
        self.first.update(zip(first.outputs, results, strict=True))
        self.second.update(zip(second.outputs, results, strict=True))

    def _append(self, node: Node, operands: list[SymbolicTensor | None], values: dict[Value, SymbolicTensor]) -> None:
        with self.builder.at(0, node.source):
            values.update(zip(node.outputs, append(self.builder, node.op, operands, node.attributes), strict=True))

    def _choose(
        self, reference: Value | None, candidate: Value | None, *, prefer_second: bool = False
    ) -> SymbolicTensor | None:
        """Return the tensor of either value: of the candidate's if it comes from adopted nodes, or is preferred."""
        if reference is None and candidate is None:
            return None
        first = None if reference is None else self.first.get(reference)
        second = None if candidate is None else self.second.get(candidate)
        if second is not None and (first is None or prefer_second or self._is_adopted(candidate)):
            return second
        if first is None:
            raise ConversionError("a value of the candidate isn't computed in the reference")
        return first

    def _is_adopted(self, value: Value | None) -> bool:
        producer = None if value is None else self.comparison.candidate.program.producers.get(value)
        return producer is not None and id(producer) in self.taken


def _with_stored(reference: Program, candidate: Program, adopted: Collection[Difference]) -> Program:
    """Return the reference's program with the data of adopted parameters and buffers."""
    parameters, buffers = dict(reference.parameters), dict(reference.buffers)
    for difference in adopted:
        if difference.kind == "parameter":
            own, data = parameters[difference.name], candidate.parameters[difference.name].data
            value = (
                own.value if own.data.shape == data.shape else Value(own.value.name, Type(own.value.dtype, data.shape))
            )
            parameters[difference.name] = replace(own, value=value, data=data)
        elif difference.kind == "trained":
            parameters[difference.name] = replace(parameters[difference.name], trainable=difference.candidate)
        elif difference.kind == "buffer":
            buffers[difference.name] = replace(buffers[difference.name], data=candidate.buffers[difference.name].data)
    return reference.replace(parameters=parameters, buffers=buffers)
