"""`plan`: the nodes of a program that some values need, prepared for evaluation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from ..ir.dims import symbols_in
from ..ir.program import Program
from ..ir.sizes import Reading, input_symbols, symbols_used
from ..ir.types import Node, Type, Value
from ..ops.registry import Op, get
from .share_forward import share_forward


@dataclass(frozen=True, slots=True)
class Step:
    """A node ready to run: its op, whether its attributes have symbolic sizes, and the values to free after it.

    `types` are those of its outputs. `readings` are the symbols whose sizes are known once the node has run.
    `symbolic_outputs` are the outputs with symbolic dimensions; whether they fit into memory is checked before the node
    runs.
    """

    node: Node
    op: Op
    symbolic: bool
    last_uses: tuple[Value, ...]
    types: tuple[Type, ...]
    readings: tuple[Reading, ...] = ()
    symbolic_outputs: tuple[Value, ...] = ()


def every_step(program: Program) -> list[Step]:
    """Return a step for each node of a program, in order, without freeing any value."""
    symbol_readings, symbolic = program.symbol_readings, _has_symbols(program)
    return [_step(node, (), tuple(symbol_readings.get(node, ())), symbolic) for node in program.nodes]


def _step(node: Node, last_uses: tuple[Value, ...], readings: tuple[Reading, ...], symbolic: bool) -> Step:
    types = tuple([value.type for value in node.outputs])
    return Step(node, get(node.op), symbolic and bool(symbols_used(node)), last_uses, types, readings)


def _has_symbols(program: Program) -> bool:
    """Whether any size is known only from the inputs or when nodes run; otherwise no attribute has symbols."""
    return bool(program.symbol_readings) or bool(input_symbols(program.inputs))


def plan(program: Program, values: Sequence[Value], *, every_boundary: bool = False) -> list[Step]:
    """Return the steps for the nodes that `values` (and, on request, every boundary) need, in order."""
    key = (tuple(values), every_boundary)
    plans: dict[Any, list[Step]] = program.__dict__.setdefault("_plans", {})
    if key not in plans:
        plans[key] = _plan(program, values, every_boundary)
    return plans[key]


def _plan(program: Program, values: Sequence[Value], every_boundary: bool) -> list[Step]:
    used_later = set(program.constant_data).union(program.inputs, values)  # or kept
    steps: list[Step] = []
    symbol_readings, symbolic = program.symbol_readings, _has_symbols(program)
    for node in reversed(share_forward(_required_nodes(program, values, every_boundary), values)):
        operands = [value for value in node.inputs if value is not None]
        last_uses = {value for value in (*operands, *node.outputs) if value not in used_later}
        steps.append(_step(node, tuple(last_uses), tuple(symbol_readings.get(node, ())), symbolic))
        used_later.update(operands)
    checked: set[Type] = set()
    return [_with_size_checks(step, checked) for step in reversed(steps)]


def _required_nodes(program: Program, values: Sequence[Value], every_boundary: bool) -> list[Node]:
    """Return the nodes on which `values` depend, through operands or through sizes, in order."""
    needed = set(values)
    nodes: list[Node] = []
    node_of = {reading.symbol: node for node, readings in program.symbol_readings.items() for reading in readings}
    determining: set[Node] = set()
    for node in reversed(program.nodes):
        wanted_here = not needed.isdisjoint(node.outputs) or node in determining
        if wanted_here or (every_boundary and node.op == "boundary"):
            if node_of:
                determining |= {node_of[name] for name in symbols_used(node) if name in node_of}
            needed.update(value for value in node.inputs if value is not None)
            nodes.append(node)
    return nodes[::-1]


def _with_size_checks(step: Step, checked: set[Type]) -> Step:
    """Return the step with the outputs whose memory must be checked in each run: one per type among all steps."""
    symbolic = [value for value in step.node.outputs if value.type.sizes is None]
    if not symbolic:
        return step
    symbols = {reading.symbol for reading in step.readings}
    new = [v for v in symbolic if v.type not in checked and not symbols & symbols_in(v.shape)]
    checked.update(value.type for value in new)
    return replace(step, symbolic_outputs=tuple(new)) if new else step
