"""Sub-graphs as sub-programs of the control-flow ops: what they use of the graphs around them comes in as an input."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from ....runtime.ir.dims import symbol
from ....runtime.ir.program import Program
from ....runtime.ir.sizes import input_symbols, readings, symbols_used
from ....runtime.ir.types import INT64, Type
from ....runtime.ops import creation, data_dependent
from ....runtime.programs.subprograms import build_subprogram
from ....runtime.tracing import Builder, SymbolicTensor
from .stored import Stored
from .values import Known


class _Missing:
    """Stands for a value that couldn't be imported, and for whatever is computed of it."""


MISSING = _Missing()


class Incomplete(Exception):
    """Raised where a sub-graph uses operators that can't be imported, which are listed already: nor can its node be."""


class Inexpressible(Exception):
    """Raised where a sub-graph gives what a sub-program can't: a sequence, an optional."""


@dataclass
class Draft:
    """A sub-program whose inputs aren't settled yet.

    Attributes:
        name: of the sub-program.
        stored: where the captured tensors are.
        builder: of the sub-program.
        around: builder of the program around it.
        inputs: what it is handed each time.
        outputs: imported values.
    """

    name: str
    stored: Stored
    builder: Builder
    around: Builder
    inputs: list[SymbolicTensor]
    outputs: Sequence[Any]
    tensors: list[SymbolicTensor] = field(init=False)

    def __post_init__(self) -> None:
        if any(value is MISSING for value in self.outputs):
            raise Incomplete
        if not all(isinstance(value, SymbolicTensor | Known) for value in self.outputs):
            raise Inexpressible
        self.tensors = [self.stored.tensor(self.builder, value) for value in self.outputs]

    @property
    def types(self) -> list[Type]:
        """Types of the outputs."""
        return [x.value.type for x in self.tensors]

    def captured(self) -> list[SymbolicTensor]:
        """The tensors of the program around it that it uses, those among them that are sizes included."""
        known = input_symbols([x.value for x in (*self.inputs, *(made for _, made in self._pairs()))])
        needed: dict[str, None] = {}
        for node in self.builder.nodes:
            needed.update(dict.fromkeys(sorted(symbols_used(node) - known)))
            known |= {reading.symbol for reading in readings(node, known)}
        for name in needed:
            size: SymbolicTensor = self.around.create(creation.full, shape=(), value=symbol(name), dtype=INT64)
            inner = self.stored.tensor(self.builder, size)
            data_dependent.read_sizes(inner, symbols=(name,))
            self.builder.nodes.insert(0, self.builder.nodes.pop())
        return [outer for outer, _ in self._pairs()]

    def program(self, operands: Sequence[SymbolicTensor], order: Sequence[int] | None = None) -> Program:
        """The sub-program that takes its own inputs and then `operands`, in which all that it captures are."""
        made = {outer.value: inner for outer, inner in self._pairs()}
        taken = [made.get(x.value) or self.builder.new_value("unused", x.value.type) for x in operands]
        outputs = self.tensors if order is None else [self.tensors[i] for i in order]
        return build_subprogram(self.builder, [*self.inputs, *taken], outputs, self.name)

    def _pairs(self) -> list[tuple[SymbolicTensor, SymbolicTensor]]:
        return self.stored.captured(self.builder)


def union(*drafts: Draft) -> list[SymbolicTensor]:
    """What any of the sub-programs captures, once each."""
    found = {x.value: x for draft in drafts for x in draft.captured()}
    return list(found.values())
