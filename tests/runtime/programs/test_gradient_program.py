"""Gradient programs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from cellbridge.runtime import ProgramError, execute
from cellbridge.runtime.ir.types import ProgramParameter, Source
from cellbridge.runtime.ops import elementwise
from cellbridge.runtime.ops.boundary import boundary, stop_gradient
from cellbridge.runtime.programs.gradient_program import differentiate
from tests.runtime.building import build

X, ONES = np.array([0.5, 2.0], np.float32), np.ones(2, np.float32)
WEIGHT = {"w": np.array([3.0, 4.0], np.float32)}


def gradients(function: Any, **options: Any) -> list[Any]:
    backward = differentiate(build(function, (2,), **options))
    values = [*backward.input_gradients, *backward.parameter_gradients.values()]
    known = [v for v in values if v is not None]
    arrays = iter(execute(backward.program, [X, *[ONES] * (len(backward.program.inputs) - 1)], wanted=known))
    return [None if v is None else next(arrays) for v in values]


def test_uses_are_summed() -> None:
    (g,) = gradients(lambda x: x * x + elementwise.exp(x) * x)
    np.testing.assert_allclose(g, 2 * X + np.exp(X) * (1 + X), rtol=1e-6)


def test_several_outputs_and_parameters() -> None:
    of_x, of_w = gradients(lambda x, w: (x * w, x + w), parameters=WEIGHT)
    np.testing.assert_allclose(of_x, WEIGHT["w"] + 1)
    np.testing.assert_allclose(of_w, X + 1)


def test_an_input_that_is_an_output_gets_its_cotangent() -> None:
    (g,) = gradients(lambda x: (x, x * 2.0))
    np.testing.assert_array_equal(g, [3, 3])


def test_no_gradient_where_none_flows() -> None:
    assert gradients(lambda x: stop_gradient(x) * 2.0) == [None]
    of_x, of_w = gradients(lambda x, w: x * 2.0, parameters=WEIGHT)
    assert of_w is None
    np.testing.assert_array_equal(of_x, [2, 2])


def test_frozen_parameters_are_left_out() -> None:
    program = build(lambda x, w: x * w, (2,), parameters=WEIGHT)
    frozen = {"w": ProgramParameter(program.parameters["w"].value, WEIGHT["w"], trainable=False)}
    assert differentiate(program.replace(parameters=frozen)).parameter_gradients == {}


def test_every_boundary_feeds_what_no_cotangent_reaches() -> None:
    def function(x: Any) -> Any:
        inner = boundary(x, call=0, kind="input", slot="x")
        boundary(elementwise.exp(inner), call=0, kind="output", slot="unused")
        return stop_gradient(x)

    program = build(function, (2,))
    kinds = [
        [n.attributes["kind"] for n in differentiate(program, every_boundary=every).program.nodes if n.op == "boundary"]
        for every in (False, True)
    ]
    assert "output_gradient" not in kinds[0]
    assert {"output_gradient", "input_gradient"} <= set(kinds[1])


def test_an_op_without_gradient_is_named_with_its_reason() -> None:
    def function(x: Any) -> Any:
        with x.builder.at(0, Source("model.py", 5, "the line", "aten.op")):
            return elementwise.exp(x)

    program = build(function, (2,))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(elementwise.exp, "vjp_rule", None)
        patch.setattr(elementwise.exp, "no_vjp_reason", "it was taken away")
        with pytest.raises(ProgramError, match=r"op exp in Cell \(root\) has no gradient: it was(?s:.*)model.py:5"):
            differentiate(program)
