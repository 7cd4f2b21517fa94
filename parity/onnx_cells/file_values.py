"""The values of a file's program on sample inputs, some of them replaced by the reference's."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from ...runtime.ir.types import FLOAT64, Node, Value
from ...runtime.programs.interpreter import execute
from ..dtypes import cast_floating
from ..sides.records import Array
from .flat import FlatProgram

LOOK_AHEAD = 400  # nodes after a replaced value that a trial computes

Arrays = list[Array]
"""One array for each sample."""


class FileValues:
    """The values of a program in float64, on one or more samples.

    Attributes:
        values: the arrays of each value, as computed from its operands, of which some may be fed.
        fed: the arrays that replace a value wherever it is used.
        rank: the position of each value in order of computation.
    """

    def __init__(self, flat: FlatProgram, samples: Sequence[Sequence[Array]]) -> None:
        self.flat = flat
        self.wide = flat.program.astype("float64")
        self.samples = [[cast_floating(array, FLOAT64) for array in arrays] for arrays in samples]
        narrow = [*flat.program.inputs, *(value for node in flat.program.nodes for value in node.outputs)]
        wide = [*self.wide.inputs, *(value for node in self.wide.nodes for value in node.outputs)]
        self._wide_of = dict(zip(narrow, wide, strict=True))
        self._narrow_of = dict(zip(wide, narrow, strict=True))
        self._nodes = dict(zip(flat.program.nodes, self.wide.nodes, strict=True))
        self.rank = {value: position for position, value in enumerate(narrow)}
        self.fed: dict[Value, Arrays] = {}
        self.values: dict[Value, Arrays] = {}
        self.compute()

    def compute(self) -> None:
        """Compute all values, with those in `fed` replaced where they are used."""
        wanted = list(self._narrow_of)
        if not self.fed:
            runs = [execute(self.wide, inputs, wanted=wanted) for inputs in self.samples]
        else:
            runs = [self._with_feed(number) for number in range(len(self.samples))]
        self.values = {self._narrow_of[value]: [run[position] for run in runs] for position, value in enumerate(wanted)}

    def trial(self, value: Value, arrays: Arrays) -> dict[Value, Arrays]:
        """Return the values that change if a value is replaced, as far as `LOOK_AHEAD` and the values in `fed`."""
        nodes = self._downstream(value)
        produced = {result for node in nodes for result in node.outputs}
        used = {operand for node in nodes for operand in node.inputs if operand is not None} - produced
        wanted = [self._wide_of[result] for result in produced]
        cut = self.wide.replace(nodes=tuple(self._nodes[node] for node in nodes))
        results: dict[Value, Arrays] = {result: [] for result in produced}
        for number, inputs in enumerate(self.samples):
            stored = {
                self._wide_of[operand]: self._current(operand)[number] for operand in used if operand in self._wide_of
            }
            if value in used:
                stored[self._wide_of[value]] = arrays[number]
            for result, array in zip(produced, execute(cut, inputs, wanted=wanted, stored=stored), strict=True):
                results[result].append(array)
        return results

    def _current(self, value: Value) -> Arrays:
        return self.fed.get(value) or self.values[value]

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
        replaced: dict[Value, Value] = {}
        arrays: dict[Value, Array] = {}
        nodes: list[Node] = []

        def mark(results: Iterable[Value]) -> None:
            for value in results:
                if (feed := self.fed.get(self._narrow_of[value])) is not None:
                    replaced[value] = Value(f"{value.name}@", value.type)
                    attributes = {"call": 0, "kind": "input", "slot": value.name}
                    nodes.append(Node("boundary", (value,), attributes, (replaced[value],)))
                    arrays[replaced[value]] = feed[number]

        mark(self.wide.inputs)
        for node in self.wide.nodes:
            inputs = tuple(None if value is None else replaced.get(value, value) for value in node.inputs)
            nodes.append(Node(node.op, inputs, node.attributes, node.outputs, node.cell, node.source))
            mark(node.outputs)

        def observe(node: Node, array: Array) -> Array:
            return arrays[node.outputs[0]].astype(array.dtype, copy=False)

        fed = self.wide.replace(nodes=tuple(nodes))
        return execute(fed, self.samples[number], wanted=list(self._narrow_of), observe=observe)


def distance(arrays: Arrays, truth: Arrays) -> float:
    """Return how far arrays are from the truth, relative to its size, in the worst sample; infinite if not alike."""
    worst = 0.0
    for array, expected in zip(arrays, truth, strict=True):
        if array.shape != expected.shape or (array.dtype.kind == "f") != (expected.dtype.kind == "f"):
            return np.inf
        if array.dtype.kind != "f":
            if array.dtype.kind == "c" or not np.array_equal(array, expected):
                return np.inf
            continue
        size = float(np.linalg.norm(expected))
        apart = float(np.linalg.norm(array - expected)) if np.isfinite(size) else np.inf
        if not np.isfinite(apart):
            apart = 0.0 if np.array_equal(array, expected, equal_nan=True) else np.inf
        worst = max(worst, apart / size if size else (0.0 if apart == 0 else np.inf))
    return worst
