"""Tensors that a module computes one by one and a file together: experts, branches or steps along an axis of one value.

What the file computes along that axis is divided, as far as each section depends on its own sections of the operands,
so that each Cell of the module has nodes of its own. What else uses the value gets the parts joined again.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ....runtime.errors import CellbridgeError
from ....runtime.ir.program import Program
from ....runtime.ir.types import Constant, Node, ProgramParameter, Source, Value
from ....runtime.namespace import Namespace
from ....runtime.ops.registry import get
from ...correspondence.distances import EXACT, EqualArrays, distance
from ...correspondence.layouts import FEWEST_ELEMENTS
from ...sides.records import Array
from .crossings import Crossing
from .divided_products import PART
from .file_values import FileValues
from .flat import without_idle_nodes
from .sections import Cut, find_cuts
from .sliced_joins import with_slices_of_parts
from .views import has_known_sizes

MOST_NODES = 2000
"""The most nodes that follow those that were found and are divided."""
MOST_WAYS = 32
"""The most ways to divide a node that are tried."""


def divide_batches(file: FileValues, tensors: Sequence[Crossing], places: Mapping[Crossing, Value]) -> Program | None:
    """Return the file's program with values divided that hold several of these tensors; None if there are none.

    Args:
        file: the values of the program.
        tensors: the tensors that cross the module's boundaries.
        places: the places of those that have one.
    """
    stored = file.flat.program.constant_data
    floating = {v: arrays for v, arrays in file.values.items() if arrays[0].dtype.kind == "f" and v not in stored}
    equal = EqualArrays(floating.items())
    whole = set(places.values())
    missing: list[Crossing] = []
    for tensor in tensors:
        if tensor not in places and tensor.can_have_a_place and tensor.arrays[0].size >= FEWEST_ELEMENTS:
            same = equal.find(tensor.arrays)
            whole.update(same)
            missing += [] if same else [tensor]
    free = [v for v in floating if v in file.fed or v not in whole]
    cuts = find_cuts(file, missing, [value for value in free if has_known_sizes(value)])
    if not cuts:
        return None
    division = _Division(file, whole, set(places.values()))
    for value, cut in cuts.items():
        division.plan(value, cut)
    division.follow()
    return division.program()


@dataclass(frozen=True)
class _Way:
    """How a node is divided, and its operands; None for one that is used whole."""

    node: Node
    cut: Cut
    operands: tuple[Cut | None, ...]


@dataclass
class _Division:
    """A program in which values are divided along an axis.

    Attributes:
        file: the values of the program.
        whole: values that are tensors of the module as they are.
        kept: values that stay although nothing may depend on them.
        cuts: how values are divided.
        ways: how nodes are, of which the results are divided.
        parts: the sections of the divided values.
        parameters: the parts of parameters, by name.
        constants: those of other stored numbers.
        replaced: slices of divided values that are parts of them.
    """

    file: FileValues
    whole: Collection[Value]
    kept: Collection[Value]
    cuts: dict[Value, Cut] = field(default_factory=dict)
    ways: dict[Node, _Way] = field(default_factory=dict)
    parts: dict[Value, list[Value]] = field(default_factory=dict)
    parameters: dict[str, ProgramParameter] = field(default_factory=dict)
    constants: list[Constant] = field(default_factory=list)
    replaced: set[Node] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.names = Namespace((value.name for value in self.file.values), first=1)
        self.before = self.file.flat.program
        self.name_of = {parameter.value: name for name, parameter in self.before.parameters.items()}

    def plan(self, value: Value, cut: Cut) -> None:
        """Decide how a value is divided, and what it is computed from."""
        if value in self.cuts:
            return
        self.cuts[value] = cut
        node = self.before.producers.get(value)
        if node is not None and _joins_parts(node, cut):
            self.parts[value] = [operand for operand in node.inputs if operand is not None]
            return
        way = None if node is None or len(node.outputs) > 1 else self._way(node, cut)
        if way is not None:
            self.ways[way.node] = way
            for operand, own in zip(way.node.inputs, way.operands, strict=True):
                if operand is not None and own is not None and operand not in self.whole:
                    self.plan(operand, own)

    def follow(self) -> None:
        """Divide what is computed from parts alone, too: behind a wrong value it isn't known by its numbers."""
        for node in self.before.nodes:
            value, own = node.outputs[0], [v for v in node.inputs if v is not None and v in self.cuts]
            if not own or value in self.cuts or len(node.outputs) > 1 or not has_known_sizes(value):
                continue
            cut = self.cuts[own[0]]
            if len(cut.ends) * len(self.ways) > MOST_NODES:
                return
            for possible in _similar_cuts(node, cut, value.type.sizes or ()):
                way = self._way(node, possible)
                pairs = () if way is None else zip(node.inputs, way.operands, strict=True)
                if way is not None and all(v is None or self.cuts.get(v, of) == of for v, of in pairs):
                    self.plan(value, possible)
                    break

    def _way(self, node: Node, cut: Cut) -> _Way | None:
        """Return how a node is divided; None if its sections depend on more than sections of the operands."""
        options: list[list[Cut | None]] = []
        for operand in node.inputs:
            sizes = () if operand is None else self._array(operand).shape
            options.append([*_similar_cuts(node, cut, sizes), None])
        ways = (way for way in itertools.product(*options) if any(own is not None for own in way))
        for operands in itertools.islice(ways, MOST_WAYS):
            way = _Way(node, cut, operands)
            if all(self._computes(way, number) for number in (0, len(cut.ends) - 1)):
                return way
        return None

    def _computes(self, way: _Way, number: int) -> bool:
        """Whether sections of the operands make the section of the result."""
        arrays: list[Array | None] = []
        for operand, own in zip(way.node.inputs, way.operands, strict=True):
            array = None if operand is None else self._array(operand)
            arrays.append(array if array is None or own is None else own.section(array, number))
        expected = way.cut.section(self.file.values[way.node.outputs[0]][0], number)
        try:
            result = get(way.node.op)(*arrays, **_attributes(way, number))
        except (CellbridgeError, ValueError):  # it doesn't take the sections
            return False
        return distance([np.asarray(result)], [expected]) <= EXACT

    def _array(self, value: Value) -> Array:
        if value in self.file.values:
            return self.file.current(value)[0]
        data = self.before.constant_data[value]
        return data.astype(np.float64) if data.dtype.kind == "f" else data

    def program(self) -> Program:
        """Return the program."""
        nodes: list[Node] = []
        for value in self.cuts:
            if value not in self.before.producers:
                nodes += self._slices(value, 0, None)
        for node in self.before.nodes:
            way = self.ways.get(node)
            if way is not None:
                nodes += self._divided(way)
            elif node not in self.replaced:
                nodes.append(node)
                for value in node.outputs:
                    if value in self.cuts and not _joins_parts(node, self.cuts[value]):
                        nodes += self._slices(value, node.cell, node.source)
        parameters = {**self.before.parameters, **self.parameters}
        constants = (*self.before.constants, *self.constants)
        whole = self.before.replace(nodes=tuple(nodes), parameters=parameters, constants=constants)
        return without_idle_nodes(with_slices_of_parts(whole), self.kept)

    def _slices(self, value: Value, cell: int, source: Source | None) -> Iterator[Node]:
        """Yield the nodes that take a value's parts; those of stored numbers are stored themselves."""
        cut = self.cuts[value]
        parameter = self.before.parameters.get(self.name_of.get(value, ""))
        data = self.before.constant_data.get(value) if parameter is None else parameter.data
        for number, part in enumerate(self._parts_of(value)):
            if data is None:
                yield Node("slice", (value,), cut.slice(number), (part,), cell, source)
                continue
            own = cut.section(data, number)
            if parameter is None:
                self.constants.append(Constant(part, own))
            else:
                self.parameters[f"{self.name_of[value]}{PART}{number}"] = ProgramParameter(
                    part, own, parameter.trainable
                )

    def _parts_of(self, value: Value) -> list[Value]:
        """Return the parts of a value; the program may have some as slices already."""
        if value not in self.parts:
            cut = self.cuts[value]
            self.parts[value] = [
                self._slice_of(value, cut, number) or self._part(value, cut, number) for number in range(len(cut.ends))
            ]
        return self.parts[value]

    def _slice_of(self, value: Value, cut: Cut, number: int) -> Value | None:
        """Return the value that the program has for a section; the part takes its place."""
        for node in self.file.flat.consumers.get(value, []):
            is_slice = node.op == "slice" and dict(node.attributes) == cut.slice(number)
            if is_slice and node.outputs[0] not in self.cuts:
                self.replaced.add(node)
                return node.outputs[0]
        return None

    def _part(self, value: Value, cut: Cut, number: int) -> Value:
        shape = value.type.sizes
        assert shape is not None, "only values of known sizes are divided"
        narrow = value.type.with_shape((*shape[: cut.axis], cut.size(number), *shape[cut.axis + 1 :]))
        return Value(self.names.unique(f"{value.name}{PART}{number}"), narrow)

    def _divided(self, way: _Way) -> Iterator[Node]:
        node, (result,) = way.node, way.node.outputs
        parts = self._parts_of(result)
        for number, part in enumerate(parts):
            operands: list[Value | None] = []
            for operand, own in zip(node.inputs, way.operands, strict=True):
                if operand is None or own is None:
                    operands.append(operand)
                elif self.cuts.get(operand) == own:
                    operands.append(self._parts_of(operand)[number])
                else:
                    taken = self._part(operand, own, number)
                    yield Node("slice", (operand,), own.slice(number), (taken,), node.cell, node.source)
                    operands.append(taken)
            yield Node(node.op, tuple(operands), _attributes(way, number), (part,), node.cell, node.source)
        yield Node("concat", tuple(parts), {"axis": way.cut.axis}, (result,), node.cell, node.source)


def _similar_cuts(node: Node, cut: Cut, sizes: Sequence[int]) -> list[Cut]:
    """Return the divisions of another tensor of a node that may belong to a cut.

    They are of axes of one size, or where axes are joined or parted, of all.
    """
    cuts = (cut.along(axis, size) for axis, size in enumerate(sizes) if size == cut.ends[-1] or node.op == "reshape")
    return [possible for possible in cuts if possible is not None]


def _joins_parts(node: Node, cut: Cut) -> bool:
    """Whether a node joins values that are the sections of its result."""
    if node.op != "concat" or node.attributes["axis"] != cut.axis:
        return False
    sizes = [None if value is None else value.shape[cut.axis] for value in node.inputs]
    return sizes == [cut.size(number) for number in range(len(cut.ends))]


def _attributes(way: _Way, number: int) -> Mapping[str, Any]:
    """Return the attributes of a part of a divided node: a shape has another size along the axis."""
    attributes = dict(way.node.attributes)
    if way.node.op in ("reshape", "broadcast_to"):
        shape = list(attributes["shape"])
        shape[way.cut.axis] = way.cut.size(number)
        attributes["shape"] = tuple(shape)
    return attributes
