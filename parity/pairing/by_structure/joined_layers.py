"""Layers that are called once with joined data, of which each part is taken later: they are called with each part.

A network may stack the results of its blocks, or join two images, and call a head for all of them, where a port calls
it for each one. That is the same if nothing on the way computes across the parts.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from ....runtime.ir.program import Program
from ....runtime.ir.types import Node, Value
from ....runtime.ops.registry import get
from .rewriting import STANDARDS, Rewriting, dependent_values, shape_of

MOST_PARTS = 16
"""The most parts for which layers are called by themselves."""
OF_SAMPLES = (
    "conv",
    "conv_transpose",
    "batch_norm",
    "group_norm",
    "max_pool",
    "avg_pool",
    "adaptive_avg_pool",
    "resize",
)
"""Ops that compute each element along axis 0 by itself."""
OF_ROWS = ("linear", "matmul", "softmax")
"""Ops that compute each vector along the last axis by itself."""


@dataclass(frozen=True)
class _Step:
    """What is done with the parts of a joined value.

    Attributes:
        axis: the axis along which parts of the result are joined.
        attributes: of the node for one part.
        part: the number of the part that the result is; None if it is joined, too.
    """

    axis: int
    attributes: Mapping[str, Any]
    part: int | None = None


def with_layers_apart(program: Program) -> Program:
    """Return a program of known sizes in which layers are called with each part that is joined, and taken later."""
    return _Apart(program).program()


class _Apart(Rewriting):
    def __init__(self, program: Program) -> None:
        super().__init__(program)
        self.dependent = dependent_values(program)
        steps: dict[Node, _Step] = {}
        joins: set[Node] = set()
        for number, node in enumerate(program.nodes):
            if node not in steps and _joins_alike(node, self.static):
                plan = self._plan(number, node)
                joins |= {node} if plan else set()
                steps |= {} if steps.keys() & plan.keys() else plan
        self.parts: dict[Value, list[Value]] = {}
        for node in program.nodes:
            if node in joins and not any(value in self.parts for value in node.inputs):
                self.parts[node.outputs[0]] = [value for value in node.inputs if value is not None]
            elif node in steps:
                self._take_apart(node, steps[node])
            else:
                self.nodes.append(node)

    def _plan(self, number: int, join: Node) -> dict[Node, _Step]:
        """Return what is done with the parts; nothing if the whole is used, no part is taken, or no layer is called."""
        count = len(join.inputs)
        cuts = {join.outputs[0]: join.attributes["axis"] % len(join.outputs[0].shape)}
        steps: dict[Node, _Step] = {}
        if join.outputs[0] in self.before.outputs:
            return {}
        for node in self.before.nodes[number + 1 :]:
            if cuts.keys().isdisjoint(node.inputs):
                continue
            step = self._step(node, cuts, count)
            if step is None or (step.part is None and node.outputs[0] in self.before.outputs):
                return {}
            steps[node] = step
            if step.part is None:
                cuts[node.outputs[0]] = step.axis
        calls_layer = any(value in self.dependent for node in steps for value in node.inputs if value in self.static)
        return steps if calls_layer and any(step.part is not None for step in steps.values()) else {}

    def _step(self, node: Node, cuts: Mapping[Value, int], count: int) -> _Step | None:
        """Return what a node does with parts; None if it computes across them."""
        if len(node.outputs) != 1:
            return None
        if get(node.op).traits.elementwise and not get(node.op).traits.draws:
            return _elementwise(node, cuts)
        data = node.inputs[0]
        if data is None or data not in cuts or any(value in cuts for value in node.inputs[1:]):
            return None
        axis, rank = cuts[data], len(data.shape)
        if node.op in OF_SAMPLES:
            return _Step(axis, node.attributes) if axis == 0 else None
        if node.op in OF_ROWS:
            along = node.attributes.get("axis", -1) % rank
            weight = node.inputs[1] if node.op == "matmul" else None
            is_matrix = weight is None or len(weight.shape) == 2
            return _Step(axis, node.attributes) if axis != along and is_matrix else None
        if node.op in STANDARDS:
            return _Step(axis, node.attributes) if axis < rank - node.attributes["axes_count"] else None
        move = _MOVES.get(node.op)
        return None if move is None else move(node, axis, count)

    def _take_apart(self, node: Node, step: _Step) -> None:
        """Add a node for each part, or take the part that a node's result is."""
        (output,) = node.outputs
        if step.part is not None:
            assert node.inputs[0] is not None, "it is sliced"
            part = self.parts[node.inputs[0]][step.part]
            self.add(node, "reshape", (part,), output, shape=output.shape)
            return
        count = next(len(self.parts[value]) for value in node.inputs if value in self.parts)
        shape = list(shape_of(output))
        shape[step.axis] //= count
        self.parts[output] = [
            self.add(
                node,
                node.op,
                tuple(self.parts[value][number] if value in self.parts else value for value in node.inputs),
                output.type.with_shape(tuple(shape)),
                **step.attributes,
            )
            for number in range(count)
        ]


def _joins_alike(node: Node, static: frozenset[Value]) -> bool:
    """Whether a node joins data of one shape."""
    if node.op != "concat" or not 1 < len(node.inputs) <= MOST_PARTS or any(v in static for v in node.inputs):
        return False
    return len({value.shape for value in node.inputs if value is not None}) == 1


def _elementwise(node: Node, cuts: Mapping[Value, int]) -> _Step | None:
    rank = len(node.outputs[0].shape)
    axes = {rank - len(value.shape) + cuts[value] for value in node.inputs if value is not None and value in cuts}
    if len(axes) != 1:
        return None
    (axis,) = axes
    for value in node.inputs:
        own = -1 if value is None else axis - rank + len(value.shape)
        if value is not None and value not in cuts and own >= 0 and value.shape[own] != 1:
            return None
    return _Step(axis, node.attributes)


def _transpose(node: Node, axis: int, count: int) -> _Step:
    return _Step(node.attributes["permutation"].index(axis), node.attributes)


def _reshape(node: Node, axis: int, count: int) -> _Step | None:
    """Return what is done if each part has a section of one axis of the result."""
    assert node.inputs[0] is not None, "it has data"
    before, after = shape_of(node.inputs[0]), shape_of(node.outputs[0])
    for number, size in enumerate(after):
        if math.prod(after[:number]) == math.prod(before[:axis]) and size % count == 0:
            return _Step(number, {"shape": (*after[:number], size // count, *after[number + 1 :])})
    return None


def _slice(node: Node, axis: int, count: int) -> _Step | None:
    """Return which part is taken, or that of each part as much is taken along other axes."""
    assert node.inputs[0] is not None, "it has data"
    axes, size = node.attributes["axes"], shape_of(node.inputs[0])[axis]
    if axis not in axes:
        return _Step(axis, node.attributes)
    place = axes.index(axis)
    start, stop, step = slice(*(node.attributes[key][place] for key in ("starts", "stops", "steps"))).indices(size)
    is_part = step == 1 and len(axes) == 1 and stop - start == size // count and start % (size // count) == 0
    return _Step(axis, {}, start // (size // count)) if is_part else None


_MOVES: dict[str, Callable[[Node, int, int], _Step | None]] = {
    "transpose": _transpose,
    "reshape": _reshape,
    "slice": _slice,
}
