"""`Hypothesis`: a change of the reference's Cell, to be tested."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from ....runtime.ir.program import Program
from ....runtime.ir.types import Node, Value
from ....runtime.tracing import Builder, SymbolicTensor
from ...results.cause import Cause
from ..cell_program import CellProgram, TensorKey
from ..evidence import Evidence
from ..rebuilding import Operands, Results, append, keep, rebuild


@dataclass(frozen=True)
class Hypothesis:
    """A change of the reference's Cell.

    Attributes:
        cause: the change in words, without a proof.
        make: returns the changed program; raises an exception of `INVALID` where there is none.
        places: number of nodes that are changed alike.
        elsewhere: gradients that belong to what other Cells compute, and prove nothing in this one.
    """

    cause: Cause
    make: Callable[[], Program]
    places: int = 1
    elsewhere: frozenset[TensorKey] = frozenset()


Entry = Callable[[CellProgram, Evidence], Iterator[Hypothesis]]

OtherNode = Callable[[Builder, Node, Operands], Results]
"""Appends what stands in place of one node."""


def places(program: Program) -> Iterator[tuple[Node, tuple[int, ...]]]:
    """Yield nodes that a line of code computes several times, as a loop does, and then each node; with positions."""
    in_line: dict[tuple[str, str], list[int]] = {}
    in_turn: dict[tuple[str, str, int], list[int]] = {}  # the first ones that each turn of a loop computes, the second
    earlier, before = "", Counter[str]()
    for position, node in enumerate(program.nodes):
        line = str(node.source or "")
        before = Counter() if line != earlier else before
        earlier = line
        if line:
            in_turn.setdefault((line, node.op, before[node.op]), []).append(position)
            in_line.setdefault((line, node.op), []).append(position)
        before[node.op] += 1
    for positions in dict.fromkeys(map(tuple, [*in_turn.values(), *in_line.values()])):
        if len(positions) > 1:
            yield program.nodes[positions[0]], positions
    for position, node in enumerate(program.nodes):
        yield node, (position,)


def with_other_nodes(program: Program, positions: Collection[int], other: OtherNode) -> Program:
    """Return the program with the nodes at some positions replaced."""

    def rule(builder: Builder, at: int, node: Node, operands: Operands) -> Results:
        return other(builder, node, operands) if at in positions else keep(builder, at, node, operands)

    return rebuild(program, rule)


def with_attributes(program: Program, positions: Collection[int], **changes: Any) -> Program:
    """Return the program with other attributes of the nodes at some positions."""
    return with_other_nodes(
        program,
        positions,
        lambda builder, node, operands: append(builder, node.op, operands, {**node.attributes, **changes}),
    )


Lookup = Callable[[Value], SymbolicTensor]
"""Returns the tensor of a value of the program, of those that are known before a node."""


def with_lookup(program: Program, other: Callable[[int, Node, Lookup], Results | None]) -> Program:
    """Return the program with other results of some nodes, computed from any values that are known before these.

    Args:
        program: the program.
        other: returns the results of the node at a position; None to keep the node.
    """
    tensors: dict[Value, SymbolicTensor] = {}

    def rule(builder: Builder, position: int, node: Node, operands: Operands) -> Results:
        tensors.update({v: x for v, x in zip(node.inputs, operands, strict=True) if v is not None and x is not None})
        results = other(position, node, lambda v: tensors[v] if v in tensors else SymbolicTensor(builder, v))
        results = keep(builder, position, node, operands) if results is None else results
        tensors.update(zip(node.outputs, results, strict=True))
        return results

    return rebuild(program, rule)


def with_other_value(
    program: Program, value: Value, source: Value, make: Callable[[SymbolicTensor], SymbolicTensor]
) -> Program:
    """Return the program with a value, the only result of its node, computed from another one that is known before."""

    def other(_: int, node: Node, lookup: Lookup) -> Results | None:
        return (make(lookup(source)),) if value in node.outputs else None

    return with_lookup(program, other)


def with_changed_value(program: Program, value: Value, change: Callable[[SymbolicTensor], SymbolicTensor]) -> Program:
    """Return the program with a value changed wherever it is used, or returned."""
    changed: list[SymbolicTensor] = []

    def of(builder: Builder, tensor: SymbolicTensor) -> SymbolicTensor:
        if not changed:
            changed.append(change(SymbolicTensor(builder, tensor.value)))
        return changed[0]

    def rule(builder: Builder, position: int, node: Node, operands: Operands) -> Results:
        pairs = zip(node.inputs, operands, strict=True)
        replaced = [of(builder, operand) if v is value and operand is not None else operand for v, operand in pairs]
        return keep(builder, position, node, replaced)

    result = rebuild(program, rule)
    if value not in program.outputs:
        return result
    builder = Builder.from_program(result)
    pairs = zip(program.outputs, result.outputs, strict=True)
    outputs = tuple(of(builder, SymbolicTensor(builder, v)).value if output is value else v for output, v in pairs)
    return result.replace(nodes=tuple(builder.nodes), constants=tuple(builder.constants), outputs=outputs)


def with_values(program: Program, others: Mapping[Value, Value]) -> Program:
    """Return the program with other values wherever some are used."""

    def chosen(v: Value | None) -> Value | None:
        return None if v is None else others.get(v, v)

    nodes = tuple(replace(node, inputs=tuple(map(chosen, node.inputs))) for node in program.nodes)
    outputs = tuple(others.get(v, v) for v in program.outputs)
    return rebuild(program.replace(nodes=nodes, outputs=outputs))
