"""Each op's torch form against the interpreter: outputs and gradients of every case of the op table."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from cellbridge.converter import to_torch
from cellbridge.converter.torch_out.tables import table
from cellbridge.runtime import ops
from cellbridge.runtime.errors import UnsupportedOperators
from cellbridge.runtime.programs.call import as_array
from tests.runtime.ops import checks
from tests.runtime.ops.cases import OpCase
from tests.runtime.ops.test_all_ops import CASES

WRITTEN = [case for case in CASES if case.op in table.FORMS]
# distributions of one number, which torch refuses to draw from
REFUSED = {
    "cauchy-median 2.5 scale 0.0",
    "geometric-probability 1.0",
    "log_normal-mean 0.5 deviation 0.0",
}
DRAWN = [case for case in WRITTEN if ops.get(case.op).traits.draws and str(case) not in REFUSED]
COMPUTED = [case for case in WRITTEN if not ops.get(case.op).traits.draws]
# torch's trigamma, the gradient of its digamma, is right to 5e-10 of the value
INEXACT_OUTPUTS = {"polygamma-trigamma"}
INEXACT_GRADIENTS = {"polygamma-digamma_gradient", "determinant-singular"}  # torch's of a singular matrix is 0
UP_TO_SIGN = {"svd-tall"}  # singular vectors are defined up to their sign, which differs from one LAPACK to another
WITHOUT_GRADIENT = {  # in torch
    "bessel_j0", "bessel_j1", "bessel_y0", "bessel_y1", "modified_bessel_k0", "modified_bessel_k1",
    "scaled_modified_bessel_k0", "scaled_modified_bessel_k1", "spherical_bessel_j0",
}  # fmt: skip
DIFFERENTIABLE = {
    str(case)
    for case in COMPUTED
    if case.differentiable
    and ops.get(case.op).vjp_rule is not None
    and case.op not in WITHOUT_GRADIENT
    and str(case) not in INEXACT_GRADIENTS | UP_TO_SIGN
}


def run(case: OpCase, dtype: str, *, grads: bool = False) -> tuple[list[torch.Tensor], list[torch.Tensor]]:
    """Outputs of the module of one op, and its inputs; with `grads`, those that the case differentiates are leaves."""
    module = to_torch(checks.one_node_program(case, dtype))
    inputs = []
    for array, differentiated in zip(checks.inputs_of(case, dtype), checks.differentiated(case), strict=True):
        tensor = checks.as_torch(array)
        if tensor is not None:
            # torch ends a backward pass that reaches an operand without a derivative (the first one of zeta)
            inputs.append(tensor.requires_grad_(grads and differentiated))
    return list(module(*inputs)), inputs


def test_every_op_has_a_form_or_a_reason() -> None:
    assert set(ops.all_ops()) == set(table.FORMS) | set(table.NO_FORM)
    assert not set(table.FORMS) & set(table.NO_FORM)
    assert all(table.NO_FORM.values())


@pytest.mark.every(2)
@pytest.mark.parametrize("case", COMPUTED, ids=str)
def test_it_computes_what_the_interpreter_does(case: OpCase) -> None:
    inputs = checks.inputs_of(case, "float64")
    expected = checks.run_kernel(case, inputs)
    outputs, leaves = run(case, "float64", grads=str(case) in DIFFERENTIABLE)
    for actual, array in zip(outputs, expected, strict=True):
        if str(case) in INEXACT_OUTPUTS:
            with pytest.raises(AssertionError):
                checks.assert_close(as_array(actual), array, "float64")
            np.testing.assert_allclose(as_array(actual), array, rtol=1e-9)
        elif str(case) in UP_TO_SIGN:
            checks.assert_close(np.abs(as_array(actual)), np.abs(array), "float64")
        else:
            # a singular determinant is a difference of products: 0 on one machine, a rounding error on another
            scale = 1.0 if str(case) == "determinant-singular" else 0.0
            checks.assert_close(as_array(actual), array, "float64", scale)
    if str(case) in DIFFERENTIABLE:
        check_gradients(case, inputs, expected, outputs, [leaf for leaf in leaves if leaf.requires_grad])


def check_gradients(
    case: OpCase, inputs: list[Any], ys: tuple[Any, ...], outputs: list[torch.Tensor], leaves: list[torch.Tensor]
) -> None:
    seeds = checks.cotangents(ys)
    by_rule = checks.run_vjp(case, seeds, ys, inputs)
    pairs = [(y, checks.as_torch(g)) for y, g in zip(outputs, seeds, strict=True) if g is not None and y.requires_grad]
    heads, cotangents = zip(*pairs, strict=True) if pairs else ((), ())
    torch_gradients = (
        torch.autograd.grad(heads, leaves, cotangents, allow_unused=True) if pairs else [None] * len(leaves)
    )
    gradients = iter(torch_gradients)
    for array, expected, differentiated in zip(inputs, by_rule, checks.differentiated(case), strict=True):
        if array is not None and differentiated:
            actual, zero = next(gradients), np.zeros_like(array)
            expected_array = zero if expected is None else expected
            checks.assert_close(zero if actual is None else actual.numpy(), expected_array, "float64", scale=1.0)
    assert next(gradients, None) is None


@pytest.mark.parametrize("case", DRAWN, ids=str)
def test_draws_are_of_the_type_and_repeat_with_the_seed(case: OpCase) -> None:
    torch.manual_seed(3)
    (first,), _ = run(case, "float32")
    torch.manual_seed(3)
    (second,), _ = run(case, "float32")
    (expected,) = checks.run_kernel(case, checks.inputs_of(case, "float32"))
    assert (as_array(first).dtype, first.shape) == (expected.dtype, expected.shape)
    assert torch.equal(first, second)


# an ONNX function is replaced by its definition before forms are looked for
@pytest.mark.parametrize("op", sorted(table.NO_FORM.keys() - {"onnx_function"}))
def test_what_has_no_form_is_refused_with_the_reason(op: str) -> None:
    case = next(case for case in CASES if case.op == op)
    with pytest.raises(UnsupportedOperators, match="can't be written in torch") as refusal:
        to_torch(checks.one_node_program(case, "float32"))
    assert table.NO_FORM[op] in str(refusal.value)


def test_a_planted_wrong_form_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    case = next(case for case in CASES if case.op == "exp")
    test_it_computes_what_the_interpreter_does(case)

    def off(context: Any, x: Any) -> Any:
        return x.exp() * (1 + 1e-9)

    def cut_off(context: Any, x: Any) -> Any:
        return x.detach().exp()

    for wrong in (off, cut_off):
        monkeypatch.setitem(table.FORMS, "exp", wrong)
        with pytest.raises(AssertionError):
            test_it_computes_what_the_interpreter_does(case)


def test_a_form_entered_twice_raises() -> None:
    with pytest.raises(ValueError, match="exp is already in the table"):
        table.torch_function("exp", torch.exp)


IMAGE = np.arange(6.0).reshape(2, 3)
KERNEL = np.linspace(-1, 1, 12).reshape(1, 2, 2, 3)
OTHER_CASES = [
    OpCase("take", (IMAGE, np.array([1, 0, 1], np.int8)), {"axis": 0}, None, "8-bit indices"),
    OpCase("argmax", (IMAGE,), {"axis": 1, "keepdims": True}, None, "kept axis"),
    OpCase("argmin", (-IMAGE,), {"axis": None, "keepdims": True}, None, "kept axes"),
    OpCase(
        "conv_transpose",
        (IMAGE.reshape(1, 1, 2, 3), KERNEL, np.array([1.0, -2.0])),
        {"stride": (1, 1), "padding": ((1, 0), (0, 1)), "output_padding": (0, 0), "dilation": (1, 1), "groups": 1},
        None,
        "one-sided padding and a bias",
    ),
]


@pytest.mark.parametrize("case", OTHER_CASES, ids=str)
def test_forms_that_no_case_of_the_table_takes(case: OpCase) -> None:
    expected = checks.run_kernel(case, checks.inputs_of(case, "float64"))
    outputs, _ = run(case, "float64")
    for actual, array in zip(outputs, expected, strict=True):
        checks.assert_close(as_array(actual), array, "float64")
