"""Which side's gradient is wrong: each side's gradients compared with the derivative of its own forward pass.

The derivative along a random direction is computed by central differences in float64: (f(x + hv) - f(x - hv)) / 2h,
with an error of the order of h**2 (Nocedal and Wright, Numerical Optimization, 8.1). In an isolated run each Cell
computes from the values that are fed, so one run with all of them changed gives the differences of all Cells.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from ...runtime.ir.types import is_floating
from ..sides.records import (
    INPUT,
    INPUT_GRADIENT,
    OUTPUT,
    Array,
    Key,
    Records,
    Run,
    Side,
    feed_value,
    gradient_key,
)
from ..verdicts.deviations import size

STEPS = (1e-4, 1e-6)
"""Sizes of the step, relative to the largest element of each tensor. A kink between two points spoils one, not both."""
DIRECTIONS = 2
RIGHT = 1e-6
"""The largest relative error of a gradient that is the derivative."""
WRONG = 1e-5
"""The smallest relative error, along each direction and with each step, of one that isn't."""

CallKey = tuple[str, int]


@dataclass(frozen=True)
class DerivativeErrors:
    """The relative errors of a side's gradients of one Cell against the derivative of its forward pass.

    Attributes:
        errors: the smaller error of the two steps, for each direction.
    """

    errors: tuple[float, ...]

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


def derivative_errors(side: Side, run: Run, gradients: Records, seed: int) -> dict[CallKey, DerivativeErrors]:
    """Return the errors for each call of a Cell with a gradient.

    Args:
        side: the side, which is run forward eight times.
        run: its isolated run in float64, which feeds the reference's records.
        gradients: the side's records of that run.
        seed: seed of the directions.
    """
    feed = run.feed
    assert feed is not None
    parents = {
        (call.path, call.index): (feed.calls[call.parent].path, feed.calls[call.parent].index)
        for call in feed.calls
        if call.parent is not None
    }
    errors: dict[CallKey, list[float]] = defaultdict(list)
    for number in range(DIRECTIONS):
        directions = _directions(feed, seed + number)
        expected, scale = _along(directions, gradients, parents)
        measured = [_differences(side, run, gradients, directions, step, parents) for step in STEPS]
        for call, value in expected.items():
            if all(call in one for one in measured) and scale[call] > 0:
                off = min(abs(one[call] - value) for one in measured)
                errors[call].append(off / scale[call])
    return {call: DerivativeErrors(tuple(found)) for call, found in errors.items()}


def _directions(feed: Records, seed: int) -> dict[Key, Array]:
    """Return a random direction for each floating-point value that enters a Cell, in the size of its elements."""
    generator = np.random.default_rng(seed)
    return {
        key: np.asarray(generator.standard_normal(value.shape)) * (size(value) or 1.0)
        for key, value in feed.values.items()
        if key.kind in (INPUT, OUTPUT) and is_floating(value.dtype)
    }


def _reader(key: Key, parents: Mapping[CallKey, CallKey]) -> CallKey | None:
    """Return the call that computes from a value: the Cell itself from its input, its caller from its output."""
    call = (key.path, key.call)
    return call if key.kind in (INPUT, INPUT_GRADIENT) else parents.get(call)


def _along(
    directions: Mapping[Key, Array], gradients: Records, parents: Mapping[CallKey, CallKey]
) -> tuple[dict[CallKey, float], dict[CallKey, float]]:
    """Return, for each call, its gradients along the directions, and the size of that number."""
    along: dict[CallKey, float] = defaultdict(float)
    squares: dict[CallKey, float] = defaultdict(float)
    for key, direction in directions.items():
        call = _reader(key, parents)
        gradient = gradients.values.get(gradient_key(key))
        if call is None or gradient is None or gradient.shape != direction.shape:
            continue
        terms = gradient * direction
        along[call] += float(terms.sum())
        squares[call] += float(np.square(terms).sum())
    return along, {call: float(np.sqrt(square)) for call, square in squares.items()}


def _differences(
    side: Side,
    run: Run,
    gradients: Records,
    directions: Mapping[Key, Array],
    step: float,
    parents: Mapping[CallKey, CallKey],
) -> dict[CallKey, float]:
    """Return the central difference of each call's outputs, weighted with the gradients that are fed to them."""
    forward, backward = (
        _weighted_outputs(side, run, gradients, directions, sign * step, parents) for sign in (1.0, -1.0)
    )
    return {call: (forward[call] - backward[call]) / (2 * step) for call in forward if call in backward}


def _weighted_outputs(
    side: Side,
    run: Run,
    gradients: Records,
    directions: Mapping[Key, Array],
    step: float,
    parents: Mapping[CallKey, CallKey],
) -> dict[CallKey, float]:
    """Return, for each call, the sum of what it returns and passes, weighted, at fed values moved by a step."""
    feed = run.feed
    assert feed is not None
    moved = {key: value + step * directions[key] if key in directions else value for key, value in feed.values.items()}
    records = side.run(replace(run, grads=False, feed=replace(feed, values=moved)))
    root = dict(zip(feed.root_keys(OUTPUT), feed.cotangents, strict=False))
    result: dict[CallKey, float] = defaultdict(float)
    for key, value in records.values.items():
        if key.kind not in (INPUT, OUTPUT) or not is_floating(value.dtype):
            continue
        own = (key.path, key.call)
        call = own if key.kind == OUTPUT else parents.get(own)
        gradient = gradient_key(key)
        weight = root[key] if key in root else feed_value(feed, gradient)
        if weight is None:  # a gradient that arrives on this side alone
            weight = gradients.values.get(gradient)
        if call is not None and weight is not None and weight.shape == value.shape:
            result[call] += float((weight * value).sum())
    return result
