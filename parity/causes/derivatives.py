"""Which side's gradient is wrong: each side's gradients compared with the derivative of its own forward pass.

The derivative along a random direction is computed by central differences in float64: (f(x + hv) - f(x - hv)) / 2h,
with an error of the order of h**2 (Nocedal and Wright, Numerical Optimization, 8.1). In an isolated run each Cell
computes from the values that are fed and from its own parameters, so one run with all of them changed gives the
differences of all Cells.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from ...runtime.ir.types import is_floating
from ..sides.feeding import feed_value
from ..sides.records import INPUT, INPUT_GRADIENT, OUTPUT, Array, Key, Records, gradient_key
from ..sides.run import Numbers, Run
from ..sides.side import Side
from ..verdicts.deviations import size

STEPS = (1e-4, 1e-6)
"""Sizes of the step, relative to the largest element of each tensor. A kink between two points spoils one, not both."""
DIRECTIONS = 2
RIGHT = 1e-6
"""The largest relative error of a gradient that is the derivative."""
WRONG = 1e-5
"""The smallest relative error, along each direction and with each step, of one that isn't."""


@dataclass(frozen=True)
class DerivativeErrors:
    """The relative errors of a side's gradients of one Cell, over all its calls, against the derivative.

    Attributes:
        errors: the smaller error of the two steps, for each direction.
        parameters: names of the parameters whose gradients were part of it.
    """

    errors: tuple[float, ...]
    parameters: frozenset[str] = frozenset()

    @property
    def is_right(self) -> bool:
        """Whether the gradients are the derivative."""
        return bool(self.errors) and max(self.errors) <= RIGHT

    @property
    def is_wrong(self) -> bool:
        """Whether they aren't, along any direction."""
        return bool(self.errors) and min(self.errors) >= WRONG

    @property
    def worst(self) -> float:
        """The largest error."""
        return max(self.errors, default=0.0)


@dataclass(frozen=True)
class _Measurement:
    """The gradients of a side, and what is needed to compare them with its differences.

    Attributes:
        side: the side.
        run: its isolated run in float64.
        gradients: the records of that run.
        owners: path of the Cell that a parameter belongs to.
    """

    side: Side
    run: Run
    gradients: Records
    owners: Mapping[str, str]

    @property
    def feed(self) -> Records:
        """The values that every Cell computes from."""
        assert self.run.feed is not None
        return self.run.feed

    @cached_property
    def callers(self) -> dict[tuple[str, int], str]:
        """Path of the Cell that makes a call."""
        calls = self.feed.calls
        return {(call.path, call.index): calls[call.parent].path for call in calls if call.parent is not None}

    @cached_property
    def parameters(self) -> dict[str, Array]:
        """The parameters that a single Cell uses, and that have a gradient."""
        shared = {name for name, _ in self.feed.gradients.shares}
        arrays = {}
        for name, info in self.side.parameters().items():
            gradient = self.gradients.gradients.parameters.get(name)
            has_gradient = gradient is not None and gradient.shape == info.data.shape
            if has_gradient and name in self.owners and name not in shared:
                arrays[name] = info.data
        return arrays

    def directions(self, seed: int) -> tuple[dict[Key, Array], dict[str, Array]]:
        """Return a random direction for each floating-point value that enters a Cell, and for each parameter.

        Each is as large as the elements of its tensor. Where a Cell is given one tensor several times, it is the same:
        some sides have the sum of the gradients at the first of them.
        """
        generator = np.random.default_rng(seed)

        def like(value: Array) -> Array:
            return np.asarray(generator.standard_normal(value.shape)) * (size(value) or 1.0)

        values = {
            key: like(value)
            for key, value in self.feed.values.items()
            if key.kind in (INPUT, OUTPUT) and is_floating(value.dtype)
        }
        first: dict[tuple[str, int, bytes], Key] = {}
        for key in values:
            if key.kind == INPUT:
                values[key] = values[first.setdefault((key.path, key.call, self.feed.values[key].tobytes()), key)]
        return values, {name: like(value) for name, value in self.parameters.items()}

    def along(self, values: Mapping[Key, Array], parameters: Mapping[str, Array]) -> dict[str, tuple[float, float]]:
        """Return, for each Cell, its gradients along the directions, and the size of that number."""
        along: dict[str, float] = defaultdict(float)
        squares: dict[str, float] = defaultdict(float)

        def add(path: str | None, gradient: Array | None, direction: Array) -> None:
            if path is not None and gradient is not None and gradient.shape == direction.shape:
                terms = gradient * direction
                along[path] += float(terms.sum())
                squares[path] += float(np.square(terms).sum())

        for key, direction in values.items():
            add(self._reader(key), self.gradients.values.get(gradient_key(key)), direction)
        for name, direction in parameters.items():
            add(self.owners[name], self.gradients.gradients.parameters[name], direction)
        return {path: (value, float(np.sqrt(squares[path]))) for path, value in along.items()}

    def _reader(self, key: Key) -> str | None:
        """Return the Cell that computes from a value: the Cell itself from its input, its caller from its output."""
        return key.path if key.kind in (INPUT, INPUT_GRADIENT) else self.callers.get((key.path, key.call))

    def differences(
        self, values: Mapping[Key, Array], parameters: Mapping[str, Array], step: float
    ) -> dict[str, float]:
        """Return the central difference of each Cell's outputs, weighted with the gradients that are fed to them."""
        forward, backward = (self._weighted_outputs(values, parameters, sign * step) for sign in (1.0, -1.0))
        return {path: (forward[path] - backward[path]) / (2 * step) for path in forward if path in backward}

    def _weighted_outputs(
        self, values: Mapping[Key, Array], parameters: Mapping[str, Array], step: float
    ) -> dict[str, float]:
        """Return, for each Cell, the sum of what it returns and passes, weighted, with everything moved by a step."""
        feed = self.feed
        moved = {key: value + step * values[key] if key in values else value for key, value in feed.values.items()}
        steps = {name: step * direction for name, direction in parameters.items()}
        run = replace(self.run, feed=replace(feed, values=moved), numbers=Numbers(parameter_steps=steps))
        records = self.side.run(run.want(grads=False))
        root = dict(zip(feed.root_keys(OUTPUT), feed.gradients.cotangents, strict=False))
        result: dict[str, float] = defaultdict(float)
        for key, value in records.values.items():
            if key.kind not in (INPUT, OUTPUT) or not is_floating(value.dtype):
                continue
            path = key.path if key.kind == OUTPUT else self.callers.get((key.path, key.call))
            gradient = gradient_key(key)
            weight = root[key] if key in root else feed_value(feed, gradient)
            if weight is None:  # a gradient that arrives on this side alone
                weight = self.gradients.values.get(gradient)
            if path is not None and weight is not None and weight.shape == value.shape:
                result[path] += float((weight * value).sum())
        return result


def derivative_errors(
    side: Side, run: Run, gradients: Records, owners: Mapping[str, str], seed: int
) -> dict[str, DerivativeErrors]:
    """Return the errors for each Cell with a gradient, by its path.

    Args:
        side: the side, which is run forward eight times.
        run: its isolated run in float64, which feeds the reference's records.
        gradients: the side's records of that run.
        owners: path of the Cell that a parameter belongs to, by qualified name.
        seed: seed of the directions.
    """
    measurement = _Measurement(side, run, gradients, owners)
    errors: dict[str, list[float]] = defaultdict(list)
    for number in range(DIRECTIONS):
        directions = measurement.directions(seed + number)
        measured = [measurement.differences(*directions, step) for step in STEPS]
        for path, (expected, scale) in measurement.along(*directions).items():
            if all(path in differences for differences in measured) and scale > 0:
                errors[path].append(min(abs(differences[path] - expected) for differences in measured) / scale)
    of_cell = defaultdict(set)
    for name in measurement.parameters:
        of_cell[owners[name]].add(name)
    return {
        path: DerivativeErrors(tuple(cell_errors), frozenset(of_cell[path])) for path, cell_errors in errors.items()
    }
