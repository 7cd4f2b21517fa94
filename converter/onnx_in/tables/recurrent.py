"""ONNX recurrent layers: one op for a whole layer where an op covers the attributes, else step by step."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ....runtime.errors import ShapeError
from ....runtime.ir.dims import Dim
from ....runtime.ir.types import INT64
from ....runtime.ops import comparison, elementwise, linear, rectifier, shaping, slicing, trigonometry
from ....runtime.ops.gru import gru as gru_layer
from ....runtime.ops.lstm import lstm as lstm_layer
from ....runtime.ops.rnn import rnn as rnn_layer
from ....runtime.tracing import SymbolicTensor
from ...unsupported import Unsupported
from .context import Context
from .table import cast, onnx, require_few

Activation = Callable[[Any], Any]
Step = Callable[[Any, list[Any]], list[Any]]
"""One step, from the input (batch, features) and the states, (batch, hidden) each, to the new states."""
DEFAULTS = {"RNN": ["Tanh"], "GRU": ["Sigmoid", "Tanh"], "LSTM": ["Sigmoid", "Tanh", "Tanh"]}
ORDER = {"RNN": (0,), "GRU": (1, 0, 2), "LSTM": (0, 2, 3, 1)}  # gates of ONNX in the order of the ops


class _Layer:
    """One layer: the properties that its directions share."""

    def __init__(
        self, context: Context, kind: str, x: SymbolicTensor, direction: str, hidden: Dim, layout: int
    ) -> None:
        if direction not in ("forward", "reverse", "bidirectional"):
            raise ShapeError(f"direction must be forward, reverse or bidirectional, given {direction!r}")
        self.context = context
        self.kind = kind
        self.layout = layout
        self.x = shaping.transpose(x, permutation=(1, 0, 2)) if layout else x
        self.reversals = {"forward": [False], "reverse": [True], "bidirectional": [False, True]}[direction]
        self.hidden = hidden
        self.gates = len(ORDER[kind])

    def part(self, x: SymbolicTensor | None, number: int) -> Any:
        """The part of an operand, (directions, ...), that belongs to one direction."""
        if x is None:
            return None
        row = slicing.slice(x, starts=(number,), stops=(number + 1,), steps=(1,), axes=(0,))
        return shaping.reshape(row, shape=tuple(x.shape[1:]))

    def state(self, initial: SymbolicTensor | None, number: int) -> Any:
        """The initial state of a direction, (batch, hidden)."""
        if initial is None:
            return self.context.full((self.x.shape[1], self.hidden), 0, self.x.dtype)
        state = self.part(shaping.transpose(initial, permutation=(1, 0, 2)) if self.layout else initial, number)
        needed = (self.x.shape[1], self.hidden)
        # if sizes are symbolic, the reshape checks them when the program runs
        return state if tuple(state.shape) == needed else shaping.reshape(state, shape=needed)

    def reorder_gates(self, weight: Any) -> Any:
        """Reorder the gates, the rows of a weight or bias, from ONNX's order to that of the ops."""
        if weight is None or self.gates == 1:
            return weight
        size = self.hidden
        pieces = [
            slicing.slice(weight, starts=(g * size,), stops=((g + 1) * size,), steps=(1,), axes=(0,))
            for g in ORDER[self.kind]
        ]
        return slicing.concat(*pieces, axis=0)

    def biases(self, b: Any) -> tuple[Any, Any]:
        """The biases of the input and of the state, which ONNX concatenates."""
        if b is None:
            return None, None
        half = self.gates * self.hidden
        return tuple(
            slicing.slice(b, starts=(i * half,), stops=((i + 1) * half,), steps=(1,), axes=(0,)) for i in (0, 1)
        )

    def run(
        self,
        operands: Sequence[SymbolicTensor | None],
        initial: Sequence[SymbolicTensor | None],
        op: Callable[[int], Callable[..., Any] | None],
        step: Callable[..., Step],
    ) -> tuple[Any, ...]:
        """Run every direction; return Y and the last states in ONNX's layout.

        Args:
            operands: W, R, B and sequence_lens.
            initial: the initial states.
            op: `op(i)` is the op for a whole layer in direction `i`, which takes the input, the states, the weights and
                biases with gates in the order of the ops, and the lengths; None to run step by step.
            step: `step(i, w, r, b_ih, b_hh)` is one step in direction `i`.
        """
        W, R, B, sequence_lens = operands
        lengths = None if sequence_lens is None else cast(sequence_lens, INT64)
        outputs, states = [], []
        for i, reverse in enumerate(self.reversals):
            weights = self.part(W, i), self.part(R, i), *self.biases(self.part(B, i))
            first, layer = [self.state(state, i) for state in initial], op(i)
            if layer is not None:
                ys, *last = layer(self.x, *first, *map(self.reorder_gates, weights), lengths, reverse=reverse)
            else:
                ys, last = self.run_steps(step(i, *weights), first, lengths, reverse)
            outputs.append(ys)
            states.append(last)
        y = slicing.concat(*(shaping.reshape(o, shape=(o.shape[0], 1, *o.shape[1:])) for o in outputs), axis=1)
        stacked = [
            slicing.concat(*(shaping.reshape(s, shape=(1, *s.shape)) for s in each), axis=0)
            for each in zip(*states, strict=True)
        ]
        if self.layout:
            y = shaping.transpose(y, permutation=(2, 0, 1, 3))
            stacked = [shaping.transpose(s, permutation=(1, 0, 2)) for s in stacked]
        return y, *stacked

    def functions(self, names: Any, alphas: Any, betas: Any, clip: float | None) -> list[list[Activation]]:
        """The activation functions of each direction."""
        each = len(DEFAULTS[self.kind])
        names = list(names or DEFAULTS[self.kind] * len(self.reversals))
        if len(names) != each * len(self.reversals):
            raise ShapeError(f"needed {each * len(self.reversals)} activations, given {len(names)}")
        rest = iter(alphas or ()), iter(betas or ())
        activations = [_activation(name, rest[0], rest[1], clip) for name in names]
        return [activations[i * each : (i + 1) * each] for i in range(len(self.reversals))]

    def run_steps(self, step: Step, states: list[Any], lengths: Any, reverse: bool) -> tuple[Any, list[Any]]:
        """Run the steps one by one; `step` takes the input (batch, features) and the states, and returns new states."""
        count = self.x.shape[0]
        if not isinstance(count, int):
            raise Unsupported("a variant of the cell that has no op, over a symbolic number of steps")
        require_few(count, "steps of a variant of the cell that has no op")
        outputs: list[Any] = [None] * count
        for t in reversed(range(count)) if reverse else range(count):
            row = slicing.slice(self.x, starts=(t,), stops=(t + 1,), steps=(1,), axes=(0,))
            new = step(shaping.reshape(row, shape=tuple(self.x.shape[1:])), states)
            output = new[0]
            if lengths is not None:
                column = shaping.reshape(lengths, shape=(lengths.shape[0], 1))
                within = comparison.less(np.int64(t), column)
                new = [elementwise.where(within, n, old) for n, old in zip(new, states, strict=True)]
                output = elementwise.where(within, output, np.zeros((), output.dtype))
            states, outputs[t] = new, output
        stacked = [shaping.reshape(o, shape=(1, *o.shape)) for o in outputs]
        return slicing.concat(*stacked, axis=0), states


def _activation(name: str, alphas: Any, betas: Any, clip: float | None) -> Activation:
    """The activation function of a name; its parameters, if any, are the next of `alphas` and `betas`."""
    low = name.lower()
    plain: dict[str, Activation] = {
        "sigmoid": elementwise.sigmoid,
        "tanh": trigonometry.tanh,
        "relu": rectifier.relu,
        "softsign": lambda x: x / (elementwise.abs(x) + 1.0),
        "softplus": lambda x: rectifier.softplus(x, threshold=float("inf")),
    }
    if low in plain:
        function = plain[low]
    elif low == "leakyrelu":
        slope = next(alphas, 0.01)
        function = lambda x: rectifier.leaky_relu(x, negative_slope=slope)  # noqa: E731
    elif low == "elu":
        scale = next(alphas, 1.0)
        function = lambda x: rectifier.elu(x, alpha=scale)  # noqa: E731
    elif low == "thresholdedrelu":
        limit = next(alphas, 1.0)
        function = lambda x: elementwise.where(comparison.greater(x, limit), x, np.zeros((), x.dtype))  # noqa: E731
    elif low in ("affine", "hardsigmoid", "scaledtanh"):
        a, b = next(alphas, 0.2 if low == "hardsigmoid" else 1.0), next(betas, 0.5 if low == "hardsigmoid" else 0.0)
        function = {
            "affine": lambda x: x * a + b,
            "hardsigmoid": lambda x: elementwise.clamp(x * a + b, minimum=0.0, maximum=1.0),
            "scaledtanh": lambda x: trigonometry.tanh(x * b) * a,
        }[low]
    else:
        raise Unsupported(f"activation {name!r}")
    if clip is None:
        return function
    return lambda x: function(elementwise.clamp(x, minimum=-clip, maximum=clip))


def _gates(total: Any, count: int, hidden: Dim) -> list[Any]:
    return [
        slicing.slice(total, starts=(g * hidden,), stops=((g + 1) * hidden,), steps=(1,), axes=(1,))
        for g in range(count)
    ]


def _hidden(hidden_size: int | None, r: SymbolicTensor) -> Dim:
    """The size of the state, from the weight R; it must equal `hidden_size` if that is given."""
    if r.ndim != 3 or (hidden_size is not None and isinstance(r.shape[2], int) and r.shape[2] != hidden_size):
        raise ShapeError(f"hidden_size is {hidden_size}, but the weight R is {r.value.type}")
    return r.shape[2]


@onnx("RNN")
def rnn(
    context: Context, X: SymbolicTensor, W: SymbolicTensor, R: SymbolicTensor, B: SymbolicTensor | None = None,
    sequence_lens: SymbolicTensor | None = None,
    initial_h: SymbolicTensor | None = None, *, activation_alpha: Any = None, activation_beta: Any = None,
    activations: Any = None, clip: float | None = None, direction: str = "forward", hidden_size: int | None = None,
    layout: int = 0,
) -> Any:  # fmt: skip
    """RNN-7..22(X, W, R, B?, sequence_lens?, initial_h?) -> Y?, Y_h?"""
    layer = _Layer(context, "RNN", X, direction, _hidden(hidden_size, R), layout)
    functions = layer.functions(activations, activation_alpha, activation_beta, clip)
    names = [name.lower() for name in activations or ["Tanh"] * len(layer.reversals)]

    def op(i: int) -> Callable[..., Any] | None:
        plain = names[i] in ("tanh", "relu") and clip is None
        return functools.partial(rnn_layer, nonlinearity=names[i]) if plain else None

    def step(i: int, w: Any, r: Any, b_ih: Any, b_hh: Any) -> Step:
        (f,) = functions[i]
        return lambda x, states: [f(linear.linear(x, w, b_ih) + linear.linear(states[0], r, b_hh))]

    return layer.run([W, R, B, sequence_lens], [initial_h], op, step)


@onnx("GRU")
def gru(
    context: Context, X: SymbolicTensor, W: SymbolicTensor, R: SymbolicTensor, B: SymbolicTensor | None = None,
    sequence_lens: SymbolicTensor | None = None,
    initial_h: SymbolicTensor | None = None, *, activation_alpha: Any = None, activation_beta: Any = None,
    activations: Any = None, clip: float | None = None, direction: str = "forward", hidden_size: int | None = None,
    layout: int = 0, linear_before_reset: int = 0,
) -> Any:  # fmt: skip
    """GRU-7..22(X, W, R, B?, sequence_lens?, initial_h?) -> Y?, Y_h?"""
    layer = _Layer(context, "GRU", X, direction, _hidden(hidden_size, R), layout)
    functions = layer.functions(activations, activation_alpha, activation_beta, clip)
    plain = clip is None and [a.lower() for a in activations or []] in ([], ["sigmoid", "tanh"] * len(layer.reversals))

    def step(i: int, w: Any, r: Any, b_ih: Any, b_hh: Any) -> Step:
        return _gru_step(layer, w, r, b_ih, b_hh, functions[i], bool(linear_before_reset))

    op = gru_layer if plain and linear_before_reset else None
    return layer.run([W, R, B, sequence_lens], [initial_h], lambda i: op, step)


def _gru_step(layer: _Layer, w: Any, r: Any, b_ih: Any, b_hh: Any, functions: list[Activation], after: bool) -> Step:
    """A step of GRU-22, gates in order z, r, h; `after` applies the reset gate to the product with the state."""
    f, g = functions
    size = layer.hidden
    r_h = slicing.slice(r, starts=(2 * size,), stops=(3 * size,), steps=(1,), axes=(0,))
    r_zr = slicing.slice(r, starts=(0,), stops=(2 * size,), steps=(1,), axes=(0,))
    b_h, b_zr = None, None
    if b_hh is not None:
        b_h = slicing.slice(b_hh, starts=(2 * size,), stops=(3 * size,), steps=(1,), axes=(0,))
        b_zr = slicing.slice(b_hh, starts=(0,), stops=(2 * size,), steps=(1,), axes=(0,))

    def step(x: Any, states: list[Any]) -> list[Any]:
        (h,) = states
        of_x = _gates(linear.linear(x, w, b_ih), 3, size)
        of_h = _gates(linear.linear(h, r_zr, b_zr), 2, size)
        z, reset = (f(a + b) for a, b in zip(of_x[:2], of_h, strict=True))
        candidate = reset * linear.linear(h, r_h, b_h) if after else linear.linear(reset * h, r_h, b_h)
        return [(1.0 - z) * g(of_x[2] + candidate) + z * h]

    return step


@onnx("LSTM")
def lstm(
    context: Context, X: SymbolicTensor, W: SymbolicTensor, R: SymbolicTensor, B: SymbolicTensor | None = None,
    sequence_lens: SymbolicTensor | None = None,
    initial_h: SymbolicTensor | None = None, initial_c: SymbolicTensor | None = None, P: SymbolicTensor | None = None,
    *,
    activation_alpha: Any = None, activation_beta: Any = None, activations: Any = None, clip: float | None = None,
    direction: str = "forward", hidden_size: int | None = None, input_forget: int = 0, layout: int = 0,
) -> Any:  # fmt: skip
    """LSTM-7..22(X, W, R, B?, sequence_lens?, initial_h?, initial_c?, P?) -> Y?, Y_h?, Y_c?"""
    layer = _Layer(context, "LSTM", X, direction, _hidden(hidden_size, R), layout)
    functions = layer.functions(activations, activation_alpha, activation_beta, clip)
    default = ["sigmoid", "tanh", "tanh"] * len(layer.reversals)
    plain = clip is None and P is None and not input_forget
    plain = plain and [a.lower() for a in activations or default] == default

    def op(*operands: Any, reverse: bool) -> Any:
        *others, lengths = operands
        return lstm_layer(*others, None, lengths, reverse=reverse)  # without a projection

    def step(i: int, w: Any, r: Any, b_ih: Any, b_hh: Any) -> Step:
        return _lstm_step(layer, w, r, b_ih, b_hh, layer.part(P, i), functions[i], bool(input_forget))

    return layer.run([W, R, B, sequence_lens], [initial_h, initial_c], lambda i: op if plain else None, step)


def _lstm_step(
    layer: _Layer, w: Any, r: Any, b_ih: Any, b_hh: Any, peepholes: Any, functions: list[Activation], coupled: bool
) -> Step:
    """A step of LSTM-22, gates in order i, o, f, c, with peepholes in order i, o, f."""
    f, g, h = functions
    size = layer.hidden
    p_i: Any = 0.0
    p_o: Any = 0.0
    p_f: Any = 0.0
    if peepholes is not None:
        p_i, p_o, p_f = (
            slicing.slice(peepholes, starts=(k * size,), stops=((k + 1) * size,), steps=(1,), axes=(0,))
            for k in range(3)
        )

    def step(x: Any, states: list[Any]) -> list[Any]:
        previous, cell = states
        i, o, forget, candidate = _gates(linear.linear(x, w, b_ih) + linear.linear(previous, r, b_hh), 4, size)
        with_peephole = peepholes is not None
        i = f(i + p_i * cell if with_peephole else i)
        forget = 1.0 - i if coupled else f(forget + p_f * cell if with_peephole else forget)
        new = forget * cell + i * g(candidate)
        o = f(o + p_o * new if with_peephole else o)
        return [o * h(new), new]

    return step
