"""`splice`: copies the nodes of a captured program into the program being traced.

The ops aren't called again. The tape records the copies as one entry; `programs.gradient_program` derives its gradient.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any

import numpy as np

from ..common import tape
from ..common.elements import Data
from ..common.tensor import Tensor, from_array
from ..ir.dims import Dim
from ..ir.program import Program
from ..ir.types import Node, Type, Value
from ..ops import elementwise
from ..programs.gradient_program import active_values, backward
from ..programs.interpreter import FAILURES, bind, failure
from ..programs.plan import Step, plan
from ..programs.subprograms import Inliner
from ..tracing import SymbolicTensor
from .current import Recording


def splice(
    trace: Recording,
    program: Program,
    cells: Sequence[Any],
    operands: Mapping[Value, Tensor],
    results: Sequence[Value],
) -> list[Tensor]:
    """Copy the nodes of a program into the program being traced.

    Args:
        trace: the trace.
        program: the program.
        cells: the Cell of each of its calls; the first is the running one.
        operands: the Tensor for each input, and for each parameter and buffer that nodes use.
        results: values of the program. Only the nodes that they need are copied, and the boundaries of all Cells.

    Returns:
        A Tensor for each of `results`, tracked if it depends on a tracked operand.

    Raises:
        UsageError: the operands don't fit the program.
        CellbridgeError: the sizes of the operands don't fit an op; the message names it.
    """
    tracking = _Operands(trace)
    tensors = trace.import_values(tuple(operands.values()))
    values: dict[Value, Any] = dict(zip(operands, map(tracking.add, tensors), strict=True))
    values |= {c.value: trace.builder.constant(c.data, c.value.dtype) for c in program.constants}
    calls = [trace.builder.cell]
    for call, cell in zip(program.calls[1:], cells[1:], strict=True):
        calls.append(trace.begin_call(cell, calls[call.parent or 0]))
    first = len(trace.builder.nodes)
    copier = _Copier(trace, program, calls, values, bind(program, [operands[value] for value in program.inputs]))
    copier.run(plan(program, results, every_boundary=True))
    return _as_tensors(trace, trace.builder.nodes[first:], tracking.numbers, [copier.values[v] for v in results])


class _Operands:
    """Maps Tensors to values of the traced program, and these values to their numbers on the recording tape.

    Args:
        trace: the trace.
        numbers: the tape numbers of values that are already known.
    """

    def __init__(self, trace: Recording, numbers: Mapping[Value, int] | None = None) -> None:
        self._trace = trace
        self._tape = tape.current()
        self._numbers: dict[Value, int | None] = dict(numbers or {})

    @property
    def numbers(self) -> dict[Value, int]:
        """The tape numbers of the values that are tracked."""
        return {value: number for value, number in self._numbers.items() if number is not None}

    def add(self, x: Tensor) -> SymbolicTensor:
        """Return the value of a Tensor.

        Each value has one number. If two Tensors share a value but have different numbers, or only one of them is
        tracked, the second gets a copy of the value.
        """
        data = self._trace.symbolic(x._data, "a program")
        if self._tape is None:
            return data
        number = x.number_on(self._tape)
        if self._numbers.setdefault(data.value, number) != number:
            data = elementwise.cast(data, dtype=data.dtype)
            self._numbers[data.value] = number
        return data

    def cotangent(self, g: Tensor) -> Any:
        """Return the value of a cotangent; return an untracked Tensor with concrete elements itself."""
        is_constant = isinstance(g._data, np.ndarray) and (self._tape is None or g.number_on(self._tape) is None)
        return g if is_constant else self.add(g)


class _Copier(Inliner):
    """Copies the nodes of a program into the program being traced."""

    def __init__(
        self,
        trace: Recording,
        program: Program,
        calls: Sequence[int],
        values: dict[Value, Any],
        sizes: Mapping[str, Dim],
    ) -> None:
        super().__init__(trace.builder, values, sizes)
        self._trace = trace
        self._program = program
        self._calls = calls

    def at(self, node: Node) -> AbstractContextManager[None]:
        """Within the context, copies belong to the new number of the node's Cell call, and have its source."""
        return self._trace.builder.copying(self._calls[node.cell], node.source)

    def attributes(self, step: Step) -> dict[str, Any]:
        """Return the attributes of the copy; a boundary gets the new number of its Cell call."""
        attributes = super().attributes(step)
        if step.node.op == "boundary":
            attributes["call"] = self._calls[attributes["call"]]
        return attributes

    def apply(self, step: Step, operands: list[Any], types: tuple[Type, ...] | None = None) -> Any:
        """Return the outputs of the copy; types without symbolic sizes are copied instead of inferred."""
        old_types = tuple(value.type for value in step.node.outputs)
        if all(type.sizes is not None for type in old_types):
            types = old_types
        try:
            return super().apply(step, operands, types)
        except FAILURES as error:
            raise failure(self._program, step.node, operands, error) from error


def _as_tensors(
    trace: Recording, nodes: Sequence[Node], numbers: Mapping[Value, int], results: Sequence[Data]
) -> list[Tensor]:
    """Return the results of nodes as Tensors; if a tape is recording, record the nodes on it.

    Args:
        trace: the trace, whose program has the nodes.
        nodes: the nodes.
        numbers: tape numbers of the tracked values that the nodes use.
        results: the data to return as Tensors: symbolic, or arrays.
    """
    recording = tape.current()
    if recording is not None:
        numbers = {**numbers, **_record(trace, recording, nodes, numbers)}
    return [
        from_array(trace.cut(x), recording, numbers.get(x.value)) if isinstance(x, SymbolicTensor) else from_array(x)
        for x in results
    ]


def _record(
    trace: Recording, recording: tape.Tape, nodes: Sequence[Node], numbers: Mapping[Value, int]
) -> dict[Value, int]:
    """Record nodes as one entry of the tape; return the numbers of the values that they compute.

    Intermediate values have numbers, too, because the gradient uses them and may be differentiated again.
    """
    used_values = {value for node in nodes for value in node.inputs}
    leaves = {value: number for value, number in numbers.items() if value in used_values}
    active = active_values(nodes, leaves)
    outputs = {value: recording.number() for node in nodes for value in node.outputs if value in active}
    all_numbers = {**numbers, **outputs}

    def pull(output_cotangents: list[Any]) -> list[Any]:
        tracking = _Operands(trace, all_numbers)
        pairs = zip(outputs, output_cotangents, strict=True)
        cotangents = {value: tracking.cotangent(g) for value, g in pairs if g is not None}
        first = len(trace.builder.nodes)
        with tape.record_on(None):
            backward(
                trace.builder,
                nodes,
                active,
                cotangents,
                trace.calls,
                at=lambda node: trace.at((node.cell, node.source)),
            )
        active_leaves = [value for value in leaves if value in cotangents]
        data = [g._data if isinstance(g, Tensor) else g for g in (cotangents[value] for value in active_leaves)]
        gradients = _as_tensors(trace, trace.builder.nodes[first:], tracking.numbers, data)
        by_leaf = dict(zip(active_leaves, gradients, strict=True))
        return [by_leaf.get(value) for value in leaves]

    if outputs:
        recording.append(tape.Entry(tuple(leaves.values()), tuple(outputs.values()), pull))
    return outputs
