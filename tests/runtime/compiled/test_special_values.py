"""Every op of the registry at special values, compiled: it agrees with the interpreter, forward and backward."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import cellbridge.runtime as ms
from cellbridge.runtime import ops
from cellbridge.runtime.errors import CellbridgeError, ConversionError
from cellbridge.runtime.ir.program import Program
from cellbridge.runtime.ir.types import is_floating
from cellbridge.runtime.ops.registry import ops_with
from tests.runtime.ops.cases import OpCase
from tests.runtime.ops.checks import Array, cotangents, inputs_of, one_node_program
from tests.runtime.ops.test_all_ops import CASES

FLOATS = {"nan": np.nan, "inf": np.inf, "-inf": -np.inf, "-0": -0.0, "0": 0.0, "denormal": 1e-40}
ENDS = ("min", "max")

MORE_TERMS = "a product or a weight by 0 that the interpreter leaves out, or the other way round: infinity * 0 is NaN"
NO_ORDER = "ONNX Runtime leaves NaN out of maxima, and a look for it would take longer than the maximum"
IN_GATES = "ONNX Runtime's operator bounds what gates are computed of, and NaN becomes a bound"
OUT_OF_RANGE = "the integers aren't sizes or indices that the op takes: what it does with others isn't defined"
REFUSED = "matrices that NumPy refuses, or gives up: compiled, what is found is infinite or NaN"
GAPS = {
    **dict.fromkeys(
        (
            "adaptive_avg_pool", "adaptive_avg_pool_gradient", "attention_weights", "attention_with_weights", "conv",
            "conv_transpose", "conv_weight_gradient", "dft", "resize", "resize_gradient",
            "scaled_dot_product_attention",
        ),
        MORE_TERMS,
    ),
    **dict.fromkeys(("gru", "lstm", "rnn", "gru_gradient", "lstm_gradient", "rnn_gradient"), IN_GATES),
    **dict.fromkeys(
        (
            "adaptive_max_pool", "max_pool", "reduce_max", "reduce_min", "scatter",
            "unique",
        ),
        NO_ORDER,
    ),
    **dict.fromkeys(("grouped_matmul", "grouped_outer"), OUT_OF_RANGE),
    **dict.fromkeys(("cholesky", "cofactors", "eigh", "inverse", "pseudo_inverse", "solve", "svd"), REFUSED),
    **dict.fromkeys(("householder_qr", "log_determinant", "qr", "solve_triangular"), MORE_TERMS),
    "class_index": "it tells labels that are no classes in the interpreter only: in ONNX, the lookup does",
    "ctc_loss": "paths of probability infinity",
    "ctc_loss_gradient": "paths of probability infinity",
    "ctc_loss_with_alphas": "paths of probability infinity",
    "batch_norm": "the weight is folded with the variance: infinity * 0 is NaN",
    "batch_norm_train": "the weight is folded with the variance: infinity * 0 is NaN",
    "group_norm": "the weight is folded with the variance: infinity * 0 is NaN",
    "determinant": "of a matrix that holds infinity: another order of elimination",
    "scan": "ONNX Runtime's Scan takes no sequence of length 0",
    "nextafter": "what comes before infinity is computed by adding to it",
    "pow": "-infinity to the power of 0.5 is NaN in NumPy and torch, infinity in C; integers to the power of 2^63 - 1",
    "prelu": "a slope that isn't finite at 0: ONNX's operator takes x itself there",
    "searchsorted": "boundaries that aren't in order",
    "gather": "the gradient of an index out of range, for an operand without dimensions",
}  # fmt: skip
"""Ops that differ for some special value, and why."""

LEFT_OUT = {"runtime_shaped", *ops_with(lambda traits: traits.draws)}
"""What has a gradient in the interpreter only, and what is new in each run."""


def _variants(case: OpCase) -> Iterator[tuple[str, OpCase]]:
    """The case with every third element of one operand replaced."""
    for place, array in enumerate(case.inputs):
        if array is None or not array.size or array.dtype.kind not in "fiu":
            continue
        ends = {} if is_floating(array.dtype) else {end: getattr(np.iinfo(array.dtype), end) for end in ENDS}
        for name, value in (ends or FLOATS).items():
            changed = array.copy()
            changed.reshape(-1)[::3] = value
            yield (
                f"operand {place} {name}",
                replace(case, inputs=(*case.inputs[:place], changed, *case.inputs[place + 1 :])),
            )


def _same(actual: Array | None, expected: Array | None) -> bool:
    if actual is None or expected is None:
        return actual is expected
    if not is_floating(expected.dtype):
        return actual.shape == expected.shape and bool(np.array_equal(actual, expected))
    largest = np.abs(expected[np.isfinite(expected)]).max(initial=1.0)
    return actual.shape == expected.shape and np.allclose(actual, expected, 1e-5, 1e-5 * float(largest), equal_nan=True)


def _differences(case: OpCase) -> Iterator[str]:
    program = one_node_program(case, "float32")
    try:
        compiled = ms.compile(program, "cpu")
    except ConversionError:  # no ONNX form, which the registry says
        return
    for name, variant in _variants(case):
        inputs = [array for array in inputs_of(variant, "float32") if array is not None]
        if not _agree(program, compiled, inputs, case.differentiable):
            yield f"{case}: {name}"


def _agree(program: Program, compiled: ms.compiled.Compiled, inputs: list[Array], differentiable: bool) -> bool:
    try:
        expected_outputs = [np.asarray(y) for y in program(*inputs)]
    except CellbridgeError:
        with pytest.raises(CellbridgeError):
            compiled(*inputs)
        return True
    if not all(map(_same, (np.asarray(y) for y in compiled(*inputs)), expected_outputs)):
        return False
    if not differentiable:
        return True
    seeds = [g for g in cotangents(tuple(expected_outputs)) if g is not None]
    _, expected = program.value_and_grad(*inputs, cotangents=seeds)
    _, actual = compiled.value_and_grad(*inputs, cotangents=seeds)
    return all(map(_same, actual.inputs, expected.inputs))


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("op", sorted({case.op for case in CASES} - LEFT_OUT))
@pytest.mark.every(20)
def test_special_values_compiled(op: str) -> None:
    differences = (difference for case in CASES if case.op == op for difference in _differences(case))
    if op not in GAPS:
        assert list(differences) == []
        return
    with contextlib.suppress(CellbridgeError, pytest.fail.Exception):
        assert next(differences, None) is not None, "agrees by now: take it off the list"


NONE = np.array([[np.nan, 1, np.inf, -np.inf, np.nan, -2], [np.inf, -np.inf, 3, np.nan, 0, -1]], np.float32)
ORDERS: dict[str, Callable[[Any], Any]] = {
    "sort": lambda x: ops.sort(x),
    "sort, descending": lambda x: ops.sort(x, descending=True),
    "largest": lambda x: ops.topk(x, 4),
    "smallest": lambda x: ops.topk(x, 4, largest=False),
    "argmax": lambda x: (ops.argmax(x, 1), ops.argmax(x)),
    "argmin": lambda x: (ops.argmin(x, 1), ops.argmin(x)),
    "argsort": lambda x: (ops.argsort(x),),
}


@pytest.mark.parametrize("name", ORDERS)
def test_nan_is_larger_than_infinity(name: str) -> None:
    order = ORDERS[name]
    for actual, expected in zip(ms.jit(lambda x: order(x))(ms.Tensor(NONE)), order(ms.Tensor(NONE)), strict=True):
        np.testing.assert_array_equal(actual.asnumpy(), expected.asnumpy())


def test_signs_of_angles_and_of_nothing() -> None:
    y, x = np.meshgrid(
        [0.0, -0.0, np.inf, -np.inf, np.nan, 1.5, -2, 1e-40], [0.0, -0.0, np.inf, -np.inf, np.nan, 3, -1]
    )
    actual = ms.jit(ops.atan2)(ms.Tensor(y, ms.float32), ms.Tensor(x, ms.float32)).asnumpy()
    expected = np.arctan2(y.astype(np.float32), x.astype(np.float32))
    np.testing.assert_allclose(actual, expected, 1e-6)
    known = ~np.isnan(expected)
    np.testing.assert_array_equal(np.signbit(actual[known]), np.signbit(expected[known]))


def test_a_slice_out_of_range_is_no_other_slice() -> None:
    compiled = ms.jit(lambda x, i, j: ops.tensor_scatter_add(x, ops.stack([i, j], 1), ops.ones((1,))))
    x = ms.Tensor(np.zeros((3, 4), np.float32))
    assert compiled(x, ms.Tensor([1]), ms.Tensor([-1])).asnumpy()[1, 3] == 1
    for i, j in ((0, 5), (1, -5), (2**62, 0)):
        with pytest.raises(CellbridgeError):
            compiled(x, ms.Tensor([i]), ms.Tensor([j]))


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_the_exponential_of_matrices_of_one_number() -> None:
    numbers = np.array([np.nan, np.inf, -np.inf, -0.0, 1.5], np.float32)[:, None, None]
    matrix_exp = ops.get("matrix_exp")
    result = ms.jit(lambda x: matrix_exp(x))(ms.Tensor(numbers)).asnumpy()
    np.testing.assert_allclose(result, np.exp(numbers), 1e-6)
    pairs = np.array([[0.0, 1.0], [-1.0, 0.0]], np.float32)
    turned = ms.jit(lambda x: matrix_exp(x))(ms.Tensor(pairs)).asnumpy()
    np.testing.assert_allclose(turned, [[np.cos(1), np.sin(1)], [-np.sin(1), np.cos(1)]], 1e-6)
