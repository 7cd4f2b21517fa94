"""Every name that the operators have, as functions, methods and objects, is called in a test that knows the result."""

from __future__ import annotations

import inspect
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cellbridge.runtime import Tensor, ops
from cellbridge.runtime.functional import names
from cellbridge.runtime.functional.public_op import METHODS, PUBLIC_OPS
from tests.runtime.functional.equivalents import EQUAL, KEPT
from tests.runtime.functional.operands_of_calls import result_of
from tests.runtime.functional.test_measured import TYPES, VALUES

CALLS = "\n".join([*VALUES, *TYPES, *EQUAL])
IN_TESTS_OF_THEIR_OWN = {
    "constexpr": "test_noop_compat",
    "register_hook": "test_cell_hooks",
    "MultitypeFuncGraph": "test_mapping",
    "copy_": "test_inplace",
    "fill_": "test_inplace",
    "normal_": "test_inplace",
    "random_": "test_inplace",
    "uniform_": "test_inplace",
    "zero_": "test_inplace",
}


def require_same(a: Any, b: Any) -> None:
    """Raise `AssertionError` unless two results are alike, up to rounding in float32."""
    if isinstance(a, (tuple, list)):
        assert len(a) == len(b)
        for x, y in zip(a, b, strict=True):
            require_same(x, y)
    elif isinstance(a, Tensor):
        assert (a.dtype, a.shape) == (b.dtype, b.shape)
        np.testing.assert_allclose(a.asnumpy(), b.asnumpy(), rtol=1e-5, atol=1e-6)
    else:
        assert type(a) is type(b)
        assert a == b


@pytest.mark.parametrize("call", EQUAL)
def test_calls_that_give_the_same(call: str) -> None:
    require_same(result_of(call), result_of(EQUAL[call]))


@pytest.mark.parametrize("name", KEPT)
def test_methods_that_keep_their_result(name: str) -> None:
    operand = {"logical_not_": "b", "addmm_": "T(2, 3)"}.get(name, "p")
    kept = f"(lambda t, f, g, p, b, idx, idl, T: (t.{name}({KEPT[name]}), t))({operand}, f, g, p, b, idx, idl, T)"
    returned, tensor = result_of(kept)
    assert returned is tensor
    fresh = result_of(f"{operand}.{name[:-1]}({KEPT[name]})")
    require_same(tensor, fresh if fresh.dtype == tensor.dtype else fresh.astype(tensor.dtype))


@pytest.mark.parametrize(("name", "module"), IN_TESTS_OF_THEIR_OWN.items())
def test_tests_of_their_own_name_them(name: str, module: str) -> None:
    (path,) = Path(__file__).parents[1].rglob(f"{module}.py")
    assert re.search(rf"\.{name}\b", path.read_text())


def test_every_function_and_object_is_called() -> None:
    called = set(re.findall(r"\b(?:ops|ms)\.(\w+)", CALLS))
    assert sorted(names().keys() - called - IN_TESTS_OF_THEIR_OWN.keys()) == []


def test_every_method_is_called() -> None:
    methods = {name for spelling in PUBLIC_OPS.values() for name in spelling.methods} | set(METHODS)
    called = set(re.findall(r"(?<!\bops)(?<!\bms)\.(\w+)", CALLS)) | KEPT.keys() | IN_TESTS_OF_THEIR_OWN.keys()
    operators = {name for name in methods if name.startswith("__")}
    assert sorted(methods - called - operators) == []


def test_a_name_that_there_is_not_is_told_with_the_nearest() -> None:
    with pytest.raises(AttributeError, match="no attribute 'rellu'; did you mean 'relu'"):
        _ = ops.rellu
    with pytest.raises(AttributeError, match=r"no attribute '__zzz__'$"):
        _ = ops.__zzz__


def test_operator_objects_have_the_signature_of_their_constructor() -> None:
    assert str(inspect.signature(ops.Softmax)) == "(axis=-1)"
    assert str(inspect.signature(ops.ReLU)) == "()"
