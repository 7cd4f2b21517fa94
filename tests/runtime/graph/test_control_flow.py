"""Conditions on tensors in traced code: the same numbers and gradients as in eager mode, interpreted and compiled."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import cellbridge.runtime as ms
from cellbridge.runtime import Tensor, ops
from cellbridge.runtime.common.nested import leaves
from cellbridge.runtime.graph import trace
from cellbridge.runtime.graph.running import Running

X = np.array([[0.5, -1.0, 2.0], [1.5, 0.25, -0.75]], np.float32)


# ---- functions of x (2, 3) ----


def if_else(x: Any) -> Any:
    if x.sum() > 0:
        y = x * 2
    else:
        y = x - 1
    return y


def if_alone(x: Any) -> Any:
    y = ops.exp(x)
    if x.max() > 1.8:
        y = y * x
    return y + x


def elif_chain(x: Any) -> Any:
    s = x.sum()
    if s > 10:
        return x * 3
    elif s > 2:
        return x * x
    elif s > 0:
        y = ops.sin(x)
    else:
        y = ops.cos(x)
    return y * 2


def early_returns(x: Any) -> Any:
    if x.sum() > 100:
        return x
    x = x * 2
    if x.min() < -1.5:
        return -x
    x = x + 1
    return x * x


def nested(x: Any) -> Any:
    y = x
    if x.sum() > 0:
        if x.max() > 1.9:
            y = y * 3
        else:
            y = y * 5
        y = y + 1
    else:
        y = y * 7
    return y


def nested_with_return(x: Any) -> Any:
    if x.sum() > 0:
        if x.max() > 1.9:
            return x * 3
        y = x * 2
    else:
        y = x * 7
    return y + 1


def ternary(x: Any) -> Any:
    return (x * 2 if x.mean() > 0 else x * 3) + (1 if x.sum() > 5 else 2)


def conjunction(x: Any) -> Any:
    if x.sum() > 0 and x.max() > 1 and not x.min() > 0:
        return x * 2
    return x * 3


def disjunction(x: Any) -> Any:
    y = x * 2 if x.sum() < 0 or x.max() > 1.9 or x.min() < -100 else x * 4
    return y


def comparison_chain(x: Any) -> Any:
    if 0 < x.sum() < 3 <= x.max() + 2:
        return x * 2
    return x


def and_as_value(x: Any) -> Any:
    return (x.sum() and x.max()) + (x.min() * 0 or x.sum()) + x


def mixed_with_python(x: Any, flag: bool = True) -> Any:
    if flag and x.sum() > 0:
        x = x * 2
    if not flag or x.sum() < 0:
        x = x * 3
    return x


def of_bool(x: Any) -> Any:
    return x * 2 if bool(x.sum() > 0) else x


def while_counter(x: Any) -> Any:
    i = Tensor(0)
    while i < 4:
        x = ops.sin(x) + x * 0.5
        i = i + 1
    return x


def while_python_counter(x: Any) -> Any:
    i = 0
    while i < (x > 0).astype(ms.int32).sum():
        x = x * 0.9 + i
        i += 1
    return x * i


def newton(x: Any) -> Any:
    a = ops.abs(x) + 1
    r = a
    while ops.abs(r * r - a).max() > 1e-3:
        r = (r + a / r) / 2
    return r


def while_true_break(x: Any) -> Any:
    steps = 0
    while True:
        x = x * 1.5
        steps += 1
        if x.max() > 10:
            break
    return x + steps


def while_continue(x: Any) -> Any:
    i = Tensor(0)
    total = x * 0
    while i < 6:
        i = i + 1
        if i % 2 == 0:
            continue
        total = total + x * i
    return total


def while_return(x: Any) -> Any:
    i = Tensor(0)
    while i < 10:
        if x.max() > 5:
            return x, i
        x = x * 1.7
        i = i + 1
    return x * 0, i


def while_else(x: Any) -> Any:
    i = Tensor(0)
    while i < 3:
        i = i + 1
        if x.sum() > 100:
            break
        x = x * 2
    else:
        x = x + 100
    return x


def for_range(x: Any) -> Any:
    for i in range((x > 0).astype(ms.int64).sum()):
        x = x * 0.5 + i
    return x


def for_range_bounds(x: Any) -> Any:
    n = (x > 0).astype(ms.int64).sum()
    total = x.sum() * 0
    for i in range(n, -3, -2):
        total = total + i * x.sum()
    for i in range(1, n):
        total += x.sum() ** 2 * (i * 0.5)
    return total * x


def for_break(x: Any) -> Any:
    for i in range(5):
        if x.max() > 4:
            break
        x = x * 1.4 + i
    return x


def for_return(x: Any) -> Any:
    for scale in [1.5, 2.0, 3.0]:
        x = x * scale
        if x.max() > 5:
            return x + 1
    return x - 1


def for_else(x: Any) -> Any:
    for i in range(3):
        if x.sum() < -i:
            break
        x = x * 2
    else:
        x = x + 5
    return x


def nested_loops(x: Any) -> Any:
    n = (x > 0).astype(ms.int64).sum()
    total = x * 0
    for i in range(n):
        j = 0
        while j < i:
            if x.max() * j > 6:
                break
            total = total + x * (i + j)
            j += 1
    return total


def loop_with_branch(x: Any) -> Any:
    i = Tensor(0)
    y = x
    while i < 5:
        if y.sum() > 3:
            y = y * 0.5
        else:
            y = y * y + x
        i = i + 1
    return y


def tuples(x: Any) -> Any:
    if x.sum() > 0:
        a, (b, c) = x, (x * 2, {"k": x.sum()})
    else:
        a, (b, c) = x * 3, (x, {"k": x.max()})
    return {"a": a, "b": (b, c["k"])}


def lists(x: Any) -> Any:
    parts = [x, x * 2]
    info = {"scale": x.sum()}
    if x.sum() > 0:
        parts[0] = x * 5
        info["scale"] = x.max()
    return parts[0] * info["scale"] + parts[1]


def appended(x: Any) -> Any:
    parts = []
    if x.sum() > 0:
        parts.append(x * 5)
    else:
        parts.append(x)
    return ops.concat(parts)


def list_in_loop(x: Any) -> Any:
    state = [x, Tensor(0)]
    while state[1] < 3:
        state[0] = state[0] * 2
        state[1] = state[1] + 1
    return state[0]


def comprehension(x: Any) -> Any:
    return sum([row * 2 if row.sum() > 1.4 else row * 3 for row in x])


def inner_function(x: Any) -> Any:
    def scaled(y: Any) -> Any:
        if y.sum() > 0:
            return y * 2
        return y

    double = lambda z: z * 2 if z.max() > 1 else z  # noqa: E731
    return double(scaled(x)) + scaled(-x)


def nonlocal_variable(x: Any) -> Any:
    total = x

    def add(y: Any) -> None:
        nonlocal total
        if y.sum() > 0:
            total = total + y

    add(x)
    add(-x)
    return total


def helper(x: Any, limit: float = 1.0, *, factor: float = 2.0) -> Any:
    if x.max() > limit:
        return x * factor
    return x


def calls_helper(x: Any) -> Any:
    return helper(x) + helper(x, 100) + helper(x, factor=5.0)


def decorated(function: Callable[..., Any]) -> Callable[..., Any]:
    def wrapper(*args: Any) -> Any:
        return function(*args) + 1

    return wrapper


@decorated
def behind_decorator(x: Any) -> Any:
    if x.sum() > 0:
        return x * 2
    return x


def written_to(x: Any) -> Any:
    y = x * 1
    if x.sum() > 0:
        y[0] = y[0] * 10
    else:
        y[1, 1] = 7
    return y


def written_in_loop(x: Any) -> Any:
    y = x * 1
    i = Tensor(0)
    while i < 2:
        y[0] = y[0] * 2 + y[1]
        i = i + 1
    return y


def with_statement(x: Any) -> Any:
    with warnings.catch_warnings():
        if x.sum() > 0:
            y = x * 2
        else:
            y = x
    return y


def walrus(x: Any) -> Any:
    if (s := x.sum()) > 0:
        x = x * s
    while (s := s - 1) > -1:
        x = x * 1.1
    return x * s


def stops_gradient(x: Any) -> Any:
    if x.sum() > 0:
        return ops.stop_gradient(x) * x
    return x


def numbers_differ(x: Any) -> Any:
    scale, name = 1, "same"
    if x.sum() > 0:
        scale = 2.5
    return x * scale if name == "same" else x


def unused_in_one(x: Any) -> Any:
    w = x * 2
    if x.sum() > 0:
        only_here = w.sum()
        x = x * only_here
    return x


def deleted(x: Any) -> Any:
    y = x * 3
    if x.sum() > 0:
        z = y
        del y
        x = z
        y = x
    return y


def gradient_within(x: Any) -> Any:
    def loss(v: Any) -> Any:
        if v.sum() > 0:
            return (v * v).sum()
        return v.sum()

    return ms.grad(loss)(x) * 2


def gradient_in_branch(x: Any) -> Any:
    if x.sum() > 0:
        return ms.grad(lambda v: (v * v * v).sum())(x)
    return x


FUNCTIONS = [
    if_else, if_alone, elif_chain, early_returns, nested, nested_with_return, ternary, conjunction, disjunction,
    comparison_chain, and_as_value, mixed_with_python, of_bool, while_counter, while_python_counter, newton,
    while_true_break, while_continue, while_return, while_else, for_range, for_range_bounds, for_break, for_return,
    for_else, nested_loops, loop_with_branch, tuples, lists, appended, list_in_loop, comprehension, inner_function,
    nonlocal_variable, calls_helper, behind_decorator, written_to, written_in_loop, with_statement, walrus,
    stops_gradient, numbers_differ, unused_in_one, deleted, gradient_within,
]  # fmt: skip
INPUTS = {"positive": X, "negative": -X - 0.1, "large": np.abs(X) * 3 + 2}


@pytest.fixture(autouse=True)
def as_errors() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield


def arrays(result: Any) -> list[Any]:
    return [np.asarray(x.asnumpy() if isinstance(x, Tensor) else x) for x in leaves(result)]


def same(actual: Any, expected: Any) -> None:
    for a, b in zip(arrays(actual), arrays(expected), strict=True):
        np.testing.assert_allclose(a, b, rtol=2e-5, atol=2e-5)


def total(function: Callable[..., Any]) -> Callable[..., Any]:
    def summed(*args: Any) -> Any:
        found = [x for x in leaves(function(*args)) if isinstance(x, Tensor)]
        return sum((x * x).sum() for x in found if x.dtype == ms.float32)

    return summed


@pytest.mark.parametrize("kind", INPUTS)
@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda f: f.__name__)
def test_function(function: Callable[..., Any], kind: str) -> None:
    x = Tensor(INPUTS[kind])
    expected = function(x)
    compiled = ms.jit(function)
    for name, given in INPUTS.items():  # traced once, whatever the condition is
        same(compiled(Tensor(given)), function(Tensor(given))) if name != kind else None
    same(compiled(x), expected)
    assert compiled.cache_info().traces == 1
    traced = trace(function, (x,))
    (inner,) = [Running(traced, interpreted=True)]
    for a, b in zip(inner.run([x.asnumpy()]), arrays(expected), strict=True):
        np.testing.assert_allclose(a, b, rtol=2e-5, atol=2e-5)


@pytest.mark.parametrize("kind", INPUTS)
@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda f: f.__name__)
def test_gradient(function: Callable[..., Any], kind: str) -> None:
    x = Tensor(INPUTS[kind])
    expected = ms.grad(total(function))(x)
    same(ms.jit(ms.grad(total(function)))(x), expected)  # on a tape, while tracing
    compiled = ms.jit(function)
    same(ms.grad(total(compiled))(x), expected)  # of the program
    same(ms.grad(total(compiled))(Tensor(INPUTS["large"])), ms.grad(total(function))(Tensor(INPUTS["large"])))
