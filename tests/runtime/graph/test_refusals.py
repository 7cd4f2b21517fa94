"""What can't be traced is an error that names the line, the Cell, what was done, and what to write instead."""

from __future__ import annotations

import functools
import inspect
import random
import types
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pytest

import cellbridge.runtime as ms
from cellbridge.runtime import Parameter, Tensor, nn, ops
from cellbridge.runtime.errors import TracingError, UnknownSize, UnknownValue, UnsupportedPython
from cellbridge.runtime.graph import trace

X = np.random.default_rng(0).standard_normal((3, 4)).astype(np.float32)


class Counter:
    def __init__(self) -> None:
        self.count = 0


class Inner(nn.Cell):
    """Does `act(self, x)`, with what a network may hold beside Parameters and Cells."""

    def __init__(self, act: Callable[[Any, Any], Any]) -> None:
        super().__init__()
        self.act = act
        self.weight = Parameter(X, name="weight")
        self.count = 0
        self.history: list[Any] = []
        self.nested: dict[str, list[Any]] = {"seen": []}
        self.table = Tensor(X)
        self.array = np.zeros(3)
        self.counter = Counter()

    def construct(self, x: Any) -> Any:
        return self.act(self, x)


class Outer(nn.Cell):
    def __init__(self, act: Callable[[Any, Any], Any]) -> None:
        super().__init__()
        self.inner = Inner(act)

    def construct(self, x: Any) -> Any:
        return self.inner(x * 2) + 1


# ---- elements ----


def numpy_call(self: Any, x: Any) -> Any:
    return Tensor(np.exp(x))  # here


def numpy_function(self: Any, x: Any) -> Any:
    return x - np.mean(x, axis=0)  # here


def numpy_of_list(self: Any, x: Any) -> Any:
    return Tensor(np.concatenate([x, x]))  # here


def numpy_array(self: Any, x: Any) -> Any:
    return Tensor(x.asnumpy() + 1)  # here


def numpy_of_parameter(self: Any, x: Any) -> Any:
    return x * self.weight.asnumpy()  # here


def numbers(self: Any, x: Any) -> Any:
    return x * x.sum().item()  # here


def python_float(self: Any, x: Any) -> Any:
    return x * float(x.sum())  # here


def python_int(self: Any, x: Any) -> Any:
    return x * int(x.sum())  # here


def lists(self: Any, x: Any) -> Any:
    return Tensor(x.tolist())  # here


def made_of_list(self: Any, x: Any) -> Any:
    return Tensor([x.sum(), x.max()])  # here


def assertion(self: Any, x: Any) -> Any:
    assert (x > 0).all()  # here
    return x


def bound_of_range(self: Any, x: Any) -> Any:
    return sum((x for _ in range(x.argmax())), x)  # here


def axis(self: Any, x: Any) -> Any:
    return x.sum(x.astype(ms.int32)[0, 0])  # here


def different_elements(self: Any, x: Any) -> Any:
    return ops.unique(x)  # here


ELEMENTS = [
    (numpy_call, "NumPy call", "ops.exp"),
    (numpy_function, "np.mean()", "ops"),
    (numpy_of_list, "np.concatenate()", "ops"),
    (numpy_array, "asnumpy()", "ops"),
    (numpy_of_parameter, "asnumpy()", "ops"),
    (numbers, "item()", "keep it a tensor"),
    (python_float, "float()", "keep it a tensor"),
    (python_int, "int()", "keep it a tensor"),
    (lists, "tolist()", "ops"),
    (made_of_list, "list", "ops.stack"),
    (assertion, "bool()", "ops.where"),
    (bound_of_range, "int", "size"),
    (axis, "int", "size"),
    (different_elements, "the operand of unique", "where"),
]


# ---- sizes ----


def size_in_range(self: Any, x: Any) -> Any:
    return sum((x[i] for i in range(x.shape[0])), x)  # here


def rows(self: Any, x: Any) -> Any:
    return ops.stack([row * 2 for row in x])  # here


def length(self: Any, x: Any) -> Any:
    return x * len(x)  # here


def size_compared(self: Any, x: Any) -> Any:
    return x if x.shape[0] > 2 else -x  # here


def size_equal(self: Any, x: Any) -> Any:
    return x if x.shape[0] == 3 else -x  # here


def shape_equal(self: Any, x: Any) -> Any:
    return x if x.shape == (3, 4) else -x  # here


def size_as_int(self: Any, x: Any) -> Any:
    return x * int(x.shape[0])  # here


def size_as_bool(self: Any, x: Any) -> Any:
    return x if x.shape[0] else -x  # here


def root_of_size(self: Any, x: Any) -> Any:
    return x * x.shape[0] ** -0.5  # here


def fraction_of_size(self: Any, x: Any) -> Any:
    return x[: int(x.shape[0] * 0.5)]  # here


def size_as_text(self: Any, x: Any) -> Any:
    return x * {"3": 2.0}[str(x.shape[0])]  # here


def shape_as_text(self: Any, x: Any) -> Any:
    return x * len(f"{x.shape}")  # here


SIZES = [size_in_range, rows, length, size_compared, size_equal, shape_equal, size_as_int, size_as_bool, root_of_size,
         fraction_of_size, size_as_text, shape_as_text]  # fmt: skip


# ---- objects ----


def counts(self: Any, x: Any) -> Any:
    self.count += 1  # here
    return x


def keeps(self: Any, x: Any) -> Any:
    self.last = x * 2  # here
    return x


def replaces(self: Any, x: Any) -> Any:
    self.table = x  # here
    return x


def switches_to_training(self: Any, x: Any) -> Any:
    self.set_train()  # here
    return x


def writes_to_tensor(self: Any, x: Any) -> Any:
    self.table[0] = x[0]  # here
    return x + self.table


def makes_a_cell(self: Any, x: Any) -> Any:
    return nn.Dense(4, 2)(x)  # here


def makes_a_parameter(self: Any, x: Any) -> Any:
    return x * Parameter(X, name="new")  # here


def freezes(self: Any, x: Any) -> Any:
    self.weight.requires_grad = False  # here
    return x


def registers_a_hook(self: Any, x: Any) -> Any:
    x.register_hook(lambda g: g * 2)  # here
    return x


def shows_gradients(self: Any, x: Any) -> Any:
    return ops.HookBackward(lambda g: None)(x)  # here


AT_ONCE = [
    (counts, "attribute 'count' of Inner", "Parameter"),
    (keeps, "attribute 'last' of Inner was set to a tensor", "return"),
    (replaces, "attribute 'table' of Inner was set to a tensor", "Parameter"),
    (switches_to_training, "attribute 'training' of Inner", "return"),
    (writes_to_tensor, "table of Inner 'inner' was written to", "Parameter"),
    (makes_a_cell, "initial value", "__init__"),
    (makes_a_parameter, "a Parameter", "__init__"),
    (freezes, "a flag of Parameter 'inner.weight'", "outside"),
    (registers_a_hook, "hook", "PYNATIVE_MODE"),
    (shows_gradients, "HookBackward", "PYNATIVE_MODE"),
]


def appends(self: Any, x: Any) -> Any:
    self.history.append(x)
    return x


def fills_a_nested_list(self: Any, x: Any) -> Any:
    self.nested["seen"].append(1)
    return x


def adds_a_key(self: Any, x: Any) -> Any:
    self.nested["more"] = [2]
    return x


def writes_to_array(self: Any, x: Any) -> Any:
    self.array[0] += 1
    return x


def counts_elsewhere(self: Any, x: Any) -> Any:
    self.counter.count += 1
    return x


def drops_a_parameter(self: Any, x: Any) -> Any:
    del self.weight
    return x


UNSEEN = [
    (appends, "history of Inner 'inner'"),
    (fills_a_nested_list, "nested of Inner 'inner'"),
    (adds_a_key, "nested of Inner 'inner'"),
    (writes_to_array, "array of Inner 'inner'"),
    (counts_elsewhere, "count of Counter, counter of Inner 'inner'"),
    (drops_a_parameter, "weight of Inner 'inner'"),
]


def draws_with_numpy(self: Any, x: Any) -> Any:
    return x + Tensor(np.random.rand(3, 4).astype(np.float32))


def draws_with_python(self: Any, x: Any) -> Any:
    return x * random.random()


def state(cell: nn.Cell) -> dict[str, Any]:
    """All that the Cells hold, Parameters as arrays."""
    contents: dict[str, Any] = {}
    for path, inner in cell.cells_and_names():
        for name, value in inner.__dict__.items():
            contents[f"{path}.{name}"] = repr(value)
        contents |= {f"{path}.{n}": (p.asnumpy().tolist(), p.requires_grad) for n, p in inner._params.items()}
    return contents


def refused(act: Callable[[Any, Any], Any], kind: type[TracingError], **settings: Any) -> str:
    cell = Outer(act)
    before = state(cell)
    with pytest.raises(kind) as raised:
        trace(cell, (Tensor(X),), **settings)
    assert state(cell) == before
    return str(raised.value)


def assert_names_the_place(message: str, act: Callable[[Any, Any], Any]) -> None:
    lines, first = inspect.getsourcelines(act)
    (number, text) = next((first + i, line.strip()) for i, line in enumerate(lines) if line.endswith("# here\n"))
    assert f"{__file__}:{number}: {text}" in message
    assert "Inner inner" in message


@pytest.mark.parametrize(("act", "what", "instead"), ELEMENTS, ids=lambda item: getattr(item, "__name__", ""))
def test_elements_are_not_known(act: Any, what: str, instead: str) -> None:
    message = refused(act, UnknownValue)
    first, _, advice = message.partition("what to do: ")
    assert what in first
    assert instead in advice
    assert_names_the_place(message, act)


@pytest.mark.parametrize("act", SIZES, ids=lambda act: act.__name__)
def test_symbolic_sizes_are_not_known(act: Any) -> None:
    message = refused(act, UnknownSize, dynamic_shapes=({0: "batch"},))
    assert "batch" in message
    assert_names_the_place(message, act)
    trace(Outer(act), (Tensor(X),))  # a fixed size is a number


@pytest.mark.parametrize(("act", "what", "instead"), AT_ONCE, ids=lambda item: getattr(item, "__name__", ""))
def test_objects_that_were_there_stay_as_they_are(act: Any, what: str, instead: str) -> None:
    message = refused(act, UnsupportedPython)
    first, _, advice = message.partition("what to do: ")
    assert what in first
    assert instead in advice
    assert_names_the_place(message, act)


@pytest.mark.parametrize(("act", "what"), UNSEEN, ids=lambda item: getattr(item, "__name__", ""))
def test_objects_that_were_changed_unseen_are_found(act: Any, what: str) -> None:
    message = refused(act, UnsupportedPython)
    assert what in message
    assert f"at {__file__}:" in message  # the line isn't known: where `construct` is defined


@pytest.mark.parametrize("act", [draws_with_numpy, draws_with_python], ids=lambda act: act.__name__)
def test_draws_that_a_program_would_repeat_are_refused(act: Any) -> None:
    message = refused(act, UnsupportedPython)
    assert "ops.standard_normal" in message
    assert "Inner inner" in message


def test_variables_of_a_function_stay_as_they_are() -> None:
    values: list[Any] = []
    total = Tensor(X)
    count = 0

    def appends_to_variable(x: Any) -> Any:
        values.append(x)
        return x

    def adds_to_tensor(x: Any) -> Any:
        total[0] = x[0]
        return total

    def rebinds(x: Any) -> Any:
        nonlocal count
        count += 1
        return x

    for function, name in ((appends_to_variable, "values"), (adds_to_tensor, "total"), (rebinds, "count")):
        with pytest.raises(UnsupportedPython, match=f"the variable {name}") as raised:
            trace(function, (Tensor(X),))
        assert f"at {__file__}:" in str(raised.value)
    assert not values
    assert count == 0
    np.testing.assert_array_equal(total.asnumpy(), X)


def test_a_tensor_that_is_left_behind_is_refused_where_it_is_used() -> None:
    keeper: Any = types.ModuleType("keeper")  # whose variables aren't looked at

    def keeps_it(x: Any) -> Any:
        keeper.kept = x * 2
        return x

    trace(keeps_it, (Tensor(X),))
    with pytest.raises(UnknownValue, match="of an earlier trace"):
        keeper.kept + Tensor(X)
    with pytest.raises(UnknownValue, match="of an earlier trace"):
        keeper.kept.asnumpy()
    with pytest.raises(UnknownValue, match="of an earlier trace"):
        trace(lambda x: x + keeper.kept, (Tensor(X),))


# ---- statements ----


class Tries(nn.Cell):
    def construct(self, x: Any) -> Any:
        y = x * 2
        try:  # here
            return y.reshape((4, 3))
        except ValueError:
            return y


class Yields(nn.Cell):
    def construct(self, x: Any) -> Any:
        yield x  # here


class Around(nn.Cell):
    """`try` and `yield` in functions of its own don't count."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = Tries()

    def construct(self, x: Any) -> Any:
        def halves() -> Any:
            yield x[:1]
            yield x[1:]

        with np.errstate(all="ignore"):
            return sum(half.sum() for half in halves())


@pytest.mark.parametrize(("cls", "words"), [(Tries, "statement 'Try'"), (Yields, "expression 'Yield'")])
def test_statements_without_a_form_are_refused(cls: type[nn.Cell], words: str) -> None:
    with pytest.raises(UnsupportedPython, match=f"Unsupported {words}") as raised:
        trace(cls(), (Tensor(X),))
    lines, first = inspect.getsourcelines(cls)
    number = next(first + i for i, line in enumerate(lines) if line.endswith("# here\n"))
    assert f"{__file__}:{number}: " in str(raised.value)
    assert isinstance(raised.value, RuntimeError)


def test_statements_of_inner_functions_and_of_cells_that_are_not_called_pass() -> None:
    assert trace(Around(), (Tensor(X),)).program(X).shape == ()


def test_statements_of_functions_are_looked_at_too() -> None:
    def tries(x: Any) -> Any:
        try:
            return x
        finally:
            pass

    with pytest.raises(UnsupportedPython, match="Try"):
        trace(tries, (Tensor(X),))
    namespace: dict[str, Any] = {}
    exec("def generator(x):\n    yield x", namespace)
    with pytest.raises(UnsupportedPython, match="Yield"):
        trace(namespace["generator"], (Tensor(X),))


# ---- hooks ----


@pytest.mark.parametrize("kind", ["backward_pre", "backward"])
def test_a_program_has_no_backward_hooks(kind: str) -> None:
    cell = Outer(lambda self, x: x * x)
    getattr(cell.inner, f"register_{kind}_hook")(lambda *_: None)
    with pytest.raises(UnsupportedPython, match=r"Cell Inner 'inner' has backward hooks[\s\S]*PYNATIVE_MODE"):
        trace(cell, (Tensor(X),))
    jitted = ms.jit(cell)
    np.testing.assert_array_equal(jitted(Tensor(X)).asnumpy(), cell(Tensor(X)).asnumpy())
    with pytest.raises(UnsupportedPython, match="has backward hooks"):
        ms.grad(jitted)(Tensor(X))


class Recorder:
    def __init__(self) -> None:
        self.outputs: list[Any] = []
        self.count = 0

    def notes(self, cell: Any, inputs: Any, output: Any) -> None:
        self.outputs.append(output)

    def __call__(self, cell: Any, inputs: Any, output: Any) -> None:
        self.count += 1


def _appends(values: list[Any], *_: Any) -> None:
    values.append(1)


def _sets(cell: Any, *_: Any) -> None:
    cell.last = 1


def _converts(cell: Any, inputs: Any, output: Any) -> None:
    output.asnumpy()


_kept: list[Any] = []


def _keeps(*_: Any) -> None:
    _kept.append(1)


@pytest.mark.parametrize(
    "make", [lambda: Recorder().notes, Recorder, lambda: functools.partial(_appends, []), lambda: _keeps]
)
def test_a_hook_that_changes_python_objects_is_refused(make: Any) -> None:
    cell = Outer(lambda self, x: x)
    cell.inner.register_forward_hook(make())
    with pytest.raises(UnsupportedPython, match="traced Python changed"):
        trace(cell, (Tensor(X),))


@pytest.mark.parametrize(("hook", "error"), [(_sets, UnsupportedPython), (_converts, UnknownValue)])
def test_a_hook_is_traced_as_construct_is(hook: Any, error: type[Exception]) -> None:
    cell = Outer(lambda self, x: x)
    cell.inner.register_forward_hook(hook)
    with pytest.raises(error):
        trace(cell, (Tensor(X),))


def test_hooks_of_parameters_are_for_eager_mode() -> None:
    weight = Parameter(X, name="weight")
    weight.register_hook(lambda g: g * 2)
    function = ms.grad(lambda x: (x * weight).sum(), None, [weight])
    with pytest.raises(UnsupportedPython, match="hooks"):
        trace(function, (Tensor(X),))
    np.testing.assert_array_equal(function(Tensor(X))[0].asnumpy(), X * 2)


@dataclass
class Held:
    """An object with a tensor."""

    x: Any


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (
            lambda x, lists: lists["all"].append(x),
            r"a list or dict among the arguments was changed(.|\n)*at .*test_ref",
        ),
        (lambda x, lists: (x, Held({"y": x * 2})), "an object of class Held with tensors in it was returned"),
        (lambda x, lists: map(ops.relu, [x]), "an object of class map was returned(.|\n)*in a tuple, list, dict"),
        (lambda x, lists: [{"y": x}.values()], "an object of class dict_values was returned"),
        (lambda x, lists: x + np.random.rand(), r"random numbers were drawn(.|\n)*at .*test_refusals.py:\d+"),
    ],
)
def test_what_would_be_lost_is_refused(function: Any, message: str) -> None:
    with pytest.raises(TracingError, match=message):
        ms.jit(function)(Tensor(X), {"all": [1]})


def test_attributes_of_classes_and_slots_stay_as_they_are() -> None:
    @dataclass(slots=True)
    class Slotted:
        count: int = 0

    class Changes(nn.Cell):
        values: ClassVar[list[Any]] = []
        calls = 0

        def __init__(self, act: Callable[[Any, Any], Any]) -> None:
            super().__init__()
            self.act = act
            self.slotted = Slotted()

        def construct(self, x: Any) -> Any:
            self.act(self, x)
            return x

    changes: dict[str, Callable[[Any, Any], Any]] = {
        "values of Changes": lambda self, x: self.values.append(x),
        "calls of Changes": lambda self, x: setattr(type(self), "calls", 1),
        "last of Changes": lambda self, x: setattr(type(self), "last", x),
        "count of Slotted, slotted of Changes": lambda self, x: setattr(self.slotted, "count", 1),
    }
    for changed, act in changes.items():
        cell = Changes(act)
        with pytest.raises(UnsupportedPython, match=f"traced Python changed {changed}: "):
            ms.jit(cell)(Tensor(X))
        assert (Changes.values, Changes.calls, cell.slotted.count) == ([], 0, 0)
        assert not hasattr(Changes, "last")


def test_defaults_of_a_function_stay_as_they_are() -> None:
    class Remembers(nn.Cell):
        def construct(self, x: Any, cache: Any = {}) -> Any:  # noqa: B006
            return x + cache.setdefault("x", x)

    cell = Remembers()
    with pytest.raises(UnsupportedPython, match=r"traced Python changed the variable cache(.|\n)*Remembers.construct"):
        ms.jit(cell)(Tensor(X))
    np.testing.assert_array_equal(cell(Tensor(X)).asnumpy(), X * 2)


class Writes(nn.Cell):
    def construct(self, x: Any, *, y: Any) -> Any:
        x[0] = 1.0
        return x + y


class GivesTwice(nn.Cell):
    def __init__(self) -> None:
        super().__init__()
        self.writes = Writes()

    def construct(self, x: Any) -> Any:
        x = x * 2
        return self.writes(x, y=x)


@pytest.mark.parametrize(("call", "cell"), [(lambda x: Writes()(x, y=x), "Writes"), (GivesTwice(), "writes")])
def test_a_tensor_that_is_given_twice_and_written_to_is_refused(call: Any, cell: str) -> None:
    """Python has one tensor there, under two names; a program has two."""
    x = Tensor(X)
    message = rf"given as x and as y was written to(.|\n)*{cell}(.|\n)*Writes.construct(.|\n)*pass a copy"
    with pytest.raises(UnsupportedPython, match=message):
        ms.jit(call)(x)
    np.testing.assert_array_equal(x.asnumpy(), X)


def test_what_is_written_to_may_be_given_twice_where_it_is_copied() -> None:
    x = Tensor(X)
    with pytest.raises(UnsupportedPython, match="given as x and as y"):
        ms.jit(Writes())(x, y=x)
    expected = Writes()(Tensor(X), y=Tensor(X))
    np.testing.assert_array_equal(ms.jit(Writes())(x, y=x.copy()).asnumpy(), expected.asnumpy())


def test_a_program_leaves_arguments_as_they_are() -> None:
    with pytest.warns(UserWarning, match="Python writes to the argument 'x'; the program doesn't change it"):
        traced = trace(lambda x: x.mul_(2), (Tensor(X),))
    np.testing.assert_array_equal(traced.program(X), X * 2)


# ---- what passes ----


def test_what_only_looks_forbidden_passes() -> None:
    class Fine(nn.Cell):
        def __init__(self) -> None:
            super().__init__()
            self.flag = True
            self.layers = [ops.ReLU(), nn.Tanh()]

        def construct(self, x: Any) -> Any:
            self.flag = True
            local: list[Any] = []
            for layer in self.layers:
                local.append(layer(x))
            y = ops.stack(local)
            y[0] = x
            z = ops.zeros((3, 4))
            z[1] += x[1]
            return y.sum(0) + z + nn.Sigmoid()(x) * (x.shape[1] / 2) + Tensor(np.sqrt(np.arange(4, dtype=np.float32)))

    cell = Fine()
    np.testing.assert_array_equal(trace(cell, (Tensor(X),)).program(X), cell(Tensor(X)).asnumpy())


def test_sizes_compute_with_tensors() -> None:
    def mean(x: Any) -> Any:
        n, k = x.shape
        return x.sum(0) / n + x.sum() * (n // 2) - (2 + n % 3) ** x[0] + ops.full((k,), n * 2, dtype=ms.float32)

    program = trace(mean, (Tensor(X),), dynamic_shapes=({0: "n"},)).program
    for count in (1, 3, 6):
        x = np.random.default_rng(count).standard_normal((count, 4)).astype(np.float32)
        np.testing.assert_allclose(program(x), mean(Tensor(x)).asnumpy(), rtol=1e-5)
