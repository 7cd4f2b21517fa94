"""Backward passes written by hand, within what is traced: `bprop` becomes a sub-program of `own_gradient`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from ..common.tensor import Tensor, wrapped
from ..errors import CellbridgeError, UnsupportedPython
from ..ir.program import Program
from ..ir.types import Type, Value, is_floating
from ..ops.higher_order.own_gradient import own_gradient
from ..precision import computing_in
from ..programs.subprograms import finished
from ..tracing import SymbolicTensor
from .control.source import Unfollowed
from .current import Recording

Pull = Callable[[list[Tensor], list[Tensor], list[Tensor]], Sequence[Tensor]]
"""From the operands, the outputs and the cotangents of the floating-point outputs to the gradients of the operands."""


def with_own_gradient(
    trace: Recording, name: str, outputs: Sequence[Tensor], operands: Sequence[Tensor], pull: Pull
) -> list[Tensor]:
    """The outputs, with a backward pass of their own.

    `pull` is run here, on symbolic tensors. If it can't be traced, or isn't right, that is told where a gradient is
    asked for: going forward is fine.

    Args:
        trace: what is traced.
        name: whose backward pass it is.
        outputs: what was computed, without a gradient that counts.
        operands: the tensors and Parameters that get a gradient.
        pull: the backward pass.
    """
    types = [Type(x.dtype, x.shape) for x in (*operands, *outputs, *(x for x in outputs if is_floating(x.dtype)))]
    further: list[Tensor] = []
    backward, refusal = None, ""
    try:
        with computing_in(None):  # as in eager mode, where gradients are computed once the Cell is left
            backward, further = _traced(type(trace), name, types, len(operands), len(outputs), pull)
    except Unfollowed:
        raise
    except (CellbridgeError, TypeError, ValueError, RuntimeError) as error:
        refusal = f"the backward pass of {name} is written by hand, and can't be part of a program: {error}"
    passed = own_gradient(*outputs, *operands, *further, outputs=len(outputs), backward=backward, refusal=refusal)
    return list(passed) if isinstance(passed, tuple) else [passed]


def _traced(
    trace: Callable[..., Any], name: str, types: Sequence[Type], operands: int, outputs: int, pull: Pull
) -> tuple[Program, list[Tensor]]:
    """The sub-program, and the Parameters that it takes after the operands."""
    run = trace(pull, {})
    inputs = [run.builder.new_value(f"input_{i}", kind) for i, kind in enumerate(types)]
    given = [wrapped(x) for x in inputs]
    counted = given[:operands], given[operands : operands + outputs], given[operands + outputs :]
    with run.running():
        gradients = run.within("", name, pull, pull, counted, {})
        found = [x._data if isinstance(x._data, SymbolicTensor) else run.constant(x._data) for x in gradients]
        floating = [g for g, kind in zip(found, types, strict=False) if is_floating(kind.dtype)]
    held = list(run.held.values())
    for item in held:
        if item.now is not item.first:
            raise UnsupportedPython(f"it gives Parameter '{item.parameter.name}' a new value")
    if run.printed:
        raise UnsupportedPython("it prints")
    ordered = [*inputs[:operands], *(item.first for item in held), *inputs[operands:]]
    return _unmarked(finished(run.builder, ordered, floating, f"{name}.bprop")), [item.parameter for item in held]


def _unmarked(program: Program) -> Program:
    """The same without the marks of calls, which are those of another program."""
    passed: dict[Value, Value] = {}
    nodes = []
    for node in program.nodes:
        inputs = tuple(None if value is None else passed.get(value, value) for value in node.inputs)
        if node.op == "boundary" and inputs[0] is not None:
            passed[node.outputs[0]] = inputs[0]
        else:
            nodes.append(replace(node, inputs=inputs, cell=0))
    return program.replace(nodes=tuple(nodes), outputs=tuple(passed.get(value, value) for value in program.outputs))
