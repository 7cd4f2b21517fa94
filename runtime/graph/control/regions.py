"""`Region`: Python that a program runs under a condition, or again and again: recorded apart, as a sub-program."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ...common.nested import mapped
from ...common.tensor import Tensor, created, wrapped
from ...eager import tape
from ...errors import UnsupportedPython
from ...ir.dims import symbol
from ...ir.program import Program
from ...ir.sizes import input_symbols, readings, symbols_used
from ...ir.types import BOOL, CellCall, Node, Type, Value
from ...ops import creation
from ...tracing import Builder, SymbolicTensor
from ...tree import positional, sequence
from ..current import Enclosing, Recording
from .state import Changes, State

Imports = dict[tuple[int, int], tuple[SymbolicTensor, Tensor]]
"""What comes in from outside and is tracked on a tape there: the value that stands for it within, and the tensor."""


_MAX_DEPTH = 50


class Region:
    """Runs Python so that what it records stands in no program yet, and leaves everything as it was.

    What is computed within is tracked on no tape: outside, the one step is recorded that the sub-program becomes. So a
    tensor that is tracked outside is another value within, which the step has as an operand.

    Args:
        trace: the trace.
        state: what Python may change.
        imports: what has come in already; shared by the branches of one condition.

    Attributes:
        result: what the function returned.
        changes: what it changed.
        nodes: what was recorded.
        printed: what is printed, in order.
    """

    def __init__(self, trace: Recording, state: State, imports: Imports) -> None:
        self.trace = trace
        self.outer = trace.region
        self.depth: int = 1 if self.outer is None else self.outer.depth + 1
        if self.depth > _MAX_DEPTH:
            raise trace.guard.refusal(
                UnsupportedPython,
                f"{_MAX_DEPTH} conditions on tensors are nested: where a function calls itself under one, tracing both "
                "branches never ends",
                "write a loop",
            )
        self.tape = tape.current()
        self.imports = imports
        self.result: Any = None
        self.changes: Changes = {}
        self.nodes: list[Node] = []
        self.printed: list[Any] = []
        self._state = state

    def run(self, function: Callable[[], Any]) -> None:
        """Run Python."""
        trace, builder = self.trace, self.trace.builder
        node_count, call_count, printed = len(builder.nodes), len(trace.calls), trace.printed
        trace.region, trace.printed = self, []
        try:
            with tape.recording(None):
                self.result = self.imported_in(function())
                found = self._state.changes()
                self.changes = {k: (p, old, self.imported_in(new)) for k, (p, old, new) in found.items()}
        finally:
            self._state.restore(self._state.changes())
            self.printed, self.nodes = trace.printed, builder.nodes[node_count:]
            trace.region, trace.printed = self.outer, printed
            del builder.nodes[node_count:], trace.calls[call_count:]
            trace.enclosed.update(value for node in self.nodes for value in node.outputs)

    def imported(self, x: Any) -> Any:
        """A tensor of outside, as it is used within."""
        if self.outer is not None:
            x = self.outer.imported(x)
        if self.tape is None or not isinstance(x, Tensor) or x.number_on(self.tape) is None:
            return x
        data = x._data
        key = x._number, id(data)
        if key not in self.imports:
            value = self.trace.builder.new_value("outside", Type(data.dtype, data.shape))
            self.imports[key] = value, wrapped(data, x._tape, x._number)
        return wrapped(self.imports[key][0])

    def begins_gradient(self) -> None:
        """A gradient is asked for within."""
        region: Enclosing | None = self
        while region is not None:
            if region.tape is not None:
                raise self.trace.guard.refusal(
                    UnsupportedPython,
                    "a gradient is asked for under a condition on a tensor, within a function that is differentiated",
                    "ask for it before the condition",
                )
            region = region.outer

    def imported_in(self, structure: Any) -> Any:
        """Nested tuples, lists and dicts with tensors as they are used within."""
        region: Enclosing | None = self
        while region is not None:
            if region.tape is not None:
                return mapped(structure, self.imported)
            region = region.outer
        return structure


@dataclass(frozen=True)
class RegionOperand:
    """What a sub-program takes from outside: the value that stands for it within, and the tensor there."""

    value: Value
    tensor: Tensor


def operands(
    trace: Recording, regions: Iterable[Region], results: Iterable[Value], given: Iterable[Value]
) -> list[RegionOperand]:
    """What regions take from outside, in order.

    Args:
        trace: the trace.
        regions: the regions.
        results: what they give, which may come from outside.
        given: what they are given in another way: values that a loop carries.
    """
    listed = list(regions)
    within = {value for region in listed for node in region.nodes for value in node.outputs} | set(given)
    local = {c.value for c in trace.builder.constants if c.data.ndim == 0}
    imported = {traced.value: tensor for region in listed for traced, tensor in region.imports.values()}
    used = [value for region in listed for node in region.nodes for value in node.inputs if value is not None]
    found = [v for v in dict.fromkeys((*used, *results)) if v not in within and v not in local]
    known = input_symbols(found) | input_symbols(given)
    for region in listed:
        told = known | {s for node in region.nodes for s in _told(node, known)}
        for node in region.nodes:
            for name in sorted(symbols_used(node) - told):
                found.append(_teller(trace, name))
                told.add(name)
                known.add(name)
    plain = {v: wrapped(SymbolicTensor(trace.builder, v)) for v in found if v not in imported}
    return [RegionOperand(v, imported[v] if v in imported else plain[v]) for v in dict.fromkeys(found)]


def _told(node: Node, known: set[str]) -> set[str]:
    return {reading.symbol for reading in readings(node, known)}


def _teller(trace: Recording, name: str) -> Value:
    """A value of outside whose shape tells a size: one that is there, or else one that is made for it."""
    for value in (*trace.inputs, *(value for node in trace.builder.nodes for value in node.outputs)):
        if name in input_symbols([value]):
            return value
    made: Value = created(creation.full, shape=(symbol(name),), value=False, dtype=BOOL)._data.value
    return made


def assembled(
    trace: Recording,
    region: Region,
    given: Sequence[Value],
    taken: Sequence[RegionOperand],
    results: Sequence[Value],
    name: str,
) -> Program:
    """The sub-program of a region.

    Args:
        trace: the trace.
        region: what was recorded.
        given: its first inputs: values that a loop carries.
        taken: what comes in from outside.
        results: what it gives.
        name: what it is called.
    """
    builder = trace.builder
    passed: dict[Value, Value] = {v: v for v in given}
    passed |= {o.value: builder.new_value("input", o.value.type).value for o in taken}
    inputs = tuple(passed.values())
    nodes: list[Node] = []
    for node in region.nodes:
        operands_here = tuple(None if value is None else passed.get(value, value) for value in node.inputs)
        if node.op == "boundary" and operands_here[0] is not None:  # the marks of Cells, which branches don't have
            passed[node.outputs[0]] = operands_here[0]
        else:
            nodes.append(replace(node, inputs=operands_here, cell=0))
    outputs = tuple(passed.get(value, value) for value in results)
    used = {value for node in nodes for value in node.inputs} | set(outputs)
    return Program(
        inputs=inputs,
        outputs=outputs,
        nodes=tuple(nodes),
        parameters={},
        buffers={},
        constants=tuple(c for c in builder.constants if c.value in used and c.value not in inputs),
        calls=(CellCall("", name),),
        arguments=positional(len(inputs)),
        result=sequence(len(outputs)),
    )


def as_value(builder: Builder, data: Any) -> Value:
    """The value of symbolic data; an array becomes a constant."""
    return data.value if isinstance(data, SymbolicTensor) else builder.constant(data).value
