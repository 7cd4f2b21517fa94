"""Lowering of recurrent layers: to the standard ONNX operators where they suffice, otherwise to Scan.

Within a Scan, tensors are (hidden, batch). A step then multiplies a weight in its stored layout by a narrow matrix.
ONNX Runtime does this two to three times as fast as it multiplies a narrow matrix by a transposed weight.
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


class WeightNames(NamedTuple):
    """ONNX names of a layer's weights and biases (`""` for an absent one), in the order of the ops' operands."""

    ih: str
    hh: str
    bias_ih: str
    bias_hh: str


def standard_operator(
    graph: OnnxGraph,
    op_type: str,
    onnx_order: str,
    op_order: str,
    x: str,
    states: tuple[str, ...],
    weights: WeightNames,
    lengths: str,
    reverse: bool,
    **attributes: Any,
) -> tuple[str, ...]:
    """Emit LSTM-14, GRU-14 or RNN-14; return the names of the outputs of all steps and of the last states.

    Args:
        graph: the graph to write to.
        op_type: "LSTM", "GRU" or "RNN".
        onnx_order: the gates of the ONNX operator, one letter each.
        op_order: the gates of the op, in the order of its weights.
        x: (time, batch, features).
        states: the initial states, each (batch, n).
        weights: the weights of the op.
        lengths: the number of steps of each sequence; `""` if all run to the end.
        reverse: run from the last step to the first.
        **attributes: further attributes of the ONNX operator.
    """

    def reorder(weight: str) -> str:
        if onnx_order == op_order:
            return weight
        parts = graph.op("Split", weight, outputs=len(op_order), axis=0, num_outputs=len(op_order))
        return str(graph.op("Concat", *(parts[op_order.index(gate)] for gate in onnx_order), axis=0))

    first, direction_axis = graph.constant(np.array([0])), graph.constant(np.array([1]))
    rows, hidden = graph.type(weights.ih).shape[0], graph.type(states[0]).shape[1]
    bias = ""
    if weights.bias_ih or weights.bias_hh:
        zero = graph.op("Expand", graph.constant(0.0, graph.type(x).dtype), graph.dims((rows,)))
        bias = graph.op("Concat", *(reorder(b) if b else zero for b in (weights.bias_ih, weights.bias_hh)), axis=0)
        bias = graph.op("Unsqueeze", bias, first)
    ys, *last = graph.op(
        op_type,
        x,
        *(graph.op("Unsqueeze", reorder(weight), first) for weight in (weights.ih, weights.hh)),
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
    """Writes the recurrence of a layer as one Scan-21.

    Args:
        graph: the graph to write to.
        type: the type of any tensor of the layer; all have the same dtype.
        time: number of steps.
        batch: number of sequences.
        lengths: integers (batch,), the number of steps of each sequence; `""` if all run to the end.
    """

    def __init__(self, graph: OnnxGraph, type: Type, time: Dim, batch: Dim, lengths: str) -> None:
        self.graph = graph
        self.type = type
        self.time = time
        self.batch = batch
        self.lengths = lengths

    def step_type(self, size: Dim) -> Type:
        """The type of a tensor of one step, (size, batch)."""
        return self.type.with_shape((size, self.batch))

    def zeros(self, size: Dim) -> str:
        """Zeros (size, batch)."""
        zero = self.graph.constant(0.0, self.type.dtype)
        return str(self.graph.op("Expand", zero, self.graph.dims((size, self.batch))))

    def bias(self, *biases: str) -> str:
        """The sum of the biases that are present, expanded to (size, batch); `""` if there are none.

        Each step adds it. This is faster than adding it to all steps at once, because a step's data stays in the cache.
        """
        graph, present = self.graph, [bias for bias in biases if bias]
        if not present:
            return ""
        (size,) = graph.type(present[0]).shape
        bias = functools.reduce(lambda a, b: str(graph.op("Add", a, b)), present)
        column = graph.op("Unsqueeze", bias, graph.constant([1], INT64))
        return str(graph.op("Expand", column, graph.dims((size, self.batch))))

    def transposed(self, weight: str) -> Callable[[Writer, str], str]:
        """Return what writes the product of the transpose of a weight (k, n) with a tensor (k, batch) of a step.

        ONNX Runtime reads twelve rows of the left factor at a time. If the rows start a multiple of 4 KiB apart, they
        compete for the same lines of a 32 KiB cache. Then 16 zeros are appended to them, and to the right factor: that
        avoids it, and saves a quarter of the time.
        """
        size = self.graph.type(weight).shape[0]
        if not isinstance(size, int) or size * 4 % 4096:
            left = transpose(self.graph, weight)
            return lambda w, right: w("MatMul", left, right)
        padded = transpose(self.graph, self.graph.op("Pad", weight, self.graph.constant([0, 0, 16, 0], INT64)))
        zeros = self.zeros(16)
        return lambda w, right: w("MatMul", padded, w.graph.op("Concat", right, zeros, axis=0))

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
        """Write the recurrence that `recurrent.run_steps` computes.

        Args:
            step: `step(writer, from_input, *states)` writes a step; it returns the new states, the first of which is
                the output of the step, and the residuals.
            x: (time, batch, features).
            weight_ih: (rows, features); its product with the input of a step is `from_input`, (rows, batch).
            states: the initial states, each (batch, n).
            residuals: sizes of the tensors (size, batch) of each step that the backward pass needs.
            reverse: run from the last step to the first.
            name: the name of the subgraph.

        Returns:
            The outputs of all steps, (time, batch, n), the last states, and the residuals of all steps, each (time,
            size, batch).
        """
        graph, sizes = self.graph, [self.graph.type(state).shape[1] for state in states]

        def write(w: Writer, valid: str, *tensors: str) -> tuple[Sequence[str], Sequence[str]]:
            *before, from_input = tensors
            new, step_residuals = step(w, from_input, *before)
            if not valid:
                return new, (new[0], *step_residuals)
            after = [w("Where", valid, *pair) for pair in zip(new, before, strict=True)]
            return after, (w("Where", valid, new[0], 0.0), *step_residuals)

        first = [(transpose(graph, state), size) for state, size in zip(states, sizes, strict=True)]
        from_input = graph.op("MatMul", weight_ih, batch_last(graph, x)), graph.type(weight_ih).shape[0]
        results = self.write_scan(write, first, [from_input], [sizes[0], *residuals], reverse=reverse, name=name)
        last, ys, all_residuals = results[: len(states)], results[len(states)], results[len(states) + 1 :]
        return batch_last(graph, ys), *(transpose(graph, state) for state in last), *all_residuals

    def backward(
        self,
        step: Callable[..., tuple[Sequence[str], Sequence[str]]],
        g_ys: str,
        g_states: Sequence[tuple[str, Dim]],
        residuals: Sequence[tuple[str, Dim]],
        output_sizes: Sequence[Dim],
        *,
        reverse: bool,
        name: str,
    ) -> tuple[str, ...]:
        """Write the backward recurrence that `recurrent.run_steps_backward` computes.

        Args:
            step: `step(writer, *g_states, *residuals)` writes a step; it takes the cotangents of the states after the
                step, including that of its output, and its slices of the residuals. It returns the cotangents of the
                states before the step, and its outputs.
            g_ys: cotangent of the outputs of all steps, (time, batch, n); `""` for zeros.
            g_states: cotangents of the last states, each (batch, n), `""` for zeros; paired with n.
            residuals: tensors (time, size, batch) from the forward pass, paired with their sizes.
            output_sizes: the size of each output of a step.
            reverse: the direction of the layer, which the backward pass runs against.
            name: the name of the subgraph.

        Returns:
            The outputs of all steps, each (time, batch, size), and the cotangents of the initial states.
        """
        graph, count = self.graph, len(g_states)

        def write(w: Writer, valid: str, *tensors: str) -> tuple[Sequence[str], Sequence[str]]:
            after, step_residuals = tensors[:count], tensors[count : count + len(residuals)]
            g_output = w("Add", after[0], tensors[-1]) if g_ys else after[0]
            before, outputs = step(w, g_output, *after[1:], *step_residuals)
            if not valid:
                return before, outputs
            before = [w("Where", valid, *pair) for pair in zip(before, after, strict=True)]
            return before, [w("Where", valid, output, 0.0) for output in outputs]

        last = [(transpose(graph, state) if state else self.zeros(size), size) for state, size in g_states]
        scan_inputs = [*residuals, *([(batch_last(graph, g_ys), g_states[0][1])] if g_ys else [])]
        results = self.write_scan(write, last, scan_inputs, output_sizes, reverse=not reverse, name=name)
        first, outputs = results[:count], results[count:]
        return *(batch_last(graph, output) for output in outputs), *(transpose(graph, state) for state in first)

    def write_scan(
        self,
        step: Callable[..., tuple[Sequence[str], Sequence[str]]],
        states: Sequence[tuple[str, Dim]],
        scan_inputs: Sequence[tuple[str, Dim]],
        output_sizes: Sequence[Dim],
        *,
        reverse: bool,
        name: str,
    ) -> tuple[str, ...]:
        """Write the Scan; return the last states, then the outputs of all steps, each (time, size, batch).

        Args:
            step: `step(writer, valid, *states, *slices)` writes a step; it returns the new states and its outputs.
                `valid` is a mask (1, batch) of the sequences that haven't ended; `""` if none has ended.
            states: the initial states (size, batch), paired with their sizes.
            scan_inputs: tensors (time, size, batch) that each step gets a slice of, paired with their sizes.
            output_sizes: the size of each output of a step.
            reverse: run from the last step to the first.
            name: the name of the subgraph.
        """
        state_types, slice_types = ([self.step_type(size) for _, size in pairs] for pairs in (states, scan_inputs))
        operands = [tensor for tensor, _ in (*states, *scan_inputs)]
        if self.lengths:
            operands.append(self._mask())
            slice_types.append(Type(BOOL, (1, self.batch)))

        def write(graph: OnnxGraph, *inputs: str) -> tuple[str, ...]:
            *tensors, valid = inputs if self.lengths else (*inputs, "")
            new, outputs = step(Writer(graph, self.type.dtype), valid, *tensors)
            return *new, *outputs

        result_types = [*state_types, *map(self.step_type, output_sizes)]
        return tuple(
            self.graph.op(
                "Scan",
                *operands,
                outputs=len(result_types),
                body=self.graph.body(name, state_types + slice_types, result_types, write),
                num_scan_inputs=len(slice_types),
                scan_input_directions=[int(reverse)] * len(slice_types),
                scan_output_directions=[int(reverse)] * len(output_sizes),
            )
        )

    def _mask(self) -> str:
        """A mask of the steps within each sequence, (time, 1, batch)."""
        graph = self.graph
        end = graph.op("Squeeze", graph.dims((self.time,)))
        times = graph.op("Range", graph.constant(0, INT64), end, graph.constant(1, INT64))
        times = graph.op("Unsqueeze", times, graph.constant([1, 2], INT64))
        return str(graph.op("Less", times, graph.cast(self.lengths, INT64)))


def batch_last(graph: OnnxGraph, x: str) -> str:
    """Transpose (time, batch, n) to (time, n, batch), or back."""
    return str(graph.op("Transpose", x, perm=[0, 2, 1]))


def transpose(graph: OnnxGraph, matrix: str) -> str:
    """Transpose a matrix: a weight, or a state (batch, n)."""
    return str(graph.op("Transpose", matrix, perm=[1, 0]))
