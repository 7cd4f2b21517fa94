"""Axes exchanged, divided or joined, and slices in other orders are found by moments, and confirmed by values."""

from __future__ import annotations

from collections.abc import Callable

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cellbridge.parity.weights.arrangements import Array
from cellbridge.parity.weights.audit.agreement import Agreement, agreement
from cellbridge.parity.weights.audit.moments import sketch, tolerance
from cellbridge.parity.weights.audit.reordering import reorderings
from cellbridge.parity.weights.readers.tensor import stored_array

GENERATOR = np.random.default_rng(0)
MATRIX = GENERATOR.normal(size=(24, 32)).astype(np.float32)
KERNEL = GENERATOR.normal(size=(8, 6, 3, 5)).astype(np.float32)
ROTARY = np.arange(24).reshape(4, 3, 2).swapaxes(1, 2).reshape(-1)


def found(source: Array, target: Array, error: float = 0.0) -> Agreement | None:
    """Return the agreement of the first reordering that holds; each must have the target's shape."""
    sketches = sketch(stored_array("source", source)), sketch(stored_array("target", target))
    for assembly in reorderings(*sketches, tolerance(error)):
        array = assembly.assemble({"source": source})
        assert array.shape == target.shape
        rows = np.atleast_1d(array)
        result = agreement(lambda start, stop, rows=rows: rows[start:stop], sketches[1], source.dtype.name)
        if result.holds:
            return result
    return None


@pytest.mark.parametrize(
    "change",
    [
        lambda m: m,
        lambda m: m.T,
        lambda m: m[ROTARY],
        lambda m: m[:, ::-1],
        lambda m: m.T[::-1, ROTARY],
        lambda m: m.reshape(4, 6, 32),
        lambda m: m.T.reshape(32, 4, 6),
        lambda m: m[:, None],
        lambda m: m.T[..., None, None],
        lambda m: m.reshape(-1),
    ],
)
@pytest.mark.parametrize("back", [False, True])
def test_a_matrix_is_found(change: Callable[[Array], Array], back: bool) -> None:
    pair = (change(MATRIX), MATRIX) if back else (MATRIX, change(MATRIX))
    result = found(*map(np.ascontiguousarray, pair))
    assert result is not None
    assert result.is_equal


@given(st.permutations(range(4)), st.permutations(range(8)), st.booleans())
def test_a_kernel_is_found_with_its_axes_in_any_order(axes: list[int], order: list[int], flip: bool) -> None:
    kernel = KERNEL[order][:, :, :: -1 if flip else 1].transpose(axes)
    result = found(KERNEL, np.ascontiguousarray(kernel))
    assert result is not None
    assert result.is_equal


def test_other_values_are_not_found() -> None:
    other = MATRIX.copy()
    other[3, 4] += 0.01
    assert found(MATRIX, other) is None
    assert found(MATRIX, GENERATOR.permuted(MATRIX.reshape(-1)).reshape(MATRIX.shape)) is None


def test_rounding_is_told_from_other_values() -> None:
    half = MATRIX.astype(ml_dtypes.bfloat16)
    cast = found(MATRIX, half, 2.0**-9)
    assert cast is not None
    assert (cast.is_rounded, cast.through, cast.is_equal) == (True, "", False)
    passed = found(MATRIX, np.ascontiguousarray(half.astype(np.float32).T), 2.0**-9)
    assert passed is not None
    assert (passed.is_rounded, passed.through) == (False, "bfloat16")
