"""Norms on the other side of a residual block: before the branch (pre-norm) or after the addition (post-norm)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial

from ....runtime.errors import ConversionError
from ....runtime.ir.program import Program
from ....runtime.ir.types import Node, Value
from ....runtime.visible import visible_name
from ...results.cause import Cause
from ..cell_program import CellProgram
from ..evidence import Evidence
from ..naming import calls_around
from ..rebuilding import rebuild
from .dependencies import needed
from .hypothesis import Hypothesis

NORMS = ("layer_norm", "rms_norm", "group_norm", "instance_norm", "batch_norm", "batch_norm_train", "rsqrt")
"""Operators that a norm is, or has."""
BEFORE, AFTER = "before the branch", "after the residual addition"
KINDS = {BEFORE: "pre-norm", AFTER: "post-norm"}


@dataclass(frozen=True)
class _Norm:
    """A norm in a program.

    Attributes:
        name: the path of its Cell; empty if it is a single node of another Cell.
        values: what its nodes compute, the result last.
    """

    name: str
    values: tuple[Value, ...]

    @property
    def result(self) -> Value:
        """What it returns."""
        return self.values[-1]

    def nodes(self, program: Program) -> list[Node]:
        """Return its nodes."""
        return list(dict.fromkeys(program.producers[value] for value in self.values))

    def entering(self, program: Program) -> Value | None:
        """Return what it is given; None if these are several values."""
        stored = program.constant_data
        operands = {v for node in self.nodes(program) for v in node.inputs if v is not None and v not in stored}
        operands -= set(self.values)
        return operands.pop() if len(operands) == 1 else None


Move = Callable[[CellProgram, Program, _Norm], Program]
"""Returns the program of a Cell with a norm on the other side."""


def sides_of_norms(cell: CellProgram, _: Evidence) -> Iterator[Hypothesis]:
    """Yield all norms of residual blocks on the other side of the branch or of the addition, and then each alone."""
    norms = _norms(cell)
    for move, now, other in ((_moved_before, AFTER, BEFORE), (_moved_after, BEFORE, AFTER)):
        movable = [norm for norm in norms if _can_be(move, cell, norm)]
        groups = [movable, *([norm] for norm in movable)] if len(movable) > 1 else [movable]
        for group in filter(None, groups):
            names = [visible_name(norm.name) for norm in group if norm.name]
            what = names[0] if len(group) == len(names) == 1 else "the norm" if len(group) == 1 else "the norms"
            stands = "stands" if len(group) == 1 else "stand"
            summary = (
                f"{what} {stands} {other} in the candidate ({KINDS[other]}), {now} in the reference ({KINDS[now]})"
            )
            op = group[0].nodes(cell.program)[-1].op
            yield Hypothesis(Cause("structure", summary, op=op), partial(_with_moved, move, cell, group))


def _norms(cell: CellProgram) -> list[_Norm]:
    """Return the norms of a Cell that are given one tensor and return one of its type."""
    program = cell.program
    of_calls: dict[int, list[Node]] = {}
    for node in program.nodes:
        for number in calls_around(cell, node):
            of_calls.setdefault(number, []).append(node)
    norms: list[_Norm] = []
    for number, nodes in sorted(of_calls.items(), key=lambda item: len(item[1])):
        norms += _norm_of(program, nodes, program.calls[number].path, norms)
    for node in program.nodes:
        norms += _norm_of(program, [node], "", norms)
    positions = {value: number for number, node in enumerate(program.nodes) for value in node.outputs}
    return sorted(norms, key=lambda norm: positions[norm.result])


def _norm_of(program: Program, nodes: Sequence[Node], name: str, norms: Sequence[_Norm]) -> list[_Norm]:
    """Return the norm that some nodes are, if they are one and no other norm is among them."""
    values = [value for node in nodes for value in node.outputs]
    if not any(node.op in NORMS for node in nodes) or any(norm.result in values for norm in norms):
        return []
    inside = set(nodes)
    outside = [n for n in program.nodes if n not in inside]
    leaving = {v for v in values if v in program.outputs or any(v in node.inputs for node in outside)}
    norm = _Norm(name, tuple(values))
    entering = norm.entering(program)
    is_norm = leaving == {norm.result} and entering is not None and entering.type == norm.result.type
    return [norm] if is_norm else []


def _moved_before(cell: CellProgram, program: Program, norm: _Norm) -> Program:
    """Return the program with a norm of a residual sum before the branch instead.

    Raises:
        ConversionError: there is no such sum.
    """
    total = norm.entering(program)
    addition = program.producers.get(total) if total is not None else None
    if total is None or addition is None or addition.op != "add" or norm.result.type != total.type:
        raise ConversionError("what enters the norm isn't a sum")
    operand, other = addition.inputs[:2]
    for stream, branch in ((operand, other), (other, operand)):
        if stream is None or branch is None or stream.type != total.type:
            continue
        nodes, passed = needed(cell, program, branch)
        users = {v for n in nodes if stream in n.inputs for v in n.outputs}
        stream_outputs = {position for position in passed if program.outputs[position] is stream}
        if users or stream_outputs:
            copies, result = _copied(program, norm, stream)
            program = _with_uses(_without(program, norm), norm.result, total)
            starting = [
                _with_operand(node, stream, result) if not users.isdisjoint(node.outputs) else node
                for node in program.nodes
            ]
            outputs = tuple(result if n in stream_outputs else v for n, v in enumerate(program.outputs))
            return _inserted(program.replace(nodes=tuple(starting), outputs=outputs), stream, copies)
    raise ConversionError("no branch starts where the other operand is")


def _moved_after(cell: CellProgram, program: Program, norm: _Norm) -> Program:
    """Return the program with a norm at the start of a residual branch after the addition instead.

    Raises:
        ConversionError: there is no such branch.
    """
    stream = norm.entering(program)
    for node in program.nodes:
        if stream is None or node.op != "add" or stream not in node.inputs or node.outputs[0].type != stream.type:
            continue
        branch = node.inputs[1] if node.inputs[0] is stream else node.inputs[0]
        if branch is None or branch is stream:
            continue
        nodes, passed = needed(cell, program, branch)
        passed_values = {program.outputs[position] for position in passed}
        if norm.result in passed_values or any(norm.result in n.outputs for n in nodes):
            total = node.outputs[0]
            copies, result = _copied(program, norm, total)
            program = _with_uses(_with_uses(_without(program, norm), norm.result, stream), total, result)
            return _inserted(program, total, copies)
    raise ConversionError("no sum has what enters the norm and what depends on it")


def _can_be(move: Move, cell: CellProgram, norm: _Norm) -> bool:
    try:
        move(cell, cell.program, norm)
    except ConversionError:
        return False
    return True


def _with_moved(move: Move, cell: CellProgram, norms: Sequence[_Norm]) -> Program:
    program = cell.program
    for norm in norms:
        program = move(cell, program, norm)
    return rebuild(program)


def _without(program: Program, norm: _Norm) -> Program:
    return program.replace(nodes=tuple(node for node in program.nodes if set(norm.values).isdisjoint(node.outputs)))


def _with_uses(program: Program, value: Value, other: Value) -> Program:
    """Return the program with another value wherever one is used."""
    nodes = tuple(_with_operand(node, value, other) for node in program.nodes)
    return program.replace(nodes=nodes, outputs=tuple(other if v is value else v for v in program.outputs))


def _with_operand(node: Node, value: Value, other: Value) -> Node:
    return replace(node, inputs=tuple(other if v is value else v for v in node.inputs))


def _copied(program: Program, norm: _Norm, entering_value: Value) -> tuple[list[Node], Value]:
    """Return the nodes of a norm that is given another value, and its result."""
    entering = norm.entering(program)
    others = {value: Value(f"{value.name}_moved", value.type) for value in norm.values}
    if entering is not None:
        others[entering] = entering_value
    copies = [
        replace(
            node,
            inputs=tuple(None if v is None else others.get(v, v) for v in node.inputs),
            outputs=tuple(others[v] for v in node.outputs),
        )
        for node in norm.nodes(program)
    ]
    return copies, others[norm.result]


def _inserted(program: Program, value: Value, nodes: Sequence[Node]) -> Program:
    """Return the program with nodes after the one that computes a value, or first if none does."""
    at = next((number + 1 for number, node in enumerate(program.nodes) if value in node.outputs), 0)
    return program.replace(nodes=(*program.nodes[:at], *nodes, *program.nodes[at:]))
