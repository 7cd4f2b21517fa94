"""Reverse-mode differentiation: turns a program into one that also computes its gradients."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

from ..errors import ProgramError
from ..ir.program import Program
from ..ir.types import BOOL, CellCall, Node, Value, carries_gradients, is_floating
from ..ops import creation, elementwise
from ..ops.registry import get
from ..tracing import Builder, SymbolicTensor


@dataclass(frozen=True, eq=False)
class GradientProgram:
    """A program that runs another forward and backward.

    Attributes:
        program: takes the inputs of the original program, then one cotangent per floating-point output.
        input_gradients: per input of the original, the value of its gradient; None where none flows.
        parameter_gradients: by name, for trainable parameters; None where none flows.
    """

    program: Program
    input_gradients: tuple[Value | None, ...]
    parameter_gradients: dict[str, Value | None]


def differentiate(program: Program, *, every_boundary: bool = False) -> GradientProgram:
    """Build the gradient program of `program` from the `vjp` rules of its ops.

    Args:
        program: the program to differentiate.
        every_boundary: also differentiate at boundaries that no cotangent reaches (with zero cotangents), so that
            each Cell can be given its own cotangent.

    Raises:
        ProgramError: a gradient must flow through an op without one; the message says why, and where the op is.
    """
    builder = Builder.from_program(program)
    leaves = [value for value in program.inputs if is_floating(value.dtype)]
    leaves += [p.value for p in program.parameters.values() if p.trainable and is_floating(p.value.dtype)]
    cotangents: dict[Value, Any] = {}
    seeds: list[Value] = []
    for output in program.outputs:
        if is_floating(output.dtype):
            seed = builder.new_value(f"cotangent_{output.name}", output.type)
            seeds.append(seed.value)
            _accumulate(cotangents, output, seed)
    backward(
        builder,
        program.nodes,
        active_values(program.nodes, leaves),
        cotangents,
        program.calls,
        at=lambda node: builder.at(node.cell, node.source),
        every_boundary=every_boundary,
    )

    def gradient(value: Value) -> Value | None:
        return cotangents[value].value if value in cotangents else None

    input_gradients = tuple(gradient(v) if is_floating(v.dtype) else None for v in program.inputs)
    parameter_gradients = {n: gradient(p.value) for n, p in program.parameters.items() if p.trainable}
    combined = program.replace(
        inputs=program.inputs + tuple(seeds), nodes=tuple(builder.nodes), constants=tuple(builder.constants)
    )
    return GradientProgram(combined, input_gradients, parameter_gradients)


def active_values(nodes: Iterable[Node], leaves: Iterable[Value]) -> set[Value]:
    """Return the leaves, and the floating-point values that depend on one other than through `stop_gradient`.

    If integers are differentiated, so are integers that depend only on integers among the differentiated values.
    """
    active = set(leaves)
    for node in nodes:
        reached = active.intersection(value for value in node.inputs if value is not None)
        if reached and node.op != "stop_gradient":
            integers = not any(carries_gradients(value.dtype) for value in reached)
            active |= {v for v in node.outputs if carries_gradients(v.dtype) or (integers and v.dtype != BOOL)}
    return active


def backward(
    builder: Builder,
    nodes: Sequence[Node],
    active: set[Value],
    cotangents: dict[Value, Any],
    calls: Sequence[CellCall],
    *,
    at: Callable[[Node], AbstractContextManager[None]],
    every_boundary: bool = False,
) -> None:
    """Walk nodes from the last to the first, passing cotangents from outputs to operands by the `vjp` rules.

    Args:
        builder: the builder that the nodes belong to, and that the rules append to.
        nodes: in order of computation.
        active: the values that are differentiated; see `active_values`.
        cotangents: by value; changed in place. At the end, those of the leaves remain.
        calls: the Cell calls that nodes belong to, for an error.
        at: the context in which the rule of a node appends.
        every_boundary: as for `differentiate`.

    Raises:
        ProgramError: a gradient must flow through an op without one; the message says why, and where the op is.
    """
    for node in reversed(nodes):
        mask = [value in active for value in node.inputs]
        if not any(mask):
            continue
        with at(node):
            output_cotangents = [cotangents.pop(value, None) for value in node.outputs]
            if every_boundary and node.op == "boundary" and output_cotangents[0] is None:
                output = node.outputs[0]
                output_cotangents = [builder.create(creation.full, shape=output.shape, value=0.0, dtype=output.dtype)]
            if all(g is None for g in output_cotangents):
                continue
            op = get(node.op)
            if op.vjp_rule is None:
                raise ProgramError(
                    f"op {node.op} in Cell {calls[node.cell]} has no gradient: {op.no_vjp_reason}"
                    + (f"\n  at {node.source}" if node.source else "")
                )
            inputs = [None if value is None else SymbolicTensor(builder, value) for value in node.inputs]
            outputs = [SymbolicTensor(builder, value) for value in node.outputs]
            input_cotangents = op.apply_vjp(output_cotangents, outputs, inputs, node.attributes, mask)
            for value, g in zip(node.inputs, input_cotangents, strict=True):
                if value is not None and g is not None:
                    _accumulate(cotangents, value, g)


def _accumulate(cotangents: dict[Value, Any], value: Value, g: Any) -> None:
    cotangents[value] = elementwise.add(cotangents[value], g) if value in cotangents else g
