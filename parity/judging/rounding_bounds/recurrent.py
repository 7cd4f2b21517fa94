"""Rules of recurrent layers, as the composition of their steps: sums of products, functions, and products by element.

Each step inherits the bounds of the states that the step before returns; see `runtime.ops.lstm`, `gru` and `rnn` for
the formulas, and `runtime.ops.recurrent` for the order of the steps.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from ....runtime.ops.recurrent import batch_last, masks
from ...sides.records import Array
from .estimates import Application, Estimate, Units, bound_of, together
from .normalizations import FUNCTION_UNITS
from .sums import product_bound

Bounds = tuple[Array | None, ...]
Step = Callable[..., tuple[Estimate, ...]]


# ---- forward ----


def rnn(a: Application) -> Bounds:
    """For `rnn`."""
    x, h0, weight_ih, weight_hh, bias_ih, bias_hh, lengths = _operands(a, 7)
    run = _Arithmetic(a.units)
    from_input = run.linear(_present(x), weight_ih, bias_ih, bias_hh)
    function = np.tanh if a.attributes["nonlinearity"] == "tanh" else _relu

    def step(t: int, h: Estimate) -> tuple[Estimate, ...]:
        return (run.apply(function, run.add(_at(from_input, t), run.linear(h, weight_hh))),)

    ys, states = _forward(a, step, (_present(h0),), lengths)
    return tuple(map(bound_of, (ys, *states)))


def gru(a: Application) -> Bounds:
    """For `gru`, and `gru_with_gates`, whose further outputs are r, z, n, b_n and h of all steps."""
    x, h0, weight_ih, weight_hh, bias_ih, bias_hh, lengths = _operands(a, 7)
    run = _Arithmetic(a.units)
    from_input = run.linear(_present(x), weight_ih, bias_ih)
    gates: list[tuple[Estimate, ...]] = [()] * len(from_input.value)

    def step(t: int, h: Estimate) -> tuple[Estimate, ...]:
        a_r, a_z, a_n = _split(_at(from_input, t), 3)
        b_r, b_z, b_n = _split(run.linear(h, weight_hh, bias_hh), 3)
        r, z = (run.apply(_sigmoid, run.add(*pair)) for pair in ((a_r, b_r), (a_z, b_z)))
        n = run.apply(np.tanh, run.add(a_n, run.multiply(r, b_n)))
        gates[t] = r, z, n, b_n, h
        return (run.add(run.multiply(run.complement(z), n), run.multiply(z, h)),)

    ys, states = _forward(a, step, (_present(h0),), lengths)
    return _with_gates(a, (ys, *states), gates)


def lstm(a: Application) -> Bounds:
    """For `lstm`, and `lstm_with_gates`, whose further outputs are i, f, g, o, c and tanh(c') of all steps."""
    x, h0, c0, weight_ih, weight_hh, bias_ih, bias_hh, weight_hr, lengths = _operands(a, 9)
    run = _Arithmetic(a.units)
    from_input = run.linear(_present(x), weight_ih, bias_ih, bias_hh)
    gates: list[tuple[Estimate, ...]] = [()] * len(from_input.value)

    def step(t: int, h: Estimate, c: Estimate) -> tuple[Estimate, ...]:
        i, f, g, o = _split(run.add(_at(from_input, t), run.linear(h, weight_hh)), 4)
        i, f, o = (run.apply(_sigmoid, gate) for gate in (i, f, o))
        g = run.apply(np.tanh, g)
        new_c = run.add(run.multiply(f, c), run.multiply(i, g))
        tanh_c = run.apply(np.tanh, new_c)
        gates[t] = i, f, g, o, c, tanh_c
        y = run.multiply(o, tanh_c)
        return y if weight_hr is None else run.linear(y, weight_hr), new_c

    ys, states = _forward(a, step, (_present(h0), _present(c0)), lengths)
    return _with_gates(a, (ys, *states), gates)


# ---- backward ----


def rnn_gradient(a: Application) -> Bounds:
    """For `rnn_gradient`."""
    ys, weight_hh, lengths, g_ys, g_hn = _operands(a, 5)
    run = _Arithmetic(a.units)
    ys, weights = _present(ys), _transposed(_present(weight_hh))
    if a.attributes["nonlinearity"] == "tanh":
        slope = run.complement(run.multiply(ys, ys))
    else:
        slope = _exact((ys.value > 0).astype(np.float64))
    gates: list[tuple[Estimate, ...]] = [()] * len(ys.value)

    def step(t: int, g_h: Estimate) -> tuple[Estimate, ...]:
        gates[t] = (run.multiply(_at(slope, t), g_h),)
        return (run.linear(gates[t][0], weights),)

    states = _backward(a, run, step, g_ys, (_zero_if_absent(g_hn, a.outputs[1]),), lengths)
    return _stacked(gates, 0), *map(bound_of, states)


def gru_gradient(a: Application) -> Bounds:
    """For `gru_gradient`."""
    weight_hh, *residuals, lengths, g_ys, g_hn = _operands(a, 9)
    run, weights = _Arithmetic(a.units), _transposed(_present(weight_hh))
    r, z, n, b_n, h = (_batch_first(_present(x)) for x in residuals)
    to_n = run.multiply(run.complement(z), run.complement(run.multiply(n, n)))
    by_r = run.multiply(run.multiply(to_n, b_n), run.multiply(r, run.complement(r)))
    by_z = run.multiply(run.subtract(h, n), run.multiply(z, run.complement(z)))
    by_n = run.multiply(to_n, r)
    gates: list[tuple[Estimate, ...]] = [()] * len(r.value)

    def step(t: int, g_h: Estimate) -> tuple[Estimate, ...]:
        of_r, of_z, of_n, of_candidate = (run.multiply(_at(x, t), g_h) for x in (by_r, by_z, by_n, to_n))
        gates[t] = _joined(of_r, of_z, of_candidate), _joined(of_r, of_z, of_n)
        return (run.add(run.multiply(g_h, _at(z, t)), run.linear(gates[t][1], weights)),)

    states = _backward(a, run, step, g_ys, (_zero_if_absent(g_hn, a.outputs[2]),), lengths)
    return _stacked(gates, 0), _stacked(gates, 1), *map(bound_of, states)


def lstm_gradient(a: Application) -> Bounds:
    """For `lstm_gradient`."""
    weight_hh, *residuals, weight_hr, lengths, g_ys, g_hn, g_cn = _operands(a, 12)
    run, weights = _Arithmetic(a.units), _transposed(_present(weight_hh))
    i, f, g, o, c, tanh_c = (_batch_first(_present(x)) for x in residuals)
    to_c = run.multiply(o, run.complement(run.multiply(tanh_c, tanh_c)))
    by_i = run.multiply(run.multiply(g, i), run.complement(i))
    by_f = run.multiply(run.multiply(c, f), run.complement(f))
    by_g = run.multiply(i, run.complement(run.multiply(g, g)))
    by_o = run.multiply(run.multiply(tanh_c, o), run.complement(o))
    gates: list[tuple[Estimate, ...]] = [()] * len(i.value)

    def step(t: int, g_h: Estimate, g_c: Estimate) -> tuple[Estimate, ...]:
        projected = g_h
        if weight_hr is not None:
            g_h = run.linear(g_h, _transposed(weight_hr))
        g_c = run.add(g_c, run.multiply(g_h, _at(to_c, t)))
        of_c = (run.multiply(_at(x, t), g_c) for x in (by_i, by_f, by_g))
        gates[t] = _joined(*of_c, run.multiply(_at(by_o, t), g_h)), projected
        return run.linear(gates[t][0], weights), run.multiply(g_c, _at(f, t))

    last = tuple(_zero_if_absent(x, y) for x, y in ((g_hn, a.outputs[1]), (g_cn, a.outputs[2])))
    states = _backward(a, run, step, g_ys, last, lengths)
    projected = (_stacked(gates, 1),) if weight_hr is not None else ()
    return _stacked(gates, 0), *map(bound_of, states), *projected


# ---- steps ----


@dataclass(frozen=True)
class _Arithmetic:
    """Operations on estimates; each rounds its result."""

    units: Units

    def add(self, x: Estimate, y: Estimate) -> Estimate:
        value = x.value + y.value
        return Estimate(value, together(bound_of(x), bound_of(y), self.units.results * value))

    def subtract(self, x: Estimate, y: Estimate) -> Estimate:
        return self.add(x, Estimate(-y.value, y.bound))

    def complement(self, x: Estimate) -> Estimate:
        """`1 - x`."""
        value = 1 - x.value
        return Estimate(value, together(bound_of(x), self.units.results * value))

    def multiply(self, x: Estimate, y: Estimate) -> Estimate:
        value = x.value * y.value
        inherited = together(bound_of(x) * y.value, x.value * bound_of(y))
        return Estimate(value, together(inherited, self.units.results * value))

    def apply(self, function: Callable[[Array], Array], x: Estimate) -> Estimate:
        """A monotonic function, at both ends of the interval."""
        value = function(x.value)
        off = (np.abs(function(end) - value) for end in (x.value + bound_of(x), x.value - bound_of(x)))
        return Estimate(value, together(np.fmax(*off), FUNCTION_UNITS * self.units.results * value))

    def linear(self, x: Estimate, weight: Estimate | None, *biases: Estimate | None) -> Estimate:
        """`x @ weight.T`, and the sum with biases."""
        weight = _present(weight)
        value = x.value @ weight.value.T
        bound = product_bound(lambda first, second, _: first @ second.T, x, weight, None, value, self.units)
        result = Estimate(value, bound)
        for bias in biases:
            if bias is not None:
                result = self.add(result, bias)
        return result


def _forward(
    a: Application, step: Step, states: tuple[Estimate, ...], lengths: Estimate | None
) -> tuple[Estimate, tuple[Estimate, ...]]:
    """The outputs of all steps, and the last states."""
    time = len(a.outputs[0])
    mask_of = masks(None if lengths is None else lengths.value, time)
    ys: list[Estimate] = [states[0]] * time
    for t in range(time - 1, -1, -1) if a.attributes["reverse"] else range(time):
        new, mask = step(t, *states), mask_of[t]
        ys[t] = new[0] if mask is None else _where(mask, new[0], _zeros(new[0].value))
        states = new if mask is None else tuple(_where(mask, *pair) for pair in zip(new, states, strict=True))
    return Estimate(np.stack([y.value for y in ys]), np.stack([bound_of(y) for y in ys])), states


def _backward(
    a: Application,
    run: _Arithmetic,
    step: Step,
    g_ys: Estimate | None,
    states: tuple[Estimate, ...],
    lengths: Estimate | None,
) -> tuple[Estimate, ...]:
    """The cotangents of the initial states."""
    time = len(a.outputs[0])
    mask_of = masks(None if lengths is None else lengths.value, time)
    for t in range(time) if a.attributes["reverse"] else range(time - 1, -1, -1):
        mask = mask_of[t]
        after = states
        if g_ys is not None:
            after = (run.add(states[0], _at(g_ys, t)), *states[1:])
        if mask is not None:
            after = tuple(_where(mask, g, _zeros(g.value)) for g in after)
        before = step(t, *after)
        states = before if mask is None else tuple(_where(mask, *pair) for pair in zip(before, states, strict=True))
    return states


def _with_gates(a: Application, results: tuple[Estimate, ...], gates: Sequence[tuple[Estimate, ...]]) -> Bounds:
    """The bounds of a layer's results and, for an op that returns them, of the gates of all steps, batch last."""
    bounds: Bounds = tuple(map(bound_of, results))
    if len(a.outputs) > len(results):
        bounds += tuple(batch_last(_stacked(gates, position)) for position in range(len(gates[0])))
    return bounds


def _stacked(gates: Sequence[tuple[Estimate, ...]], position: int) -> Array:
    return np.stack([bound_of(step_gates[position]) for step_gates in gates])


# ---- parts of estimates ----


def _operands(a: Application, count: int) -> list[Estimate | None]:
    """The operands, with None for optional ones at the end."""
    return [*a.operands, *[None] * (count - len(a.operands))]


def _present(x: Estimate | None) -> Estimate:
    assert x is not None
    return x


def _exact(value: Array) -> Estimate:
    return Estimate(value, np.zeros_like(value))


def _zeros(like: Array) -> Estimate:
    return _exact(np.zeros_like(like))


def _zero_if_absent(x: Estimate | None, like: Array) -> Estimate:
    return _zeros(like) if x is None else x


def _mapped(change: Callable[[Array], Array], x: Estimate) -> Estimate:
    return Estimate(change(x.value), change(bound_of(x)))


def _at(x: Estimate, t: int) -> Estimate:
    return _mapped(lambda array: array[t], x)


def _transposed(x: Estimate) -> Estimate:
    return _mapped(np.transpose, x)


def _batch_first(x: Estimate) -> Estimate:
    return _mapped(batch_last, x)


def _split(x: Estimate, count: int) -> list[Estimate]:
    parts = (np.split(array, count, axis=-1) for array in (x.value, bound_of(x)))
    return [Estimate(*pair) for pair in zip(*parts, strict=True)]


def _joined(*parts: Estimate) -> Estimate:
    return Estimate(np.concatenate([x.value for x in parts], -1), np.concatenate([bound_of(x) for x in parts], -1))


def _where(mask: Array, x: Estimate, y: Estimate) -> Estimate:
    return Estimate(np.where(mask, x.value, y.value), np.where(mask, bound_of(x), bound_of(y)))


def _sigmoid(x: Array) -> Array:
    return np.asarray(1 / (1 + np.exp(-x)))


def _relu(x: Array) -> Array:
    return np.asarray(np.maximum(x, 0))
