"""Recurrent layers step by step, as a loop over a cell computes them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np

from ....runtime.ir.program import Program
from ....runtime.ir.types import Node, Type, Value
from ....runtime.ops.gru import GRU
from ....runtime.ops.lstm import LSTM
from ....runtime.ops.recurrent_layer import Layer, Operands
from ....runtime.ops.rnn import RNN
from .rewriting import Rewriting, shape_of

LAYERS: dict[str, Layer] = {layer.name: layer for layer in (LSTM, GRU, RNN)}
MOST_STEPS = 512
"""The most steps of a layer that are written one by one."""


def layers_in(program: Program) -> Counter[tuple[str, tuple[bool, ...]]]:
    """Return how many recurrent layers a program has of each op, by which operands they have."""
    return Counter((node.op, tuple(v is not None for v in node.inputs)) for node in program.nodes if node.op in LAYERS)


def with_steps(program: Program) -> Program:
    """Return a program of known sizes with recurrent layers divided into steps, those of sequences of one length."""
    return _Steps(program).program()


class _Steps(Rewriting):
    def __init__(self, program: Program) -> None:
        super().__init__(program)
        for node in program.nodes:
            layer = LAYERS.get(node.op)
            operands = None if layer is None else layer.operands(node.inputs)
            if operands is None or operands.lengths is not None or shape_of(operands.x)[0] > MOST_STEPS:
                self.nodes.append(node)
            else:
                self._divide(node, operands)

    def _divide(self, node: Node, operands: Operands) -> None:
        time, batch, features = shape_of(operands.x)
        states: list[Value] = list(operands.states)
        results: dict[int, Value] = {}
        for t in range(time)[:: -1 if node.attributes["reverse"] else 1]:
            x = self._part(node, operands.x, 0, t, t + 1)
            x = self.add(node, "reshape", (x,), x.type.with_shape((batch, features)), shape=(batch, features))
            states = self._step(node, operands, x, states)
            shape = (1, *shape_of(states[0]))
            results[t] = self.add(node, "reshape", (states[0],), states[0].type.with_shape(shape), shape=shape)
        ys, *last = node.outputs
        self.add(node, "concat", tuple(results[t] for t in range(time)), ys, axis=0)
        for state, value in zip(states, last, strict=True):
            self.add(node, "reshape", (state,), value, shape=shape_of(value))
        # A port may multiply the inputs of all steps at once.
        self._affine(node, operands.x, operands.weight_ih, operands.bias_ih)

    def _step(self, node: Node, operands: Operands, x: Value, states: Sequence[Value]) -> list[Value]:
        """Return the states after a step; the formulas are those of the ops."""
        h = states[0]
        a = self._affine(node, x, operands.weight_ih, operands.bias_ih)
        b = self._affine(node, h, operands.weight_hh, operands.bias_hh)
        gates = LAYERS[node.op].gates
        parts = self._gates(node, a, gates), self._gates(node, b, gates)  # a port may add them gate by gate
        if node.op == "gru":
            r, z = (self._one(node, "sigmoid", self._two(node, "add", parts[0][i], parts[1][i])) for i in (0, 1))
            reset = self._two(node, "mul", r, parts[1][2])
            n = self._one(node, "tanh", self._two(node, "add", parts[0][2], reset))
            rest = self._two(node, "sub", self.constant("1", 1.0, z), z)
            return [self._two(node, "add", self._two(node, "mul", rest, n), self._two(node, "mul", z, h))]
        both = self._two(node, "add", a, b)
        if node.op == "rnn":
            return [self._one(node, node.attributes["nonlinearity"], both)]
        i, f, g, o = (
            self._one(node, function, part)
            for function, part in zip(
                ("sigmoid", "sigmoid", "tanh", "sigmoid"), self._gates(node, both, gates), strict=True
            )
        )
        c = self._two(node, "add", self._two(node, "mul", f, states[1]), self._two(node, "mul", i, g))
        h = self._two(node, "mul", o, self._one(node, "tanh", c))
        return [h if operands.weight_hr is None else self._affine(node, h, operands.weight_hr, None), c]

    def _affine(self, node: Node, x: Value, weight: Value, bias: Value | None) -> Value:
        type = x.type.with_shape((*x.shape[:-1], weight.shape[0]))
        return self.add(node, "linear", (x, weight, bias), type)

    def _gates(self, node: Node, x: Value, count: int) -> list[Value]:
        size = shape_of(x)[-1] // count
        return [self._part(node, x, 1, i * size, (i + 1) * size) for i in range(count)]

    def _part(self, node: Node, x: Value, axis: int, start: int, stop: int) -> Value:
        shape = list(x.shape)
        shape[axis] = stop - start
        bounds = {"starts": (start,), "stops": (stop,), "steps": (1,), "axes": (axis,)}
        return self.add(node, "slice", (x,), x.type.with_shape(tuple(shape)), **bounds)

    def _one(self, node: Node, op: str, x: Value) -> Value:
        return self.add(node, op, (x,), x.type)

    def _two(self, node: Node, op: str, a: Value, b: Value) -> Value:
        shape = np.broadcast_shapes(shape_of(a), shape_of(b))
        return self.add(node, op, (a, b), Type(a.type.dtype, shape))
