"""`Hypothesis`: a change of the reference's Cell, to be tested."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from ....runtime.ir.program import Program
from ....runtime.ir.types import Node
from ....runtime.tracing import Builder
from ...results.cause import Cause
from ..cell_program import CellProgram
from ..evidence import Evidence
from ..rebuilding import Operands, Results, append, keep, rebuild


@dataclass(frozen=True)
class Hypothesis:
    """A change of the reference's Cell.

    Attributes:
        cause: the change in words, without a proof.
        make: returns the changed program; raises an exception of `INVALID` where there is none.
    """

    cause: Cause
    make: Callable[[], Program]


Entry = Callable[[CellProgram, Evidence], Iterator[Hypothesis]]

OtherNode = Callable[[Builder, Node, Operands], Results]
"""Appends what stands in place of one node."""


def with_other_node(program: Program, position: int, other: OtherNode) -> Program:
    """Return the program with the node at a position replaced."""

    def rule(builder: Builder, at: int, node: Node, operands: Operands) -> Results:
        return other(builder, node, operands) if at == position else keep(builder, at, node, operands)

    return rebuild(program, rule)


def with_attributes(program: Program, position: int, **changes: Any) -> Program:
    """Return the program with other attributes of the node at a position."""
    return with_other_node(
        program,
        position,
        lambda builder, node, operands: append(builder, node.op, operands, {**node.attributes, **changes}),
    )
