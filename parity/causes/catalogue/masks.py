"""Masks and positions that the candidate doesn't apply, or not in their places."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from itertools import permutations

import numpy as np

from ....runtime.ir.program import Program
from ....runtime.ir.types import Node, Value, is_floating
from ....runtime.tracing import Builder, SymbolicTensor
from ...results.cause import Cause
from ...sides.records import Array
from ..cell_program import CellProgram
from ..evidence import Evidence
from ..naming import name_of_value
from ..rebuilding import Operands, Results, append
from ..roles import MASKED
from .hypothesis import Hypothesis, places, with_changed_value, with_other_nodes

ATTENTION = "scaled_dot_product_attention"
HIDING = (float(np.finfo(np.float32).min), -1e9, -1e4)
"""Numbers that people add to scores to hide them."""
SHIFTS = {1: "each position sees the one after it", -1: "no position sees itself"}


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


def inverted(cell: CellProgram, _: Evidence) -> Iterator[Hypothesis]:
    """Yield each input that is a mask with what it hides and what it shows exchanged.

    Where all is hidden, it matters how: large negative numbers may be added to scores, or take their place.
    """
    program = cell.program
    for value, array in zip(program.inputs, cell.arrays, strict=True):
        if _neutral(array) is None:
            continue
        words = f"{name_of_value(cell, value)} hides there what it shows in the reference"
        cause = Cause("structure", f"the mask is inverted in the candidate: {words}", "invert the mask")
        for other in _inverted(array):
            yield Hypothesis(cause, partial(_where_computed, program, value, partial(_constant, other)))
        if array.dtype == np.bool_:
            positions = [n for n, node in enumerate(program.nodes) if node.op == ATTENTION and value in node.inputs[3:]]
            yield Hypothesis(cause, partial(with_other_nodes, program, positions, partial(_with_other_scores, array)))


def _inverted(array: Array) -> Iterator[Array]:
    """Yield a mask that hides what another one shows: as that does, then by numbers that are added."""
    hidden = array == 0 if is_floating(array.dtype) and array.min() < 0 else array != 0
    if array.min() < 0:
        yield np.where(hidden, array.min(), 0)
    else:
        yield np.logical_not(hidden).astype(array.dtype)
    if array.dtype == np.bool_ or array.min() < 0:
        yield from (np.where(hidden, number, 0.0) for number in HIDING)


def _with_other_scores(hidden: Array, builder: Builder, node: Node, operands: Operands) -> Results:
    """Return the result of an attention in which the same large number takes the place of hidden scores."""
    query, key, value, _, *rest = operands
    assert query is not None, "an attention has queries"
    # a query of zeros has equal scores, and neither it nor the keys get a gradient
    shown = builder.constant(~hidden.all(axis=-1, keepdims=True), query.dtype)
    mask = builder.constant(np.where(hidden, HIDING[0], 0.0), query.dtype)
    return append(builder, node.op, [query * shown, key, value, mask, *rest], node.attributes)


def shifted(cell: CellProgram, _: Evidence) -> Iterator[Hypothesis]:
    """Yield each input that is a causal mask, and each causal attention, with a mask that is off by one."""
    program = cell.program
    for steps, how in SHIFTS.items():
        cause = Cause("structure", f"the causal mask is off by one in the candidate: {how}", "shift the mask back")
        for value, array in zip(program.inputs, cell.arrays, strict=True):
            other = _shifted(array, steps)
            if other is not None:
                yield Hypothesis(cause, partial(with_changed_value, program, value, partial(_constant, other)))
        for node, positions in places(program):
            if node.op == ATTENTION and node.attributes["causal"]:
                make = partial(with_other_nodes, program, positions, partial(_with_mask, steps))
                yield Hypothesis(cause, make, len(positions))


def _shifted(array: Array, steps: int) -> Array | None:
    """Return a causal mask in which each position sees so many positions more; None if an array is no causal mask."""
    if array.ndim < 2 or not 2 <= array.shape[-2] <= array.shape[-1]:
        return None
    queries, keys = array.shape[-2:]
    is_seen = np.tri(queries, keys, keys - queries, dtype=np.bool_)
    other = np.tri(queries, keys, keys - queries + steps, dtype=np.bool_)
    if array.dtype == np.bool_:
        for mask, changed in ((is_seen, other), (~is_seen, ~other)):
            if np.array_equal(array, np.broadcast_to(mask, array.shape)):
                return np.broadcast_to(changed, array.shape)
        return None
    is_added = is_floating(array.dtype) and bool(np.all((array == 0) | (array <= MASKED)))
    if not is_added or not np.array_equal(array == 0, np.broadcast_to(is_seen, array.shape)):
        return None
    return np.where(np.broadcast_to(other, array.shape), 0, array.min()).astype(array.dtype)


def _with_mask(steps: int, builder: Builder, node: Node, operands: Operands) -> Results:
    """Return the result of an attention with a mask of its own in place of the causal one."""
    query, key, value, mask, *rest = operands
    sizes = [None if x is None else x.value.type.sizes for x in (query, key)]
    if mask is not None or sizes[0] is None or sizes[1] is None:
        raise ValueError("it has a mask, or no known shape")
    is_seen = np.tri(sizes[0][-2], sizes[1][-2], steps, dtype=np.bool_)
    own_mask = builder.constant(is_seen, np.dtype(bool))
    return append(builder, node.op, [query, key, value, own_mask, *rest], {**node.attributes, "causal": False})


def _constant(array: Array, x: SymbolicTensor) -> SymbolicTensor:
    return x.builder.constant(array, array.dtype)


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
    kept = (
        output if output is value else other for output, other in zip(program.outputs, changed.outputs, strict=True)
    )
    return changed.replace(outputs=tuple(kept))
