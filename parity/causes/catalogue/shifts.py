"""Positions that are off by one: a table, an index or a slice that is read one place too early, or too late."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

from ....runtime.ir.program import Program
from ....runtime.ir.types import Node, Value
from ....runtime.ops import elementwise, rounding, slicing
from ....runtime.tracing import Builder, SymbolicTensor
from ...results.cause import Cause
from ..cell_program import CellProgram
from ..evidence import Evidence
from ..naming import name_of_value, taken_by
from ..rebuilding import Operands, Results, append
from .hypothesis import Hypothesis, places, with_changed_value, with_other_nodes
from .tables import fixed

PLACES = {1: "later", -1: "earlier"}
ENDS = {1: "last", -1: "first"}
TABLES = {"take": 0, "gather": 0, "embedding": 0}
"""Ops that read a table by indices, and which of their operands the table is."""


def values(cell: CellProgram, _: Evidence) -> Iterator[Hypothesis]:
    """Yield what enters the Cell, its parameters and tables, read one place too late or too early.

    At the end where nothing is left to read, people bound the index, or pad with zeros.
    """
    for value in _tables(cell.program):
        for axis in (axis for axis, size in enumerate(value.shape) if size != 1):
            for step, where in PLACES.items():
                for at_end, is_bounded in ((f"its {ENDS[step]} element twice", True), ("zeros at its end", False)):
                    summary = f"{name_of_value(cell, value)} is off by one in the candidate: it is read one place "
                    cause = Cause("structure", f"{summary}{where} along axis {axis}, with {at_end}")
                    change = partial(_shifted, axis, step, is_bounded)
                    yield Hypothesis(cause, partial(with_changed_value, cell.program, value, change))


def indices(cell: CellProgram, _: Evidence) -> Iterator[Hypothesis]:
    """Yield the indices by which a table is read larger or smaller by one, within the table or around its ends."""
    for node, positions in places(cell.program):
        if node.op not in TABLES:
            continue
        for step in PLACES:
            for is_bounded in (True, False):
                how = "larger" if step > 0 else "smaller"
                at_end = "within the table" if is_bounded else "around its ends"
                summary = f"the indices of {node.op} are off by one in the candidate: {how} by 1, {at_end}"
                cause = Cause("structure", summary, op=node.op)
                other = partial(_with_other_indices, step, is_bounded)
                yield Hypothesis(cause, partial(with_other_nodes, cell.program, positions, other), len(positions))


def slices(cell: CellProgram, _: Evidence) -> Iterator[Hypothesis]:
    """Yield the elements that are taken along an axis, one place too late or too early."""
    for node, positions in places(cell.program):
        for number, axis in enumerate(node.attributes["axes"] if node.op == "slice" else ()):
            for step, where in PLACES.items():
                summary = f"{taken_by(node)} of {name_of_value(cell, node.inputs[0])} "  # type: ignore[arg-type]
                summary += f"are off by one in the candidate: taken one place {where} along axis {axis}"
                other = partial(_moved, number, step)
                make = partial(with_other_nodes, cell.program, positions, other)
                yield Hypothesis(Cause("structure", summary, op=node.op), make, len(positions))


def _tables(program: Program) -> list[Value]:
    """Return inputs, parameters, fixed values that others are computed with, and tables that are read by indices."""
    known = fixed(program)
    used = dict.fromkeys(v for node in program.nodes if node.outputs[0] not in known for v in node.inputs)
    read = (node.inputs[TABLES[node.op]] for node in program.nodes if node.op in TABLES)
    stored = (parameter.value for parameter in program.parameters.values())
    several = (*program.inputs, *(value for value in known if value in used), *read, *stored)
    return [*dict.fromkeys(value for value in several if value is not None and value.type.sizes)]


def _shifted(axis: int, step: int, is_bounded: bool, x: SymbolicTensor) -> SymbolicTensor:
    """Return the element after, or before, each one along an axis, and the last one again or zeros at the end."""
    before, after = (tuple(n * (at == axis) for at in range(len(x.value.shape))) for n in (-step, step))
    result: SymbolicTensor = slicing.pad(x, before=before, after=after, mode="replicate" if is_bounded else "constant")
    return result


def _with_other_indices(step: int, is_bounded: bool, builder: Builder, node: Node, operands: Operands) -> Results:
    axis = node.attributes.get("axis", 0)
    table, chosen, *more = operands
    assert table is not None, "a table is read"
    assert chosen is not None, "it is read by indices"
    size = table.value.shape[axis]
    moved = elementwise.add(chosen, builder.constant(step, chosen.dtype))
    if is_bounded:
        moved = elementwise.clamp(moved, minimum=0, maximum=size - 1)
    else:
        moved = rounding.remainder(moved, builder.constant(size, chosen.dtype))
    return append(builder, node.op, [table, moved, *more], node.attributes)


def _moved(number: int, step: int, builder: Builder, node: Node, operands: Operands) -> Results:
    """The result of a slice whose elements along one of its axes are taken from the place before, or after."""
    changes: dict[str, Any] = {}
    for name in ("starts", "stops"):
        changes[name] = tuple(n + step * (i == number) for i, n in enumerate(node.attributes[name]))
    if min(changes["starts"]) < 0:
        raise ValueError("nothing is before its first element")
    return append(builder, node.op, operands, {**node.attributes, **changes})
