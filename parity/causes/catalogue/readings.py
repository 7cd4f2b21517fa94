"""Parameters that a candidate holds as they are and reads in another order: axes exchanged, or from the other end.

A kernel that isn't flipped for a transposed convolution, a matrix that is multiplied from the other side, a real part
for an imaginary one. The gradients stand where the candidate has the parameter's elements, so that the code is wrong.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from itertools import combinations

import numpy as np

from ....runtime.ir.program import Program
from ....runtime.ir.types import Value
from ....runtime.ops import elementwise, shaping
from ....runtime.tracing import SymbolicTensor
from ....runtime.visible import visible_name
from ...results.cause import Cause
from ..cell_program import CellProgram
from ..evidence import Evidence
from .hypothesis import Hypothesis, with_changed_value

MAX_RANK = 5
PAIR = 2
"""Elements of an axis that has a real and an imaginary part, or a value and a gate."""

Change = Callable[[SymbolicTensor], SymbolicTensor]
Way = tuple[str, str, Change]
"""How a parameter is read in words, what to do about it, and the change."""
Ways = Callable[[tuple[int, ...]], Iterator[Way]]
"""Yields the ways to read an array of a shape."""


def transposes(cell: CellProgram, evidence: Evidence) -> Iterator[Hypothesis]:
    """Yield each parameter read with two axes of one size exchanged, as `x @ weight` reads that of `x @ weight.T`."""
    yield from _read(cell, evidence, _exchanged_axes)


def reversals(cell: CellProgram, evidence: Evidence) -> Iterator[Hypothesis]:
    """Yield each parameter of several axes read from the other end of one of them, or of all axes of a window."""
    yield from _read(cell, evidence, _reversed_axes)


def conjugates(cell: CellProgram, _: Evidence) -> Iterator[Hypothesis]:
    """Yield the complex parameters conjugated, all together and each: those of which both parts are taken apart."""
    program = cell.program
    names = [name for name, p in program.parameters.items() if _is_complex(program, p.value)]
    for chosen in [names, *([name] for name in names if len(names) > 1)] if names else ():
        shown = " and ".join(map(visible_name, chosen))
        are = "is" if len(chosen) == 1 else "are"
        cause = Cause(
            "weight",
            f"{shown} {are} conjugated in the candidate: the imaginary part is negated",
            f"negate the imaginary part of {shown} there",
            attribute=chosen[0] if len(chosen) == 1 else "",
        )
        yield Hypothesis(cause, partial(_conjugated, program, tuple(chosen)))


def _is_complex(program: Program, value: Value) -> bool:
    """Whether a parameter is only read by its first and its second element along a last axis of two."""
    if value.type.rank < 2 or value.type.shape[-1] != PAIR:
        return False
    users = [node for node in program.nodes if value in node.inputs]
    taken = [node.attributes for node in users if node.op == "slice"]
    axes = {(axis,) for axis in (value.type.rank - 1, -1)}
    parts = {(*a["starts"], *a["stops"]) for a in taken if a["axes"] in axes}
    return len(taken) == len(users) and parts == {(0, 1), (1, 2)}


def _conjugated(program: Program, names: tuple[str, ...]) -> Program:
    for name in names:
        program = with_changed_value(program, program.parameters[name].value, _with_negated_part)
    return program


def _with_negated_part(x: SymbolicTensor) -> SymbolicTensor:
    result: SymbolicTensor = elementwise.mul(x, x.builder.constant([1.0, -1.0], x.dtype))
    return result


def _read(cell: CellProgram, evidence: Evidence, ways: Ways) -> Iterator[Hypothesis]:
    """Yield the parameters that are known to be the reference's, each changed where it is used."""
    program = cell.program
    for name, parameter in program.parameters.items():
        array, shape = evidence.parameters.get(name), parameter.data.shape
        if array is None or len(shape) > MAX_RANK or not np.array_equal(array, parameter.data):
            continue
        for words, fix, change in ways(shape):
            shown = visible_name(name)
            cause = Cause("weight", f"{shown} is read {words} in the candidate", f"{fix} {shown} there", attribute=name)
            yield Hypothesis(cause, partial(with_changed_value, program, parameter.value, change))


def _exchanged_axes(shape: tuple[int, ...]) -> Iterator[Way]:
    for first, second in combinations(range(len(shape)), 2):
        if shape[first] == shape[second] > 1:
            order = list(range(len(shape)))
            order[first], order[second] = second, first
            words = "transposed" if len(shape) == 2 else f"with axes {first} and {second} exchanged"
            yield words, "transpose", partial(shaping.transpose, permutation=tuple(order))


def _reversed_axes(shape: tuple[int, ...]) -> Iterator[Way]:
    axes = [axis for axis, size in enumerate(shape) if size > 1]
    for axis in axes if len(axes) > 1 else ():
        if shape[axis] == PAIR:
            yield f"with both parts along axis {axis} exchanged", "exchange both parts of", _flipped(axis)
        else:
            yield f"flipped along axis {axis}", "flip", _flipped(axis)
    window = tuple(axis for axis in axes if axis > 1)
    if len(window) > 1:
        yield f"flipped along axes {' and '.join(map(str, window))}", "flip", _flipped(*window)


def _flipped(*axes: int) -> Change:
    return partial(shaping.flip, axes=axes)
