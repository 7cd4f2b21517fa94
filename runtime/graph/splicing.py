"""`splice`: the nodes of a captured program are copied into the program that is traced.

The ops aren't called again. The copies are one step of the tape, whose gradient the loop of gradient programs derives.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any

import numpy as np

from ..common.elements import Data
from ..common.tensor import Tensor, from_array
from ..eager import tape
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
    wanted: Sequence[Value],
) -> list[Tensor]:
    """Copy the nodes of a program into the program that is traced.

    Args:
        trace: the trace.
        program: the program.
        cells: the Cell of each of its calls; the first is the one that runs now.
        operands: the Tensor for each input, and for each parameter and buffer that nodes use.
        wanted: values of the program. What they don't need isn't copied, except for the boundaries of Cells.

    Returns:
        A Tensor for each of `wanted`, tracked if it depends on a tracked operand.

    Raises:
        UsageError: the operands don't fit the program.
        CellbridgeError: the sizes of the operands don't fit an op; the message names it.
    """
    given = _Operands(trace)
    imported = trace.import_values(tuple(operands.values()))
    values: dict[Value, Any] = dict(zip(operands, map(given.add, imported), strict=True))
    values |= {c.value: trace.builder.constant(c.data, c.value.dtype) for c in program.constants}
    calls = [trace.builder.cell]
    for call, cell in zip(program.calls[1:], cells[1:], strict=True):
        calls.append(trace.begin_call(cell, calls[call.parent or 0]))
    first = len(trace.builder.nodes)
    copies = _Copies(trace, program, calls, values, bind(program, [operands[value] for value in program.inputs]))
    copies.run(plan(program, wanted, every_boundary=True))
    return _recorded(trace, trace.builder.nodes[first:], given.numbers, [copies.values[value] for value in wanted])


class _Operands:
    """The values of the traced program that stand for Tensors, and their numbers on the tape that records now.

    Args:
        trace: the trace.
        numbers: the numbers of values that are known already.
    """

    def __init__(self, trace: Recording, numbers: Mapping[Value, int] | None = None) -> None:
        self._trace = trace
        self._tape = tape.current()
        self._met: dict[Value, int | None] = dict(numbers or {})

    @property
    def numbers(self) -> dict[Value, int]:
        """The numbers of those that are tracked."""
        return {value: number for value, number in self._met.items() if number is not None}

    def add(self, x: Tensor) -> SymbolicTensor:
        """The value of a Tensor.

        One value has one number. Where a Tensor shares its value with another that has a different number, or is
        tracked while the other isn't, it gets a copy of the value.
        """
        traced = self._trace.symbolic(x._data, "a program")
        if self._tape is None:
            return traced
        number = x.number_on(self._tape)
        if self._met.setdefault(traced.value, number) != number:
            traced = elementwise.cast(traced, dtype=traced.dtype)
            self._met[traced.value] = number
        return traced

    def cotangent(self, g: Tensor) -> Any:
        """The value of a cotangent, or the Tensor itself if its elements are known."""
        known = isinstance(g._data, np.ndarray) and (self._tape is None or g.number_on(self._tape) is None)
        return g if known else self.add(g)


class _Copies(Inliner):
    """Copies the nodes of a program into the program that is traced."""

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
        """The copy belongs to the new number of the node's Cell call, and keeps its source."""
        return self._trace.builder.copying(self._calls[node.cell], node.source)

    def attributes(self, step: Step) -> dict[str, Any]:
        """Attributes of the copy; a boundary names its Cell call by the new number."""
        attributes = super().attributes(step)
        if step.node.op == "boundary":
            attributes["call"] = self._calls[attributes["call"]]
        return attributes

    def apply(self, step: Step, operands: list[Any], types: tuple[Type, ...] | None = None) -> Any:
        """The outputs of the copy. Types without symbolic sizes are known and needn't be inferred."""
        known = tuple(value.type for value in step.node.outputs)
        try:
            return super().apply(step, operands, known if all(type.sizes is not None for type in known) else types)
        except FAILURES as error:
            raise failure(self._program, step.node, operands, error) from error


def _recorded(
    trace: Recording, nodes: Sequence[Node], numbers: Mapping[Value, int], results: Sequence[Data]
) -> list[Tensor]:
    """Tensors for what nodes compute; the nodes are recorded on the tape, if one records.

    Args:
        trace: the trace; the nodes are part of its program.
        nodes: the nodes.
        numbers: tape numbers of the tracked values that the nodes use.
        results: what to return: symbolic, or arrays.
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
    """Record nodes as one step of the tape; returns the numbers of the values that they compute.

    Intermediate values have numbers too: the gradient uses them, and may be differentiated again.
    """
    used = {value for node in nodes for value in node.inputs}
    leaves = {value: number for value, number in numbers.items() if value in used}
    active = active_values(nodes, leaves)
    outputs = {value: recording.number() for node in nodes for value in node.outputs if value in active}
    known = {**numbers, **outputs}

    def pull(output_cotangents: list[Any]) -> list[Any]:
        given = _Operands(trace, known)
        arrived = zip(outputs, output_cotangents, strict=True)
        cotangents = {value: given.cotangent(g) for value, g in arrived if g is not None}
        first = len(trace.builder.nodes)
        with tape.record_on(None):
            backward(
                trace.builder,
                nodes,
                active,
                cotangents,
                at=lambda node: trace.at((node.cell, node.source)),
                cell=lambda node: str(trace.calls[node.cell]),
            )
        reached = [value for value in leaves if value in cotangents]
        data = [g._data if isinstance(g, Tensor) else g for g in (cotangents[value] for value in reached)]
        gradients = _recorded(trace, trace.builder.nodes[first:], given.numbers, data)
        by_leaf = dict(zip(reached, gradients, strict=True))
        return [by_leaf.get(value) for value in leaves]

    if outputs:
        recording.append(tape.Entry(tuple(leaves.values()), tuple(outputs.values()), pull))
    return outputs
