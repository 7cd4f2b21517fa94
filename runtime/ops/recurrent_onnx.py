"""How recurrent layers read in ONNX: the standard operators, and steps written out where those don't serve."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from ..errors import ConversionError
from .registry import OnnxGraph


class Weights(NamedTuple):
    """ONNX names of a layer's weights and biases (`""` for an absent one), as the ops take them."""

    ih: str
    hh: str
    bias_ih: str
    bias_hh: str


def standard_operator(
    graph: OnnxGraph,
    op_type: str,
    order: str,
    given: str,
    x: str,
    states: tuple[str, ...],
    weights: Weights,
    lengths: str,
    reverse: bool,
    **attributes: Any,
) -> tuple[str, ...]:
    """A node LSTM, GRU or RNN of opset 14, whose gates stand in `order`, for weights whose gates stand in `given`."""

    def reordered(weight: str) -> str:
        if order == given:
            return weight
        parts = graph.op("Split", weight, outputs=len(given), axis=0, num_outputs=len(given))
        return str(graph.op("Concat", *(parts[given.index(gate)] for gate in order), axis=0))

    first, direction_axis = graph.constant(np.array([0])), graph.constant(np.array([1]))
    rows, hidden = graph.type(weights.ih).shape[0], graph.type(states[0]).shape[1]
    bias = ""
    if weights.bias_ih or weights.bias_hh:
        zero = graph.op("Expand", graph.constant(0.0, graph.type(x).dtype), graph.dims((rows,)))
        bias = graph.op("Concat", *(reordered(b) if b else zero for b in (weights.bias_ih, weights.bias_hh)), axis=0)
        bias = graph.op("Unsqueeze", bias, first)
    ys, *last = graph.op(
        op_type,
        x,
        *(graph.op("Unsqueeze", reordered(weight), first) for weight in (weights.ih, weights.hh)),
        bias,
        graph.cast(lengths, np.int32) if lengths else "",
        *(graph.op("Unsqueeze", state, first) for state in states),
        outputs=1 + len(states),
        direction="reverse" if reverse else "forward",
        hidden_size=hidden,
        **attributes,
    )
    return graph.op("Squeeze", ys, direction_axis), *(graph.op("Squeeze", state, first) for state in last)


def unrolled(
    graph: OnnxGraph,
    step: Callable[..., tuple[str, ...]],
    x: str,
    states: tuple[str, ...],
    weights: Weights,
    lengths: str,
    reverse: bool,
) -> tuple[str, ...]:
    """`step(from_input, from_state, *states)`, which returns the new states, written out for each step of time.

    `from_input` is `weight_ih x + bias_ih` and `from_state` is `weight_hh h + bias_hh`, with h the first of the states.
    For what ONNX has no operator for (projections) or ONNX Runtime no kernel (float64).
    """
    time = graph.type(x).shape[0]
    if not isinstance(time, int):
        raise ConversionError(
            f"a recurrent layer over a symbolic number of steps ({time}) has an ONNX form only without projection and "
            "not in float64: give the layer a fixed number of steps, or convert it in float32"
        )
    recurrent = transposed(graph, weights.hh)
    projected = affine(graph, x, transposed(graph, weights.ih), weights.bias_ih)
    first = graph.constant(np.array([0]))
    outputs = {}
    for t in reversed(range(time)) if reverse else range(time):
        from_input = graph.op("Gather", projected, graph.constant(np.array(t)), axis=0)
        new = step(from_input, affine(graph, states[0], recurrent, weights.bias_hh), *states)
        y = new[0]
        if lengths:
            valid = graph.op("Less", graph.constant(np.array(t), graph.type(lengths).dtype), lengths)
            valid = graph.op("Unsqueeze", valid, graph.constant(np.array([1])))
            y = graph.op("Where", valid, y, graph.constant(0.0, graph.type(x).dtype))
            new = tuple(graph.op("Where", valid, *pair) for pair in zip(new, states, strict=True))
        states = new
        outputs[t] = graph.op("Unsqueeze", y, first)
    return graph.op("Concat", *(outputs[t] for t in range(time)), axis=0), *states


def transposed(graph: OnnxGraph, weight: str) -> str:
    """`weight^T`."""
    return str(graph.op("Transpose", weight, perm=[1, 0]))


def affine(graph: OnnxGraph, x: str, matrix: str, bias: str = "") -> str:
    """`x matrix + bias`."""
    product = graph.op("MatMul", x, matrix)
    return str(graph.op("Add", product, bias) if bias else product)
