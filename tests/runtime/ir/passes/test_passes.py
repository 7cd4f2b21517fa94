"""`retype` and `split_shared`."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from cellbridge.runtime import execute, verify
from cellbridge.runtime.ir.passes.split_shared import split_shared
from cellbridge.runtime.ir.types import FLOAT32, INT64, CellCall, ProgramParameter, as_dtype
from cellbridge.runtime.ops import elementwise
from tests.runtime.building import build

X, W = np.array([0.5, 2.0], np.float32), np.array([0.1, 3.0], np.float32)


@pytest.mark.parametrize(("dtype", "limit"), [("float16", 3e-3), ("bfloat16", 3e-2), ("float64", 1e-7)])
def test_retyped_programs_run_and_differentiate(dtype: str, limit: float) -> None:
    program = build(lambda x, w: elementwise.exp(x * w) + 0.1, (2,), parameters={"w": W})
    retyped = program.astype(dtype)
    verify(retyped)
    result, gradients = retyped.value_and_grad(X.astype(as_dtype(dtype)))
    exact = np.exp(X.astype(np.float64) * W) + 0.1
    for actual, expected in ((result, exact), (gradients.inputs[0], W * (exact - 0.1))):
        assert actual.dtype == as_dtype(dtype)
        np.testing.assert_allclose(actual.astype(np.float64), expected, rtol=limit)
    assert program.parameters["w"].value.dtype == np.float32, "the original is as it was"


def test_a_constant_keeps_its_digits() -> None:
    program = build(lambda x: x + 0.1, (2,)).astype("float16").astype("float64")
    assert execute(program, [np.zeros(2)])[0].tolist() == [0.1, 0.1]


def test_casts_follow_and_integers_stay() -> None:
    def function(x: Any) -> Any:
        return elementwise.cast(elementwise.cast(x, dtype=INT64), dtype=FLOAT32)

    retyped = build(function, (2,)).astype("float64")
    verify(retyped)
    assert [node.outputs[0].dtype.name for node in retyped.nodes] == ["int64", "float64"]
    with pytest.raises(TypeError, match="needs a floating-point dtype, given int32"):
        retyped.astype("int32")


def test_each_holder_of_a_shared_parameter_gets_a_boundary() -> None:
    def function(x: Any, w: Any) -> Any:
        for cell in (1, 2, 2, 3):
            with x.builder.at(cell, None):
                x = x * w
        return x

    program = build(function, (2,), parameters={"w": W})
    assert split_shared(program) is program, "nothing is shared"
    shared = ProgramParameter(program.parameters["w"].value, W, aliases=("b.w",))
    calls = (program.calls[0], *(CellCall(path, "Layer", 0, 0) for path in ("a", "b", "user")))
    program = program.replace(parameters={"a.w": shared}, calls=calls)
    split = split_shared(program)
    verify(split)
    marks = [(n.cell, n.attributes["kind"], n.attributes["slot"]) for n in split.nodes if n.op == "boundary"]
    assert marks == [(1, "parameter", "a.w"), (2, "parameter", "a.w")], "`user` uses it, but doesn't hold it"
    everywhere = split_shared(program, ["a.w"])
    assert [node.cell for node in everywhere.nodes if node.op == "boundary"] == [1, 2, 3]
