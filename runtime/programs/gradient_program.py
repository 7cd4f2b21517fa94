"""Reverse-mode differentiation: from a program to the program that also computes its gradients."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ..errors import ProgramError
from ..ir.program import Program
from ..ir.types import Node, Value, is_floating
from ..ops import creation, elementwise
from ..ops.registry import get
from ..tracing import Builder, SymbolicTensor


@dataclass(frozen=True, eq=False)
class GradientProgram:
    """A program that runs another forward and backward.

    Attributes:
        program: takes the original's inputs and then one cotangent per floating-point output.
        input_gradients: per input of the original, the value of its gradient; None where none flows.
        parameter_gradients: by name, for trainable parameters; None where none flows.
    """

    program: Program
    input_gradients: tuple[Value | None, ...]
    parameter_gradients: dict[str, Value | None]


def differentiate(program: Program, *, every_boundary: bool = False) -> GradientProgram:
    """The gradient program of `program`, built from the `vjp` rules of its ops.

    Args:
        program: what to differentiate.
        every_boundary: differentiate also what leads from Cell outputs that no cotangent reaches (taken as zero), so
            that each Cell can be fed a cotangent of its own.

    Raises:
        ProgramError: a gradient must pass an op that has none; the message says why, and where it stands.
    """
    builder = Builder.continuing(program)
    active = _active(program)
    cotangents: dict[Value, Any] = {}
    seeds: list[Value] = []

    def accumulate(value: Value, g: Any) -> None:
        cotangents[value] = elementwise.add(cotangents[value], g) if value in cotangents else g

    for output in program.outputs:
        if is_floating(output.dtype):
            seed = builder.new_value(f"cotangent_{output.name}", output.type)
            seeds.append(seed.value)
            accumulate(output, seed)
    for node in reversed(program.nodes):
        if not active.intersection(value for value in node.inputs if value is not None):
            continue
        with builder.at(node.cell, node.source):
            output_cotangents = [cotangents.pop(value, None) for value in node.outputs]
            if (
                every_boundary
                and node.op == "boundary"
                and node.attributes["kind"] == "output"
                and output_cotangents[0] is None
            ):
                output = node.outputs[0]
                output_cotangents = [builder.create(creation.full, shape=output.shape, value=0.0, dtype=output.dtype)]
            if all(g is None for g in output_cotangents):
                continue
            wanted = [value in active for value in node.inputs]
            for value, g in zip(
                node.inputs, _apply_vjp(builder, program, node, output_cotangents, wanted), strict=True
            ):
                if value is not None and g is not None:
                    accumulate(value, g)

    def gradient(value: Value) -> Value | None:
        return cotangents[value].value if value in cotangents else None

    input_gradients = tuple(gradient(v) if is_floating(v.dtype) else None for v in program.inputs)
    parameter_gradients = {n: gradient(p.value) for n, p in program.parameters.items() if p.trainable}
    combined = program.replace(
        inputs=program.inputs + tuple(seeds), nodes=tuple(builder.nodes), constants=tuple(builder.constants)
    )
    return GradientProgram(combined, input_gradients, parameter_gradients)


def _active(program: Program) -> set[Value]:
    """The floating-point values that depend on an input or on a trainable parameter, and not only by way of a stop."""
    active = {value for value in program.inputs if is_floating(value.dtype)}
    active |= {p.value for p in program.parameters.values() if p.trainable and is_floating(p.value.dtype)}
    for node in program.nodes:
        if node.op != "stop_gradient" and active.intersection(value for value in node.inputs if value is not None):
            active |= {value for value in node.outputs if is_floating(value.dtype)}
    return active


def _apply_vjp(
    builder: Builder, program: Program, node: Node, output_cotangents: list[Any], wanted: list[bool]
) -> tuple[Any, ...]:
    """Cotangents of the node's inputs, by the `vjp` rule of its op."""
    op = get(node.op)
    if op.vjp_rule is None:
        raise ProgramError(
            f"op {node.op} in Cell {program.calls[node.cell]} has no gradient: {op.no_vjp_reason}"
            + (f"\n  at {node.source}" if node.source else "")
        )
    inputs = [None if value is None else SymbolicTensor(builder, value) for value in node.inputs]
    outputs = [SymbolicTensor(builder, value) for value in node.outputs]
    return op.apply_vjp(output_cotangents, outputs, inputs, node.attributes, wanted)
