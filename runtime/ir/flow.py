"""The control flow of each Cell call of a program: its own nodes, and the calls that it makes between them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from ..errors import ProgramError
from .program import Program
from .types import CellCall, Node


@dataclass(frozen=True, eq=False)
class Flow:
    """The steps of one Cell call.

    Attributes:
        number: index of the call in `Program.calls`.
        call: the call: path, class name, index.
        entries: the boundaries of its inputs. The root has none: its inputs are the program's.
        body: its own nodes in order; a number in place of a node is the call of that number.
        exits: the boundaries of its outputs; the root has none.
    """

    number: int
    call: CellCall
    entries: list[Node] = field(default_factory=list)
    body: list[Node | int] = field(default_factory=list)
    exits: list[Node] = field(default_factory=list)


def flows(program: Program, nodes: Iterable[Node]) -> list[Flow]:
    """Return the flow of each call of `program`, in order of their numbers, for all or some of its nodes.

    Raises:
        ProgramError: the nodes of a call aren't contiguous.
    """
    result = [Flow(number, call) for number, call in enumerate(program.calls)]
    running = [0]
    finished: set[int] = set()
    for node in nodes:
        lineage = _lineage(program, node.cell)
        while running != lineage[: len(running)]:
            finished.add(running.pop())
        for number in lineage[len(running) :]:
            if number in finished:
                raise ProgramError(
                    f"the nodes of Cell call {program.calls[number]} aren't contiguous: op {node.op} comes after "
                    "nodes of another Cell"
                )
            result[running[-1]].body.append(number)
            running.append(number)
        _place(node, result[running[-1]])
    return result


def _lineage(program: Program, number: int | None) -> list[int]:
    """Return the chain of calls from the root to a call, including both."""
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
