"""`ChoiceFinder`: finds what operations leave open in a network, and what the reference has chosen."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from ...converter.capture.other_numbers import other_numbers
from ...runtime.errors import CellbridgeError
from ...runtime.ir.dims import substitute_nested
from ...runtime.ir.types import Node, Value
from ...runtime.ops.registry import evaluate, get, ops_with
from ...runtime.programs.interpreter import bind
from ..causes.cell_program import Network
from ..results.notes import warnings_as_notes
from ..sides.abilities import HasProgram, RunsModule
from ..sides.choices import Choice, IndexChoice, VectorChoice
from ..sides.interpreter_side import InterpreterSide
from ..sides.records import INPUT, OUTPUT, Array, Key, Records
from ..sides.run import Run
from ..sides.side import Side
from ..sides.torch_modes import OperatorNames

DECOMPOSITIONS = frozenset({"_linalg_eigh", "_linalg_svd", "linalg_eig", "linalg_eigh", "linalg_svd"})
"""torch operators that leave the signs of vectors open."""
ORDERS = frozenset({"argmax", "argmin", "max", "min", "sort", "topk"})
"""torch operators that may leave indices open."""
VECTORS: Mapping[str, Mapping[int, int]] = {"eigh": {1: -1}, "eig": {1: -1}, "svd": {0: -1, 2: -2}}
"""For ops with vectors as results: the number of each such output, and the axis along which the vectors lie."""
INDICES = {"argmax": 0, "argmin": 0, "sort": 1, "topk": 1}
"""For ops with indices of sorted elements: the number of that output."""
MOVING = ops_with(lambda of: of.moves == "first") | {"cast"}
"""Ops that move or leave out elements of their first operand, and compute nothing."""


class ChoiceFinder:
    """Finds the choices of a reference.

    Args:
        reference: the reference.

    Attributes:
        watched: a context in which the reference must be run once before, to see what it may leave open.
    """

    def __init__(self, reference: Side) -> None:
        self._reference = reference
        self.watched = OperatorNames()

    def of(self, run: Run, truth: Records) -> dict[Key, Choice]:
        """Return the choices that the reference has made in a run.

        Args:
            run: the settings of the run.
            truth: its records in float64.

        Returns:
            The choices by boundary; none if the reference can't be read as a program.
        """
        if not (self.may_turn or self.may_order):
            return {}
        try:
            network = Network.of(self._program(run), replace(run, feed=truth))
            if run.call.second == "varied":
                network = replace(network, inputs=tuple(map(other_numbers, network.inputs)))
            return _Search(network).find()
        except CellbridgeError:  # it can't be captured, or an op fails
            return {}

    @property
    def may_turn(self) -> bool:
        """Whether the reference may leave signs of vectors open."""
        return self._may(DECOMPOSITIONS, VECTORS)

    @property
    def may_order(self) -> bool:
        """Whether the reference may leave indices open."""
        return self._may(ORDERS, INDICES)

    def _may(self, operators: Collection[str], ops: Collection[str]) -> bool:
        if isinstance(self._reference, RunsModule):
            return not self.watched.names.isdisjoint(operators)
        if not isinstance(self._reference, HasProgram):
            return False
        try:
            return any(node.op in ops for node in self._own_program.program.nodes)
        except CellbridgeError:  # it can't be read as a program
            return False

    def _program(self, run: Run) -> InterpreterSide:
        """The reference as a program with the sizes and the mode of a run."""
        if run.call.arguments is None and not run.call.other_mode:
            return self._own_program
        assert isinstance(self._reference, HasProgram)
        with warnings_as_notes():
            return self._reference.in_interpreter(run)

    @cached_property
    def _own_program(self) -> InterpreterSide:
        assert isinstance(self._reference, HasProgram)
        with warnings_as_notes():
            return self._reference.in_interpreter()


@dataclass(frozen=True)
class _Place:
    """A boundary, the operation whose result crosses it, the result's number, and the nodes that move it."""

    key: Key
    source: Node
    number: int
    chain: Sequence[Node]


class _Search:
    """The search in a network whose records are fed."""

    def __init__(self, network: Network) -> None:
        self.network = network
        self.program = network.program
        self.choices: dict[Key, Choice] = {}
        self.arrays: dict[Value, Array] = {}

    def find(self) -> dict[Key, Choice]:
        """Return the choices by boundary."""
        places = list(self._places())
        operands = [value for place in places for node in place.chain for value in node.inputs[1:]]
        ends = [value for place in places for value in (place.source.inputs[0], *place.source.outputs)]
        values = [value for value in dict.fromkeys([*operands, *ends]) if value is not None]
        self.arrays = self.network.compute(values) if values else {}
        for place in places:
            self._add(place)
        return self.choices

    def _places(self) -> Iterator[_Place]:
        """Yield the boundaries with a result that an operation leaves open."""
        for node in self.program.nodes:
            if node.op != "boundary" or node.attributes["kind"] not in (INPUT, OUTPUT):
                continue
            chain = self._chain(node)
            value = chain[0].inputs[0]
            source = None if value is None else self.program.producers.get(value)
            key = self.network.keys.keys(node)[0]
            if source is None or key not in self.network.truth.values:
                continue
            number = next(place for place, output in enumerate(source.outputs) if output is value)
            if number in VECTORS.get(source.op, ()) or INDICES.get(source.op) == number:
                yield _Place(key, source, number, chain)

    def _chain(self, node: Node) -> list[Node]:
        """The nodes from an operation to a boundary that move its result, in order."""
        chain = [node]
        while chain[0].inputs[0] is not None:
            producer = self.program.producers.get(chain[0].inputs[0])
            if producer is None or producer.op not in MOVING:
                break
            chain.insert(0, producer)
        return chain

    def _add(self, place: _Place) -> None:
        """Add the choice at a boundary; none if its shape isn't the reference's, or vectors are there in part."""
        source, number, target = place.source, place.number, self.network.truth.values[place.key]
        result = self.arrays[source.outputs[number]]
        places = self._moved(np.arange(result.size).reshape(result.shape), place.chain)
        if places.shape != target.shape or not target.size:
            return
        crossed = {self.network.keys.keys(node)[0] for node in place.chain[:-1] if node.op == "boundary"}
        before = frozenset(crossed & self.choices.keys())
        attributes = self._attributes(source)
        choice: Choice | None
        if source.op in INDICES:
            assert source.inputs[0] is not None
            x = self.arrays[source.inputs[0]]
            choice = _index_choice(x, result, places, target, attributes.get("axis"), before)
        else:
            factor = _Factor(source.outputs[0].name, number, VECTORS[source.op][number], before)
            complex_numbers = source.op == "eig" or bool(attributes.get("paired"))
            values = self.arrays[source.outputs[1 if source.op == "svd" else 0]]
            choice = _vector_choice(factor, result, values, places, target, source.op, complex_numbers)
        if choice is not None:
            self.choices[place.key] = choice

    def _attributes(self, node: Node) -> dict[str, Any]:
        sizes = bind(self.program, self.network.inputs)
        return {name: substitute_nested(item, sizes) for name, item in node.attributes.items()}

    def _moved(self, places: Array, chain: Sequence[Node]) -> Array:
        """Return the places of elements as a chain of nodes moves them."""
        for node in chain:
            if node.op not in ("boundary", "cast", "stop_gradient"):
                others = [None if value is None else self.arrays[value] for value in node.inputs[1:]]
                (places,) = evaluate(get(node.op), [places, *others], self._attributes(node))
        return places


@dataclass(frozen=True)
class _Factor:
    """A result of a decomposition: its source, its number, the axis of its vectors, and the boundaries before."""

    source: str
    number: int
    axis: int
    before: frozenset[Key]


def _vector_choice(
    factor: _Factor, array: Array, values: Array, places: Array, target: Array, op: str, complex_numbers: bool
) -> VectorChoice | None:
    """Return the choice of the vectors in `array`, of which a boundary has the elements at `places`.

    None if a vector is there twice, or with other elements than another.
    """
    matrices = array if complex_numbers else array[..., None]
    *batch, rows, columns, parts = matrices.shape
    matrix, row, column, part = np.unravel_index(places.reshape(-1), (math.prod(batch), rows, columns, parts))
    label, component, count = (column, row, columns) if factor.axis == -1 else (row, column, rows)
    order = np.lexsort((part, component, label, matrix))
    numbers, counts = np.unique(matrix * count + label, return_counts=True)
    if len(np.unique(places)) < places.size or len(set(counts)) > 1 or counts[0] % parts:
        return None
    order = order.reshape(len(numbers), counts[0] // parts, parts)
    if (component[order] != component[order[:1]]).any() or (part[order] != np.arange(parts)).any():
        return None
    known = np.zeros((math.prod(batch), count))
    if op != "eig":
        known[:, : values.shape[-1]] = values.reshape(math.prod(batch), -1)
    return VectorChoice(
        factor.before,
        factor.source,
        factor.number,
        target,
        order if complex_numbers else order[..., 0],
        known.reshape(-1)[numbers],
        numbers // count,
        numbers % count,
        coupled=op == "svd",
        turns=op != "eig",
    )


def _index_choice(
    x: Array, indices: Array, places: Array, target: Array, axis: int | None, before: frozenset[Key]
) -> IndexChoice | None:
    """Return the choice of indices along an axis of `x`, of which a boundary has those at `places`."""
    if not x.ndim:
        return None
    elements = x.reshape(1, -1) if axis is None else np.moveaxis(x, axis, -1).reshape(-1, x.shape[axis])
    shape = indices.shape
    if axis is None:
        rows = np.zeros(shape, np.int64)
    else:
        outer = np.delete(x.shape, axis)
        rows = np.arange(len(elements)).reshape(outer)
        rows = np.broadcast_to(np.expand_dims(rows, axis), shape) if len(shape) == x.ndim else rows
    return IndexChoice(before, target.astype(np.int64), rows.reshape(-1)[places], elements)
