"""Conditions on tensors in traced code: the same numbers and gradients as in eager mode, interpreted and compiled."""

from __future__ import annotations

import importlib
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest

import cellbridge.runtime as ms
from cellbridge import converter
from cellbridge.runtime import Parameter, Tensor, amp, nn, ops
from cellbridge.runtime.errors import UnknownValue, UnsupportedPython
from cellbridge.runtime.graph import trace
from cellbridge.runtime.graph.control import source
from cellbridge.runtime.graph.program_runner import ProgramRunner
from cellbridge.runtime.tree import leaves

X = np.array([[0.5, -1.0, 2.0], [1.5, 0.25, -0.75]], np.float32)


# ---- functions of x (2, 3) ----


def zero(x: Any) -> Any:
    return (x != x).astype(ms.int64).sum()


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
    i = zero(x)
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
    i = zero(x)
    total = x * 0
    while i < 6:
        i = i + 1
        if i % 2 == 0:
            continue
        total = total + x * i
    return total


def while_return(x: Any) -> Any:
    i = zero(x)
    while i < 10:
        if x.max() > 5:
            return x, i
        x = x * 1.7
        i = i + 1
    return x * 0, i


def while_else(x: Any) -> Any:
    i = zero(x)
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
    i = zero(x)
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
    state = [x, zero(x)]
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
    i = zero(x)
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
INPUTS = (X, -X - 0.1, np.abs(X) * 3 + 2)


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
        tensors = [x for x in leaves(function(*args)) if isinstance(x, Tensor)]
        return sum((x * x).sum() for x in tensors if x.dtype == ms.float32)

    return summed


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda f: f.__name__)
@pytest.mark.every(4)
def test_function(function: Callable[..., Any]) -> None:
    compiled = ms.jit(function)
    interpreted = ProgramRunner(trace(function, (Tensor(X),)), interpreted=True)
    for x in INPUTS:  # traced once, whatever the conditions are
        expected = function(Tensor(x))
        same(compiled(Tensor(x)), expected)
        for a, b in zip(interpreted.run([x]), arrays(expected), strict=True):
            np.testing.assert_allclose(a, b, rtol=2e-5, atol=2e-5)
    assert compiled.cache_info().traces == 1


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda f: f.__name__)
@pytest.mark.every(12)
def test_gradient(function: Callable[..., Any]) -> None:
    on_tape = ms.jit(ms.grad(total(function)))  # differentiated while it is traced
    of_program = ms.grad(total(ms.jit(function)))
    for x in INPUTS:
        expected = ms.grad(total(function))(Tensor(x))
        same(on_tape(Tensor(x)), expected)
        same(of_program(Tensor(x)), expected)


# ---- errors ----


def one_sided(x: Any) -> Any:
    if x.sum() > 0:
        y = x
    return y  # here


def loop_variable(x: Any) -> Any:
    for i in range((x > 0).sum()):
        y = x * i
    return y  # here


def dtypes(x: Any) -> Any:
    if x.sum() > 0:  # here
        y = x
    else:
        y = x.astype(ms.float16)
    return y


def ranks(x: Any) -> Any:
    return x if x.sum() > 0 else x.sum()  # here


def structures(x: Any) -> Any:
    if x.sum() > 0:  # here
        return x, x
    return x


def keys(x: Any) -> Any:
    entries = {}
    if x.sum() > 0:  # here
        entries["a"] = x
    return entries


def no_return(x: Any) -> Any:
    if x.sum() > 0:  # here
        return x


def loop_shape(x: Any) -> Any:
    while x.sum() < 100:  # here
        x = ops.concat([x, x])
    return x


def loop_dtype(x: Any) -> Any:
    i = zero(x)
    while i < 3:  # here
        i = i + 0.5
    return x


def raising(x: Any) -> Any:
    if x.sum() < -100:
        x = x + 1
        raise ValueError("too small")  # here
    return x


def recursion(x: Any) -> Any:
    if x.sum() > 100:  # here
        return x
    return recursion(x * 2)


class Sets(nn.Cell):
    def construct(self, x: Any) -> Any:
        if x.sum() > 0:
            self.last = x  # here
        return x


def gradient_in_a_branch(x: Any) -> Any:
    if x.sum() > 0:
        return ms.grad(lambda v: (v * v * v).sum())(x).sum()  # here
    return x.sum()


def prints_in_two_loops(x: Any) -> Any:
    i = zero(x)
    while i < 2:  # here
        j = zero(x)
        while j < 2:
            ops.Print()(j)
            j = j + 1
        i = i + 1
    return x


def leaves_with_statement(x: Any) -> Any:
    with warnings.catch_warnings():
        if x.sum() > 0:  # here
            return x * 2
    return x


def filtered(x: Any) -> Any:
    return sum([x * k for k in range(3) if x.sum() > k], x)  # here


def generated(x: Any) -> Any:
    def rows() -> Iterator[Any]:
        for row in x:
            if row.sum() > 0:  # here
                yield row

    return sum(rows())


REFUSED = [
    (one_sided, UnsupportedPython, "'y' is not defined in the false branch, but defined in the true one"),
    (loop_variable, UnsupportedPython, "'y' is defined only in a loop"),
    (
        dtypes,
        UnsupportedPython,
        r"'y' is a tensor of Float32\[2, 3\] in the true branch and a tensor of Float16\[2, 3\]",
    ),
    (ranks, UnsupportedPython, r"returned value has shape \(2, 3\) in the true branch and \(\) in the false branch"),
    (structures, UnsupportedPython, "returned value is a tuple in the true branch and a tensor"),
    (keys, UnsupportedPython, r"the container 'entries' has the keys \['a'\] in the true branch and \[\]"),
    (no_return, UnsupportedPython, "returned value is a tensor of .* in the true branch and None in the false branch"),
    (loop_shape, UnsupportedPython, r"'x' has shape \(2, 3\) before an iteration and \(4, 3\) after it"),
    (loop_dtype, UnsupportedPython, "'i' is Int64 before an iteration and Float32 after it"),
    (raising, UnsupportedPython, "an exception is raised under a condition on a tensor"),
    (recursion, UnsupportedPython, "a function calls itself under such a condition"),
    (Sets(), UnsupportedPython, "attribute 'last' of Sets was set"),
    (ms.grad(gradient_in_a_branch), UnsupportedPython, "a gradient is requested under a condition"),
    (prints_in_two_loops, UnsupportedPython, "a loop inside a loop prints"),
    (leaves_with_statement, UnknownValue, "bool()"),
    (filtered, UnknownValue, "needs the elements"),
    (generated, UnknownValue, "bool()"),
]


@pytest.mark.parametrize(("function", "kind", "message"), REFUSED, ids=lambda value: getattr(value, "__name__", None))
def test_refusal_names_the_line(function: Any, kind: type[Exception], message: str) -> None:
    for _ in range(2):
        with pytest.raises(kind, match=message) as caught:
            ms.jit(function)(Tensor(X))
    text = str(caught.value)
    assert "here" in text or function is REFUSED[13][0]
    assert "what to do:" in text


def test_several_elements_are_no_condition() -> None:
    def wrong(x: Any) -> Any:
        return x if x > 0 else -x

    for function in (wrong, ms.jit(wrong)):
        with pytest.raises(ValueError, match="more than one element is ambiguous"):
            function(Tensor(X))


def test_without_source_it_is_refused() -> None:
    function = eval("lambda x: x if x.sum() > 0 else -x")
    with pytest.raises(UnknownValue, match=r"ops\.where"):
        ms.jit(function)(Tensor(X))


def test_source_that_changed_is_not_followed(tmp_path: Path) -> None:
    file = tmp_path / "changing.py"
    text = "def f(x):\n    if x.sum() > 0:\n        return x * 2\n    return x\n"
    file.write_text(text)
    space: dict[str, Any] = {}
    exec(compile(text, str(file), "exec"), space)
    same(ms.jit(space["f"])(Tensor(X)), X * 2)
    exec(compile(text.replace("* 2", "* 3"), str(file), "exec"), space)
    with pytest.raises(UnknownValue, match=r"ops\.where"):
        ms.jit(space["f"])(Tensor(X))


def test_a_module_that_is_loaded_anew_is_followed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "loaded_anew.py"
    monkeypatch.syspath_prepend(tmp_path)
    text = "def f(x):\n    if x.sum() > 0:\n        return x * 2\n    return x\n"
    file.write_text(text)
    module = importlib.import_module("loaded_anew")
    before = module.f
    same(ms.jit(before)(Tensor(X)), X * 2)
    file.write_text(text.replace("* 2", "* 30"))
    module = importlib.reload(module)
    same(ms.jit(module.f)(Tensor(X)), X * 30)
    same(ms.jit(before)(Tensor(X)), X * 2)


class OfThisModule(nn.Cell):
    @property
    def doubling(self) -> Any:
        return lambda x: self.double(x) if x.sum() > 0 else x

    @staticmethod
    def double(x: Any) -> Any:
        if x.sum() > 0:
            return x * 2
        return x

    @ms.jit
    def construct(self, x: Any) -> Any:
        if x.max() > 0:
            return self.doubling(x)
        return x


def test_functions_of_a_module_are_found_without_a_search_of_all_objects(monkeypatch: pytest.MonkeyPatch) -> None:
    def never() -> Any:
        raise AssertionError("every object was looked at")

    monkeypatch.setattr(source, "all_functions", never)
    same(OfThisModule()(Tensor(X)), X * 2)


def test_lines_of_an_error_within_are_those_of_the_file() -> None:
    def wrong(x: Any) -> Any:
        if x.sum() > 0:
            y = x * 2
            for _ in range(2):
                if y.max() > 1:
                    y = ops.matmul(y, x)
        return x

    compiled = ms.jit(wrong)
    with pytest.raises(ValueError, match="matmul") as caught:
        compiled(Tensor(X))
    line = next(f for f in reversed(caught.traceback) if f.path.name == Path(__file__).name)
    assert line.lineno + 1 == wrong.__code__.co_firstlineno + 5
    assert line.name == "wrong"


def test_functions_are_what_they_were() -> None:
    def f(x: Any) -> Any:
        if x.sum() > 0:
            return x * 2
        return x

    code = f.__code__
    ms.jit(f)(Tensor(X))
    assert f.__code__ is code
    with pytest.raises(UnsupportedPython):
        ms.jit(dtypes)(Tensor(X))
    assert "_cellbridge" not in dtypes.__code__.co_names


def test_without_conditions_on_tensors_nothing_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    def f(x: Any, flag: bool = True) -> Any:
        while flag and x.shape[0] > 5:
            x = x[:5]
        return x * 2 if x.ndim == 2 else x

    monkeypatch.setattr(source, "_file_of", lambda code: pytest.fail("the source was read"))
    same(ms.jit(f)(Tensor(X)), X * 2)


FACTOR = 2.0


def test_changed_variables_are_noticed() -> None:
    global FACTOR

    def f(x: Any) -> Any:
        return x * FACTOR if x.sum() > 0 else x

    compiled = ms.jit(f)
    same(compiled(Tensor(X)), X * 2)
    FACTOR = 3.0
    try:
        same(compiled(Tensor(X)), X * 3)
    finally:
        FACTOR = 2.0
    assert compiled.cache_info().traces == 2


def test_any_size_runs_once_sizes_differ() -> None:
    compiled = ms.jit(loop_with_branch)
    for n in (2, 3, 4, 7):
        x = Tensor(np.random.default_rng(n).standard_normal((n, 3)).astype(np.float32))
        same(compiled(x), loop_with_branch(x))
    assert compiled.cache_info().traces == 2


def test_branches_of_other_sizes() -> None:
    def f(x: Any) -> Any:
        y = ops.concat([x[:1]] * 3) if x.sum() > 0 else x
        return y * 2, y.sum(0)

    compiled = ms.jit(f)
    for x in (X, -X):
        same(compiled(Tensor(x)), f(Tensor(x)))
        gradient = ms.grad(total(f))(Tensor(x))
        same(ms.grad(total(compiled))(Tensor(x)), gradient)
        same(ms.jit(ms.grad(total(f)))(Tensor(x)), gradient)


def test_a_loop_without_iterations_has_a_gradient() -> None:
    def f(x: Any) -> Any:
        while x.sum() < 0:
            x = x + 1
        return x * x

    same(ms.jit(ms.grad(total(f)))(Tensor(X)), ms.grad(total(f))(Tensor(X)))


def test_second_derivative() -> None:
    def f(x: Any) -> Any:
        y = (x * x * x).sum() if x.sum() > 0 else (x * x).sum()
        while y > 1:
            y = y * 0.5
        return y

    second = ms.grad(lambda x: (ms.grad(f)(x) * x).sum())
    for x in (X, -X):
        same(ms.jit(second)(Tensor(x)), second(Tensor(x)))


def test_programs_are_saved_and_exported(tmp_path: Path) -> None:
    class Net(nn.Cell):
        def __init__(self) -> None:
            super().__init__()
            self.dense = nn.Dense(3, 3)
            self.calls = Parameter(Tensor(0.0), requires_grad=False)

        def construct(self, x: Any) -> Any:
            if x.sum() > 0:
                x = self.dense(x)
                self.calls += 1
            steps = 0
            while x.max() < 10 and steps < 20:
                x = x * 1.5 + 0.1
                steps += 1
            return x, steps

    net = Net()
    traced = trace(net, (Tensor(X),), dynamic_shapes=({0: "batch"},))
    traced.program.save(tmp_path / "net.cell")
    converter.to_onnx(traced.program, tmp_path / "net.onnx")
    loaded = ms.load(tmp_path / "net.cell")
    session = onnxruntime.InferenceSession(tmp_path / "net.onnx", providers=["CPUExecutionProvider"])
    for x in (X, -X, np.concatenate([X, X])):
        expected = net(Tensor(x))
        for a, b, c in zip(expected, loaded(x), session.run(None, {session.get_inputs()[0].name: x}), strict=False):
            same([b, c], [a, a])


def test_draws_in_branches_follow_the_seed() -> None:
    def f(x: Any) -> Any:
        y = ops.dropout(x, p=0.5) if x.sum() > 0 else x
        return ops.dropout(y, p=0.5)

    compiled = ms.jit(f)
    with pytest.warns(UserWarning, match="interpreter"):
        compiled(Tensor(X))
    for x in (X, -X):
        ms.set_seed(3)
        expected = f(Tensor(x))
        ms.set_seed(3)
        same(compiled(Tensor(x)), expected)


# ---- training ----


class Classifier(nn.Cell):
    """Counts how often its hidden layer is inactive."""

    def __init__(self) -> None:
        super().__init__()
        self.dense, self.norm, self.out = nn.Dense(3, 8), nn.BatchNorm1d(8), nn.Dense(8, 3)
        self.inactive = Parameter(Tensor(0.0), requires_grad=False)

    def construct(self, x: Any) -> Any:
        h = self.dense(x)
        if h.mean() > 0:
            h = self.norm(h)
        else:
            h = ops.relu(h)
            self.inactive += 1
        return self.out(h)


LABELS = Tensor(np.array([0, 2], np.int32))


def checked(net: Any, optimizer: Any) -> Callable[[Any], Any]:
    forward = ms.value_and_grad(lambda x: ops.cross_entropy(net(x), LABELS), None, optimizer.parameters)

    def step(x: Any) -> Any:
        loss, gradients = forward(x)
        if amp.all_finite(gradients):
            optimizer(gradients)
        return loss

    return step


def accumulated(net: Any, optimizer: Any) -> Callable[[Any], Any]:
    sums = optimizer.parameters.clone("sums", "zeros")
    counter = Parameter(Tensor(0, ms.int32), name="counter", requires_grad=False)
    forward = ms.value_and_grad(lambda x: ops.cross_entropy(net(x), LABELS), None, optimizer.parameters)

    def step(x: Any) -> Any:
        loss, gradients = forward(x)
        for total_, gradient in zip(sums, gradients, strict=True):
            ops.assign_add(total_, gradient)
        ops.assign_add(counter, Tensor(1, ms.int32))
        if counter % 2 == 0:
            optimizer(sums)
            for total_ in sums:
                ops.assign(total_, ops.zeros_like(total_))
        return loss

    return step


def loss_scaled(net: Any, optimizer: Any) -> Callable[[Any], Any]:
    scaler = amp.DynamicLossScaler(16, 2, 2)
    forward = ms.value_and_grad(lambda x: scaler.scale(ops.cross_entropy(net(x), LABELS)), None, optimizer.parameters)

    def step(x: Any) -> Any:
        loss, gradients = forward(x)
        finite = amp.all_finite(gradients)
        if finite:
            gradients = scaler.unscale(gradients)
            optimizer(gradients)
        scaler.adjust(finite)
        return scaler.unscale(loss), scaler.scale_value

    return step


def clipped_in_loop(net: Any, optimizer: Any) -> Callable[[Any], Any]:
    forward = ms.value_and_grad(lambda x: ops.cross_entropy(net(x), LABELS), None, optimizer.parameters)

    def step(x: Any) -> Any:
        loss, tries = Tensor(100.0), 0
        while loss > 0.9 and tries < 3:
            loss, gradients = forward(x)
            optimizer(gradients)
            tries += 1
        return loss, tries

    return step


@pytest.mark.parametrize("make", [checked, accumulated, loss_scaled, clipped_in_loop], ids=lambda f: f.__name__)
@pytest.mark.parametrize("kind", ["SGD", "Momentum", "Adam"])
@pytest.mark.every(9)
def test_training_step(make: Any, kind: str) -> None:
    def prepared() -> tuple[Any, Any, Any]:
        ms.set_seed(1)
        net = Classifier().set_train()
        options = {"Momentum": {"momentum": 0.9}, "Adam": {"eps": 0.01}}.get(kind, {})
        optimizer = getattr(nn, kind)(net.trainable_params(), learning_rate=0.05, **options)
        return net, optimizer, make(net, optimizer)

    net, optimizer, step = prepared()
    other_net, other_optimizer, other_step = prepared()
    compiled = ms.jit(other_step)
    for i in range(5):
        x = X * (i - 2)
        if i == 3 and make in (checked, loss_scaled):
            x = x * np.float32(np.inf)
        with np.errstate(all="ignore"):
            same(compiled(Tensor(x)), step(Tensor(x)))
        same([*other_net.get_parameters()], [*net.get_parameters()])
        same([*other_optimizer.get_parameters()], [*optimizer.get_parameters()])
    assert compiled.cache_info().traces == 1
    assert 0 < net.inactive.asnumpy() or make is clipped_in_loop


def test_graph_mode_of_cells() -> None:
    net = Classifier()
    expected = net(Tensor(X))
    ms.set_context(mode=ms.GRAPH_MODE)
    try:
        same(net(Tensor(X)), expected)
        gradients = ms.grad(lambda x: net(x).sum(), None, net.trainable_params())(Tensor(X))
    finally:
        ms.set_context(mode=ms.PYNATIVE_MODE)
    same(gradients, ms.grad(lambda x: net(x).sum(), None, net.trainable_params())(Tensor(X)))


class Derived(Classifier):
    def construct(self, x: Any) -> Any:
        if x.sum() > 0:
            return super().construct(x) * 2
        y = super().construct(x)
        return y - 1


class Squared(nn.Cell):
    def construct(self, x: Any) -> Any:
        return x * x

    def bprop(self, x: Any, out: Any, dout: Any) -> Any:
        if x.sum() > 0:
            return (dout * x * 7,)
        return (dout * 3,)


class UsesSquared(nn.Cell):
    def __init__(self) -> None:
        super().__init__()
        self.squared = Squared()

    def construct(self, x: Any) -> Any:
        return self.squared(x) if x.max() < 100 else x


@pytest.mark.parametrize("cell", [Derived, Squared, UsesSquared])
@pytest.mark.every(2)
def test_cells(cell: Any) -> None:
    net = cell()
    compiled = ms.jit(net)
    for x in (X, -X):
        same(compiled(Tensor(x)), net(Tensor(x)))
        gradient = ms.grad(total(net))(Tensor(x))
        same(ms.jit(ms.grad(total(net)))(Tensor(x)), gradient)
        same(ms.grad(total(compiled))(Tensor(x)), gradient)


# ---- Parameters among the arguments ----


def test_parameter_tuple_is_an_argument() -> None:
    net = Classifier()

    @ms.jit
    def total_of(parameters: Any, x: Any) -> Any:
        return sum(p.sum() for p in parameters["all"]) * x

    given = {"all": ms.ParameterTuple(net.trainable_params())}
    for x in (1.0, 2.0):
        expected = sum(float(p.asnumpy().sum()) for p in net.trainable_params()) * x
        np.testing.assert_allclose(total_of(given, Tensor(x)).asnumpy(), expected, rtol=1e-5)
        net.dense.weight.set_data(net.dense.weight * 2)
    assert total_of.cache_info().traces == 1
    returned = ms.jit(lambda parameters: parameters)(given["all"])
    same(returned, list(given["all"]))
