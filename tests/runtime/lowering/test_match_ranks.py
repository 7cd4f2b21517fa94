"""Numbers that meet tensors with axes of one: the same results, with the axes where they save time and only there."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import cellbridge.runtime as ms
from cellbridge.runtime.compiled.executable import lower_values
from cellbridge.runtime.ir.dims import symbol
from tests.runtime.building import build

CASES = {
    "weight-of-1x1": ((8, 4, 1, 1), (), True),
    "last-of-one": ((8, 4, 1), (1,), True),
    "short-run": ((8, 1, 3, 3), (), True),
    "symbolic": ((symbol("n"), 4, 1, 1), (), True),
    "long-run": ((8, 1, 64), (), False),
    "no-ones": ((8, 4), (), False),
    "first-of-one": ((1, 4), (), False),
    "as-many-axes": ((8, 1), (1, 1), False),
}


@pytest.mark.parametrize("case", CASES)
def test_a_number_gets_axes_where_that_saves_time(case: str) -> None:
    tensor, number, changed = CASES[case]
    program = build(lambda x, y: (x * y, y - x), tensor, number)
    lowering = lower_values(program, program.outputs, ())
    ranks = [node.op_type for node in lowering.graph.nodes]
    assert ("Reshape" in ranks) == changed
    shape = tuple(3 if not isinstance(dim, int) else dim for dim in tensor)
    x, y = np.arange(float(np.prod(shape)), dtype=np.float32).reshape(shape), np.full(number, 0.5, np.float32)
    product, difference = ms.compile(program, "cpu")(x, y)
    np.testing.assert_array_equal(product, x * y)
    np.testing.assert_array_equal(difference, y - x)


def test_a_constant_gets_them_without_a_node() -> None:
    program = build(lambda x: x * 0.5, (8, 4, 1, 1))
    lowering = lower_values(program, program.outputs, ())
    (node,) = lowering.graph.nodes
    shapes: list[Any] = [lowering.graph.types[name].shape for name in node.inputs]
    assert shapes == [(8, 4, 1, 1), (1, 1, 1, 1)]
