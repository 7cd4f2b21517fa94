"""Gradients of every op of the registry, compiled: they agree with the interpreter's, in each dtype."""

from __future__ import annotations

import numpy as np
import pytest

import cellbridge.runtime as ms
from cellbridge.runtime import UnsupportedOperators, ops
from cellbridge.runtime.ir.types import as_dtype, is_half
from tests.runtime.ops.cases import OpCase
from tests.runtime.ops.checks import assert_close, cotangents, inputs_of, one_node_program, run_kernel
from tests.runtime.ops.test_all_ops import DIFFERENTIABLE

WITHOUT_FORM = {
    "runtime_shaped": "its gradient reads shapes of what it was computed of, which ONNX Runtime doesn't keep",
}
"""Ops whose gradients have ops without an ONNX form, and why."""

VECTORS = {"eigh": {1: -2}, "svd": {0: -2, 2: -1}}
"""Outputs that are vectors, along these axes, whose signs are open."""

STEP = {"float16": 2.0**-10, "bfloat16": 2.0**-7}
"""Between 1 and the next number."""


def check_compiled_gradient(case: OpCase, dtype: str) -> None:
    """In half precision, neighbouring numbers may round to neighbours; otherwise as `assert_close` says."""
    program = one_node_program(case, dtype)
    inputs = [array for array in inputs_of(case, dtype) if array is not None]
    seeds = [g for g in cotangents(run_kernel(case, inputs_of(case, dtype))) if g is not None]
    outputs, expected = program.value_and_grad(*inputs, cotangents=seeds)
    compiled = ms.compile(program, "cpu")
    for i, axis in VECTORS.get(case.op, {}).items():
        product = (outputs[i] * compiled(*inputs)[i]).sum(axis, keepdims=True)
        seeds[i] = seeds[i] * np.sign(product)
    _, actual = compiled.value_and_grad(*inputs, cotangents=seeds)
    for actual_gradient, expected_gradient in zip(actual.inputs, expected.inputs, strict=True):
        if expected_gradient is None or actual_gradient is None:
            assert expected_gradient is actual_gradient
        elif is_half(as_dtype(dtype)):
            assert actual_gradient.dtype == expected_gradient.dtype
            wide = expected_gradient.astype(np.float64)
            largest = float(np.abs(wide[np.isfinite(wide)]).max(initial=1.0))
            np.testing.assert_allclose(actual_gradient.astype(np.float64), wide, rtol=0, atol=2 * STEP[dtype] * largest)
        else:
            assert_close(actual_gradient, expected_gradient, dtype, scale=1.0)


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", pytest.param("bfloat16", marks=pytest.mark.slow)])
@pytest.mark.parametrize("case", DIFFERENTIABLE, ids=str)
@pytest.mark.every(12)
def test_compiled_gradients_agree_with_the_interpreter(case: OpCase, dtype: str) -> None:
    if case.op in WITHOUT_FORM:
        with pytest.raises(UnsupportedOperators):
            check_compiled_gradient(case, dtype)
    else:
        check_compiled_gradient(case, dtype)


def test_a_wrong_rule_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    case = next(case for case in DIFFERENTIABLE if case.op == "exp")
    monkeypatch.setattr(ops.get("mul"), "onnx_rule", lambda graph, a, b: graph.op("Add", a, b))
    with pytest.raises(AssertionError):
        check_compiled_gradient(case, "float32")
