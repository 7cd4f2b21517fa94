"""A custom backward in an exported graph becomes the sub-program of the op `own_gradient`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from ...runtime.ir.program import Program
from ...runtime.ir.types import CellCall, Value
from ...runtime.ops.higher_order.own_gradient import own_gradient
from ...runtime.ops.higher_order.subprogram_rules import as_tuple
from ...runtime.programs.subprograms import inline, trace_subprogram
from ...runtime.tracing import Builder, SymbolicTensor
from ...runtime.tree import positional_arguments, sequence


@dataclass
class OwnGradients:
    """The backward passes under translation, by the number of the function.

    The backward of a function is the nodes from its first cotangent to its `own_gradient` mark. They are moved to a
    sub-program.
    """

    builder: Builder
    starts: dict[int, int] = field(default_factory=dict)

    def cotangent(self, x: SymbolicTensor, function: int) -> SymbolicTensor:
        """A value for the cotangent of an output."""
        self.starts.setdefault(function, len(self.builder.nodes))
        return self.builder.new_value("cotangent", x.value.type)

    def finish(
        self,
        outputs: Sequence[SymbolicTensor],
        operands: Sequence[SymbolicTensor],
        gradients: Sequence[SymbolicTensor],
        cotangents: Sequence[SymbolicTensor],
        function: int,
    ) -> tuple[Any, ...]:
        """The outputs, with the backward made of the nodes since the first cotangent."""
        builder, start = self.builder, self.starts.pop(function)
        nodes = [replace(node, cell=0) for node in builder.nodes[start:]]
        del builder.nodes[start:]
        computed = {value for node in nodes for value in node.outputs}
        stored = {constant.value: constant for constant in builder.constants}
        results = tuple(g.value for g in gradients)
        operands_of_nodes = [value for node in nodes for value in node.inputs if value is not None] + list(results)
        constants = tuple(stored[value] for value in dict.fromkeys(operands_of_nodes) if value in stored)
        free = tuple(
            value for value in dict.fromkeys(operands_of_nodes) if value not in computed and value not in stored
        )
        program = Program(
            inputs=free,
            outputs=results,
            nodes=tuple(nodes),
            parameters={},
            buffers={},
            constants=constants,
            calls=(CellCall("", "backward"),),
            arguments=positional_arguments(len(free)),
            result=sequence(len(results)),
        )
        bound = {x.value for x in (*operands, *outputs, *cotangents)}
        further = [SymbolicTensor(builder, value) for value in free if value not in bound]
        formal = [*operands, *further, *outputs, *cotangents]

        def backward(*actual: SymbolicTensor) -> list[SymbolicTensor]:
            values: dict[Value, SymbolicTensor] = {}
            for x, argument in zip(formal, actual, strict=True):
                values.setdefault(x.value, argument)
            return inline(actual[0].builder, program, [values[value] for value in free])

        backward_program = trace_subprogram(backward, [x.value.type for x in formal], "backward")
        passed = own_gradient(*outputs, *operands, *further, outputs=len(outputs), backward=backward_program)
        return as_tuple(passed)
