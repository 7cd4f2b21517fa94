"""Functions over the items of tuples, chosen by types, and along an axis."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import cellbridge.runtime as ms
from cellbridge.runtime import Parameter, Tensor, grad, ops

X, Y = Tensor([1.0, 2.0]), Tensor([3.0, 5.0])

scale = ops.MultitypeFuncGraph("scale")


@scale.register("Number", "Tensor")
def _(factor: float, x: Tensor) -> Any:
    return x * factor


@scale.register("Tensor", "Tensor")
def _(factor: Tensor, x: Tensor) -> Any:
    return x * factor + 100


@scale.register("None", "String")
def _(factor: None, x: str) -> str:
    return x.upper()


@scale.register("Tuple", "Bool")
def _(factor: tuple[Any, ...], x: bool) -> bool:
    return not x


def test_the_form_for_the_types_runs() -> None:
    assert scale(2.0, X).tolist() == [2, 4]
    assert scale(X, Parameter(Y, name="p")).tolist() == [103, 110]
    assert scale(None, "a") == "A"
    assert scale((), True) is False
    with pytest.raises(TypeError, match=r"no implementation is registered for .*Float32 Tensor.*str"):
        scale(X, "a")


def test_dtypes_and_python_types_choose_too() -> None:
    kind = ops.MultitypeFuncGraph("kind")
    for types in ("Tensor",), (list,), ("Int64",), (ms.float32,), ("Bool",), ("Dict",), ("Function",):
        kind.register(*types)(lambda _, types=types: types[0])
    values = [X, [1], 1, 1.5, True, {}, len]
    assert [kind(v) for v in values] == ["Tensor", list, "Int64", ms.float32, "Bool", "Dict", "Function"]
    with pytest.raises(TypeError, match="str"):
        kind("a")


def test_hyper_map_scales_gradients_as_training_steps_do() -> None:
    scaled = ops.HyperMap()(ops.partial(scale, 0.5), (X, (Y, X)))
    assert [scaled[0].tolist(), scaled[1][0].tolist()] == [[0.5, 1], [1.5, 2.5]]
    assert isinstance(scaled[1], tuple)
    assert [t.tolist() for t in ops.HyperMap(scale)((2.0, 3.0), (X, Y))] == [[2, 4], [9, 15]]
    order: list[int] = []
    assert ops.HyperMap(reverse=True)(lambda v: order.append(v) or v, (1, 2, 3)) == (1, 2, 3)  # type: ignore[func-returns-value]
    assert order == [3, 2, 1]


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda: ops.Map()(X, (X,)), TypeError, "function"),
        (lambda: ops.Map()(len, X), TypeError, "tuples or lists"),
        (lambda: ops.Map(scale)((1.0,), (X, Y)), ValueError, "lengths"),
        (lambda: ops.Map(reverse=1), TypeError, "reverse"),
        (lambda: ops.MultitypeFuncGraph(3), TypeError, "name"),
        (lambda: ops.vmap(3), TypeError, "callable"),
        (lambda: ops.vmap(len, (0, 0))(X), ValueError, "in_axes"),
        (lambda: ops.vmap(lambda a, b: a + b)(X, Tensor([1.0])), ValueError, "one size"),
    ],
)
def test_errors(call: Any, error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        call()


@settings(deadline=None, max_examples=25)
@given(st.integers(-2, 1), st.integers(-2, 1), st.integers(0, 9))
def test_vmap_is_the_function_of_each_slice(in_axis: int, out_axis: int, seed: int) -> None:
    a, b = np.random.default_rng(seed).standard_normal((2, 3, 4))
    result = ops.vmap(lambda x, y: (x * y).cumsum(0), in_axis, out_axis)(Tensor(a), Tensor(b))
    slices = [np.cumsum(np.take(a * b, i, in_axis)) for i in range(a.shape[in_axis])]
    np.testing.assert_allclose(result.asnumpy(), np.stack(slices, out_axis))
    gradient = grad(lambda x: ops.vmap(lambda v: (v * v).sum(), in_axis)(x))(Tensor(a))
    np.testing.assert_allclose(gradient.asnumpy(), 2 * a)
