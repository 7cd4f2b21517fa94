"""Custom backward passes in traced code: `bprop` becomes a sub-program of the op `own_gradient`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from ..common.tensor import Tensor, from_array
from ..errors import CellbridgeError, UnsupportedPython
from ..ir.program import Program
from ..ir.types import Type, Value, is_floating
from ..ops.higher_order.own_gradient import own_gradient
from ..precision import compute_in
from ..programs.subprograms import build_subprogram
from ..tracing import SymbolicTensor
from .control.source import RetraceRequired
from .current import Recording

Pull = Callable[[list[Tensor], list[Tensor], list[Tensor]], Sequence[Tensor]]
"""Computes gradients of the operands from operands, outputs and the cotangents of the floating-point outputs."""


def with_custom_backward(
    trace: Recording, name: str, outputs: Sequence[Tensor], operands: Sequence[Tensor], pull: Pull
) -> list[Tensor]:
    """Return the outputs with a custom backward pass.

    `pull` runs here, on symbolic tensors. If it can't be traced or is wrong, the error is raised when a gradient is
    computed; the forward pass is unaffected.

    Args:
        trace: the trace.
        name: the name of the Cell or function, for messages.
        outputs: the outputs, whose own gradient is ignored.
        operands: the tensors and Parameters that get a gradient.
        pull: the backward pass.
    """
    types = [Type(x.dtype, x.shape) for x in (*operands, *outputs, *(x for x in outputs if is_floating(x.dtype)))]
    parameters: list[Tensor] = []
    backward, refusal = None, ""
    try:
        with compute_in(None):  # as in eager mode, where gradients are computed after leaving the Cell
            backward, parameters = _trace_backward(type(trace), name, types, len(operands), len(outputs), pull)
    except RetraceRequired:
        raise
    except (CellbridgeError, TypeError, ValueError, RuntimeError) as error:
        refusal = f"the backward pass of {name} is hand-written, and can't be part of a program: {error}"
    result = own_gradient(*outputs, *operands, *parameters, outputs=len(outputs), backward=backward, refusal=refusal)
    return list(result) if isinstance(result, tuple) else [result]


def _trace_backward(
    trace: Callable[..., Any], name: str, types: Sequence[Type], operands: int, outputs: int, pull: Pull
) -> tuple[Program, list[Tensor]]:
    """Return the sub-program, and the Parameters that are its inputs after the operands."""
    run = trace(pull, {})
    inputs = [run.builder.new_value(f"input_{i}", kind) for i, kind in enumerate(types)]
    tensors = [from_array(x) for x in inputs]
    args = tensors[:operands], tensors[operands : operands + outputs], tensors[operands + outputs :]
    with run.running():
        gradients = run.run_as_call("", name, pull, pull, args, {})
        data = [x._data if isinstance(x._data, SymbolicTensor) else run.constant(x._data) for x in gradients]
        floating = [g for g, kind in zip(data, types, strict=False) if is_floating(kind.dtype)]
    parameters = list(run.parameters.values())
    for item in parameters:
        if item.current is not item.initial:
            raise UnsupportedPython(f"it assigns a new value to Parameter '{item.parameter.name}'")
    if run.print_entries:
        raise UnsupportedPython("it prints")
    ordered = [*inputs[:operands], *(item.initial for item in parameters), *inputs[operands:]]
    program = build_subprogram(run.builder, ordered, floating, f"{name}.bprop")
    return _without_boundaries(program), [item.parameter for item in parameters]


def _without_boundaries(program: Program) -> Program:
    """Remove the boundary nodes, whose calls belong to another program."""
    sources: dict[Value, Value] = {}
    nodes = []
    for node in program.nodes:
        inputs = tuple(None if value is None else sources.get(value, value) for value in node.inputs)
        if node.op == "boundary" and inputs[0] is not None:
            sources[node.outputs[0]] = inputs[0]
        else:
            nodes.append(replace(node, inputs=inputs, cell=0))
    return program.replace(nodes=tuple(nodes), outputs=tuple(sources.get(value, value) for value in program.outputs))
