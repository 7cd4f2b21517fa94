"""Lowering of connectionist temporal classification to ONNX: a Scan over time for alphas, a reverse one for betas.

See `ctc` for the definitions of these and of states.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ..ir.dims import Dim
from ..ir.types import BOOL, INT64, at_least_float32
from .common import LAST
from .float64_forms import Writer
from .reduction_onnx import log_of_sum
from .registry import OnnxGraph

NEVER = -np.inf
"""The log probability of an impossible event."""


class States:
    """The states of each target, as ONNX tensors; half precision is computed in float32.

    Args:
        graph: the graph to emit to.
        log_probs: (time, batch, classes).
        targets: (batch, length).
        target_lengths: (batch,).
        blank: the class that means "no class".

    Attributes:
        places: the class of each state at each step, (time, batch, states).
        emissions: log probabilities of these classes, (time, batch, states).
        skippable: whether the state before each may be skipped, (batch, states).
    """

    def __init__(self, graph: OnnxGraph, log_probs: str, targets: str, target_lengths: str, blank: int) -> None:
        self.graph = graph
        self.type = (type := graph.type(log_probs)).with_dtype(at_least_float32(type.dtype))
        (self.time, self.batch, _), length = self.type.shape, graph.type(targets).shape[1]
        self.count: Dim = length * 2 + 1
        self.w, self.integers = Writer(graph, self.type.dtype), Writer(graph, INT64)
        integers = self.integers
        self.lengths = self._column(target_lengths)
        within = integers("Less", self._numbers(length), self.lengths)
        each = integers("Where", within, graph.cast(targets, INT64), blank)
        blanks = integers("Expand", blank, graph.dims((self.batch, length, 1)))
        pairs = graph.op("Concat", blanks, integers("Unsqueeze", each, graph.constant([2], INT64)), axis=2)
        pairs = integers("Reshape", pairs, graph.dims((self.batch, length * 2)))
        classes = graph.op("Concat", pairs, integers("Expand", blank, graph.dims((self.batch, 1))), axis=1)
        two_before = columns(graph, graph.op("Concat", self._edge(integers, blank), classes, axis=1), 0, -2)
        is_blank, repeats = integers("Equal", classes, blank), integers("Equal", classes, two_before)
        self.skippable = integers("Not", integers("Or", is_blank, repeats))
        self.places = integers("Expand", classes, graph.dims((self.time, self.batch, self.count)))
        emissions = graph.op("GatherElements", log_probs, self.places, axis=2)
        self.emissions = graph.cast(emissions, self.type.dtype)

    def alphas(self) -> str:
        """Return the alphas, (time, batch, states)."""
        edge, first_place = self._edge(self.w, NEVER), self.graph.constant(0, INT64)
        # before the first step, all paths are in the first state
        beginning = self.w("Where", self.integers("Equal", self._numbers(self.count), first_place), 0.0, NEVER)

        def step(graph: OnnxGraph, before: str, emission: str) -> tuple[str, str]:
            w, padded = Writer(graph, self.type.dtype), graph.op("Concat", edge, before, axis=1)
            skipping = w("Where", self.skippable, columns(graph, padded, 0, -2), NEVER)
            now = w("Add", log_of_sum(w, before, columns(graph, padded, 1, -1), skipping), emission)
            return now, w("Identity", now)

        return self._scan_time("alphas", beginning, step, reverse=False)

    def betas(self, input_lengths: str) -> str:
        """Return the betas, (time, batch, states), without the emission of the step itself."""
        w, integers, edge = self.w, self.integers, self._edge(self.w, NEVER)
        is_last = integers("Equal", self._steps(), integers("Sub", self._column(input_lengths), 1))
        end, before = (integers("Equal", self._numbers(self.count), position) for position in self._ends())
        final = w("Where", w("Or", end, before), 0.0, NEVER)
        no_skips = self.graph.cast(self._edge(integers, 0), BOOL)
        skippable = columns(self.graph, self.graph.op("Concat", self.skippable, no_skips, axis=1), 2, LAST)

        def step(graph: OnnxGraph, after: str, emission: str, ends: str) -> tuple[str, str]:
            w, padded = Writer(graph, self.type.dtype), graph.op("Concat", after, edge, axis=1)
            skipping = w("Where", skippable, columns(graph, padded, 2, LAST), NEVER)
            now = w("Where", ends, final, log_of_sum(w, after, columns(graph, padded, 1, -1), skipping))
            return w("Add", now, emission), now

        never = self.graph.constant(NEVER, self.type.dtype)
        return self._scan_time("betas", never, step, is_last, reverse=True)

    def totals(self, alphas: str, input_lengths: str) -> str:
        """Return the log probabilities of the targets, (batch, 1)."""
        graph, w, integers, steps = self.graph, self.w, self.integers, self._column(input_lengths)
        last = integers("Max", integers("Sub", steps, 1), 0)
        last = integers("Expand", last, graph.dims((1, self.batch, self.count)))
        last = w("Squeeze", graph.op("GatherElements", alphas, last, axis=0), graph.constant([0], INT64))
        end, before = (graph.op("GatherElements", last, position, axis=1) for position in self._ends())
        empty = integers("Equal", self.lengths, 0)
        total = log_of_sum(w, end, w("Where", empty, NEVER, before))
        return w("Where", integers("Greater", steps, 0), total, w("Where", empty, 0.0, NEVER))

    def within(self, input_lengths: str) -> str:
        """Return whether each step is within its sequence, (time, batch, 1)."""
        return self.integers("Less", self._steps(), self._column(input_lengths))

    def _ends(self) -> tuple[str, str]:
        """Return the two states in which a path may end, (batch, 1); for an empty target, the same state twice."""
        end = self.integers("Mul", self.lengths, 2)
        return end, self.integers("Max", self.integers("Sub", end, 1), 0)

    def _edge(self, w: Writer, fill: float) -> str:
        """Return two states beyond the existing ones, (batch, 2), in the dtype of the writer."""
        return w("Expand", fill, self.graph.dims((self.batch, 2)))

    def _column(self, lengths: str) -> str:
        return self.integers("Unsqueeze", self.graph.cast(lengths, INT64), self.graph.constant([1], INT64))

    def _steps(self) -> str:
        """Return the indices of the steps, (time, 1, 1)."""
        return self.integers("Unsqueeze", self._numbers(self.time), self.graph.constant([1, 2], INT64))

    def _numbers(self, size: Dim) -> str:
        """Return the integers from 0 to `size`, exclusive."""
        end = self.integers("Squeeze", self.graph.dims((size,)))
        return self.integers("Range", 0, end, 1)

    def _scan_time(
        self, name: str, first: str, step: Callable[..., tuple[str, str]], *flags: str, reverse: bool
    ) -> str:
        """Return the second result of each step, (time, batch, states); a step gets the emissions and `flags`."""
        row, flag = (self.type.with_shape((self.batch, size)) for size in (self.count, 1))
        scanned = [row, *[flag.with_dtype(BOOL)] * len(flags)]
        _, rows = self.graph.op(
            "Scan",
            self.w("Expand", first, self.graph.dims((self.batch, self.count))),
            self.emissions,
            *flags,
            outputs=2,
            body=self.graph.body(name, [row, *scanned], [row, row], step),
            num_scan_inputs=len(scanned),
            scan_input_directions=[int(reverse)] * len(scanned),
            scan_output_directions=[int(reverse)],
        )
        return str(rows)


def columns(graph: OnnxGraph, x: str, begin: int, end: int) -> str:
    """Return the columns of a matrix from `begin` to `end`, exclusive."""
    return str(graph.op("Slice", x, *(graph.constant([n], INT64) for n in (begin, end, 1))))
