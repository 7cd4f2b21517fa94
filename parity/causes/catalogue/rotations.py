"""Rotary embeddings that rotate other features of a head, the last ones for the first ones, or the other way round."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import combinations

import numpy as np

from ....runtime.ir.program import Program
from ....runtime.ir.types import Node, Value, is_floating
from ....runtime.ops import elementwise, shaping
from ...results.cause import Cause
from ...sides.records import Array
from ..cell_program import CellProgram
from ..evidence import Evidence
from ..naming import name_of_value
from ..rebuilding import Results, append, keep
from .hypothesis import Hypothesis, Lookup, with_changed_value, with_lookup

RESHAPING = ("reshape", "transpose")
ROUNDED = 1e-4
"""How far a table in half or single precision is from its formula, at most."""


@dataclass(frozen=True)
class Part:
    """A tensor of which one part is changed, and joined with the rest as it is.

    Attributes:
        whole: the tensor.
        joined: the node that joins the two.
        axis: the axis along which it is divided.
        changed: number of elements that are changed.
        is_first: whether these are the first ones.
    """

    whole: Value
    joined: Node
    axis: int
    changed: int
    is_first: bool

    @property
    def shift(self) -> int:
        """By how much the elements move that bring those from the other end to where the changed ones are."""
        return self.changed if self.is_first else -self.changed


def other_features(cell: CellProgram, _: Evidence) -> Iterator[Hypothesis]:
    """Yield all tensors of which a part is changed with the part at the other end changed, and each alone."""
    parts = parts_of(cell.program)
    for some in [parts, *([part] for part in parts if len(parts) > 1)] if parts else ():
        first = some[0]
        size, source = first.whole.shape[first.axis], _source(cell.program, first.whole)
        elements = f"{size} elements along axis {first.axis}" if source is first.whole else f"each {size} elements"
        ends = ("last", "first") if first.is_first else ("first", "last")
        values = dict.fromkeys(_source(cell.program, part.whole) for part in some)
        names = " and ".join(name_of_value(cell, value) for value in values)
        cause = Cause(
            "structure",
            f"the {ends[0]} {first.changed} of {elements} of {names} are rotated, or changed "
            f"otherwise, in the candidate, the {ends[1]} {first.changed} in the reference",
            f"leave the {ends[0]} ones as they are",
        )
        yield Hypothesis(cause, partial(with_lookup, cell.program, partial(_at_other_end, cell.program, some)))


def other_way(cell: CellProgram, _: Evidence) -> Iterator[Hypothesis]:
    """Yield each two inputs that are cosines and sines with the angles negated.

    Where queries and keys are both rotated, only the difference of their angles counts: cosines and sines exchanged,
    pairs of features exchanged, and a sign that is wrong in each sum are this, too.
    """
    program = cell.program
    for (value, array), (other, other_array) in combinations(zip(program.inputs, cell.arrays, strict=True), 2):
        if array.shape != other_array.shape or array.size < 2 or not (is_floating(array.dtype) and _turns(array)):
            continue
        if is_floating(other_array.dtype) and np.allclose(array**2 + other_array**2, 1, atol=ROUNDED):
            sines = value if np.min(np.abs(array)) < np.min(np.abs(other_array)) else other  # that of no angle is 0
            cause = Cause(
                "structure",
                "features are rotated the other way in the candidate: by the negative of the angle",
                "negate the sines, or exchange the features of each pair",
            )
            yield Hypothesis(cause, partial(with_changed_value, program, sines, elementwise.neg))


def _turns(array: Array) -> bool:
    """Whether an array may be the cosines, or the sines, of several angles."""
    return bool(np.all(np.abs(array) <= 1 + ROUNDED)) and not np.all(array == array.reshape(-1)[0])


def parts_of(program: Program) -> list[Part]:
    """Return the tensors that are divided into a part that is changed and one that isn't, and joined again."""
    parts = []
    for node in program.nodes:
        if node.op != "concat" or len(node.inputs) < 2:
            continue
        axis, size = node.attributes["axis"], node.outputs[0].shape[node.attributes["axis"]]
        for rest, is_first in ((node.inputs[-1], True), (node.inputs[0], False)):
            kept = program.producers.get(rest) if rest is not None else None
            whole = kept.inputs[0] if kept is not None and _is_along(kept, axis) else None
            if kept is None or whole is None or whole.shape != node.outputs[0].shape:
                continue
            (start,), (stop,) = kept.attributes["starts"], kept.attributes["stops"]
            is_kept = (stop == size and start > 0) if is_first else (start == 0 and stop < size)
            others = [program.producers.get(v) for v in node.inputs if v is not None and v is not rest]
            is_changed = not any(other is not None and other.inputs[:1] == (whole,) for other in others)
            if is_kept and is_changed and any(_is_of(other, whole, axis) for other in program.nodes if other != kept):
                parts.append(Part(whole, node, axis, start if is_first else size - stop, is_first))
    return parts


def _is_along(node: Node, axis: int) -> bool:
    """Whether a node takes elements along one axis, all from one to another."""
    return node.op == "slice" and node.attributes["axes"] == (axis,) and node.attributes["steps"] == (1,)


def _is_of(node: Node, whole: Value, axis: int) -> bool:
    return node.op == "slice" and node.inputs[0] is whole and node.attributes["axes"] == (axis,)


def _at_other_end(program: Program, parts: Sequence[Part], position: int, node: Node, lookup: Lookup) -> Results | None:
    """The results of a node that takes elements of a tensor, or joins them, with the ends of it exchanged."""
    for part in parts:
        if _is_of(node, part.whole, part.axis):
            rolled = shaping.roll(lookup(part.whole), shifts=(part.shift,), axes=(part.axis,))
            return append(rolled.builder, node.op, [rolled], node.attributes)
        if node is part.joined:
            operands = [None if v is None else lookup(v) for v in node.inputs]
            builder = next(operand.builder for operand in operands if operand is not None)
            (joined,) = keep(builder, position, node, operands)
            return (shaping.roll(joined, shifts=(-part.shift,), axes=(part.axis,)),)
    return None


def _source(program: Program, value: Value) -> Value:
    """Return the value that was arranged in heads to give another one."""
    while value in program.producers and (node := program.producers[value]).op in RESHAPING and node.inputs[0]:
        value = node.inputs[0]
    return value
