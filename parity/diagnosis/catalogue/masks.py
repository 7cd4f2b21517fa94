"""Masks and positions that the candidate doesn't apply: it computes as if nothing were masked, or in one place."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from itertools import permutations

import numpy as np

from ....runtime.ir.program import Program
from ....runtime.ir.types import Value, is_floating
from ....runtime.tracing import SymbolicTensor
from ...results.cause import Cause
from ...sides.records import Array
from ..cell_program import CellProgram
from ..evidence import Evidence
from ..naming import name_of_value
from ..roles import MASKED
from .hypothesis import Hypothesis, with_changed_value


def ignored(cell: CellProgram, _: Evidence) -> Iterator[Hypothesis]:
    """Yield each input that is a mask with nothing masked: where the Cell computes with it, then where it passes it."""
    program = cell.program
    for value, array in zip(program.inputs, cell.arrays, strict=True):
        number = _neutral(array)
        if number is None:
            continue
        change = partial(_filled, number)
        words = f"the mask isn't applied in the candidate: {name_of_value(cell, value)} counts as all "
        words += f"{array.dtype.type(number)}" if array.dtype == np.bool_ else f"{number:g}"
        cause = Cause("structure", words, "apply the mask")
        yield Hypothesis(cause, partial(_where_computed, program, value, change))
        if value in program.outputs:
            yield Hypothesis(cause, partial(with_changed_value, program, value, change))


def without_positions(cell: CellProgram, _: Evidence) -> Iterator[Hypothesis]:
    """Yield each two inputs that are cosines and sines of positions, as those of the position 0."""
    program = cell.program
    pairs = permutations(zip(program.inputs, cell.arrays, strict=True), 2)
    for (cosines, c), (sines, s) in pairs:
        is_rotation = c.shape == s.shape and c.size > 1 and is_floating(c.dtype) and is_floating(s.dtype)
        if not is_rotation or not np.allclose(c**2 + s**2, 1, atol=1e-6) or not np.any(s) or not np.any(c == 1):
            continue
        names = " and ".join(name_of_value(cell, value) for value in (cosines, sines))
        cause = Cause("structure", f"the positions, {names}, aren't applied in the candidate", "apply the positions")
        yield Hypothesis(cause, partial(_unrotated, program, cosines, sines))


def _unrotated(program: Program, cosines: Value, sines: Value) -> Program:
    return with_changed_value(with_changed_value(program, cosines, partial(_filled, 1)), sines, partial(_filled, 0))


def _neutral(array: Array) -> float | None:
    """Return the number that masks nothing: 1 of a mask of zeros and ones, 0 of one that is added; None for no mask."""
    if array.size < 2 or not array.any() or array.all():
        return None
    if array.dtype == np.bool_ or bool(np.isin(array, (0, 1)).all()):
        return 1.0
    is_added = is_floating(array.dtype) and bool(np.all((array == 0) | (array <= MASKED)))
    return 0.0 if is_added else None


def _filled(number: float, x: SymbolicTensor) -> SymbolicTensor:
    shape = x.value.type.sizes
    if shape is None:
        raise ValueError("its shape isn't known")
    return x.builder.constant(np.full(shape, number, x.dtype), x.dtype)


def _where_computed(program: Program, value: Value, change: partial[SymbolicTensor]) -> Program:
    """Return the program with a value changed where nodes use it, and as it is where it is passed on or returned."""
    changed = with_changed_value(program, value, change)
    kept = (own if own is value else other for own, other in zip(program.outputs, changed.outputs, strict=True))
    return changed.replace(outputs=tuple(kept))
