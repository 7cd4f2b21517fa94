"""Random draws as inputs of a program, so that the caller chooses the numbers that its random ops draw."""

from __future__ import annotations

from collections.abc import Sequence

from ..ir.program import Program
from ..ir.types import Node, Value
from ..ops.registry import get
from ..tree import TENSOR, Structure, is_call


def random_nodes(program: Program) -> list[Node]:
    """The nodes that draw random numbers, in order; without those of sub-programs, such as a loop body."""
    return [node for node in program.nodes if get(node.op).traits.draws]


def draws_as_inputs(program: Program, nodes: Sequence[Node] | None = None) -> Program:
    """Take the results of random nodes as inputs, after the program's own.

    Nodes within a sub-program keep drawing.

    Args:
        program: any program; if its arguments are those of a call, the draws become additional keyword arguments with
            the names of their values.
        nodes: some of its `random_nodes`; all of them by default.
    """
    chosen = random_nodes(program) if nodes is None else nodes
    draws = [node.outputs[0] for node in chosen]
    left_out = set(chosen)
    return program.replace(
        inputs=(*program.inputs, *draws),
        nodes=tuple(node for node in program.nodes if node not in left_out),
        arguments=_with_keywords(program.arguments, draws) if is_call(program.arguments) else program.arguments,
    )


def _with_keywords(call: Structure, draws: Sequence[Value]) -> Structure:
    positional, named = call.children
    keys = (*named.keys, *(value.name for value in draws))
    return Structure("tuple", (positional, Structure("dict", (*named.children, *[TENSOR] * len(draws)), keys)))
