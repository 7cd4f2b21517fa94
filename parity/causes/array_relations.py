"""The relation of a candidate's array to the reference's: transposed, permuted, negated, scaled, exchanged, ..."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import combinations, permutations

import numpy as np

from ...runtime.ir.types import as_dtype
from ...runtime.visible import visible_name
from ..sides.records import Array

MAX_RANK = 5
MAX_BLOCKS = 12
"""The most blocks whose order is listed."""
MAX_SHIFT = 16
"""The most rows by which a table is shifted."""
SHOWN_ROWS = 8
"""Rows that are shown of an order, the first that is another's among them."""
MAX_NUMBERS = 4
"""Numbers that are shown of an array."""
FEW = 0.05
"""The largest share of elements that are called few."""


def relation(reference: Array, candidate: Array, others: Mapping[str, Array] | None = None) -> str:
    """Return how the candidate's array comes from the reference's, as a predicate ("is transposed"); empty if unknown.

    Args:
        reference: the reference's array.
        candidate: the candidate's.
        others: other arrays of the reference, by name, with which it may have been exchanged.
    """
    exchanged = next((name for name, x in (others or {}).items() if _same(x, candidate)), None)
    if exchanged is not None:
        return f"has the values of {visible_name(exchanged)}"
    if _same(reference, candidate):
        return ""
    if candidate.size == 0 or not np.isfinite(candidate.astype(np.float64)).all():
        return "isn't finite"
    if not candidate.any():
        return "is all zeros"
    if order := _axes(reference, candidate):
        moved = [axis for axis, own in enumerate(order) if axis != own]
        if len(moved) == 2:
            return "is transposed" if len(order) == 2 else f"has axes {moved[0]} and {moved[1]} transposed"
        return f"has its axes in the order {order}"
    if reference.shape != candidate.shape:
        return f"has the shape {list(candidate.shape)} instead of {list(reference.shape)}"
    if axis := _permuted_axis(reference, candidate):
        return axis
    if shifted := _shifted_rows(reference, candidate):
        return shifted
    if order := _flattened_axes(reference, candidate):
        return f"has its numbers flattened with its axes in the order {order}"
    if order := _flattened_axes(candidate, reference):
        return f"has the reference's numbers in the order of its axes {order}"
    if axes := _reversed_axes(reference, candidate):
        return f"is reversed along axes {' and '.join(map(str, axes))}"
    if factor := _factor(reference, candidate) or _function(reference, candidate):
        return factor
    different = reference != candidate
    count = int(different.sum())
    if count <= max(1, FEW * different.size):
        first = [int(i) for i in np.argwhere(different)[0]]
        a, b = reference[tuple(first)], candidate[tuple(first)]
        places = f"1 element, {first}," if count == 1 else f"{count} elements, the first at {first},"
        return f"differs in {places} which is {float(b):.6g} instead of {float(a):.6g}"
    return ""


def common_rows(reference: Array, candidate: Array) -> str:
    """Return which rows two arrays of different lengths along one axis have in common, as a predicate.

    Empty unless all entries of the shorter one along that axis stand together in the longer one.
    """
    if reference.ndim != candidate.ndim:
        return ""
    axes = [axis for axis in range(reference.ndim) if reference.shape[axis] != candidate.shape[axis]]
    if len(axes) != 1:
        return ""
    (axis,) = axes
    reference_rows, candidate_rows = (np.moveaxis(x, axis, 0) for x in (reference, candidate))
    short, long = sorted((reference_rows, candidate_rows), key=len)
    starts = (n for n in range(len(long) - len(short) + 1) if len(short) and np.array_equal(long[n], short[0]))
    start = next((n for n in starts if np.array_equal(long[n : n + len(short)], short)), None)
    if start is None:
        return ""
    what = "rows" if axis == 0 else f"entries along axis {axis}"
    end, more = start + len(short) - 1, len(long) - len(short)
    index = ", ".join([*[":"] * axis, f"{start or ''}:{start + len(short)}"])
    if short is candidate_rows:
        return (
            f"has {what} {start} to {end} of the reference's {len(reference_rows)}, and {more} are missing: "
            f"if that is meant, give the function `lambda table: table[{index}]`"
        )
    zeros = " (zeros)" if not np.delete(long, np.s_[start : start + len(short)], 0).any() else ""
    pad = ", ".join(["(0, 0)"] * axis + [f"({start}, {more - start})"] + ["(0, 0)"] * (reference.ndim - axis - 1))
    return (
        f"has the reference's {len(reference_rows)} {what} as {start} to {end}, and {more} more{zeros}: "
        f"if that is meant, give the function `lambda table: numpy.pad(table, [{pad}])`"
    )


def numbers_in_words(reference: Array | None, candidate: Array | None) -> str:
    """Return the first numbers of two arrays, and where they differ most; "" where neither is known."""
    sides = (("candidate", candidate), ("reference", reference))
    parts = [f"{_first_numbers(x)} in the {side}" for side, x in sides if x is not None and x.size]
    if reference is None or candidate is None or reference.size <= MAX_NUMBERS:
        return "; ".join(parts)
    if reference.shape == candidate.shape:
        error = np.abs(candidate.astype(np.complex128) - reference.astype(np.complex128))
        at = np.unravel_index(int(np.argmax(error)), error.shape)
        parts.append(f"the largest difference is {error[at]:.3g}, at [{', '.join(map(str, at))}]")
    return "; ".join(parts)


def _first_numbers(x: Array) -> str:
    numbers = [str(n) if isinstance(n, (bool, complex)) else f"{n:.6g}" for n in x.reshape(-1)[:MAX_NUMBERS].tolist()]
    return f"[{', '.join(numbers)}{', ...' if x.size > MAX_NUMBERS else ''}]"


def _same(a: Array, b: Array) -> bool:
    return a.shape == b.shape and bool(np.array_equal(a, b))


def _axes(reference: Array, candidate: Array) -> tuple[int, ...]:
    """Return the order of axes that makes the reference's array the candidate's; empty if there is none but its own."""
    if not 2 <= reference.ndim <= MAX_RANK or reference.ndim != candidate.ndim:
        return ()
    own = tuple(range(reference.ndim))
    return next((p for p in permutations(own) if p != own and _same(reference.transpose(p), candidate)), ())


def _flattened_axes(array: Array, other: Array) -> tuple[int, ...]:
    """Return the order of axes in which an array's numbers are the other's, both flattened; empty if none."""
    if not 2 <= array.ndim <= MAX_RANK or array.shape != other.shape:
        return ()
    own, flat = tuple(range(array.ndim)), other.reshape(-1)
    return next((p for p in permutations(own) if p != own and _same(array.transpose(p).reshape(-1), flat)), ())


def _permuted_axis(reference: Array, candidate: Array) -> str:
    """Return a predicate if only the order along one axis differs."""
    for axis in range(reference.ndim):
        reference_rows, candidate_rows = (
            np.moveaxis(x, axis, 0).reshape(x.shape[axis], -1) for x in (reference, candidate)
        )
        order = _order(reference_rows, candidate_rows)
        if order is None:
            continue
        place = f"along axis {axis}"
        if order == list(range(len(order)))[::-1]:
            return f"is reversed {place}"
        if len(order) % 2 == 0 and order == [*range(len(order) // 2, len(order)), *range(len(order) // 2)]:
            return f"has its halves exchanged {place}"
        if (shift := order.index(0)) and order == [*range(len(order) - shift, len(order)), *range(len(order) - shift)]:
            return f"is rolled by {shift} {place}"
        if (of_blocks := _blocks(order)) and len(of_blocks) <= MAX_BLOCKS:
            return f"has its {len(of_blocks)} blocks {place} in the order {', '.join(map(str, of_blocks))}"
        moved = next(n for n, row in enumerate(order) if n != row)
        start = moved if moved >= SHOWN_ROWS else 0
        shown = "..., " * (start > 0) + ", ".join(map(str, order[start : start + SHOWN_ROWS]))
        shown += ", ..." * (start + SHOWN_ROWS < len(order))
        return f"is in another order {place} ({shown})"
    return ""


def _shifted_rows(reference: Array, candidate: Array) -> str:
    """Return a predicate if all rows that differ stand a few rows further in one of the tables, as behind an offset."""
    if reference.ndim < 2 or len(reference) < 2:
        return ""
    reference_rows, candidate_rows = (x.reshape(len(x), -1) for x in (reference, candidate))
    rows = np.flatnonzero((reference_rows != candidate_rows).any(axis=1))
    for shift in (sign * number for number in range(1, MAX_SHIFT + 1) for sign in (1, -1)):
        others = rows - shift
        is_inside = len(rows) > 1 and others[0] >= 0 and others[-1] < len(reference_rows)
        if is_inside and np.array_equal(reference_rows[others], candidate_rows[rows]):
            first, last = int(rows[0]), int(rows[-1])
            return f"has rows {first} to {last} shifted by {abs(shift)}: row {first} is the reference's {first - shift}"
    return ""


def _order(reference: Array, candidate: Array) -> list[int] | None:
    """Return the row of the reference for each row of the candidate; None if they aren't the same rows."""
    rows: dict[bytes, list[int]] = {}
    for number, row in enumerate(reference):
        rows.setdefault(np.ascontiguousarray(row).tobytes(), []).append(number)
    order = []
    for row in candidate:
        numbers = rows.get(np.ascontiguousarray(row).tobytes())
        if not numbers:
            return None
        order.append(numbers.pop(0))
    return order


def _blocks(order: list[int]) -> list[int]:
    """Return the order of the fewest blocks of equal size that are moved as a whole; empty if single rows are moved."""
    for size in range(len(order) // 2, 1, -1):
        starts = order[::size]
        if len(order) % size == 0 and order == [start + n for start in starts for n in range(size)]:
            return [start // size for start in starts] if all(start % size == 0 for start in starts) else []
    return []


def _reversed_axes(reference: Array, candidate: Array) -> tuple[int, ...]:
    """Return several axes along which one array is the other from back to front; empty if there are none."""
    if reference.ndim > MAX_RANK:
        return ()
    several = (axes for n in range(2, reference.ndim + 1) for axes in combinations(range(reference.ndim), n))
    return next((axes for axes in several if _same(np.flip(reference, axes), candidate)), ())


def _function(reference: Array, candidate: Array) -> str:
    """Return a predicate if each element is the root, square or inverse of the other array's, or rounded."""
    reference, candidate = reference.astype(np.float64), candidate.astype(np.float64)
    for name in ("float16", "bfloat16"):
        if _same(reference.astype(as_dtype(name)).astype(np.float64), candidate):
            return f"is rounded to {name}"
    with np.errstate(all="ignore"):
        for what, values in {
            "square roots": np.sqrt(reference),
            "squares": reference**2,
            "inverses": 1 / reference,
        }.items():
            if np.allclose(values, candidate, rtol=1e-6, atol=0):
                return f"has the {what} of the values"
    return ""


def _factor(reference: Array, candidate: Array) -> str:
    """Return a predicate if one array is a multiple of the other, or a constant more."""
    reference, candidate = reference.astype(np.float64), candidate.astype(np.float64)
    if _same(-reference, candidate):
        return "is negated"
    at = np.unravel_index(int(np.argmax(np.abs(reference))), reference.shape)
    if reference[at] and np.allclose(candidate, reference * (candidate[at] / reference[at]), rtol=1e-6, atol=0):
        return f"is multiplied by {candidate[at] / reference[at]:.6g}"
    if reference.size > 1 and np.allclose(
        candidate - reference, (candidate - reference).reshape(-1)[0], rtol=1e-5, atol=1e-12
    ):
        return f"is larger by {(candidate - reference).reshape(-1)[0]:.6g}"
    return ""
