"""Puts parts of a module's program in place of parts of a file's."""

from __future__ import annotations

from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from ....runtime.ir.program import Program
from ....runtime.ir.types import Buffer, Constant, Node, ProgramParameter, Type, Value
from ....runtime.namespace import Namespace
from .affine_parts import AffinePart
from .flat import without_idle_nodes
from .parameters import unlike


@dataclass(frozen=True)
class Pair:
    """Parts of the module's program and of the file's that are the same function.

    Attributes:
        module: the module's part.
        file: the file's.
        source_order: for each axis of the module's source, that of the file's; empty if they are the same.
        result_order: the same for the result.
        factor: what the file's result is of the module's, which has its source and numbers otherwise.
    """

    module: AffinePart
    file: AffinePart
    source_order: tuple[int, ...] = ()
    result_order: tuple[int, ...] = ()
    factor: float = 1.0

    @property
    def has_its_axes(self) -> bool:
        """Whether the module's result has the axes of the file's, or else in another order, or some of one place."""
        return not self.result_order and self.module.result.shape == self.file.result.shape


@dataclass
class Splicer:
    """Replaces parts of a file's program by those of the module.

    Attributes:
        file: the file's program.
        module: the module's.
        weights: the values of the file's weights that are replaced.
        pairs: the parts.
        of: for each value of a replaced part of the module, that in the file's program; there once it is spliced.
    """

    file: Program
    module: Program
    weights: AbstractSet[Value]
    pairs: Sequence[Pair]
    of: dict[Value, Value] = field(default_factory=dict, init=False)
    _factors: list[Constant] = field(default_factory=list, init=False)

    def program(self) -> Program:
        """Return the program."""
        after: dict[Value | None, list[Node]] = {}
        for pair in self.pairs:
            before = pair.file.nodes[-1].outputs[0] if pair.file.nodes else None
            after.setdefault(before, []).extend(self._nodes(pair))
        ends = {pair.file.nodes[-1] for pair in self.pairs if pair.file.nodes}
        nodes = list(after.get(None, []))
        for node in self.file.nodes:
            nodes += after.get(node.outputs[0], []) if node in ends else [node]
        computed = {pair.file.result for pair in self.pairs}
        parameters = {n: p for n, p in self.file.parameters.items() if p.value not in computed}
        trained = {p.value for p in self.file.parameters.values() if p.trainable}
        of_trained = [pair for pair in self.pairs if not trained.isdisjoint(pair.file.stored & self.weights)]
        for name, parameter in self.module.parameters.items():
            if (value := self._stored.get(parameter.value)) is not None:
                is_trained = any(parameter.value in pair.module.stored for pair in of_trained)
                parameters[unlike(name, parameters, "module")] = ProgramParameter(value, parameter.data, is_trained)
        constants = [c for c in self.file.constants if c.value not in computed]
        stored: list[Constant | Buffer] = [*self.module.constants, *self.module.buffers.values()]
        for item in stored:
            if (value := self._stored.get(item.value)) is not None:
                constants.append(Constant(value, item.data))
        constants += self._factors
        whole = self.file.replace(nodes=tuple(nodes), parameters=parameters, constants=tuple(constants))
        return without_idle_nodes(whole)

    @cached_property
    def _names(self) -> Namespace:
        return self.file.new_names()

    @cached_property
    def _stored(self) -> dict[Value, Value]:
        """For each stored value of the module's parts, that in the file's program."""
        used = {
            value: None for pair in self.pairs for value in self.module.constant_data if value in pair.module.stored
        }
        return {value: Value(self._names.unique(value.name), value.type) for value in used}

    def _nodes(self, pair: Pair) -> list[Node]:
        """Return the module's nodes in the file's program."""
        known = dict(self._stored)
        last = pair.file.nodes[-1] if pair.file.nodes else None
        cell, line = (0, None) if last is None else (last.cell, last.source)
        nodes: list[Node] = []

        def transpose(before: Value, order: tuple[int, ...], after: Value) -> None:
            nodes.append(Node("transpose", (before,), {"permutation": order}, (after,), cell, line))

        if pair.module.source is not None and pair.file.source is not None:
            known[pair.module.source] = pair.file.source
            if pair.source_order:
                known[pair.module.source] = self._new(pair.module.source)
                transpose(pair.file.source, pair.source_order, known[pair.module.source])
        for node in pair.module.nodes:
            for value in node.outputs:
                is_result = value is pair.module.result and pair.has_its_axes and pair.factor == 1
                known[value] = pair.file.result if is_result else self._new(value)
            inputs = tuple(None if value is None else known[value] for value in node.inputs)
            outputs = tuple(known[value] for value in node.outputs)
            nodes.append(Node(node.op, inputs, node.attributes, outputs, cell, line))
        result = known[pair.module.result]
        if pair.factor != 1:
            factor = Value(self._names.unique("factor"), Type(result.dtype, ()))
            self._factors.append(Constant(factor, np.asarray(pair.factor, result.dtype)))
            scaled = pair.file.result if pair.has_its_axes else self._new(result)
            nodes.append(Node("mul", (result, factor), {}, (scaled,), cell, line))
            result = scaled
        if not pair.has_its_axes and not pair.result_order:
            attributes = {"shape": pair.file.result.shape}
            nodes.append(Node("reshape", (result,), attributes, (pair.file.result,), cell, line))
        if pair.result_order:
            back = tuple(int(axis) for axis in np.argsort(pair.result_order))
            transpose(result, back, pair.file.result)
        self.of |= known
        return nodes

    def _new(self, like: Value) -> Value:
        return Value(self._names.unique(like.name), like.type)
