"""Programs as functions: arguments, results, gradients, cotangents."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from cellbridge.runtime import (
    UsageError,
    compile,
)
from cellbridge.runtime.ir.dims import symbol
from cellbridge.runtime.ir.types import BFLOAT16
from cellbridge.runtime.ops import comparison, elementwise
from cellbridge.runtime.programs.call import as_array, gradient_program
from cellbridge.runtime.tree import TENSOR, Structure
from tests.runtime.building import build

X = np.array([0.5, 2.0], np.float32)


def test_arrays_and_tensors_are_taken_alike() -> None:
    program = build(lambda x: elementwise.exp(x), (2,))
    np.testing.assert_array_equal(program(X), program(torch.from_numpy(X).requires_grad_()))


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float64", "int64", "bool"])
def test_tensors_of_every_dtype_become_arrays(dtype: str) -> None:
    array = as_array(torch.tensor([0, 1, 1]).to(getattr(torch, dtype)))
    assert array.dtype == (BFLOAT16 if dtype == "bfloat16" else np.dtype(dtype))
    assert array.tolist() == [0, 1, 1]


def test_gradients_have_an_entry_for_each_input_and_parameter() -> None:
    program = build(lambda x, y, w, unused: x * w, (2,), (2,), parameters={"w": X + 1, "unused": X})
    result, gradients = program.value_and_grad(X, X, cotangents=[np.array([1, 10])])
    np.testing.assert_array_equal(result, X * (X + 1))
    np.testing.assert_array_equal(gradients.inputs[0], [1.5, 30])
    np.testing.assert_array_equal(gradients.inputs[1], [0, 0])
    np.testing.assert_array_equal(gradients.parameters["w"], [0.5, 20])
    np.testing.assert_array_equal(gradients.parameters["unused"], [0, 0])
    assert gradient_program(program) is gradient_program(program)


def test_a_program_takes_arrays_whose_bytes_are_in_the_other_order() -> None:
    program = build(lambda x: x * 2.0, (2,))
    for run in (program, compile(program)):
        np.testing.assert_array_equal(run(X.astype(">f4")), 2 * X)


def test_integers_have_no_gradient() -> None:
    assert build(lambda x: x + x, (2,), dtype="int64").value_and_grad(np.array([1, 2]))[1].inputs == (None,)


def test_cotangents_default_to_ones_at_any_size() -> None:
    program = build(lambda x: x * 3.0, (symbol("n"),))
    for n in (1, 4):
        np.testing.assert_array_equal(program.value_and_grad(np.ones(n, np.float32))[1].inputs[0], np.full(n, 3))


@pytest.mark.parametrize(
    ("cotangents", "message"),
    [
        ([], "needed 2 cotangents, one per floating-point output, given 0"),
        (X, "needed a list with a cotangent for each output, given one ndarray"),
        ([X, X[:1]], r"cotangent 1, of output\[2\]: needed shape \[2\], given \[1\]"),
        ([X[None], X], r"cotangent 0, of output\[0\]: needed shape \[2\], given \[1, 2\]"),
        ([X, None], r"cotangent 1, of output\[2\]: needed an array or tensor, given NoneType"),
    ],
)
def test_cotangents_that_do_not_fit(cotangents: Any, message: str) -> None:
    program = build(lambda x: (x * 2.0, comparison.greater(x, 0.0), x + 1.0), (2,))
    with pytest.raises(UsageError, match=message):
        program.value_and_grad(X, cotangents=cotangents)


@pytest.mark.parametrize(
    ("args", "kwargs", "message"),
    [
        ((), {"y": X}, "needed 1 positional argument and the keyword y, given 0 positional arguments and the keyword"),
        ((X, X), {}, "given 2 positional arguments: pass each argument as at capture"),
        ((X,), {"x": X, "y": X}, "given 1 positional argument and the keywords x, y:"),
    ],
)
def test_arguments_are_those_of_the_capture(args: Any, kwargs: dict[str, Any], message: str) -> None:
    call = Structure("tuple", (Structure("tuple", (TENSOR,)), Structure("dict", (TENSOR,), ("y",))))
    program = build(lambda x, y: x + y, (2,), (2,), arguments=call)
    np.testing.assert_array_equal(program(X, y=X), 2 * X)
    with pytest.raises(UsageError, match=message):
        program(*args, **kwargs)


def test_a_program_without_call_structure_says_how_to_run_it() -> None:
    program = build(lambda x: x, (2,), arguments=Structure("tuple"))
    with pytest.raises(UsageError, match=r"runtime\.execute"):
        program(X)
