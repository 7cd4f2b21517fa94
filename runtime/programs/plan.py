"""`plan`: the nodes of a program made ready to be evaluated, as far as some values need them."""

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
    """A node made ready to run: its op, whether attributes hold symbolic sizes, and the values that die with it.

    `readings` are the symbols whose sizes are known once it has run, `sized` outputs with symbolic dimensions, which
    must fit into memory: that is looked at before it runs.
    """

    node: Node
    op: Op
    symbolic: bool
    last_uses: tuple[Value, ...]
    readings: tuple[Reading, ...] = ()
    sized: tuple[Value, ...] = ()


def every_step(program: Program) -> list[Step]:
    """All nodes of a program, in order; no value is forgotten."""
    known = program.symbol_readings
    return [
        Step(node, get(node.op), bool(symbols_used(node)), (), tuple(known.get(node, ()))) for node in program.nodes
    ]


def plan(program: Program, wanted: Sequence[Value], *, every_boundary: bool = False) -> list[Step]:
    """The nodes that `wanted` needs (and those that every boundary needs), in order."""
    key = (tuple(wanted), every_boundary)
    plans: dict[Any, list[Step]] = program.__dict__.setdefault("_plans", {})
    if key not in plans:
        plans[key] = _plan(program, wanted, every_boundary)
    return plans[key]


def _plan(program: Program, wanted: Sequence[Value], every_boundary: bool) -> list[Step]:
    used_later = set(wanted)
    steps: list[Step] = []
    kept = set(program.constant_data) | set(program.inputs)
    for node in reversed(share_forward(_needed(program, wanted, every_boundary), wanted)):
        operands = {value for value in node.inputs if value is not None}
        last_uses = {value for value in operands | set(node.outputs) if value not in used_later} - kept
        told = tuple(program.symbol_readings.get(node, ()))
        steps.append(Step(node, get(node.op), bool(symbols_used(node)), tuple(last_uses), told))
        used_later |= operands
    checked: set[Type] = set()
    return [_sized(step, checked) for step in reversed(steps)]


def _needed(program: Program, wanted: Sequence[Value], every_boundary: bool) -> list[Node]:
    """The nodes that `wanted` depends on, by their operands or by the sizes that they tell, in order."""
    needed = set(wanted)
    nodes: list[Node] = []
    told_by = {reading.symbol: node for node, told in program.symbol_readings.items() for reading in told}
    telling: set[Node] = set()
    for node in reversed(program.nodes):
        wanted_here = needed.intersection(node.outputs) or node in telling
        if wanted_here or (every_boundary and node.op == "boundary"):
            telling |= {told_by[name] for name in symbols_used(node) if name in told_by}
            needed.update(value for value in node.inputs if value is not None)
            nodes.append(node)
    return nodes[::-1]


def _sized(step: Step, checked: set[Type]) -> Step:
    """The step with the outputs whose sizes must be looked at in each run: one of each type, in all steps together."""
    told = {reading.symbol for reading in step.readings}
    sized = [v for v in step.node.outputs if v.type.sizes is None and not told & symbols_in(v.shape)]
    new = tuple(value for value in sized if value.type not in checked)
    checked.update(value.type for value in new)
    return replace(step, sized=new) if new else step
