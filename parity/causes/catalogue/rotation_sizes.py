"""Partial rotary embeddings that rotate all features of a head, or that turn some of them as if all were rotated."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import permutations, product

import numpy as np

from ....runtime.ir.program import Program
from ....runtime.ir.types import Node, Value, is_floating
from ....runtime.ops import elementwise, shaping, slicing
from ....runtime.tracing import SymbolicTensor
from ...results.cause import Cause
from ...sides.records import Array
from ..cell_program import CellProgram
from ..evidence import Evidence
from ..rebuilding import Results
from .hypothesis import Hypothesis, Lookup, with_changed_value, with_lookup
from .rotations import ROUNDED, Part, parts_of

LARGEST_BASE = 1e12


@dataclass(frozen=True)
class _Table:
    """The cosines and sines of rotary embeddings. Su et al., "RoFormer" (2021), 3.2.2.

    Attributes:
        cosines: their value, of the shape (..., positions, columns).
        sines: likewise.
        positions: the positions, of the shape (positions, 1).
        pair: for each column, the number of the pair of features that it turns.
        base: the pair i of n features turns by base ** (-2 i / n) for each position.
    """

    cosines: Value
    sines: Value
    positions: Array
    pair: Array
    base: float

    def angles(self, pair: Array, features: int) -> Array:
        """Return the angles of pairs among so many features, of the shape (positions, pairs)."""
        angles: Array = self.positions * self.base ** (-2.0 * pair / features)
        return angles


def other_sizes(cell: CellProgram, _: Evidence) -> Iterator[Hypothesis]:
    """Yield the rates of all features for those that are rotated, and all features rotated."""
    program = cell.program
    parts = parts_of(program)
    for (cosines, c), (sines, s) in permutations(zip(program.inputs, cell.arrays, strict=True), 2) if parts else ():
        whole, turned = parts[0].whole.shape[parts[0].axis], parts[0].changed
        table = _table(cosines, sines, c, s, turned)
        if table is None or not isinstance(whole, int):
            continue
        words = f"of {whole} features in the candidate, of {turned} in the reference"
        cause = Cause("structure", f"the rates of the rotary embedding are those {words}", f"divide by {turned}")
        yield Hypothesis(cause, partial(_with_rates, program, table, whole))
        words = f"rotates all {whole} features in the candidate, {turned} of them in the reference"
        cause = Cause("structure", f"the rotary embedding {words}", f"rotate {turned} features alone")
        for is_halved, axis in product((True, False), (-2, -3)):
            change = partial(_all_rotated, table, parts, is_halved, axis)
            yield Hypothesis(cause, partial(with_lookup, program, change))


def _table(cosines: Value, sines: Value, c: Array, s: Array, features: int) -> _Table | None:
    """Return the table that two inputs are, for a number of features; None if they are none."""
    is_alike = c.shape == s.shape and c.ndim > 1 and is_floating(c.dtype) and is_floating(s.dtype)
    if not is_alike or c.shape[-2] < 2 or features < 4 or c.size != c.shape[-1] * c.shape[-2]:
        return None
    c, s = c.reshape(c.shape[-2:]), s.reshape(s.shape[-2:])
    pairs = np.arange(features // 2)
    at = np.arctan2(s, c)
    for pair in (pairs, np.tile(pairs, 2), np.repeat(pairs, 2)):
        if len(pair) != c.shape[1]:
            continue
        rate = (at[1] - at[0])[pair == 1][0]
        if not 0 < rate < 1 or -np.log(rate) * features / 2 > np.log(LARGEST_BASE):
            continue
        base = rate ** (-features / 2)
        base = float(np.round(base)) if abs(base / np.round(base) - 1) < ROUNDED else float(base)
        table = _Table(cosines, sines, at[0, 0] + np.arange(len(c))[:, None], pair, base)
        angles = table.angles(pair, features)
        if np.allclose(np.cos(angles), c, atol=ROUNDED) and np.allclose(np.sin(angles), s, atol=ROUNDED):
            return table
    return None


def _with_rates(program: Program, table: _Table, features: int) -> Program:
    angles = table.angles(table.pair, features)
    for value, array in ((table.cosines, np.cos(angles)), (table.sines, np.sin(angles))):
        program = with_changed_value(program, value, partial(_constant, array.reshape(value.type.sizes or ())))
    return program


def _constant(array: Array, x: SymbolicTensor) -> SymbolicTensor:
    return x.builder.constant(array, x.dtype)


def _all_rotated(
    table: _Table, parts: Sequence[Part], is_halved: bool, axis: int, _: int, node: Node, lookup: Lookup
) -> Results | None:
    """The features of a tensor, all of them rotated, where a part of them that was is joined with the rest.

    Args:
        table: the cosines and sines.
        parts: the tensors.
        is_halved: whether a pair are features half a head apart; else they are neighbours.
        axis: the axis of positions.
    """
    part = next((part for part in parts if part.joined is node), None)
    if part is None:
        return None
    x = lookup(part.whole)
    sizes = x.value.type.sizes
    if sizes is None or part.axis != len(sizes) - 1 or len(sizes) < -axis or sizes[axis] != len(table.positions):
        raise ValueError("it has no such positions")
    size, last = sizes[-1], len(sizes) - 1
    angles = table.angles(np.arange(size // 2), size)
    shape = (len(angles), *(1,) * (-axis - 2), angles.shape[1])
    c, s = (x.builder.constant(of(angles).reshape(shape), x.dtype) for of in (np.cos, np.sin))
    bounds = ((0, size // 2, 1), (size // 2, size, 1)) if is_halved else ((0, size, 2), (1, size, 2))
    a, b = (slicing.slice(x, starts=(i,), stops=(j,), steps=(k,), axes=(last,)) for i, j, k in bounds)
    turned = [
        elementwise.sub(elementwise.mul(a, c), elementwise.mul(b, s)),
        elementwise.add(elementwise.mul(b, c), elementwise.mul(a, s)),
    ]
    if is_halved:
        return (slicing.concat(*turned, axis=last),)
    columns = [shaping.reshape(y, shape=(*sizes[:-1], size // 2, 1)) for y in turned]
    return (shaping.reshape(slicing.concat(*columns, axis=last + 1), shape=sizes),)
