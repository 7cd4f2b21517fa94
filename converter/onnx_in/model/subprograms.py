"""Sub-graphs as sub-programs of control-flow ops: values captured from enclosing graphs become inputs."""

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
from .initializers import Initializers
from .values import KnownTensor


class _Missing:
    """A placeholder for a value that couldn't be imported, or that depends on such a value."""


MISSING = _Missing()


class Incomplete(Exception):
    """Raised for a sub-graph with operators that can't be imported; these are already in the importer's list."""


class Inexpressible(Exception):
    """Raised for a sub-graph with outputs that a sub-program can't have: sequences or optionals."""


@dataclass
class Draft:
    """A sub-program whose inputs aren't final yet.

    Attributes:
        name: name of the sub-program.
        initializers: the initializers of the model, which keep the captured tensors.
        builder: builder of the sub-program.
        enclosing: builder of the enclosing program.
        inputs: the inputs of the sub-graph itself.
        outputs: the outputs of the sub-graph, as imported values.
        tensors: the outputs as tensors of the sub-program.
    """

    name: str
    initializers: Initializers
    builder: Builder
    enclosing: Builder
    inputs: list[SymbolicTensor]
    outputs: Sequence[Any]
    tensors: list[SymbolicTensor] = field(init=False)

    def __post_init__(self) -> None:
        if any(value is MISSING for value in self.outputs):
            raise Incomplete
        if not all(isinstance(value, SymbolicTensor | KnownTensor) for value in self.outputs):
            raise Inexpressible
        self.tensors = [self.initializers.tensor(self.builder, value) for value in self.outputs]

    @property
    def types(self) -> list[Type]:
        """The types of the outputs."""
        return [x.value.type for x in self.tensors]

    def captures(self) -> list[SymbolicTensor]:
        """The captured tensors of the enclosing program, including sizes."""
        symbols = input_symbols([x.value for x in (*self.inputs, *(inner for _, inner in self._pairs()))])
        needed: dict[str, None] = {}
        for node in self.builder.nodes:
            needed.update(dict.fromkeys(sorted(symbols_used(node) - symbols)))
            symbols |= {reading.symbol for reading in readings(node, symbols)}
        for name in needed:
            size: SymbolicTensor = self.enclosing.create(creation.full, shape=(), value=symbol(name), dtype=INT64)
            inner = self.initializers.tensor(self.builder, size)
            data_dependent.read_sizes(inner, symbols=(name,))
            self.builder.nodes.insert(0, self.builder.nodes.pop())
        return [outer for outer, _ in self._pairs()]

    def program(self, operands: Sequence[SymbolicTensor], order: Sequence[int] | None = None) -> Program:
        """The sub-program that takes its own inputs and then `operands`, which include all captured tensors."""
        captures = {outer.value: inner for outer, inner in self._pairs()}
        extra = [captures.get(x.value) or self.builder.new_value("unused", x.value.type) for x in operands]
        outputs = self.tensors if order is None else [self.tensors[i] for i in order]
        return build_subprogram(self.builder, [*self.inputs, *extra], outputs, self.name)

    def _pairs(self) -> list[tuple[SymbolicTensor, SymbolicTensor]]:
        return self.initializers.captures(self.builder)


def union(*drafts: Draft) -> list[SymbolicTensor]:
    """The tensors that any of the sub-programs captures, once each."""
    return list({x.value: x for draft in drafts for x in draft.captures()}.values())
