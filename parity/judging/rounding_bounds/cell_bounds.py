"""`CellBounds`: the rounding errors that each Cell of a network may commit in its outputs and gradients."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np

from ....runtime.ir.types import Value, is_floating
from ....runtime.programs.gradient_program import differentiate
from ...causes.cell_program import CellProgram, Network, TensorKey
from ...causes.rebuilding import INVALID
from ...sides.records import Array, Key
from ...verdicts.deviations import error, size
from .analysis import analyse
from .estimates import Estimate, Units

SAME = 1e-9
"""The largest error, relative to the largest element, by which a Cell's program may differ from what was recorded."""


class Bound(NamedTuple):
    """The rounding error of each element of a tensor, in float64 and of its shape.

    Attributes:
        proved: an error that rounding may cause.
        possible: the same without the limit up to which the analysis holds, and infinite next to a pole: an error
            between the two may be due to rounding, or not.
    """

    proved: Array
    possible: Array


class CellBounds:
    """Bounds for the Cells of a network, which compute with recorded inputs and gradients, and for it as a whole.

    No proved bound exceeds the square root of the unit roundoff, relative to the largest element of the tensor or of
    what it is computed from: the analysis neglects products of errors, and doesn't hold where half of the digits are
    lost.

    Args:
        network: the reference as a program, with the records that are fed.
        dtype: the working dtype.
    """

    def __init__(self, network: Network, dtype: str) -> None:
        self.network = network
        self.units = Units.of(dtype)

    def of_cell(self, path: str) -> dict[TensorKey, Bound]:
        """Return the bounds of what a Cell computes; nothing for what can't be bounded."""
        bounds: dict[TensorKey, Bound] = {}
        for number in self.network.calls_of(path):
            bounds |= self._bounds(functools.partial(self.network.cut, number))
        return bounds

    def of_network(self) -> dict[TensorKey, Bound]:
        """Return the same for the network, end to end."""
        return self._bounds(self.network.whole)

    def _bounds(self, cut: Callable[[], CellProgram]) -> dict[TensorKey, Bound]:
        bounds: dict[TensorKey, Bound] = {}
        try:
            cell = cut()
            for key, (value, bound), largest in self._estimates(cell):
                truth = self._recorded(key)
                if bound is None or truth is None or truth.shape != value.shape:
                    continue
                if error(value, truth)[0] <= SAME * size(truth):
                    most = math.sqrt(self.units.results) * max(largest, size(truth))
                    possible = np.where(np.isnan(bound), 0.0, bound)
                    bounds[key] = Bound(np.minimum(possible, most), possible)
        except INVALID:  # it can't be run alone, or an op can't be differentiated
            pass
        return bounds

    def _recorded(self, key: TensorKey) -> Array | None:
        truth = self.network.truth
        if isinstance(key, Key):
            return truth.values.get(key)
        kind, name = key
        return truth.gradients.parameters.get(name) if kind == "parameter" else truth.state.updates.get(name)

    def _estimates(self, cell: CellProgram) -> Iterator[tuple[TensorKey, Estimate, float]]:
        """Yield the estimates of outputs, passed values and buffer updates, then those of gradients.

        With each comes the largest element of what it is computed from.
        """
        updates = cell.program.updates
        outputs = [*cell.program.outputs, *updates.values()]
        keys: list[TensorKey] = [*cell.output_keys, *(("update", name) for name in updates)]
        largest = max((size(x) for x in cell.arrays if is_floating(x.dtype)), default=0.0)
        for key, estimate in zip(keys, analyse(cell.program, cell.arrays, outputs, self.units), strict=True):
            yield key, estimate, largest
        if self.network.run.wanted.grads:
            yield from self._gradient_estimates(cell)

    def _gradient_estimates(self, cell: CellProgram) -> Iterator[tuple[TensorKey, Estimate, float]]:
        gradient = differentiate(cell.program)
        seeds = [
            np.zeros(value.type.sizes or (), value.dtype) if cotangent is None else cotangent.astype(value.dtype)
            for value, cotangent in zip(cell.program.outputs, cell.cotangents, strict=True)
            if is_floating(value.dtype)
        ]
        of_inputs = zip(cell.input_keys, gradient.input_gradients, strict=True)
        pairs: list[tuple[TensorKey, Value]] = [(k, v) for k, v in of_inputs if k is not None and v is not None]
        own_gradients = [
            (name, value) for name, value in gradient.parameter_gradients.items() if name in cell.own_parameters
        ]
        pairs += [(("parameter", name), value) for name, value in own_gradients if value is not None]
        largest = max(map(size, seeds), default=0.0)
        estimates = analyse(gradient.program, [*cell.arrays, *seeds], [value for _, value in pairs], self.units)
        for (key, _), estimate in zip(pairs, estimates, strict=True):
            yield key, estimate, largest
