"""`Layer`, the rules that recurrent layers share: each layer adds a step, in NumPy and in ONNX.

A layer has up to three ops: `lstm` computes it, `lstm_with_gates` also returns what its gradient needs, and
`lstm_gradient` is its backward recurrence. See `recurrent` and `recurrent_onnx` for the loops over the steps.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from ..ir.types import is_floating
from .common import require_same_dtype
from .float64_forms import Writer
from .recurrent import SECOND_ORDER, batch_last, input_gates, operand_gradients, previous_outputs, run_steps
from .recurrent_onnx import Steps
from .registry import Array, OnnxGraph, Op, Type, operator, require

Step = Callable[..., tuple[Sequence[Any], Sequence[Any]]]


class Operands(NamedTuple):
    """The operands of a layer: types, arrays, tensors or ONNX names; an absent one is None, or `""` in ONNX.

    Attributes:
        x: (time, batch, features).
        states: the initial states, each (batch, n), of which the first has the features of the output.
        weight_ih: (gates * hidden, features).
        weight_hh: (gates * hidden, outputs).
        bias_ih: (gates * hidden,).
        bias_hh: (gates * hidden,).
        weight_hr: the projection of an `lstm`, (outputs, hidden); without it, outputs = hidden.
        lengths: the number of steps of each sequence, integers (batch,).
    """

    x: Any
    states: tuple[Any, ...]
    weight_ih: Any
    weight_hh: Any
    bias_ih: Any
    bias_hh: Any
    weight_hr: Any
    lengths: Any


@dataclass(frozen=True)
class Layer:
    """What the ops of a recurrent layer have in common.

    Attributes:
        name: that of the op.
        gates: the number of gates.
        step: `step(operands, **attributes)` returns the step in NumPy. It is given `weight_ih x` with the biases,
            (batch, gates * hidden), in whose place it puts the gates, and the states. It returns the new states, and
            what else the gradient needs, each (batch, hidden).
        onnx_step: `onnx_step(scan, operands, **attributes)` returns what writes the step. It is given a `Writer`,
            `weight_ih x` with the biases, (gates * hidden, batch), and the states. It returns the new states, and the
            gates with what else the gradient needs, each (hidden, batch).
        extras: the number of tensors besides the gates that the gradient needs.
        cell_state: whether there is a second state, `c0`, and may be a projection, `weight_hr`.
        apart: whether `bias_hh` belongs to the product with the state alone, and the step adds it.
    """

    name: str
    gates: int
    step: Callable[..., Step]
    onnx_step: Callable[..., Step]
    extras: int = 0
    cell_state: bool = False
    apart: bool = False

    def operands(self, inputs: Sequence[Any]) -> Operands:
        """Return the operands of an op by what they are."""
        first_weight = 3 if self.cell_state else 2
        x, *states = inputs[:first_weight]
        weight_ih, weight_hh, bias_ih, bias_hh, *projection, lengths = inputs[first_weight:]
        weight_hr = projection[0] if projection else None
        return Operands(x, tuple(states), weight_ih, weight_hh, bias_ih, bias_hh, weight_hr, lengths)

    def infer(self, *types: Type | None) -> tuple[Type, ...]:
        """Return the types of the outputs of all steps and of the last states.

        Raises:
            ShapeError: shapes or dtypes don't fit together.
        """
        x, states, weight_ih, weight_hh, *biases, weight_hr, lengths = self.operands(types)
        h0, c0 = states[0], states[-1]
        present = [bias for bias in biases if bias is not None]
        require_same_dtype(x, *states, weight_ih, weight_hh, *present, *([] if weight_hr is None else [weight_hr]))
        require(is_floating(x.dtype) and x.rank == 3, f"needed floating-point (time, batch, features), given {x}")
        require(
            weight_ih.rank == 2 and weight_ih.shape[1] == x.shape[2], f"{weight_ih} doesn't fit the features of {x}"
        )
        rows, batch = weight_ih.shape[0], x.shape[1]
        require(rows % self.gates == 0, f"needed weight_ih with {self.gates} gates of equal size, given {weight_ih}")
        hidden = rows // self.gates
        require(h0.rank == 2 and h0.shape[0] == batch, f"needed a state (batch, hidden), given {h0} with {x}")
        require(weight_hh.shape == (rows, h0.shape[1]), f"needed weight_hh {(rows, h0.shape[1])}, given {weight_hh}")
        if weight_hr is not None:
            shape = h0.shape[1], hidden
            require(weight_hr.shape == shape, f"needed weight_hr {shape}, given {weight_hr}")
        else:
            require(h0.shape[1] == hidden, f"needed a state of {hidden} features, given {h0} with {weight_ih}")
        require(c0 is h0 or c0.shape == (batch, hidden), f"needed a cell state {(batch, hidden)}, given {c0}")
        for bias in present:
            require(bias.shape == (rows,), f"needed biases {(rows,)}, given {bias}")
        if lengths is not None:
            require(lengths.dtype.kind == "i", f"needed integer lengths, given {lengths}")
            require(lengths.shape == (batch,), f"needed a length for each of {batch} sequences, given {lengths}")
        return x.with_shape((*x.shape[:2], h0.shape[1])), *states

    def run(
        self, *inputs: Array | None, reverse: bool, with_gates: bool = False, **attributes: Any
    ) -> tuple[Array, ...]:
        """Compute the layer; `with_gates`, also the gates and the extras of all steps, each (time, hidden, batch)."""
        operands = self.operands(inputs)
        x = operands.x
        gates = input_gates(x, operands.weight_ih, operands.bias_ih, None if self.apart else operands.bias_hh)
        extras = np.empty((self.extras, *x.shape[:2], gates.shape[2] // self.gates), x.dtype) if with_gates else None
        compute = self.step(operands, **attributes)

        def step(t: int, *states: Array) -> Sequence[Array]:
            new, of_step = compute(gates[t], *states)
            if extras is not None:
                for of_all, extra in zip(extras, of_step, strict=True):
                    of_all[t] = extra
            return new

        results = run_steps(step, x, operands.states, operands.lengths, reverse=reverse)
        residuals = () if extras is None else (*np.split(gates, self.gates, axis=-1), *extras)
        return *results, *map(batch_last, residuals)

    def write(
        self, graph: OnnxGraph, *inputs: str, reverse: bool, with_gates: bool = False, **attributes: Any
    ) -> tuple[str, ...]:
        """Write what `run` computes as a Scan."""
        operands = self.operands(inputs)
        type = graph.type(operands.x)
        time, batch, _ = type.shape
        scan = Steps(graph, type, time, batch, operands.lengths)
        bias = scan.bias(operands.bias_ih, *([] if self.apart else [operands.bias_hh]))
        write_step = self.onnx_step(scan, operands, **attributes)

        def step(w: Writer, from_input: str, *states: str) -> tuple[Sequence[str], Sequence[str]]:
            new, residuals = write_step(w, w("Add", from_input, bias) if bias else from_input, *states)
            return new, residuals if with_gates else ()

        hidden = graph.type(operands.weight_ih).shape[0] // self.gates
        sizes = [hidden] * (self.gates + self.extras if with_gates else 0)
        x, states = operands.x, operands.states
        return scan.forward(step, x, operands.weight_ih, states, sizes, reverse=reverse, name=self.name)

    def with_gates(self, layer: Op, residuals: str) -> Op:
        """Declare the op that returns, after the results of `layer`, what its gradient needs.

        Args:
            layer: the op of this layer.
            residuals: what these tensors are, in words.
        """

        def declaration() -> tuple[Any, ...]: ...

        declaration.__name__ = f"{layer.name}_with_gates"
        declaration.__signature__ = layer.signature  # type: ignore[attr-defined]
        declaration.__doc__ = f"""`{layer.name}` that also returns what its gradient needs.

        Operands and attributes are those of `{layer.name}`.

        Returns:
            The results of `{layer.name}`, then tensors (time, hidden, batch): for all steps, {residuals}.
        """
        op = operator(declaration)
        op.traits = layer.traits
        op.extends(layer)
        op.no_vjp(SECOND_ORDER)

        @op.infer
        def _(*types: Type | None, **attributes: Any) -> tuple[Type, ...]:
            ys, *states = layer.infer_types(list(types), attributes)
            time, batch, _ = ys.shape
            return ys, *states, *(ys.with_shape((time, states[-1].shape[1], batch)),) * (self.gates + self.extras)

        op.kernel(functools.partial(self.run, with_gates=True))
        op.onnx(functools.partial(self.write, with_gates=True))
        return op

    def gradients(
        self, operands: Operands, ys: Any, g_gates: tuple[Any, Any], g_states: Sequence[Any], *, reverse: bool
    ) -> tuple[Any, ...]:
        """Return the cotangents of the operands up to `bias_hh`; those of weights and of `x` as functions.

        Args:
            operands: the operands.
            ys: the outputs of all steps.
            g_gates: cotangents of `weight_ih x + bias_ih` and of `weight_hh h + bias_hh` of all steps.
            g_states: cotangents of the initial states.
            reverse: see `lstm`.
        """
        x, states, weight_ih, _, bias_ih, bias_hh, _, lengths = operands
        previous = previous_outputs(ys, states[0], lengths, reverse)
        g_x, *others = operand_gradients(*g_gates, x, previous, weight_ih, bias_ih, bias_hh)
        return g_x, *g_states, *others
