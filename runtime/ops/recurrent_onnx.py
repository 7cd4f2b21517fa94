"""How recurrent layers read in ONNX: the standard operators, and Scan where those don't serve.

Within a Scan, tensors are (hidden, batch): a step multiplies a weight, as it lies in memory, by a narrow matrix, which
ONNX Runtime does two to three times as fast as it multiplies a narrow matrix by a transposed weight.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from ..ir.dims import Dim
from ..ir.types import BOOL, INT64
from .float64_forms import Writer
from .registry import OnnxGraph, Type


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


class Steps:
    """A layer's walk over time as one Scan-21.

    Args:
        graph: what to write to.
        type: any tensor of the layer: its dtype is theirs.
        time: number of steps.
        batch: number of sequences.
        lengths: the integers (batch,) that tell how many steps each of them has; `""`: all have all.
    """

    def __init__(self, graph: OnnxGraph, type: Type, time: Dim, batch: Dim, lengths: str) -> None:
        self.graph = graph
        self.type = type
        self.time = time
        self.batch = batch
        self.lengths = lengths

    def of(self, size: Dim) -> Type:
        """The type of a tensor of one step, (size, batch)."""
        return self.type.with_shape((size, self.batch))

    def zeros(self, size: Dim) -> str:
        """Zeros of that type."""
        zero = self.graph.constant(0.0, self.type.dtype)
        return str(self.graph.op("Expand", zero, self.graph.dims((size, self.batch))))

    def bias(self, *biases: str) -> str:
        """The sum of the biases that are present, for each sequence, (size, batch); `""` if none is.

        A step adds it faster than it is added to all steps at once: what a step works on stays in the cache.
        """
        graph, present = self.graph, [bias for bias in biases if bias]
        if not present:
            return ""
        (size,) = graph.type(present[0]).shape
        bias = functools.reduce(lambda a, b: str(graph.op("Add", a, b)), present)
        column = graph.op("Unsqueeze", bias, graph.constant([1], INT64))
        return str(graph.op("Expand", column, graph.dims((size, self.batch))))

    def apart(self, weight: str) -> tuple[str, str]:
        """A weight (k, n) as the left factor of a step's product, and zeros to put below the right one (`""`: none).

        The left factor is the transposed weight, (n, k). Rows that begin a multiple of 4 KiB apart share the lines of
        a cache of 32 KiB, and ONNX Runtime reads twelve rows at a time. Where k makes them do so, it is (n, k + 16),
        with columns of zeros, and (16, batch) zeros are to be put below the (k, batch) that it multiplies: that
        product takes three quarters of the time.
        """
        size = self.graph.type(weight).shape[0]
        if not isinstance(size, int) or size * 4 % 4096:
            return transposed(self.graph, weight), ""
        zeros = self.graph.constant([0, 0, 16, 0], INT64)
        return transposed(self.graph, self.graph.op("Pad", weight, zeros)), self.zeros(16)

    def forward(
        self,
        step: Callable[..., tuple[Sequence[str], Sequence[str]]],
        x: str,
        weight_ih: str,
        states: Sequence[str],
        residuals: Sequence[Dim] = (),
        *,
        reverse: bool,
        name: str,
    ) -> tuple[str, ...]:
        """Write the walk of a layer, as `recurrent.walk` computes it.

        Args:
            step: `step(writer, from_input, *states)` writes a step: the new states, the first of which is its output,
                and the residuals.
            x: (time, batch, features).
            weight_ih: (rows, features), whose product with the input of a step is its `from_input`, (rows, batch).
            states: before the first step, (batch, n) each.
            residuals: sizes of what the backward pass needs of each step, (size, batch).
            reverse: walk from the last step to the first.
            name: of the subgraph.

        Returns:
            The outputs of all steps, (time, batch, n), the last states, and the residuals of all steps, (time, size,
            batch).
        """
        graph, sizes = self.graph, [self.graph.type(state).shape[1] for state in states]

        def write(w: Writer, valid: str, *tensors: str) -> tuple[Sequence[str], Sequence[str]]:
            *before, from_input = tensors
            new, of_step = step(w, from_input, *before)
            if not valid:
                return new, (new[0], *of_step)
            after = [w("Where", valid, *pair) for pair in zip(new, before, strict=True)]
            return after, (w("Where", valid, new[0], 0.0), *of_step)

        first = [(transposed(graph, state), size) for state, size in zip(states, sizes, strict=True)]
        from_input = graph.op("MatMul", weight_ih, batch_last(graph, x)), graph.type(weight_ih).shape[0]
        results = self.walk(write, first, [from_input], [sizes[0], *residuals], reverse=reverse, name=name)
        last, ys, of_steps = results[: len(states)], results[len(states)], results[len(states) + 1 :]
        return batch_last(graph, ys), *(transposed(graph, state) for state in last), *of_steps

    def backward(
        self,
        step: Callable[..., tuple[Sequence[str], Sequence[str]]],
        g_ys: str,
        g_states: Sequence[tuple[str, Dim]],
        of_steps: Sequence[tuple[str, Dim]],
        rows: Sequence[Dim],
        *,
        reverse: bool,
        name: str,
    ) -> tuple[str, ...]:
        """Write the walk back over the steps of `forward`, as `recurrent.walk_back` computes it.

        Args:
            step: `step(writer, *g_states, *of_step)` takes the cotangents of the states after a step, that of its
                output included, and writes those of the states before it, and rows to be stacked.
            g_ys: cotangent of the outputs of all steps, (time, batch, n); `""`: zeros.
            g_states: cotangents of the last states, (batch, n) each, with n; `""`: zeros.
            of_steps: (time, size, batch), what each step takes its slice of, with the sizes.
            rows: sizes of the rows.
            reverse: whether the layer walked from the last step to the first.
            name: of the subgraph.

        Returns:
            The rows of all steps, (time, batch, size), and the cotangents of the states before the first step.
        """
        graph, count = self.graph, len(g_states)

        def write(w: Writer, valid: str, *tensors: str) -> tuple[Sequence[str], Sequence[str]]:
            after, of_step = tensors[:count], tensors[count : count + len(of_steps)]
            of_output = w("Add", after[0], tensors[-1]) if g_ys else after[0]
            before, stacked = step(w, of_output, *after[1:], *of_step)
            if not valid:
                return before, stacked
            before = [w("Where", valid, *pair) for pair in zip(before, after, strict=True)]
            return before, [w("Where", valid, row, 0.0) for row in stacked]

        last = [(transposed(graph, state) if state else self.zeros(size), size) for state, size in g_states]
        slices = [*of_steps, *([(batch_last(graph, g_ys), g_states[0][1])] if g_ys else [])]
        results = self.walk(write, last, slices, rows, reverse=not reverse, name=name)
        first, all_rows = results[:count], results[count:]
        return *(batch_last(graph, row) for row in all_rows), *(transposed(graph, state) for state in first)

    def walk(
        self,
        step: Callable[..., tuple[Sequence[str], Sequence[str]]],
        states: Sequence[tuple[str, Dim]],
        slices: Sequence[tuple[str, Dim]],
        rows: Sequence[Dim],
        *,
        reverse: bool,
        name: str,
    ) -> tuple[str, ...]:
        """Write the Scan: the last states, then the rows of all steps, (time, size, batch).

        Args:
            step: `step(writer, valid, *states, *slices)` writes a step: new states, and rows to be stacked. `valid`
                says which sequences the step is within, (1, batch); `""`: all.
            states: what the first step begins with, with the number of features of each.
            slices: (time, size, batch), what each step takes its slice of, with the sizes.
            rows: sizes of the rows.
            reverse: walk from the last step to the first.
            name: of the subgraph.
        """
        of_states, of_slices = ([self.of(size) for _, size in tensors] for tensors in (states, slices))
        given = [tensor for tensor, _ in (*states, *slices)]
        if self.lengths:
            given.append(self._valid())
            of_slices.append(Type(BOOL, (1, self.batch)))

        def write(graph: OnnxGraph, *inputs: str) -> tuple[str, ...]:
            *tensors, valid = inputs if self.lengths else (*inputs, "")
            new, stacked = step(Writer(graph, self.type.dtype), valid, *tensors)
            return *new, *stacked

        return tuple(
            self.graph.op(
                "Scan",
                *given,
                outputs=len(states) + len(rows),
                body=self.graph.body(name, of_states + of_slices, [*of_states, *map(self.of, rows)], write),
                num_scan_inputs=len(of_slices),
                scan_input_directions=[int(reverse)] * len(of_slices),
                scan_output_directions=[int(reverse)] * len(rows),
            )
        )

    def _valid(self) -> str:
        """Whether each step is within its sequence, (time, 1, batch)."""
        graph = self.graph
        end = graph.op("Squeeze", graph.dims((self.time,)))
        times = graph.op("Range", graph.constant(0, INT64), end, graph.constant(1, INT64))
        times = graph.op("Unsqueeze", times, graph.constant([1, 2], INT64))
        return str(graph.op("Less", times, graph.cast(self.lengths, INT64)))


def batch_last(graph: OnnxGraph, x: str) -> str:
    """(time, batch, n) as (time, n, batch), and the other way round."""
    return str(graph.op("Transpose", x, perm=[0, 2, 1]))


def transposed(graph: OnnxGraph, matrix: str) -> str:
    """A matrix with its axes exchanged: a weight, or a state (batch, n)."""
    return str(graph.op("Transpose", matrix, perm=[1, 0]))
