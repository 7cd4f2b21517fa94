"""`plan`: the nodes of a program that some values need, prepared for evaluation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from ..ir.dims import symbols_in
from ..ir.program import Program
from ..ir.sizes import Reading, symbols_used
from ..ir.types import Node, Type, Value
from ..ops.registry import Op, get
from .share_forward import share_forward


@dataclass(frozen=True, slots=True)
class Step:
    """A node ready to run: its op, whether its attributes have symbolic sizes, and the values to free after it.

    `readings` are the symbols whose sizes are known once the node has run. `symbolic_outputs` are the outputs with
    symbolic dimensions; whether they fit into memory is checked before the node runs.
    """

    node: Node
    op: Op
    symbolic: bool
    last_uses: tuple[Value, ...]
    readings: tuple[Reading, ...] = ()
    symbolic_outputs: tuple[Value, ...] = ()


def every_step(program: Program) -> list[Step]:
    """Return a step for each node of a program, in order, without freeing any value."""
    known = program.symbol_readings
    return [
        Step(node, get(node.op), bool(symbols_used(node)), (), tuple(known.get(node, ()))) for node in program.nodes
    ]


def plan(program: Program, wanted: Sequence[Value], *, every_boundary: bool = False) -> list[Step]:
    """Return the steps for the nodes that `wanted` (and, on request, every boundary) needs, in order."""
    key = (tuple(wanted), every_boundary)
    plans: dict[Any, list[Step]] = program.__dict__.setdefault("_plans", {})
    if key not in plans:
        plans[key] = _plan(program, wanted, every_boundary)
    return plans[key]


def _plan(program: Program, wanted: Sequence[Value], every_boundary: bool) -> list[Step]:
    used_later = set(wanted)
    steps: list[Step] = []
    kept = set(program.constant_data) | set(program.inputs)
    for node in reversed(share_forward(_required_nodes(program, wanted, every_boundary), wanted)):
        operands = {value for value in node.inputs if value is not None}
        last_uses = {value for value in operands | set(node.outputs) if value not in used_later} - kept
        readings = tuple(program.symbol_readings.get(node, ()))
        steps.append(Step(node, get(node.op), bool(symbols_used(node)), tuple(last_uses), readings))
        used_later |= operands
    checked: set[Type] = set()
    return [_with_size_checks(step, checked) for step in reversed(steps)]


def _required_nodes(program: Program, wanted: Sequence[Value], every_boundary: bool) -> list[Node]:
    """Return the nodes on which `wanted` depends, through operands or through sizes, in order."""
    needed = set(wanted)
    nodes: list[Node] = []
    node_of = {reading.symbol: node for node, readings in program.symbol_readings.items() for reading in readings}
    determining: set[Node] = set()
    for node in reversed(program.nodes):
        wanted_here = needed.intersection(node.outputs) or node in determining
        if wanted_here or (every_boundary and node.op == "boundary"):
            determining |= {node_of[name] for name in symbols_used(node) if name in node_of}
            needed.update(value for value in node.inputs if value is not None)
            nodes.append(node)
    return nodes[::-1]


def _with_size_checks(step: Step, checked: set[Type]) -> Step:
    """Return the step with the outputs whose memory must be checked in each run: one per type among all steps."""
    symbols = {reading.symbol for reading in step.readings}
    sized = [v for v in step.node.outputs if v.type.sizes is None and not symbols & symbols_in(v.shape)]
    new = tuple(value for value in sized if value.type not in checked)
    checked.update(value.type for value in new)
    return replace(step, symbolic_outputs=new) if new else step
