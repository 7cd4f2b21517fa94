"""The tree of torch modules that a program becomes, and which calls can be modules of their own."""

from __future__ import annotations

from dataclasses import replace

from ...runtime.ir.program import Program
from ..structure import network as structure

Module = structure.Module


class TorchNetwork(structure.Network[Module]):
    """The modules of a program, in the order of its parameters.

    A Cell whose nodes don't stand together (in a gradient program, say) is no module of its own: what it computes
    stands in the Cell around it.

    Attributes:
        used: values that anything takes.
    """

    def __init__(self, program: Program) -> None:
        super().__init__(_standing_together(program), Module)
        for name, parameter in self.program.parameters.items():
            self.hold(name, name, parameter.value)
        for name, buffer in self.program.buffers.items():
            self.hold(name, name, buffer.value)
        for name, parameter in self.program.parameters.items():
            for alias in parameter.aliases:
                self.hold(alias, name, parameter.value)
        self.used = {value for node in self.nodes for value in node.inputs if value is not None}
        self.used |= {*self.program.outputs, *self.program.updates.values()}
        called = {0} | {part for flow in self.flows for part in flow.body if isinstance(part, int)}
        for flow in self.flows:
            if flow.number not in called:
                continue
            module = self.module(flow.call.path)
            module.class_name = flow.call.class_name
            module.calls.append(flow)


def _standing_together(program: Program) -> Program:
    """The program with the nodes of each Cell call together; a call whose nodes aren't is dissolved in its parent."""
    dissolved: set[int] = set()
    while (torn := _torn(program, dissolved)) is not None:
        dissolved.add(torn)
    if not dissolved:
        return program

    def standing(number: int | None) -> int | None:
        while number in dissolved:
            number = program.calls[number].parent
        return number

    return program.replace(
        nodes=tuple(replace(node, cell=standing(node.cell) or 0) for node in program.nodes),
        calls=tuple(replace(call, parent=standing(call.parent)) for call in program.calls),
    )


def _torn(program: Program, dissolved: set[int]) -> int | None:
    """The first call that nodes come back to after it was left."""
    running, left = [0], set[int]()
    for node in program.nodes:
        lineage: list[int] = []
        number: int | None = node.cell
        while number is not None:
            if number not in dissolved:
                lineage.insert(0, number)
            number = program.calls[number].parent
        while running != lineage[: len(running)]:
            left.add(running.pop())
        for entered in lineage[len(running) :]:
            if entered in left:
                return entered
            running.append(entered)
    return None
