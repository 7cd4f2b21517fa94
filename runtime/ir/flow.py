"""What each Cell call of a program does: its own nodes, and the calls that it makes among them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from ..errors import ProgramError
from .program import Program
from .types import CellCall, Node


@dataclass(frozen=True, eq=False)
class Flow:
    """One Cell call, step by step.

    Attributes:
        number: index of the call in `Program.calls`.
        call: the call: path, class name, index.
        entries: the boundaries where its inputs come in. The root has none: its inputs are the program's.
        body: its own nodes in order; a number stands where it makes the call of that number.
        exits: the boundaries where its outputs go out; the root has none.
    """

    number: int
    call: CellCall
    entries: list[Node] = field(default_factory=list)
    body: list[Node | int] = field(default_factory=list)
    exits: list[Node] = field(default_factory=list)


def flows(program: Program, nodes: Iterable[Node]) -> list[Flow]:
    """The flow of each call of `program`, by number, made of `nodes`: those of the program, or some of them.

    Raises:
        ProgramError: the nodes of a call don't stand together.
    """
    found = [Flow(number, call) for number, call in enumerate(program.calls)]
    running = [0]
    left: set[int] = set()
    for node in nodes:
        lineage = _lineage(program, node.cell)
        while running != lineage[: len(running)]:
            left.add(running.pop())
        for number in lineage[len(running) :]:
            if number in left:
                raise ProgramError(
                    f"the nodes of Cell call {program.calls[number]} don't stand together: op {node.op} comes after "
                    "nodes of another Cell"
                )
            found[running[-1]].body.append(number)
            running.append(number)
        _place(node, found[running[-1]])
    return found


def _lineage(program: Program, number: int | None) -> list[int]:
    """The calls that lead to a call, from the root to itself."""
    lineage: list[int] = []
    while number is not None:
        lineage.append(number)
        number = program.calls[number].parent
    return lineage[::-1]


def _place(node: Node, flow: Flow) -> None:
    of_this_call = flow.number and node.op == "boundary" and node.attributes["call"] == flow.number
    if of_this_call and node.attributes["kind"] == "input":
        flow.entries.append(node)
    elif of_this_call and node.attributes["kind"] == "output":
        flow.exits.append(node)
    else:
        flow.body.append(node)
