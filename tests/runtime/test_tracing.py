"""Building programs by running Python."""

from __future__ import annotations

import numpy as np
import pytest

from cellbridge.runtime import execute
from cellbridge.runtime.ir.types import BFLOAT16, FLOAT32, INT64, Source, Type
from cellbridge.runtime.ops import creation, elementwise, shaping
from cellbridge.runtime.tracing import Builder
from tests.runtime.building import build


def test_operators_record_nodes() -> None:
    program = build(lambda x: ((2.0 - x) / (x + 1) * -x, 1.0 / x, x @ x), (2, 2))
    x = np.array([[0.5, 1.0], [2.0, 3.0]], np.float32)
    for actual, expected in zip(execute(program, [x]), ((2 - x) / (x + 1) * -x, 1 / x, x @ x), strict=True):
        np.testing.assert_allclose(actual, expected, rtol=1e-6)


def test_an_array_on_the_left_records_too() -> None:
    program = build(lambda x: np.ones(2, np.float32) - x, (2,))
    np.testing.assert_array_equal(execute(program, [np.full(2, 3, np.float32)])[0], [-2, -2])


def test_names_are_unique() -> None:
    builder = Builder()
    assert [builder.name(stem) for stem in ("x", "x", "x_1", "x")] == ["x", "x_1", "x_1_1", "x_2"]
    continued = Builder.from_program(build(lambda x: x + x, (2,)))
    assert continued.name("x") != "x"
    assert continued.name("add") != "add"


def test_equal_scalars_are_one_constant_of_their_dtype() -> None:
    builder = Builder()
    half = builder.constant(0.1, BFLOAT16)
    assert builder.constant(0.1, "bfloat16").value is half.value
    assert builder.constant(0.1, FLOAT32).value is not half.value
    assert builder.constants[0].data == 0.1, "all digits are kept"


def test_nodes_know_cell_and_source() -> None:
    builder, source = Builder(), Source("model.py", 3, "return x.exp()", "aten.exp")
    x = builder.new_value("x", Type(FLOAT32, (2,)))
    with builder.at(4, source):
        elementwise.exp(x)
    elementwise.exp(x)
    assert [(n.cell, n.source) for n in builder.nodes] == [(4, source), (0, None)]


def test_a_value_of_another_program_is_refused() -> None:
    first, second = (Builder().new_value("x", Type(FLOAT32, (2,))) for _ in range(2))
    with pytest.raises(ValueError, match="another program"):
        elementwise.add(first, second)


def test_attributes_are_made_plain() -> None:
    builder = Builder()
    x = builder.new_value("x", Type(FLOAT32, (6,)))
    assert shaping.reshape(x, shape=[np.int64(2), 3]).shape == (2, 3)
    assert builder.nodes[0].attributes["shape"] == (2, 3)
    assert type(builder.nodes[0].attributes["shape"][0]) is int
    with pytest.raises(TypeError, match="not an attribute"):
        shaping.reshape(x, shape=(object(),))


def test_ops_without_operands_are_created() -> None:
    builder = Builder()
    assert builder.create(creation.full, shape=(2, 3), value=1, dtype=INT64).value.type == Type(INT64, (2, 3))
