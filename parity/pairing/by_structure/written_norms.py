"""Batch norms that code writes out, brought into one form: subtract, divide by a root, multiply, add.

`x * s + (beta - mean * s)` with `s = gamma * rsqrt(variance + eps)`, `gamma * (x - mean) / (variance + eps) ** 0.5 +
beta` and other ways to write it are one function of x. Which vector is which is told by numbers: with numbers that are
drawn, what x is multiplied with is `gamma / sqrt(variance + eps)`, and what is added is `beta - mean * s`.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ....runtime.ir.program import Program
from ....runtime.ir.types import Node, Value, is_floating
from ....runtime.ops.registry import evaluate, get
from ...sides.records import Array
from .rewriting import VECTORS, Rewriting, consumers_of, shape_of, varying_axis

ROOTS = ("sqrt", "rsqrt", "pow")
MOST_STEPS = 6
"""The most steps of a norm that is written out."""
DRAWS = 3
SAME = 1e-9
"""Relative distance of numbers that are computed in two ways."""


@dataclass(frozen=True)
class Norm:
    """Which vectors a norm has; None where it has none.

    Attributes:
        eps: what is added to the variance.
    """

    variance: Value
    mean: Value | None
    gain: Value | None
    offset: Value | None
    eps: float


def with_norms_in_one_form(program: Program) -> Program:
    """Return a program in which each batch norm that is written out has the same four steps."""
    return _Norms(program).program()


class _Norms(Rewriting):
    def __init__(self, program: Program) -> None:
        super().__init__(program)
        self.consumers = consumers_of(program)
        stored = [p.value for p in program.parameters.values()] + [b.value for b in program.buffers.values()]
        self.vectors = {value for value in stored if is_floating(value.dtype)}
        self.origins = self.origins_among(self.vectors)
        self.under_roots = self._under_roots()
        replaced: set[Node] = set()
        for node in program.nodes:
            if node in replaced:
                continue
            chain = self._chain(node)
            norm = self._norm(chain)
            if norm is None:
                self.nodes.append(node)
                continue
            steps, vectors = norm
            replaced.update(steps)
            self._write(steps, vectors)

    def _under_roots(self) -> set[Value]:
        """Return the static values that are computed from a root of a stored vector."""
        values: set[Value] = set()
        for node in self.before.nodes:
            if not node.outputs or node.outputs[0] not in self.static or not self.origins.get(node.outputs[0]):
                continue
            if node.op in ROOTS or not values.isdisjoint(v for v in node.inputs if v is not None):
                values.update(node.outputs)
        return values

    def _chain(self, node: Node) -> list[Node]:
        """Return the longest run of steps from a node on that each do something with one number for each channel."""
        chain: list[Node] = []
        following: Node | None = node
        while following is not None and len(chain) < MOST_STEPS and self._axis(following) is not None:
            if chain and self._axis(following) != self._axis(chain[0]):
                break
            chain.append(following)
            (output,) = following.outputs
            users = self.consumers.get(output, [])
            following = users[0] if len(users) == 1 and output not in self.before.outputs else None
        return chain

    def _axis(self, node: Node) -> int | None:
        """Return the axis of the channels, of a step with stored vectors; None if a node is no such step."""
        if node.op not in VECTORS or len(node.inputs) != 2:
            return None
        data = [p for p, value in enumerate(node.inputs) if value not in self.static]
        if len(data) != 1 or (node.op == "div" and data != [0]):
            return None
        operand, shape = node.inputs[1 - data[0]], node.outputs[0].shape
        entering = node.inputs[data[0]]
        if operand is None or entering is None or not self.origins.get(operand) or entering.shape != shape:
            return None
        return varying_axis(shape, operand.shape)

    def _norm(self, chain: Sequence[Node]) -> tuple[Sequence[Node], Norm] | None:
        """Return the longest run of steps from the first one on that is a norm, and its vectors."""
        for count in range(len(chain), 0, -1):
            steps = chain[:count]
            operands = [value for step in steps for value in step.inputs if value in self.static and value is not None]
            if self.under_roots.isdisjoint(operands):
                return None
            norm = self._vectors_of(steps, frozenset[Value]().union(*(self.origins[value] for value in operands)))
            if norm is not None:
                return steps, norm
        return None

    def _vectors_of(self, steps: Sequence[Node], vectors: frozenset[Value]) -> Norm | None:
        """Return which vector is which, by numbers that are drawn; None if the steps are no norm."""
        axis = self._axis(steps[0])
        assert axis is not None, "it is a step"
        sizes = [int(str(dim)) for dim in steps[0].outputs[0].shape]
        if len(vectors) > 4 or any(_size(vector) != sizes[axis] for vector in vectors):
            return None
        generator = np.random.default_rng(0)
        runs = []
        for _ in range(DRAWS):
            drawn = {vector: generator.uniform(0.5, 1.5, shape_of(vector)) for vector in vectors}
            runs.append((drawn, self._result(steps, 0.0, drawn, axis), self._result(steps, 1.0, drawn, axis)))
        numbers = {vector: np.concatenate([drawn[vector].reshape(-1) for drawn, _, _ in runs]) for vector in vectors}
        added = np.concatenate([zero for _, zero, _ in runs])
        factor = np.concatenate([with_ones for _, _, with_ones in runs]) - added
        return next(_readings(numbers, factor, added), None)

    def _result(self, steps: Sequence[Node], x: float, drawn: Mapping[Value, Array], axis: int) -> Array:
        """Return what the steps make of a number, for each channel."""
        rank = len(steps[0].outputs[0].shape)
        sizes = [1] * rank
        sizes[axis] = int(str(steps[0].outputs[0].shape[axis]))
        shape = tuple(sizes)
        result: Array = np.full(shape, x)
        known = dict(drawn)
        for step in steps:
            operands = [result if value not in self.static else self.computed(value, known) for value in step.inputs]
            result = evaluate(get(step.op), operands, step.attributes, (step.outputs[0].type.with_shape(shape),))[0]
        return result.reshape(-1)

    def _write(self, steps: Sequence[Node], norm: Norm) -> None:
        """Add the steps of a norm."""
        first, last = steps[0], steps[-1]
        axis = self._axis(first)
        assert axis is not None, "it is a step"
        (x,) = (value for value in first.inputs if value not in self.static)
        (output,) = last.outputs
        shape = (int(str(output.shape[axis])), *([1] * (len(output.shape) - 1 - axis)))

        def along(vector: Value) -> Value:
            if vector.shape == shape:
                return vector
            return self.add(last, "reshape", (vector,), vector.type.with_shape(shape), shape=shape)

        moved = self.add(
            last, "add", (norm.variance, self.constant("eps", norm.eps, norm.variance)), norm.variance.type
        )
        root = along(self.add(last, "sqrt", (moved,), norm.variance.type))
        operands = [("sub", None if norm.mean is None else along(norm.mean)), ("div", root)]
        operands += [("mul", None if norm.gain is None else along(norm.gain))]
        operands += [("add", None if norm.offset is None else along(norm.offset))]
        present = [(op, operand) for op, operand in operands if operand is not None]
        for number, (op, operand) in enumerate(present, 1):
            x = self.add(last, op, (x, operand), output if number == len(present) else output.type)


def _readings(numbers: Mapping[Value, Array], factor: Array, added: Array) -> Iterator[Norm]:
    """Yield the norms that multiply with a factor and add so much."""
    for variance in numbers:
        for gain in (*numbers, None):
            if gain is variance:
                continue
            with np.errstate(all="ignore"):
                moved = ((1.0 if gain is None else numbers[gain]) / factor) ** 2 - numbers[variance]
            eps = float(np.median(moved))
            if np.any(factor <= 0) or not eps >= -SAME or not np.all(np.abs(moved - eps) <= SAME):
                continue
            left: list[Value | None] = [vector for vector in numbers if vector not in (variance, gain)]
            for mean, offset in itertools.permutations([*left, None, None], 2):
                if {mean, offset} >= set(left):
                    expected = (0.0 if offset is None else numbers[offset]) - (
                        0.0 if mean is None else numbers[mean] * factor
                    )
                    if np.allclose(added, expected, rtol=SAME, atol=SAME):
                        yield Norm(variance, mean, gain, offset, max(0.0, float(f"{eps:.6g}")))


def _size(value: Value) -> int:
    return int(np.prod(shape_of(value), dtype=int))
