"""Transposed convolutions as code without them computes them: zeros between the elements, and a convolution.

They are written so where the two sides don't have equally many.
"""

from __future__ import annotations

import numpy as np

from ....runtime.ir.program import Program
from ....runtime.ir.types import Node, Value
from .rewriting import Rewriting, shape_of


def transposed_in(program: Program) -> int:
    """Return how many transposed convolutions a program has."""
    return sum(node.op == "conv_transpose" for node in program.nodes)


def with_zeros_between(program: Program) -> Program:
    """Return a program of known sizes with a convolution in place of each transposed one that has a single group."""
    return _Convolutions(program).program()


class _Convolutions(Rewriting):
    def __init__(self, program: Program) -> None:
        super().__init__(program)
        for node in program.nodes:
            if node.op == "conv_transpose" and node.attributes["groups"] == 1:
                self._write(node)
            else:
                self.nodes.append(node)

    def _write(self, node: Node) -> None:
        x, weight, *bias = node.inputs
        assert x is not None
        assert weight is not None
        attributes = node.attributes
        kernel, dilation = shape_of(weight)[2:], attributes["dilation"]
        wide = self._spread(node, x, attributes["stride"])
        before, after = [0, 0], [0, 0]
        for size, step, (start, stop), more in zip(
            kernel, dilation, attributes["padding"], attributes["output_padding"], strict=True
        ):
            before.append(step * (size - 1) - start)
            after.append(step * (size - 1) - stop + more)
        wide = self._padded(node, wide, before, after)
        order = (1, 0, *range(2, len(weight.shape)))
        shape = tuple(weight.shape[axis] for axis in order)
        turned = self.add(node, "transpose", (weight,), weight.type.with_shape(shape), permutation=order)
        for axis, size in enumerate(kernel, 2):
            backwards = self.indices("backwards", np.arange(size)[::-1])
            turned = self.add(node, "take", (turned, backwards), turned.type, axis=axis)
        single = (1,) * len(kernel)
        self.add(
            node, "conv", (wide, turned, *bias), node.outputs[0],
            stride=single, padding=((0, 0),) * len(kernel), dilation=dilation, groups=1,
        )  # fmt: skip

    def _spread(self, node: Node, x: Value, stride: tuple[int, ...]) -> Value:
        """Return data with zeros between their elements."""
        for axis, step in enumerate(stride, 2):
            if step > 1:
                shape = shape_of(x)
                x = self._in_shape(node, x, (*shape[: axis + 1], 1, *shape[axis + 1 :]))
                after = [0] * len(x.shape)
                after[axis + 1] = step - 1
                x = self._padded(node, x, [0] * len(after), after)
                x = self._in_shape(node, x, (*shape[:axis], shape[axis] * step, *shape[axis + 1 :]))
                crop = [0] * len(shape)
                crop[axis] = 1 - step
                x = self._padded(node, x, [0] * len(crop), crop)
        return x

    def _in_shape(self, node: Node, x: Value, shape: tuple[int, ...]) -> Value:
        return self.add(node, "reshape", (x,), x.type.with_shape(shape), shape=shape)

    def _padded(self, node: Node, x: Value, before: list[int], after: list[int]) -> Value:
        shape = tuple(b + size + a for b, size, a in zip(before, shape_of(x), after, strict=True))
        return self.add(
            node, "pad", (x,), x.type.with_shape(shape),
            before=tuple(before), after=tuple(after), mode="constant", value=0.0,
        )  # fmt: skip
