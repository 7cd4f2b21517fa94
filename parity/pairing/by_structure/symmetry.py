"""Arrangements that nothing distinguishes: two parameters exchanged, and the network computes the same."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from ....runtime.ir.types import Value
from ...sides.records import Array
from .state import Result, Stored
from .units import MATRIX, Unit
from .walk import Walk

MOST_EXCHANGED = 16
"""The most exchanges that are tried; each runs the candidate once."""
SAME = 1e-9
"""Relative distance of outputs that are the same."""


@dataclass(frozen=True)
class Exchange:
    """Two parameters that may be exchanged.

    Attributes:
        names: the candidate's names.
    """

    names: tuple[str, str]

    @property
    def sentence(self) -> str:
        """The exchange in words."""
        first, second = self.names
        return f"nothing distinguishes {first} and {second}: with their weights exchanged, the results are the same"


def exchanges(walk: Walk, result: Result) -> list[Exchange]:
    """Return the pairs of matrices with the same data and sizes that may be exchanged without a difference."""
    pairs = list(_pairs(walk))[:MOST_EXCHANGED]
    if not pairs:
        return []
    truth = _outputs(walk, result.numbers)
    exchangeable = []
    for first, second in pairs:
        exchanged = dict(result.numbers)
        for a, b in _tensors(walk, first, second):
            exchanged[a], exchanged[b] = exchanged[b], exchanged[a]
        if _are_equal(truth, _outputs(walk, exchanged)):
            (names, *_) = _tensors(walk, first, second)
            exchangeable.append(Exchange(names))
    return exchangeable


def _pairs(walk: Walk) -> Iterator[tuple[Unit, Unit]]:
    """Yield units that nothing but the use of their results tells apart."""
    alike: dict[tuple[Value | None, str, int], list[Unit]] = {}
    for unit in walk.units:
        if unit.kind == MATRIX:
            alike.setdefault((unit.data, unit.node.op, unit.size), []).append(unit)
    for units in alike.values():
        yield from (pair for pair in combinations(units, 2) if _tensors(walk, *pair))


def _tensors(walk: Walk, first: Unit, second: Unit) -> list[tuple[str, str]]:
    """Return the weights of two units, and their biases, by name; none if they aren't whole tensors of one shape."""
    exchangeable = []
    for first_value, second_value in ((first.operand, second.operand), (first.bias_operand, second.bias_operand)):
        if (first_value is None) != (second_value is None):
            return []
        if first_value is None or second_value is None:
            continue
        traces = walk.network.trace(first_value), walk.network.trace(second_value)
        if traces[0] is None or traces[1] is None or traces[0].name == traces[1].name:
            return []
        names = traces[0].name, traces[1].name
        if not np.array_equal(traces[0].places, traces[1].places) or len(traces[0].places) == 0:
            return []
        if walk.network.stored[names[0]].shape != walk.network.stored[names[1]].shape:
            return []
        exchangeable.append(names)
    return exchangeable


def _outputs(walk: Walk, numbers: Mapping[str, Array]) -> list[Array]:
    """Return the outputs of the candidate on the first sample, with these of the reference's elements."""
    network = walk.network
    stored = Stored(network, walk.reference, numbers)
    known: dict[Value, Array] = {}
    values: dict[Value, Array] = dict(zip(network.program.inputs, network.samples[0], strict=True))
    for node in network.program.nodes:
        if node.outputs and node.outputs[0] not in network.static:
            values.update(
                zip(node.outputs, network.apply(node, network.operands(node, values, stored, known)), strict=True)
            )
    return [values[value] for value in network.program.outputs if value in values]


def _are_equal(truth: list[Array], second_outputs: list[Array]) -> bool:
    for first, second in zip(truth, second_outputs, strict=True):
        if first.dtype.kind == "f" and not np.allclose(
            first, second, rtol=SAME, atol=SAME * float(np.abs(first).max(initial=0.0))
        ):
            return False
        if first.dtype.kind != "f" and not np.array_equal(first, second):
            return False
    return True
