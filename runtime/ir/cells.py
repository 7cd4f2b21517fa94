"""The Cells of a program, and how one is cut out to run alone."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

from ..tree import positional, sequence
from .program import Program
from .types import CellCall, Node, Value


@dataclass(frozen=True, eq=False)
class Cell:
    """One call of one Cell of a program.

    Attributes:
        owner: the program it is part of.
        number: index of the call in `owner.calls`.
    """

    owner: Program
    number: int

    @property
    def call(self) -> CellCall:
        """The call: path, class name, index."""
        return self.owner.calls[self.number]

    @property
    def path(self) -> str:
        """Module path; `""` for the root."""
        return self.call.path

    @property
    def class_name(self) -> str:
        """Name of the module's class."""
        return self.call.class_name

    @property
    def index(self) -> int:
        """0 for the first call of this path, 1 for the second, ..."""
        return self.call.index

    @cached_property
    def nodes(self) -> tuple[Node, ...]:
        """The nodes of this call and of the calls within it."""
        inside = {self.number}
        for position, call in enumerate(self.owner.calls):
            if call.parent in inside:
                inside.add(position)
        return tuple(node for node in self.owner.nodes if node.cell in inside)

    @cached_property
    def parameters(self) -> dict[str, Value]:
        """The parameters that the nodes use, by qualified name."""
        used = self._used
        return {name: p.value for name, p in self.owner.parameters.items() if p.value in used}

    @property
    def _used(self) -> set[Value]:
        return {value for node in self.nodes for value in node.inputs if value is not None}

    @cached_property
    def program(self) -> Program:
        """The Cell cut out as a program of its own.

        Inputs are the values that come in: those marked at its boundary first, then what it takes from elsewhere.
        Outputs are the values marked as going out, or, where none is marked, all that are used outside.
        """
        produced = {value for node in self.nodes for value in node.outputs}
        stored = set(self.owner.constant_data)
        inputs = list(dict.fromkeys(v for node in self._boundary("input") for v in node.inputs if v is not None))
        inputs = [value for value in inputs if value not in stored]
        for node in self.nodes:
            inputs += [v for v in node.inputs if v is not None and v not in produced | stored and v not in inputs]
        outputs = [node.outputs[0] for node in self._boundary("output")] or self._escaping(produced)
        used = self._used | set(outputs)
        return Program(
            inputs=tuple(inputs),
            outputs=tuple(outputs),
            nodes=self.nodes,
            parameters={n: p for n, p in self.owner.parameters.items() if p.value in used},
            buffers={
                name: b if b.update in produced else replace(b, update=None)
                for name, b in self.owner.buffers.items()
                if b.value in used or b.update in produced
            },
            constants=tuple(c for c in self.owner.constants if c.value in used),
            calls=self.owner.calls,
            arguments=positional(len(inputs)),
            result=sequence(len(outputs)),
            train=self.owner.train,
        )

    def _boundary(self, kind: str) -> list[Node]:
        return [
            node
            for node in self.nodes
            if node.op == "boundary" and node.attributes["call"] == self.number and node.attributes["kind"] == kind
        ]

    def _escaping(self, produced: set[Value]) -> list[Value]:
        inside = set(self.nodes)
        outside = {v for node in self.owner.nodes if node not in inside for v in node.inputs}
        outside |= set(self.owner.outputs)
        return [value for node in self.nodes for value in node.outputs if value in outside & produced]


def cells(program: Program) -> list[Cell]:
    """One `Cell` per call, parents before children."""
    return [Cell(program, number) for number in range(len(program.calls))]
