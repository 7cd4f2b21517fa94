"""One call as steps that take and give values, whether they are ops or calls."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from ...runtime.ir.flow import Flow
from ...runtime.ir.types import Node, Source, Value
from .interfaces import Interface
from .network import Network
from .scope import CallScope
from .statements import assigned_names


@dataclass(frozen=True)
class Step:
    """An op, or the call of a module.

    Attributes:
        part: which one.
        operands: the values that go in.
        outputs: the values that come out.
        source: the original's line.
    """

    part: Node | Flow
    operands: tuple[Value, ...]
    outputs: tuple[Value, ...]
    source: Source | None


def steps_of(network: Network, flow: Flow, found: Sequence[Interface], scope: CallScope) -> list[Step]:
    """The steps of a call."""
    steps: list[Step] = []
    for part in flow.body:
        if isinstance(part, int):
            called, interface = network.flows[part], found[part]
            source = next((node.source for node in (*called.entries, *called.exits)), None)
            operands = tuple(scope.resolved(value) for value in interface.arguments)
            steps.append(Step(called, operands, tuple(interface.returned), source))
        elif part.op != "boundary":
            operands = tuple(scope.resolved(value) for value in part.inputs if value is not None)
            steps.append(Step(part, operands, part.outputs, part.source))
    return steps


def uses_of(steps: Sequence[Step], at_end: Sequence[Value]) -> Counter[Value]:
    """How often each value is used, by the steps and after them."""
    return Counter(value for step in steps for value in step.operands) + Counter(at_end)


def hints_of(steps: Sequence[Step], uses: Counter[Value]) -> dict[Value, list[str]]:
    """What the original's own lines call values: where a line assigns, what it computes, above all at last."""
    lines: dict[Source, list[Value]] = {}
    consumed: dict[Value, list[Source | None]] = {}
    for step in steps:
        for value in step.operands:
            consumed.setdefault(value, []).append(step.source)
        if step.source is not None:
            lines.setdefault(step.source, []).extend(step.outputs)
    hints: dict[Value, list[str]] = {}
    for source, values in lines.items():
        names = assigned_names(source.text)
        final = [value for value in values if uses[value] and source not in consumed.get(value, [])]
        if len(names) == 1:
            hints.update(dict.fromkeys(values, names))
        if len(names) == len(final):
            hints.update((value, [name]) for value, name in zip(final, names, strict=True))
    return hints
