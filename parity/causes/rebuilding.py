"""`rebuild`: a program with nodes changed by a rule, and with the types that follow from the changes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from ...runtime.errors import CellbridgeError, ConversionError
from ...runtime.ir.program import Program
from ...runtime.ir.types import Node, Value
from ...runtime.ops.registry import get
from ...runtime.tracing import Builder, SymbolicTensor

Operands = list[SymbolicTensor | None]
Results = tuple[SymbolicTensor, ...]
Rule = Callable[[Builder, int, Node, Operands], Results]
"""Appends what stands in place of a node, of which it gets the position, to the builder; returns the outputs."""

INVALID = (CellbridgeError, ValueError, IndexError, TypeError, KeyError, ZeroDivisionError, MemoryError)
"""What a change raises that makes no program, or one that can't run on the recorded values."""


def keep(builder: Builder, _: int, node: Node, operands: Operands) -> Results:
    """Append the node as it is."""
    return append(builder, node.op, operands, node.attributes)


def append(builder: Builder, op: str, operands: Operands, attributes: Mapping[str, Any]) -> Results:
    """Append a node, and return its outputs.

    Raises:
        ConversionError: one of several operands of the same kind is missing.
    """
    operator = get(op)
    if operator.variadic and None in operands:
        raise ConversionError(f"an operand of {op} is missing")
    results = (
        builder.append(operator, tuple(operands), dict(attributes))
        if any(operand is not None for operand in operands)
        else builder.create(operator, **attributes)
    )
    return results if isinstance(results, tuple) else (results,)


def rebuild(program: Program, rule: Rule = keep) -> Program:
    """Return a program whose nodes are what `rule` appends for those of another one.

    Inputs, parameters, buffers and constants stay the same values; parameters that aren't used any more are left out,
    and so are boundaries, whose results are their operands.

    Raises:
        CellbridgeError: the types of operands or attributes of a node don't fit.
    """
    builder = Builder.from_program(program.replace(nodes=()))
    stored = [*program.inputs, *program.constant_data]
    tensors: dict[Value, SymbolicTensor] = {value: SymbolicTensor(builder, value) for value in stored}
    for position, node in enumerate(program.nodes):
        operands = [None if value is None else tensors[value] for value in node.inputs]
        if node.op == "boundary":
            results: Results = tuple(operand for operand in operands if operand is not None)
        else:
            with builder.at(node.cell, node.source):
                results = rule(builder, position, node, operands)
        tensors.update(zip(node.outputs, results, strict=True))
    updates = {
        name: buffer if buffer.update is None else replace(buffer, update=tensors[buffer.update].value)
        for name, buffer in program.buffers.items()
    }
    outputs = tuple(tensors[value].value for value in program.outputs)
    used = {value for node in builder.nodes for value in node.inputs} | set(outputs)
    return program.replace(
        nodes=tuple(builder.nodes),
        constants=tuple(builder.constants),
        parameters={name: p for name, p in program.parameters.items() if p.value in used},
        buffers=updates,
        outputs=outputs,
    )
