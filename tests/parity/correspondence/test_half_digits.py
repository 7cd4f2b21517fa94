"""Tensors that are equal up to half the digits, in another layout; the inverse of a layout writes what it reads."""

from __future__ import annotations

import numpy as np
import pytest

from cellbridge.parity.correspondence.half_digits import layout_of


@pytest.mark.parametrize("axes", [(0, 2, 3, 1), (1, 0, 2, 3)])
@pytest.mark.parametrize("joined", [False, True])
def test_a_permuted_tensor_is_read_and_written(axes: tuple[int, ...], joined: bool) -> None:
    module = np.random.default_rng(0).normal(size=(2, 3, 4, 5)).astype(np.float32)
    cell = module.transpose(axes)
    cell = (cell.reshape(cell.shape[0], -1) if joined else cell) + np.float32(1e-6)
    layout = layout_of(cell, module)
    assert layout is not None
    np.testing.assert_allclose(layout.read(cell), module, atol=1e-5)
    np.testing.assert_allclose(layout.inverse.read(module), cell, atol=1e-5)


def test_a_number_that_differs_is_no_layout() -> None:
    module = np.random.default_rng(0).normal(size=(2, 3, 4))
    cell = module.transpose(1, 0, 2).copy()
    assert layout_of(cell, module) is not None
    cell[0, 0, 0] += 1e-3
    assert layout_of(cell, module) is None
    assert layout_of(module, module) is None  # equal already
