"""The values of a file's program on sample inputs, some of them replaced by the reference's."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from ....runtime.ir.sizes import symbols_used
from ....runtime.ir.types import FLOAT64, Node, Value
from ....runtime.ops.registry import get
from ....runtime.programs.interpreter import execute
from ...correspondence.distances import Arrays
from ...dtypes import cast_floating
from ...sides.records import Array
from .flat import FlatProgram

LOOK_AHEAD = 400  # nodes after a replaced value that a trial computes


class FileValues:
    """The values of a program in float64, on one or more samples.

    Attributes:
        values: the arrays of each value, as computed from its operands, of which some may be fed.
        fed: the arrays that replace a value wherever it is used.
        rank: the position of each value in order of computation.
    """

    def __init__(
        self, flat: FlatProgram, samples: Sequence[Sequence[Array]], fed: Mapping[Value, Arrays] | None = None
    ) -> None:
        self.flat = flat
        self.wide = flat.program.astype("float64")
        self.samples = [[cast_floating(array, FLOAT64) for array in arrays] for arrays in samples]
        narrow = [*flat.program.inputs, *(value for node in flat.program.nodes for value in node.outputs)]
        wide = [*self.wide.inputs, *(value for node in self.wide.nodes for value in node.outputs)]
        self._wide_of = dict(zip(narrow, wide, strict=True))
        self._narrow_of = dict(zip(wide, narrow, strict=True))
        self._nodes = dict(zip(flat.program.nodes, self.wide.nodes, strict=True))
        self.rank = {value: position for position, value in enumerate(narrow)}
        self.fed = {value: arrays for value, arrays in (fed or {}).items() if value in self.rank}
        self.values: dict[Value, Arrays] = {}
        self.compute()

    def compute(self) -> None:
        """Compute all values, with those in `fed` replaced where they are used."""
        narrow_values = list(self._narrow_of)
        if not self.fed:
            runs = [execute(self.wide, inputs, wanted=narrow_values) for inputs in self.samples]
        else:
            runs = [self._with_feed(number) for number in range(len(self.samples))]
        self.values = {
            self._narrow_of[value]: [run[position] for run in runs] for position, value in enumerate(narrow_values)
        }

    def trial(self, value: Value, arrays: Arrays) -> dict[Value, Arrays]:
        """Return the values that change if a value is replaced, as far as `LOOK_AHEAD` and the values in `fed`."""
        return self.compute_nodes(self._downstream(value), value, arrays)

    def compute_nodes(self, nodes: Sequence[Node], value: Value, arrays: Arrays) -> dict[Value, Arrays]:
        """Return what some nodes compute, in order, if a value is replaced, and others are as they are now."""
        produced = {result for node in nodes for result in node.outputs}
        nodes = [*self._determining(nodes), *nodes]
        used = {operand for node in nodes for operand in node.inputs if operand is not None} - produced
        used &= self._wide_of.keys()
        now = {self._wide_of[operand]: self._fed_value(operand, self.current(operand)) for operand in used}
        if value in used:
            now[self._wide_of[value]] = self._fed_value(value, arrays)
        cut = [_with_operands(self._nodes[node], now) for node in nodes]
        results_with_feed = [now.get(self._wide_of[result], self._wide_of[result]) for result in produced]
        program = self.wide.replace(nodes=tuple(cut))
        results: dict[Value, Arrays] = {result: [] for result in produced}
        for number, inputs in enumerate(self.samples):
            stored = {
                now[self._wide_of[operand]]: (arrays if operand is value else self.current(operand))[number]
                for operand in used
            }
            for result, array in zip(
                produced, execute(program, inputs, wanted=results_with_feed, stored=stored), strict=True
            ):
                results[result].append(array)
        return results

    def _determining(self, nodes: Sequence[Node]) -> list[Node]:
        """Return the nodes, other than these, that determine the sizes that these use at run time."""
        symbols = {name for node in nodes for name in symbols_used(node)}
        readings = self.flat.program.symbol_readings.items()
        return [n for n, read in readings if n not in nodes and not symbols.isdisjoint(r.symbol for r in read)]

    def current(self, value: Value) -> Arrays:
        """Return the arrays of a value as they are used: those that are fed, if there are."""
        return self.fed.get(value) or self.values[value]

    def _fed_value(self, value: Value, arrays: Arrays) -> Value:
        """Return the value that stands for arrays, in place of a value, which may have another shape."""
        wide, shape = self._wide_of[value], tuple(arrays[0].shape)
        fits = len(shape) == len(wide.shape) and all(
            size == dim for size, dim in zip(shape, wide.shape, strict=True) if isinstance(dim, int)
        )
        return Value(f"{wide.name}@", wide.type if fits else wide.type.with_shape(shape))

    def _downstream(self, value: Value) -> list[Node]:
        """Return the nodes that depend on a value, in order, not by way of other values that are fed."""
        reached, nodes = {value}, list[Node]()
        for node in self.flat.program.nodes:
            if not reached.isdisjoint(node.inputs):
                nodes.append(node)
                reached |= set(node.outputs) - self.fed.keys()
            if len(nodes) >= LOOK_AHEAD:
                break
        return nodes

    def _with_feed(self, number: int) -> Arrays:
        now: dict[Value, Value] = {}
        raw: dict[Value, Value] = {}
        stored: dict[Value, Array] = {}
        nodes: list[Node] = []

        def feed(results: Iterable[Value]) -> None:
            for value in results:
                raw[value] = now.get(value, value)
                if (arrays := self.fed.get(self._narrow_of[value])) is not None:
                    now[value] = self._fed_value(self._narrow_of[value], arrays)
                    stored[now[value]] = arrays[number].astype(value.dtype, copy=False)

        feed(self.wide.inputs)
        for node in self.wide.nodes:
            nodes.append(_with_operands(node, now))
            feed(node.outputs)
        fed = self.wide.replace(nodes=tuple(nodes))
        return execute(fed, self.samples[number], wanted=[raw[value] for value in self._narrow_of], stored=stored)


def _with_operands(node: Node, now: dict[Value, Value]) -> Node:
    """Return a node with other operands; outputs whose type changes are added to `now`."""
    inputs = tuple(None if value is None else now.get(value, value) for value in node.inputs)
    outputs = node.outputs
    if any(x is not None and y is not None and x.type != y.type for x, y in zip(inputs, node.inputs, strict=True)):
        types = get(node.op).infer_types(
            [None if value is None else value.type for value in inputs], dict(node.attributes)
        )
        outputs = tuple(
            value if value.type == type else Value(value.name, type)
            for value, type in zip(node.outputs, types, strict=True)
        )
        now |= {old: new for old, new in zip(node.outputs, outputs, strict=True) if old is not new}
    return Node(node.op, inputs, node.attributes, outputs, node.cell, node.source)
