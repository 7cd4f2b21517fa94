"""The parts of a program that are affine: what they compute from one value is a product with weights, plus a bias."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ....runtime.errors import CellbridgeError
from ....runtime.ir.program import Program, part_of
from ....runtime.ir.types import Node, Value, is_floating
from ....runtime.ops.registry import get
from ....runtime.programs.interpreter import execute
from ...sides.records import Array

LINEAR = frozenset(("batch_norm", "reduce_sum", "reduce_mean", "avg_pool"))
"""Ops beside products that are affine in the first operand, if the others are stored."""
SAMPLES = 2
"""Random tensors on which affine functions are compared: those that agree on two differ with probability zero."""


@dataclass(frozen=True)
class AffinePart:
    """Nodes that compute a value from another one.

    Attributes:
        source: the value that they are given; None if all that they use is stored.
        result: the value that they compute.
        nodes: the nodes, in order.
        stored: the parameters, buffers and constants that they use.
    """

    source: Value | None
    result: Value
    nodes: tuple[Node, ...]
    stored: frozenset[Value]

    def program(self, owner: Program) -> Program:
        """Return the nodes, which are some of a program's, as a program of their own."""
        return part_of(owner, self.nodes, () if self.source is None else (self.source,), (self.result,))

    @property
    def shapes(self) -> tuple[tuple[int, ...], tuple[int, ...]] | None:
        """The shapes of source and result; None if they aren't known, or there is no source."""
        sizes = (None if self.source is None else self.source.type.sizes), self.result.type.sizes
        return None if sizes[0] is None or sizes[1] is None else (sizes[0], sizes[1])

    def images(self, owner: Program, order: tuple[int, ...] = ()) -> list[Array]:
        """Return what the part, which is one of a program, maps random tensors to; nothing if it can't be run.

        With an order of axes, the tensors are those of a source that has the axes of the part's in this order.
        """
        assert self.shapes is not None, "it is a function of its source, and of known shapes"
        generator = np.random.default_rng(0)
        wide = self.program(owner).astype("float64")
        shape = self.shapes[0]
        order = order or tuple(range(len(shape)))
        sizes = [shape[axis] for axis in order]
        tensors = [generator.standard_normal(sizes).transpose(np.argsort(order)) for _ in range(SAMPLES)]
        try:
            return [execute(wide, [tensor])[0] for tensor in tensors]
        except CellbridgeError:  # a size that only a run determines
            return []


class AffineParts:
    """Finds the affine parts of a program without boundaries.

    Args:
        program: the program.
    """

    def __init__(self, program: Program) -> None:
        self.program = program
        stored = set(program.constant_data)
        self._source: dict[Value, Value | None] = dict.fromkeys(stored)
        self._source |= {value: value for value in program.inputs}
        for node in program.nodes:
            for value in node.outputs:
                self._source[value] = self._source_of(node, value)

    def using(self, stored_values: Collection[Value]) -> Iterator[AffinePart]:
        """Yield the parts that use one of these stored values, in order of what they compute.

        A part that computes something else from its source first, such as a multiple, is yielded without that, too.
        """
        using = set(stored_values)
        for node in self.program.nodes:
            value = node.outputs[0]
            if self._source[value] is not value and is_floating(value.dtype) and not using.isdisjoint(node.inputs):
                using.add(value)
                part = self._part(value)
                yield part
                if (nearer := self._from_first_use(part, using)) is not None:
                    yield nearer

    def is_for_weights(self, stored: Value) -> bool:
        """Whether a stored value is used, other than moved, to compute weights alone."""
        users = [node for node in self.program.nodes if stored in node.inputs]
        return bool(users) and all(
            self._source[node.outputs[0]] is None and not get(node.op).traits.moves for node in users
        )

    def is_used_alone(self, part: AffinePart) -> bool:
        """Whether nothing else uses what a part computes from its source with weights on the way.

        One product for keys and values isn't a part of the keys alone.
        """
        weighted = set(part.stored)
        for node in part.nodes:
            if not weighted.isdisjoint(node.inputs):
                weighted.update(node.outputs)
        between = {value for value in weighted if self._source[value] is not None and value is not part.result}
        own = set(part.nodes)
        uses = (value for node in self.program.nodes if node not in own for value in node.inputs)
        return between.isdisjoint((*self.program.outputs, *uses))

    def _source_of(self, node: Node, value: Value) -> Value | None:
        operands = [operand for operand in node.inputs if operand is not None]
        varying = [operand for operand in operands if self._source[operand] is not None]
        traits = get(node.op).traits
        if not varying and not traits.draws:
            return None
        sources = {self._source[operand] for operand in varying}
        if len(sources) != 1 or len(node.outputs) != 1 or not is_floating(value.dtype):
            return value
        is_single = len(varying) == 1
        first = is_single and varying[0] is operands[0]
        is_affine = (
            node.op in ("add", "sub", "neg")
            or traits.moves == "several"
            or (is_single and (traits.products or node.op == "mul"))
            or (first and (node.op in LINEAR or node.op == "div" or traits.moves == "first"))
        )
        return sources.pop() if is_affine else value

    def _from_first_use(self, part: AffinePart, using: AbstractSet[Value]) -> AffinePart | None:
        """Return a part from the value that it multiplies on; None if that is its source, or there are several."""
        operands = {
            value
            for node in part.nodes
            if not using.isdisjoint(node.inputs)
            for value in node.inputs
            if value is not None and value not in using and self._source[value] is not None
        }
        if part.source is None or len(operands) != 1 or part.source in operands:
            return None
        nearer = self._part(part.result, operands.pop())
        return None if any(part.source in node.inputs for node in nearer.nodes) else nearer

    def _part(self, value: Value, source: Value | None = None) -> AffinePart:
        """Return the nodes between a value and its source, or another value on the way."""
        source = self._source[value] if source is None else source
        reached: set[Value] = set()
        waiting = [value]
        while waiting:
            current = waiting.pop()
            if current in reached or current is source:
                continue
            reached.add(current)
            node = self._producers.get(current)
            waiting += [operand for operand in node.inputs if operand is not None] if node is not None else []
        nodes = [node for node in self.program.nodes if not reached.isdisjoint(node.outputs)]
        stored = frozenset(v for v in reached if v in self.program.constant_data)
        return AffinePart(source, value, tuple(nodes), stored)

    @cached_property
    def _producers(self) -> dict[Value, Node]:
        return {value: node for node in self.program.nodes for value in node.outputs}
