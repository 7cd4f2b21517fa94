"""`Region`: a branch or loop body, which is recorded separately and becomes a sub-program."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ...common import tape
from ...common.tensor import Tensor, create, from_array
from ...errors import UnsupportedPython
from ...ir.dims import symbol
from ...ir.program import Program
from ...ir.sizes import input_symbols, readings, symbols_used
from ...ir.types import BOOL, CellCall, Node, Type, Value
from ...ops import creation
from ...tracing import Builder, SymbolicTensor
from ...tree import map_leaves, positional_arguments, sequence
from ..current import EnclosingRegion, Recording
from .state import Changes, State

Imports = dict[tuple[int, int], tuple[SymbolicTensor, Tensor]]
"""For each outside tensor that is tracked on a tape: the value that represents it inside, and the tensor itself."""


_MAX_DEPTH = 50


class Region:
    """Runs Python, moves the recorded nodes out of the program, and undoes all changes of state.

    Nothing inside is tracked on a tape; the tape outside records the sub-program as one entry. Therefore another value,
    an operand of the sub-program, represents inside each tensor that is tracked outside.

    Args:
        trace: the trace.
        state: the state that Python may change.
        imports: the tensors imported so far; the branches of one condition share them.

    Attributes:
        result: the result of the function.
        changes: the changes that it made.
        nodes: the recorded nodes.
        printed: the messages, in order.
    """

    def __init__(self, trace: Recording, state: State, imports: Imports) -> None:
        self.trace = trace
        self.outer = trace.region
        self.depth: int = 1 if self.outer is None else self.outer.depth + 1
        if self.depth > _MAX_DEPTH:
            raise trace.guard.refusal(
                UnsupportedPython,
                f"{_MAX_DEPTH} conditions on tensors are nested: if a function calls itself under such a condition, "
                "tracing both branches never ends",
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
        """Run a function and record its nodes, result and changes."""
        trace, builder = self.trace, self.trace.builder
        node_count, call_count, printed = len(builder.nodes), len(trace.calls), trace.print_entries
        trace.region, trace.print_entries = self, []
        try:
            with tape.record_on(None):
                self.result = self.import_nested(function())
                changes = self._state.changes()
                self.changes = {k: (p, old, self.import_nested(new)) for k, (p, old, new) in changes.items()}
        finally:
            self._state.restore(self._state.changes())
            self.printed, self.nodes = trace.print_entries, builder.nodes[node_count:]
            trace.region, trace.print_entries = self.outer, printed
            del builder.nodes[node_count:], trace.calls[call_count:]
            trace.region_values.update(value for node in self.nodes for value in node.outputs)

    def import_values(self, x: Any) -> Any:
        """Return a tensor from outside as it is used inside."""
        if self.outer is not None:
            x = self.outer.import_values(x)
        if self.tape is None or not isinstance(x, Tensor) or x.number_on(self.tape) is None:
            return x
        data = x._data
        key = x._number, id(data)
        if key not in self.imports:
            value = self.trace.builder.new_value("outside", Type(data.dtype, data.shape))
            self.imports[key] = value, from_array(data, x._tape, x._number)
        return from_array(self.imports[key][0])

    def on_gradient(self) -> None:
        """Refuse a gradient inside a function that is differentiated."""
        region: EnclosingRegion | None = self
        while region is not None:
            if region.tape is not None:
                raise self.trace.guard.refusal(
                    UnsupportedPython,
                    "a gradient is requested under a condition on a tensor, inside a function that is differentiated",
                    "compute it before the condition",
                )
            region = region.outer

    def import_nested(self, structure: Any) -> Any:
        """Import the tensors in nested tuples, lists and dicts."""
        region: EnclosingRegion | None = self
        while region is not None:
            if region.tape is not None:
                return map_leaves(self.import_values, structure)
            region = region.outer
        return structure


@dataclass(frozen=True)
class RegionOperand:
    """An operand of a sub-program: the value that represents it inside, and the tensor outside."""

    value: Value
    tensor: Tensor


def operands(
    trace: Recording, regions: Iterable[Region], results: Iterable[Value], inputs: Iterable[Value]
) -> list[RegionOperand]:
    """The values that regions use from outside, in order.

    Args:
        trace: the trace.
        regions: the regions.
        results: their results, which may come from outside.
        inputs: their other inputs: values that a loop carries.
    """
    regions = list(regions)
    inside = {value for region in regions for node in region.nodes for value in node.outputs} | set(inputs)
    local = {c.value for c in trace.builder.constants if c.data.ndim == 0}
    imports = {traced.value: tensor for region in regions for traced, tensor in region.imports.values()}
    used_values = [value for region in regions for node in region.nodes for value in node.inputs if value is not None]
    outside = [v for v in dict.fromkeys((*used_values, *results)) if v not in inside and v not in local]
    symbols = input_symbols(outside) | input_symbols(inputs)
    for region in regions:
        known_here = symbols | {s for node in region.nodes for s in _readable_symbols(node, symbols)}
        for node in region.nodes:
            for name in sorted(symbols_used(node) - known_here):
                outside.append(_size_source(trace, name))
                known_here.add(name)
                symbols.add(name)
    plain = {v: from_array(SymbolicTensor(trace.builder, v)) for v in outside if v not in imports}
    return [RegionOperand(v, imports[v] if v in imports else plain[v]) for v in dict.fromkeys(outside)]


def _readable_symbols(node: Node, symbols: set[str]) -> set[str]:
    return {reading.symbol for reading in readings(node, symbols)}


def _size_source(trace: Recording, name: str) -> Value:
    """An outside value whose shape determines a size: an existing one, or one created for the purpose."""
    for value in (*trace.inputs, *(value for node in trace.builder.nodes for value in node.outputs)):
        if name in input_symbols([value]):
            return value
    new: Value = create(creation.full, shape=(symbol(name),), value=False, dtype=BOOL)._data.value
    return new


def build_subprogram(
    trace: Recording,
    region: Region,
    own_inputs: Sequence[Value],
    imports: Sequence[RegionOperand],
    results: Sequence[Value],
    name: str,
) -> Program:
    """Build the sub-program of a region.

    Args:
        trace: the trace.
        region: the region.
        own_inputs: its first inputs: values that a loop carries.
        imports: its other inputs: operands from outside.
        results: its outputs.
        name: its name.
    """
    builder = trace.builder
    sources: dict[Value, Value] = {v: v for v in own_inputs}
    sources |= {o.value: builder.new_value("input", o.value.type).value for o in imports}
    inputs = tuple(sources.values())
    nodes: list[Node] = []
    for node in region.nodes:
        operands_here = tuple(None if value is None else sources.get(value, value) for value in node.inputs)
        if node.op == "boundary" and operands_here[0] is not None:  # sub-programs have no Cell boundaries
            sources[node.outputs[0]] = operands_here[0]
        else:
            nodes.append(replace(node, inputs=operands_here, cell=0))
    outputs = tuple(sources.get(value, value) for value in results)
    used_values = {value for node in nodes for value in node.inputs} | set(outputs)
    return Program(
        inputs=inputs,
        outputs=outputs,
        nodes=tuple(nodes),
        parameters={},
        buffers={},
        constants=tuple(c for c in builder.constants if c.value in used_values and c.value not in inputs),
        calls=(CellCall("", name),),
        arguments=positional_arguments(len(inputs)),
        result=sequence(len(outputs)),
    )


def as_value(builder: Builder, data: Any) -> Value:
    """Return the value of symbolic data; an array becomes a constant."""
    return data.value if isinstance(data, SymbolicTensor) else builder.constant(data).value
