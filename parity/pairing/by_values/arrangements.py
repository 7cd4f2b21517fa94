"""How a parameter of a program is made of rows of a module's, and programs that are rewritten to make it so.

A rewritten program holds the module's own parameters and arranges their rows, so its gradients are theirs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from ....runtime.ir.dims import Dim
from ....runtime.ir.program import Program
from ....runtime.ir.types import INT64, Constant, Node, ProgramParameter, Type, Value
from ...correspondence.layouts import Layout
from ...sides.records import Array


@dataclass(frozen=True)
class Source:
    """A parameter of the module, read as a matrix of rows."""

    name: str
    layout: Layout


@dataclass(frozen=True)
class Arrangement:
    """How a parameter of a program is made of rows of the module's.

    Attributes:
        name: of the program's parameter.
        sources: the module's parameters, whose rows are taken one after the other.
        rows: for each row of the program's parameter, the number of the module's.
        columns: for each column, the number of the module's.
        layout: how the rows are read from the program's parameter.
        cell: number of the call that the program's parameter is used in; 0 if there are several.
    """

    name: str
    sources: tuple[Source, ...]
    rows: Array
    columns: Array
    layout: Layout
    cell: int = 0

    @property
    def is_as_it_is(self) -> bool:
        """Whether the program's parameter is one of the module's, of the same shape and order."""
        if len(self.sources) > 1 or self.layout != self.sources[0].layout:
            return False
        places = ((self.rows, self.layout.target[0]), (self.columns, self.layout.target[1]))
        return all(np.array_equal(order, np.arange(count)) for order, count in places)

    @property
    def is_part(self) -> bool:
        """Whether the program's parameter is a run of rows of one of the module's, and not one of equal blocks."""
        run = np.arange(self.rows[0], self.rows[0] + len(self.rows))
        is_block = self.sources[0].layout.target[0] % len(run) == 0
        return len(self.sources) == 1 and not is_block and np.array_equal(self.rows, run)

    def arrange(self, arrays: Mapping[str, Array]) -> Array:
        """Return the program's parameter, made of arrays of the module's."""
        joined = np.concatenate([source.layout.read(arrays[source.name]) for source in self.sources])
        return self.layout.inverse.read(joined[self.rows][:, self.columns])

    def rows_of(self, number: int) -> Array:
        """Return the rows of a source that are taken."""
        start = sum(source.layout.target[0] for source in self.sources[:number])
        inside = (self.rows >= start) & (self.rows < start + self.sources[number].layout.target[0])
        return self.rows[inside] - start


def divided(
    arrangements: Sequence[Arrangement], arrays: Mapping[str, Array], others: Mapping[str, Array]
) -> dict[str, Array]:
    """Return the module's parameters made of a program's, which have each row of theirs once.

    Args:
        arrangements: how the program's parameters are made of the module's.
        arrays: the program's parameters, by the names in the arrangements.
        others: the module's own, whose rows stand where the program has none.
    """
    matrices: dict[str, Array] = {}
    for arrangement in arrangements:
        array = arrangement.layout.read(arrays[arrangement.name])[:, np.argsort(arrangement.columns)]
        start = 0
        for number, source in enumerate(arrangement.sources):
            matrix = matrices.setdefault(source.name, source.layout.read(others[source.name]).astype(array.dtype))
            inside = (arrangement.rows >= start) & (arrangement.rows < start + len(matrix))
            matrix[arrangement.rows_of(number)] = array[inside]
            start += len(matrix)
    layouts = {source.name: source.layout for arrangement in arrangements for source in arrangement.sources}
    return {name: layouts[name].inverse.read(matrix) for name, matrix in matrices.items()}


def rewrite(program: Program, arrays: Mapping[str, Array], arrangements: Sequence[Arrangement]) -> Program:
    """Return the program with parameters of the module's names, arranged as it uses them.

    Args:
        program: the program.
        arrays: what the parameters hold, by the module's names and in its layouts.
        arrangements: those of the program's parameters that they take the place of.
    """
    parameters = dict(program.parameters)
    taken = {arrangement.name: parameters.pop(arrangement.name) for arrangement in arrangements}
    nodes: list[Node] = []
    constants = list(program.constants)
    uses = Counter(source.name for arrangement in arrangements for source in arrangement.sources)
    for arrangement in arrangements:
        old = taken[arrangement.name]
        for source in arrangement.sources:
            data = arrays[source.name].astype(old.value.dtype)
            if arrangement.is_as_it_is and uses[source.name] == 1:
                parameters[source.name] = replace(old, data=data)
            elif source.name not in parameters:
                value = Value(f"{source.name} of {arrangement.name}", Type(old.value.dtype, data.shape))
                parameters[source.name] = ProgramParameter(value, data, old.trainable)
            elif old.trainable and not parameters[source.name].trainable:
                parameters[source.name] = replace(parameters[source.name], trainable=True)
    for arrangement in arrangements:
        sources = [parameters[source.name] for source in arrangement.sources]
        if sources[0].value is not taken[arrangement.name].value:
            chain = _Chain(arrangement.name, taken[arrangement.name].value, arrangement.cell, nodes, constants)
            chain.arrange(arrangement, sources, taken[arrangement.name].trainable)
    return program.replace(parameters=parameters, constants=tuple(constants), nodes=(*nodes, *program.nodes))


@dataclass(frozen=True)
class _Chain:
    """Adds the nodes that compute a parameter of the program from the module's."""

    name: str
    result: Value
    cell: int
    nodes: list[Node]
    constants: list[Constant]

    def arrange(self, arrangement: Arrangement, sources: Sequence[ProgramParameter], trainable: bool) -> None:
        """Add the nodes for an arrangement of these parameters, which trains them or not."""
        pieces = []
        for source, parameter in zip(arrangement.sources, sources, strict=True):
            value = parameter.value
            if parameter.trainable and not trainable:
                value = self._add("stop_gradient", (value,), {}, value.shape)
            pieces.append(self._read(value, source.layout))
        matrix = pieces[0]
        count, width = sum(source.layout.target[0] for source in arrangement.sources), len(arrangement.columns)
        if len(pieces) > 1:
            matrix = self._add("concat", tuple(pieces), {"axis": 0}, (count, width))
        if not np.array_equal(arrangement.rows, np.arange(count)):
            matrix = self._take(matrix, arrangement.rows, 0, (len(arrangement.rows), width))
        if not np.array_equal(arrangement.columns, np.arange(width)):
            matrix = self._take(matrix, arrangement.columns, 1, (len(arrangement.rows), width))
        self._end(self._read(matrix, arrangement.layout.inverse))

    def _read(self, value: Value, layout: Layout) -> Value:
        for op, attributes, shape in layout.steps:
            value = self._add(op, (value,), attributes, shape)
        return value

    def _end(self, value: Value) -> None:
        """Give the last value the place of the program's parameter."""
        last = self.nodes[-1] if self.nodes else None
        if last is not None and last.outputs == (value,):
            self.nodes[-1] = Node(last.op, last.inputs, last.attributes, (self.result,), self.cell)
        else:
            self.nodes.append(Node("reshape", (value,), {"shape": value.shape}, (self.result,), self.cell))

    def _take(self, matrix: Value, places: Array, axis: int, shape: tuple[int, int]) -> Value:
        indices = Value(f"{self.name} places {len(self.constants)}", Type(INT64, places.shape))
        self.constants.append(Constant(indices, places.astype(np.int64)))
        return self._add("take", (matrix, indices), {"axis": axis}, shape)

    def _add(
        self,
        op: str,
        inputs: tuple[Value, ...],
        attributes: Mapping[str, object],
        shape: tuple[Dim, ...],
    ) -> Value:
        result = Value(f"{self.name} {op} {len(self.nodes)}", Type(self.result.dtype, shape))
        self.nodes.append(Node(op, inputs, dict(attributes), (result,), self.cell))
        return result
