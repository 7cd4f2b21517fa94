"""One call as a list of steps, which are ops or calls with operands and outputs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from ...runtime.ir.flow import Flow
from ...runtime.ir.types import Node, Source, Value
from ..structure.interfaces import Interface
from .layers.network import CellNetwork
from .scope import CallScope
from .text.statements import assigned_names

Line = tuple[str, int, str]  # file, number, text


@dataclass(frozen=True)
class CallStep:
    """An op, or the call of a module.

    Attributes:
        part: the node or call.
        operands: the input values.
        outputs: the output values.
        source: the source line in the original model.
    """

    part: Node | Flow
    operands: tuple[Value, ...]
    outputs: tuple[Value, ...]
    source: Source | None


def steps_of(network: CellNetwork, flow: Flow, interfaces: Sequence[Interface], scope: CallScope) -> list[CallStep]:
    """The steps of a call."""
    steps: list[CallStep] = []
    for part in flow.body:
        if isinstance(part, int):
            called, interface = network.flows[part], interfaces[part]
            source = next((node.source for node in (*called.entries, *called.exits)), None)
            operands = tuple(scope.resolve(value) for value in interface.arguments)
            steps.append(CallStep(called, operands, tuple(interface.returned), source))
        elif part.op != "boundary":
            operands = tuple(scope.resolve(value) for value in part.inputs if value is not None)
            steps.append(CallStep(part, operands, part.outputs, part.source))
    return steps


def uses_of(steps: Sequence[CallStep], at_end: Sequence[Value]) -> Counter[Value]:
    """The number of uses of each value, by the steps and at the end."""
    return Counter(value for step in steps for value in step.operands) + Counter(at_end)


def hints_of(steps: Sequence[CallStep], uses: Counter[Value]) -> tuple[dict[Value, list[str]], set[Value]]:
    """The names that the original's lines assign to values, and the values that such lines end with."""
    lines: dict[Line, list[Value]] = {}
    consumed: dict[Value, list[Line | None]] = {}
    for step in steps:
        line = None if step.source is None else (step.source.file, step.source.line, step.source.text)
        for value in step.operands:
            consumed.setdefault(value, []).append(line)
        if line is not None:
            lines.setdefault(line, []).extend(step.outputs)
    hints: dict[Value, list[str]] = {}
    assigned: set[Value] = set()
    for line, values in lines.items():
        names = assigned_names(line[2])
        final = [value for value in values if uses[value] and line not in consumed.get(value, [])]
        if len(names) == 1:
            hints.update(dict.fromkeys(values, names))
        if len(names) == len(final):
            hints.update((value, [name]) for value, name in zip(final, names, strict=True))
            assigned |= set(final)
    return hints, assigned
