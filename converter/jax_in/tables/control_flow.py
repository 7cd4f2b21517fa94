"""Loops and branches, and functions that are called, whose bodies are inlined."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ....runtime.ir.types import INT64
from ....runtime.ops import comparison
from ....runtime.ops.higher_order import control_flow, loops
from ....runtime.ops.higher_order.subprogram_rules import as_tuple
from ....runtime.programs.subprograms import trace_subprogram
from .table import cast, primitive

NO_LIMIT = 2**63 - 1


@primitive("jit", "pjit", "closed_call", "core_call", "remat", "checkpoint", "remat2", "custom_jvp_call")
def call(reader: Any, *operands: Any, **parameters: Any) -> Any:
    """A function that is called: its body."""
    body = next(parameters[name] for name in ("jaxpr", "call_jaxpr", "fun_jaxpr") if name in parameters)
    return reader.run(body, operands)


@primitive("custom_vjp_call", "custom_vjp_call_jaxpr")
def custom_vjp_call(reader: Any, *operands: Any, **parameters: Any) -> Any:
    """A function with a gradient of its own: its forward pass, of which our own gradient is used."""
    reader.note("a gradient that jax.custom_vjp defines was replaced by the derivative of the forward pass")
    return call(reader, *operands, **parameters)


@primitive("scan")
def scan(
    reader: Any, *operands: Any, jaxpr: Any, num_consts: int, num_carry: int, length: int, reverse: bool, **_: Any
) -> Any:
    """lax.scan: a body that is run on each slice along the first axis."""
    constants, initial = operands[:num_consts], operands[num_consts : num_consts + num_carry]
    sliced = list(operands[num_consts + num_carry :])
    counts = len(sliced)
    if not sliced:  # a loop with a fixed number of iterations
        sliced = [reader.constant(np.arange(length))]

    def body(*parts: Any) -> Any:
        carry, rows = parts[:num_carry], parts[num_carry : num_carry + len(sliced)]
        captured = parts[num_carry + len(sliced) :]
        return reader.inside(parts).run(jaxpr, (*captured, *carry, *rows[:counts]))

    order = [*initial, *sliced, *constants]
    types = [x.value.type for x in order]
    for index in range(num_carry, num_carry + len(sliced)):
        types[index] = types[index].with_shape(types[index].shape[1:])
    program = trace_subprogram(body, types, "scan")
    return as_tuple(loops.scan(*order, body=program, carried=num_carry, scanned=len(sliced), reverse=bool(reverse)))


@primitive("cond")
def cond(reader: Any, index: Any, *operands: Any, branches: Sequence[Any], **_: Any) -> Any:
    """lax.cond and switch: one of several branches, the last one for larger indices."""
    return _choose(reader, cast(index, INT64), operands, branches, 0)


def _choose(reader: Any, index: Any, operands: Sequence[Any], branches: Sequence[Any], first: int) -> Any:
    if len(branches) == 1:
        return reader.run(branches[0], operands)
    types = [x.value.type for x in (index, *operands)]

    def this(_: Any, *parts: Any) -> Any:
        return reader.inside(parts or (_,)).run(branches[0], parts)

    def others(number: Any, *parts: Any) -> Any:
        return _choose(reader.inside((number,)), number, parts, branches[1:], first + 1)

    chosen = comparison.less_equal(index, np.array(first, np.int64))
    programs = [trace_subprogram(function, types, name) for function, name in ((this, "this"), (others, "others"))]
    return as_tuple(control_flow.cond(chosen, index, *operands, then_branch=programs[0], else_branch=programs[1]))


@primitive("while")
def while_(
    reader: Any, *operands: Any, cond_jaxpr: Any, cond_nconsts: int, body_jaxpr: Any, body_nconsts: int, **_: Any
) -> Any:
    """lax.while_loop"""
    of_condition = operands[:cond_nconsts]
    of_body = operands[cond_nconsts : cond_nconsts + body_nconsts]
    initial = operands[cond_nconsts + body_nconsts :]
    count = len(initial)

    def body(number: Any, *parts: Any) -> Any:
        inner = reader.inside((number,))
        carried, captured = parts[:count], parts[count:]
        new = inner.run(body_jaxpr, (*captured[cond_nconsts:], *carried))
        (going,) = inner.run(cond_jaxpr, (*captured[:cond_nconsts], *new))
        return (going, *new)

    (going,) = reader.run(cond_jaxpr, (*of_condition, *initial))
    order = [*initial, *of_condition, *of_body]
    types = [reader.constant(np.array(0, np.int64)).value.type, *(x.value.type for x in order)]
    program = trace_subprogram(body, types, "while")
    limit = reader.constant(np.array(NO_LIMIT, np.int64))
    return as_tuple(loops.loop(limit, going, *order, body=program, carried=count))
