"""Every case of every op: kernel, types, gradient and ONNX form, by torch, finite differences and ONNX Runtime."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import torch

from cellbridge.converter.onnx_out.export import to_onnx
from cellbridge.runtime import ops
from cellbridge.runtime.errors import ConversionError, ProgramError, ShapeError
from cellbridge.runtime.ir.program import Program
from cellbridge.runtime.ops.registry import Op
from tests.runtime.ops.cases import OpCase
from tests.runtime.ops.checks import (
    check_half,
    check_kernel,
    check_onnx,
    check_symbolic,
    check_vjp,
    check_vjp_as_program,
    check_vjp_by_differences,
    computation_of,
    missing_rules,
    one_node_program,
)

CASES: list[OpCase] = [
    case
    for path in sorted(Path(__file__).parent.glob("cases_*.py"))
    for case in importlib.import_module(f"tests.runtime.ops.{path.stem}").CASES
]
DIFFERENTIABLE = [case for case in CASES if case.differentiable]
WITH_TORCH = [case for case in CASES if case.torch is not None]
IN_ONNX = [case for case in CASES if not case.skip_onnx and ops.get(case.op).onnx_rule is not None]
FIRST_IS_FIXED = {  # cases that can't have a symbolic first dimension
    "ctc_loss_gradient-impossible": "the sequences are as many by chance",
    "cholesky_solve": "the matrix is square",
    "cholesky_solve-upper": "the matrix is square",
    "determinant-singular": "the matrix is square",
    "expand-both": "it is expanded to a known one",
    "inverse": "the matrix is square",
    "index_add-middle": "the indices are as many by chance",
    "linear-vector": "it is contracted with a known one",
    "matmul-vector_by_batch": "it is contracted with a known one",
    "scan": "what is carried has the size that the body takes",
    "scan-nothing": "what is carried has the size that the body takes",
    "scan-reverse": "what is carried has the size that the body takes",
    "read_sizes": "it is the number of sizes",
    "solve": "the matrix is square",
    "solve_triangular-ones": "the matrix is square",
    "solve_triangular-upper": "the matrix is square",
}
NOT_THE_DERIVATIVE = {  # the gradient is torch's, not that of each element alone
    "cholesky",  # the matrix stays symmetric
    "cholesky-complex",
    "cholesky_solve",  # neither triangle of the factor is left out
    "cholesky_solve-upper",
    *(f"ctc_loss-{name}" for name in ("several", "empty", "nothing", "other-blank")),  # that by the scores of classes
    "eigh",
    "embedding-padding",  # a row gets no gradient
    "own_gradient",  # it is what the sub-program says
}
OPSETS = (18, 20, 23)
HALVES = ("float16", "bfloat16")


@pytest.mark.parametrize("op", ops.all_ops().values(), ids=lambda op: op.name)
def test_every_op_is_complete(op: Op) -> None:
    assert missing_rules(op, CASES) == []


def test_case_names_are_unique() -> None:
    names = [str(case) for case in CASES]
    assert sorted(set(names)) == sorted(names)


@pytest.mark.parametrize("case", WITH_TORCH, ids=str)
def test_kernel_agrees_with_torch(case: OpCase) -> None:
    for dtype in ("float64", "float32"):
        check_kernel(case, dtype)


# each op of a sub-program rounds for itself
ROUNDING_ONCE = [
    case
    for case in CASES
    if not any(isinstance(x, Program) for x in case.attributes.values())
    and case.op != "nextafter"  # the next number is another one in each dtype
]


@pytest.mark.every(2)
@pytest.mark.parametrize("case", ROUNDING_ONCE, ids=str)
def test_half_precision_rounds_once(case: OpCase) -> None:
    for dtype in HALVES:
        check_half(case, dtype)


@pytest.mark.parametrize("case", [case for case in DIFFERENTIABLE if case.torch is not None], ids=str)
def test_gradient_agrees_with_torch(case: OpCase) -> None:
    check_vjp(case)


@pytest.mark.parametrize("case", [case for case in DIFFERENTIABLE if str(case) not in NOT_THE_DERIVATIVE], ids=str)
@pytest.mark.every(3)
def test_gradient_agrees_with_differences(case: OpCase) -> None:
    check_vjp_by_differences(case)


@pytest.mark.parametrize("case", DIFFERENTIABLE, ids=str)
def test_gradient_is_the_same_as_a_program(case: OpCase) -> None:
    check_vjp_as_program(case)


@pytest.mark.parametrize("case", IN_ONNX, ids=str)
@pytest.mark.every(4)
def test_onnx_runtime_agrees(case: OpCase) -> None:
    check_onnx(case, "float32", OPSETS)


@pytest.mark.parametrize("case", IN_ONNX, ids=str)
@pytest.mark.every(8)
def test_onnx_runtime_agrees_in_other_dtypes(case: OpCase) -> None:
    for dtype in ("float64", "float16"):
        check_onnx(case, dtype)


@pytest.mark.parametrize(
    "case", [case for case in IN_ONNX if case.inputs and np.shape(case.inputs[0])[:1] > (1,)], ids=str
)
@pytest.mark.every(8)
def test_the_first_dimension_can_be_symbolic(case: OpCase) -> None:
    if str(case) in FIRST_IS_FIXED:
        with pytest.raises((ShapeError, ConversionError)):
            check_symbolic(case)
    else:
        check_symbolic(case)


EXP = OpCase("exp", (np.linspace(-2.0, 2.0, 7),), {}, torch.exp)


@pytest.mark.parametrize(
    ("concern", "rule", "check"),
    [
        ("kernel", lambda x: np.exp(x) * (1 + 1e-9), lambda: check_kernel(EXP, "float64")),
        ("kernel", lambda x: np.exp(x) * np.float32(1 + 1e-4), lambda: check_kernel(EXP, "float32")),
        ("kernel", lambda x: np.exp(x.astype(np.float16)).astype(x.dtype), lambda: check_kernel(EXP, "float32")),
        ("vjp", lambda g, y, x: g * y * (1 + 1e-9), lambda: check_vjp(EXP)),
        ("vjp", lambda g, y, x: None, lambda: check_vjp(EXP)),
        ("vjp", lambda g, y, x: g * y * 1.01, lambda: check_vjp_by_differences(EXP)),
        ("vjp", lambda g, y, x: g * y if isinstance(x, np.ndarray) else g, lambda: check_vjp_as_program(EXP)),
        ("onnx", lambda graph, x: graph.op("Erf", x), lambda: check_onnx(EXP, "float32")),
        ("onnx", lambda graph, x: graph.op("Cast", graph.op("Exp", x), to=11), lambda: check_onnx(EXP, "float32")),
    ],
)
def test_a_planted_fault_is_found(
    monkeypatch: pytest.MonkeyPatch, concern: str, rule: Any, check: Callable[[], None]
) -> None:
    check()
    monkeypatch.setattr(ops.get("exp"), f"{concern}_rule", rule)
    with pytest.raises((AssertionError, onnx.shape_inference.InferenceError)):
        check()


@pytest.mark.parametrize("opset", OPSETS)
def test_a_planted_fault_at_one_opset_is_found(monkeypatch: pytest.MonkeyPatch, opset: int) -> None:
    """In the nodes; in a version of an operator, too, only those that are run would tell."""
    right = ops.get("exp").onnx_rule
    assert right is not None

    def wrong(graph: Any, x: str) -> Any:
        return graph.op("Erf", x) if graph.opset == opset else right(graph, x)

    monkeypatch.setattr(ops.get("exp"), "onnx_rule", wrong)
    with pytest.raises(AssertionError):
        check_onnx(EXP, "float32", OPSETS)


def test_the_computation_of_a_model_has_the_versions_of_its_operators() -> None:
    program = one_node_program(OpCase("cast", (np.ones(2),), {"dtype": np.dtype(np.int64)}), "float32")
    computations = [computation_of(to_onnx(program, opset=opset)) for opset in (17, 18, 21)]
    assert [versions for _, versions in computations] == [{("", "Cast", version)} for version in (13, 13, 21)]
    assert computations[0] == computations[1]


def test_a_planted_second_rounding_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    case = OpCase("reduce_sum", (np.linspace(0.0, 2.0, 100),))
    check_half(case, "float16")
    monkeypatch.setattr(ops.get("reduce_sum"), "kernel_rule", lambda x, **_: np.cumsum(x)[-1])
    monkeypatch.setattr(ops.get("reduce_sum"), "half_native", True)
    with pytest.raises(AssertionError):
        check_half(case, "float16")


def test_a_planted_wrong_type_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ops.get("exp"), "infer_rule", lambda x: x.with_shape((*x.shape, 1)))
    with pytest.raises(ProgramError, match="kernel of op exp returned"):
        check_kernel(EXP, "float64")


def test_a_planted_missing_rule_is_found() -> None:
    def half_done(x: Any) -> Any:
        """An op that isn't registered."""

    op = Op(half_done)
    assert missing_rules(op, CASES) == [
        "infer",
        "kernel",
        "either vjp or a reason why there is none",
        "either onnx or a reason why there is none",
        "a case",
    ]
    op.infer(lambda x: x)
    op.kernel(lambda x: x)
    op.no_vjp("a reason")
    op.no_onnx("")
    assert missing_rules(op, [OpCase("half_done", ())]) == ["either onnx or a reason why there is none"]
    op.onnx(lambda graph, x: x)
    op.vjp(lambda g, y, x: g)
    assert missing_rules(op, [OpCase("half_done", ())]) == ["either vjp or a reason why there is none"]
