"""`jit`: functions, methods and Cells run compiled, give what they give in Python, and are seldom traced."""

from __future__ import annotations

import copy
import gc
import weakref
from collections import Counter, defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import cellbridge.runtime as ms
from cellbridge.runtime import Parameter, Tensor, TracingError, UnknownValue, nn, ops
from cellbridge.runtime.graph import program_runner

RNG = np.random.default_rng(0)
X = RNG.standard_normal((3, 4)).astype(np.float32)


@pytest.fixture(autouse=True)
def in_onnx_runtime(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is compiled runs in ONNX Runtime: the interpreter isn't to be called."""
    monkeypatch.setattr(program_runner, "execute", None)


def batch(*shape: int) -> Tensor:
    return Tensor(np.random.default_rng(sum(shape)).standard_normal(shape).astype(np.float32))


def same(a: Any, b: Any, rtol: float = 1e-5) -> None:
    np.testing.assert_allclose(a.asnumpy(), b.asnumpy(), rtol=rtol, atol=1e-6)


class Net(nn.Cell):
    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Dense(4, 5)
        self.norm = nn.BatchNorm1d(5)
        self.drop = nn.Dropout(p=0.5)
        self.factor = 2.0
        self.table = Tensor(X[0, :1])

    def construct(self, x: Any) -> Any:
        return self.drop(ops.relu(self.norm(self.fc(x)))) * self.factor + self.table


# ---- sizes ----


def test_five_batch_sizes_cost_two_traces() -> None:
    net = Net()
    jitted = ms.jit(net)
    for size in (3, 5, 2, 7, 4):
        same(jitted(batch(size, 4)), net(batch(size, 4)))
    assert jitted.cache_info().traces == 2
    assert jitted.cache_info().runs == 5
    assert [str(p.program.inputs[0].shape) for p in jitted.programs] == ["(3, 4)", "(size_0, 4)"]


def test_equal_sizes_share_a_symbol_and_others_do_not() -> None:
    @ms.jit
    def outer(x: Any, y: Any) -> Any:
        return x @ y

    for n, k in ((3, 4), (5, 6), (2, 7)):
        same(outer(batch(n, k), batch(k, n)), batch(n, k) @ batch(k, n))
    assert outer.cache_info().traces == 2
    assert [str(value.shape) for value in outer.programs[1].program.inputs] == ["(size_0, size_1)", "(size_1, size_0)"]


def test_a_size_of_one_stays_what_it_is() -> None:
    @ms.jit
    def add(x: Any, y: Any) -> Any:
        return x + y

    for n in (3, 1, 5, 1, 6):
        same(add(batch(n, 4), batch(3, n, 4)), batch(n, 4) + batch(3, n, 4))
    assert add.cache_info().traces == 3  # of 3, of 1, and of any other
    same(add(batch(1, 4), batch(3, 6, 4)), batch(1, 4) + batch(3, 6, 4))


def test_where_python_decides_on_a_size_each_size_has_its_program() -> None:
    @ms.jit
    def rows(x: Any) -> Any:
        return sum((row * i for i, row in enumerate(x)), x.sum(0))

    for n in (3, 5, 3, 5, 4):
        expected = sum((row * i for i, row in enumerate(batch(n, 4))), batch(n, 4).sum(0))
        same(rows(batch(n, 4)), expected)
    info = rows.cache_info()
    assert info.programs == 3
    assert info.traces == 4  # one of them was tried with a symbol


def test_more_axes_may_vary_later() -> None:
    @ms.jit
    def double(x: Any) -> Any:
        return x * 2

    for shape in ((3, 4), (5, 4), (6, 4), (6, 7), (2, 9)):
        same(double(batch(*shape)), batch(*shape) * 2)
    assert double.cache_info().traces == 3


# ---- what programs are kept by ----


def test_dtypes_ranks_and_python_values_have_programs_of_their_own() -> None:
    @ms.jit
    def scaled(x: Any, factor: Any, *, shift: Any = 0) -> Any:
        return x * factor + shift

    calls: list[tuple[Any, ...]] = [
        (batch(3, 4), 2), (batch(3, 4), 2.0), (batch(3, 4), True), (batch(4), 2), (batch(3, 4).astype(ms.float64), 2),
        (Tensor([1, 2]), 2),
    ]  # fmt: skip
    for args in (*calls, *calls):
        result, expected = scaled(*args), args[0] * args[1] + 0
        assert result.dtype == expected.dtype
        same(result, expected)
    assert scaled.cache_info().traces == len(calls)
    same(scaled(calls[0][0], 2, shift=1), calls[0][0] * 2 + 1)


def test_a_float64_of_numpy_is_the_python_number_that_it_is() -> None:
    @ms.jit
    def scaled(x: Any, factor: Any) -> Any:
        return x * factor

    for x in (batch(3), batch(3).astype(ms.float16), Tensor([1, 2])):
        result = scaled(x, np.sqrt(np.float64(4.0)))
        assert result.dtype == (x * np.float64(2.0)).dtype
        same(result, x * 2.0)
    assert scaled(batch(3), 2.0).dtype == ms.float32
    assert scaled.cache_info().traces == 3
    same(ms.grad(scaled)(batch(3), np.float64(3.0)), batch(3) * 0 + 3)


CHANGES: dict[str, Callable[[Net], Any]] = {
    "training": lambda net: net.set_train(),
    "training of one": lambda net: net.norm.set_train(),
    "a flag of a Parameter": lambda net: setattr(net.fc.weight, "requires_grad", False),
    "dtype of computation": lambda net: net.to_float(ms.float16),
    "an attribute": lambda net: setattr(net, "factor", 3.0),
    "a tensor": lambda net: setattr(net, "table", Tensor(X[1, :1])),
    "elements of a tensor": lambda net: net.table.add_(1.0),
    "a Parameter": lambda net: setattr(net.fc, "weight", Parameter(RNG.normal(size=(5, 4)).astype(np.float32))),
    "a Cell": lambda net: setattr(net, "norm", nn.Tanh()),
}


@pytest.mark.parametrize("change", CHANGES)
def test_what_changes_between_calls_is_seen(change: str) -> None:
    net = Net()
    jitted = ms.jit(net)
    for traces in (1, 2):
        for _ in range(2):
            ms.set_seed(0)
            result = jitted(batch(6, 4))
            ms.set_seed(0)
            moving = net.norm.moving_mean.asnumpy() if hasattr(net.norm, "moving_mean") else None
            expected = net(batch(6, 4))
            if moving is not None:
                net.norm.moving_mean.set_data(Tensor(moving))
            assert result.dtype == expected.dtype
            same(result, expected, rtol=1e-2 if "dtype" in change else 1e-5)
        assert jitted.cache_info().traces == traces
        if traces == 1:
            CHANGES[change](net)


def test_values_of_parameters_phase_and_other_cells_change_nothing() -> None:
    net = Net()
    jitted = ms.jit(net)
    jitted(batch(3, 4))
    net.phase = "predict"
    net.fc.weight.set_data(Tensor(RNG.normal(size=(5, 4)).astype(np.float32)))
    Net().set_train()
    same(jitted(batch(3, 4)), net(batch(3, 4)))
    net.set_train()
    jitted(batch(3, 4))
    net.set_train(False)
    same(jitted(batch(3, 4)), net(batch(3, 4)))
    assert jitted.cache_info().traces == 2


def test_variables_of_a_function_are_seen() -> None:
    factor = 2.0
    table = {"shift": 1.0}

    @ms.jit
    def function(x: Any) -> Any:
        return x * factor + table["shift"]

    same(function(batch(3, 4)), batch(3, 4) * 2.0 + 1.0)
    factor = 3.0
    same(function(batch(3, 4)), batch(3, 4) * 3.0 + 1.0)
    table["shift"] = 2.0
    same(function(batch(3, 4)), batch(3, 4) * 3.0 + 2.0)
    assert function.cache_info().traces == 3


def test_defaults_of_a_function_are_seen() -> None:
    def function(x: Any, y: Any = Tensor([1.0, 2.0]), *, table: Any = {"shift": 1.0}) -> Any:  # noqa: B006, B008
        return x * y + table["shift"]

    jitted = ms.jit(function)
    same(jitted(batch(2)), batch(2) * Tensor([1.0, 2.0]) + 1.0)
    assert function.__defaults__
    assert function.__kwdefaults__
    function.__defaults__[0][0] = 5.0
    function.__kwdefaults__["table"]["shift"] = 3.0
    same(jitted(batch(2)), batch(2) * Tensor([5.0, 2.0]) + 3.0)
    same(jitted(batch(2), Tensor([0.0, 1.0])), batch(2) * Tensor([0.0, 1.0]) + 3.0)


def test_variables_named_like_attributes_are_others() -> None:
    scope: dict[str, Any] = {"loss": 0}
    exec("def function(x, net):\n    return net.loss(x)", scope)

    class HasLoss(nn.Cell):
        def loss(self, x: Any) -> Any:
            return x * 2

    jitted, cell = ms.jit(scope["function"]), HasLoss()
    for number in range(3):
        scope["loss"] = number
        same(jitted(batch(3), cell), batch(3) * 2)
    assert jitted.cache_info().traces == 1


def test_attributes_of_classes_and_slots_are_seen() -> None:
    @dataclass(slots=True)
    class Settings:
        factor: float

    class Scales(nn.Cell):
        shift = 1.0

        def __init__(self) -> None:
            super().__init__()
            self.settings = Settings(2.0)

        def construct(self, x: Any) -> Any:
            return x * self.settings.factor + self.shift + Net.shift

    class Net:
        shift = 3.0

    cell = Scales()
    jitted = ms.jit(cell)
    same(jitted(batch(3)), batch(3) * 2.0 + 4.0)
    cell.settings.factor = 5.0
    same(jitted(batch(3)), batch(3) * 5.0 + 4.0)
    Scales.shift = 2.0
    same(jitted(batch(3)), batch(3) * 5.0 + 5.0)
    Net.shift = 4.0
    same(jitted(batch(3)), batch(3) * 5.0 + 6.0)
    jitted(batch(3))
    assert jitted.cache_info().traces == 4


def test_objects_among_the_arguments_are_seen() -> None:
    class Settings:
        factor = 2.0

    @ms.jit
    def function(x: Any, cell: Any, settings: Any) -> Any:
        return cell.fc(x) * cell.factor * settings.factor

    net, settings = Net(), Settings()
    settings.factor = 3.0
    same(function(batch(3, 4), net, settings), net.fc(batch(3, 4)) * 6.0)
    settings.factor, net.factor = 4.0, 5.0
    for _ in range(2):
        same(function(batch(3, 4), net, settings), net.fc(batch(3, 4)) * 20.0)
    assert function.cache_info().traces == 2
    assert "cell.fc" in [call.path for call in function.programs[0].program.calls]


# ---- Parameters and draws ----


def test_parameters_have_their_new_values_after_each_run() -> None:
    class Counts(nn.Cell):
        def __init__(self) -> None:
            super().__init__()
            self.count = Parameter(np.zeros((), np.float32), requires_grad=False)

        def construct(self, x: Any) -> Any:
            ops.assign_add(self.count, Tensor(np.ones((), np.float32)))
            return x * self.count

    cell = Counts()
    jitted = ms.jit(cell)
    for count in (1, 2, 3):
        same(jitted(batch(3)), batch(3) * count)
        assert cell.count.asnumpy() == count
    cell.count.set_data(10)
    same(jitted(batch(3)), batch(3) * 11)
    assert jitted.cache_info().traces == 1


def test_draws_follow_the_seed_as_in_python_and_are_new_in_each_run() -> None:
    def draws(x: Any) -> Any:
        return ops.dropout(x, 0.5), ops.standard_normal((3,)), ops.uniform((2,), 0.0, 1.0)

    jitted = ms.jit(draws)
    for size in (20, 30, 40):
        ms.set_seed(5)
        first, second = jitted(batch(size)), jitted(batch(size))
        ms.set_seed(5)
        for got, expected in zip((*first, *second), (*draws(batch(size)), *draws(batch(size))), strict=True):
            same(got, expected)
        assert all((a != b).any() for a, b in zip(first, second, strict=True))
    assert jitted.cache_info().traces == 2


def test_what_is_drawn_of_computed_values_is_left_to_the_interpreter(monkeypatch: pytest.MonkeyPatch) -> None:
    def sampled(x: Any) -> Any:
        return ops.sigmoid(x).bernoulli()

    from cellbridge.runtime.programs.interpreter import execute

    monkeypatch.setattr(program_runner, "execute", execute)
    jitted = ms.jit(sampled)
    ms.set_seed(1)
    with pytest.warns(UserWarning, match="runs in the interpreter, not in ONNX Runtime: sampled draws"):
        results = [jitted(batch(50)) for _ in range(3)]
    ms.set_seed(1)
    for result in results:
        same(result, sampled(batch(50)))


def test_what_onnx_has_no_form_for_is_left_to_the_interpreter_with_a_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    from cellbridge.runtime.programs.interpreter import execute

    monkeypatch.setattr(program_runner, "execute", execute)
    monkeypatch.setattr(ops.get("inverse"), "onnx_rule", None)
    jitted = ms.jit(ops.inverse)
    with pytest.warns(UserWarning, match=r"interpreter[\s\S]*inverse"):
        got = ms.value_and_grad(jitted)(batch(3, 4, 4))
    for g, e in zip(got, ms.value_and_grad(ops.inverse)(batch(3, 4, 4)), strict=True):
        same(g, e)


def test_sizes_that_checks_must_know_stay_numbers() -> None:
    split = ms.jit(nn.GLU(axis=0))
    for n in (4, 6, 8, 4):
        same(split(batch(n, 3)), nn.GLU(axis=0)(batch(n, 3)))
    assert split.cache_info().programs == 3
    with pytest.raises(ValueError, match="even size along axis 0"):
        split(batch(5, 3))


# ---- methods and Cells ----


def test_a_method_has_programs_for_each_object() -> None:
    class Scales(nn.Cell):
        def __init__(self, factor: float) -> None:
            super().__init__()
            self.weight = Parameter(np.asarray([factor], np.float32))

        @ms.jit
        def construct(self, x: Any) -> Any:
            return x * self.weight

    two, three = Scales(2.0), Scales(3.0)
    for _ in range(2):
        same(two(batch(3)), batch(3) * 2)
        same(three(batch(3)), batch(3) * 3)
    assert two.construct.cache_info().traces == three.construct.cache_info().traces == 1
    twin = copy.deepcopy(two)
    twin.weight.set_data(Tensor([5.0]))
    same(twin(batch(3)), batch(3) * 5)
    same(two(batch(3)), batch(3) * 2)
    assert twin.construct.cache_info().traces == 1


def test_a_jitted_method_of_a_plain_class() -> None:
    class Model:
        def __init__(self) -> None:
            self.net = Net()

        @ms.jit(mode="PIJit")
        def forward(self, x: Any) -> Any:
            return self.net(x) + 1

    model = Model()
    same(model.forward(batch(3, 4)), model.net(batch(3, 4)) + 1)
    model.net.set_train()
    ms.set_seed(0)
    result = model.forward(batch(3, 4))
    ms.set_seed(0)
    same(result, model.net(batch(3, 4)) + 1)


def test_a_jitted_cell_is_the_cell_to_who_asks() -> None:
    net = Net()
    jitted = ms.jit(net)
    assert jitted.trainable_params() == net.trainable_params()
    assert ms.jit(jitted) is jitted
    assert repr(jitted).startswith("jit(Net(")


def test_programs_go_with_their_cell() -> None:
    class Squares(nn.Cell):
        @ms.jit
        def construct(self, x: Any) -> Any:
            return x * x

    cell = Squares()
    cell(batch(3))
    gone = weakref.ref(cell)
    del cell
    gc.collect()
    assert gone() is None


def test_structures_go_in_and_out() -> None:
    @ms.jit
    def function(pair: Any, *, named: Any) -> Any:
        return {"sum": pair[0] + named["a"], "rest": [pair[1], (named["a"], 3, "text")], "none": None}

    a, b = batch(3), batch(2)
    result = function((a, b), named={"a": a.asnumpy()})
    same(result["sum"], a + a)
    same(result["rest"][0], b)
    assert result["rest"][1][1:] == (3, "text")
    assert result["none"] is None
    assert isinstance(result["rest"][1][0], Tensor)


def test_dicts_of_other_classes_go_in() -> None:
    @ms.jit
    def function(groups: Any, counts: Any) -> Any:
        return groups["a"] * counts["a"]

    same(function(defaultdict(list, {"a": batch(3)}), Counter("aab")), batch(3) * 2)


# ---- gradients ----


def gradients(function: Any, x: Tensor, weights: Any) -> tuple[Any, ...]:
    ms.set_seed(2)
    value, (of_x, of_weights) = ms.value_and_grad(lambda x: (function(x) ** 2).sum(), 0, weights)(x)
    return value, of_x, *of_weights


@pytest.mark.parametrize("training", [False, True])
@pytest.mark.every(2)
def test_gradients_that_are_asked_for_outside(training: bool) -> None:
    net = Net().set_train(training)
    net.fc.bias.requires_grad = False
    jitted = ms.jit(net)
    weights = list(net.get_parameters())
    for size in (4, 6, 5):
        moving = net.norm.moving_mean.asnumpy()
        got = gradients(jitted, batch(size, 4), weights)
        moved = net.norm.moving_mean.asnumpy()
        net.norm.moving_mean.set_data(Tensor(moving))
        for g, e in zip(got, gradients(net, batch(size, 4), weights), strict=True):
            same(g, e, rtol=1e-4)
        np.testing.assert_allclose(moved, net.norm.moving_mean.asnumpy(), rtol=1e-5)
        assert (moved != moving).any() == training
    assert jitted.cache_info().traces == 2


def test_second_derivatives() -> None:
    weight = Parameter(np.float32([0.5, 2.0]), name="weight")

    def function(x: Any) -> Any:
        return (ops.sin(x) * weight * x).sum()

    jitted = ms.jit(function)
    x = Tensor(np.float32([0.3, 1.7]))

    def second(f: Any) -> Any:
        return ms.grad(lambda x: (ms.grad(f)(x) ** 2).sum(), 0, [weight])(x)

    for got, expected in zip(second(jitted), second(function), strict=True):
        got, expected = (item[0] if isinstance(item, tuple) else item for item in (got, expected))
        same(got, expected)


def test_a_parameter_that_is_updated_and_differentiated_outside_is_refused() -> None:
    weight = Parameter(np.float32([1.0]), name="weight")

    @ms.jit
    def steps(x: Any) -> Any:
        ops.assign_sub(weight, x[:1])
        return x * weight

    with pytest.raises(ms.UsageError, match="'weight' is differentiated outside"):
        ms.grad(lambda x: steps(x).sum(), None, [weight])(batch(3))


def test_integers_and_what_is_not_used_get_no_gradient() -> None:
    @ms.jit
    def chosen(table: Any, index: Any, unused: Any) -> Any:
        return table[index], index + 1

    def total(table: Any, unused: Any) -> Any:
        rows, places = chosen(table, Tensor([0, 2, 0]), unused)
        return rows.sum() + places.sum()

    of_table, of_unused = ms.grad(total, (0, 1))(batch(3, 4), batch(2))
    np.testing.assert_array_equal(of_table.asnumpy(), np.repeat([[2.0], [0.0], [1.0]], 4, 1))
    np.testing.assert_array_equal(of_unused.asnumpy(), np.zeros(2))


# ---- within what is traced, and in other dtypes ----


def test_within_what_is_traced_it_is_a_part_of_that() -> None:
    net = Net()
    inner = ms.jit(net)

    @ms.jit
    def outer(x: Any) -> Any:
        return inner(x) * 2

    same(outer(batch(3, 4)), net(batch(3, 4)) * 2)
    assert inner.cache_info().traces == 0
    assert "inner" in [call.path for call in outer.programs[0].program.calls]


def test_a_dtype_of_computation_around_it_holds() -> None:
    class Around(nn.Cell):
        def __init__(self) -> None:
            super().__init__()
            self.weight = Parameter(X)

        @ms.jit
        def construct(self, x: Any) -> Any:
            return x @ self.weight.T

    cell = Around()
    assert cell(batch(3, 4)).dtype == ms.float32
    assert cell.to_float(ms.float16)(batch(3, 4)).dtype == ms.float16
    assert cell.construct.cache_info().traces == 2


# ---- refusals ----


def test_what_cannot_be_traced_is_refused_each_time() -> None:
    @ms.jit
    def branches(x: Any) -> Any:
        assert x.sum() > 0
        return x

    for _ in range(2):
        with pytest.raises(UnknownValue, match=r"ops\.where"):
            branches(batch(3))
    assert branches.cache_info().programs == 0
    assert issubclass(UnknownValue, TracingError)


@pytest.mark.parametrize("wrong", [3, Net, None.__class__], ids=str)
def test_only_functions_and_cells_are_compiled(wrong: Any) -> None:
    with pytest.raises(TypeError, match="function, method or Cell"):
        ms.jit(wrong)
    with pytest.raises(TypeError, match="'speed' is unknown"):
        ms.jit(speed=3)


def test_another_result_would_be_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    net = Net()
    jitted = ms.jit(net)
    original = program_runner.Computation.run
    monkeypatch.setattr(
        program_runner.Computation, "run", lambda self, given: {k: v + 1 for k, v in original(self, given).items()}
    )
    with pytest.raises(AssertionError):
        same(jitted(batch(3, 4)), net(batch(3, 4)))
