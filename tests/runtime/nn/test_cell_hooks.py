"""Hooks on Cells and tensors: what they see, when, and what becomes of what they return."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import cellbridge.runtime as ms
from cellbridge.runtime import Parameter, Tensor, grad, nn
from tests.runtime.against_torch import normal

X, Y = Tensor([3.0]), Tensor([4.0])
REGISTERS = (
    "register_forward_pre_hook",
    "register_forward_hook",
    "register_backward_pre_hook",
    "register_backward_hook",
)


class Function(nn.Cell):
    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function

    def construct(self, *args: Any, **kwargs: Any) -> Any:
        return self.function(*args, **kwargs)


def square() -> nn.Cell:
    return Function(lambda x: x * x)


def plain(structure: Any) -> Any:
    if isinstance(structure, Tensor):
        return structure.asnumpy().item()
    if isinstance(structure, (tuple, list)):
        return type(structure)(plain(item) for item in structure)
    return structure


def watched(cell: nn.Cell) -> list[Any]:
    """What the backward hook and the backward pre-hook of a Cell see."""
    calls: list[Any] = []
    cell.register_backward_pre_hook(lambda cell, grad_output: calls.append(plain(grad_output)))
    cell.register_backward_hook(lambda cell, gi, go: calls.append((plain(gi), plain(go))))
    return calls


# ---- going forward ----


@pytest.mark.parametrize("returned", [lambda x: x[0] * 10.0, lambda x: (x[0] * 10.0,)])
def test_a_pre_hook_replaces_inputs(returned: Callable[[Any], Any]) -> None:
    cell = square()
    cell.register_forward_pre_hook(lambda cell, inputs: returned(inputs))
    assert plain(cell(X)) == 900.0
    assert plain(grad(cell)(X)) == 600.0


def test_a_forward_hook_replaces_the_output() -> None:
    cell = Function(lambda x: (x * 2.0, x))
    cell.register_forward_hook(lambda cell, inputs, output: (output[0] * inputs[0], output[1]))
    assert plain(cell(X)) == (18.0, 3.0)
    assert plain(grad(cell)(X)) == 13.0


def test_keyword_inputs() -> None:
    cell = Function(lambda x, y: x * y)
    calls: list[Any] = []
    cell.register_forward_pre_hook(lambda cell, inputs: calls.append(plain(inputs)))
    cell.register_forward_pre_hook(lambda cell, inputs, kw: (inputs, {"y": kw["y"] * 10.0}), with_kwargs=True)
    cell.register_forward_hook(lambda cell, inputs, kw, out: calls.append(plain([inputs, kw["y"], out])), with_kwargs=1)
    assert plain(cell(X, y=Y)) == 120.0
    assert calls == [(3.0,), [(3.0,), 40.0, 120.0]]
    assert plain(grad(lambda x, y: cell(x, y=y), (0, 1))(X, Y)) == (40.0, 30.0)
    for wrong in ((X,), X, (X, 3)):
        handle = cell.register_forward_pre_hook(lambda cell, inputs, kw, wrong=wrong: wrong, with_kwargs=True)
        with pytest.raises(RuntimeError, match="pair"):
            cell(X, y=Y)
        handle.remove()


def test_order_and_prepending() -> None:
    cell, order = square(), []
    for number, prepend in ((1, False), (2, False), (3, True), (4, True)):
        cell.register_forward_hook(lambda cell, inputs, output, n=number: order.append(n), prepend=prepend)
    cell(X)
    assert order == [4, 3, 1, 2]


def test_a_hook_that_is_always_called() -> None:
    cell, outputs = Function(lambda x: x.unknown), []
    cell.register_forward_hook(lambda cell, inputs, output: outputs.append("not this one"))
    cell.register_forward_hook(lambda cell, inputs, output: outputs.append(output), always_call=True)
    with pytest.raises(AttributeError, match="unknown"):
        cell(X)
    assert outputs == [None]

    def fail(cell: Any, inputs: Any, output: Any) -> None:
        outputs.append("once")
        raise KeyError

    cell = square()
    cell.register_forward_hook(fail, always_call=True)
    with pytest.raises(KeyError):
        cell(X)
    assert outputs == [None, "once"]


def test_removing() -> None:
    cell, calls = square(), []
    first_handle = cell.register_forward_hook(lambda cell, inputs, output: calls.append(1))
    second_handle = cell.register_forward_hook(
        lambda cell, inputs, output: (calls.append(2), second_handle.remove())[1]
    )
    assert first_handle is not second_handle
    cell(X)
    cell(X)
    first_handle.remove()
    first_handle.remove()
    cell(X)
    assert calls == [1, 2, 1]


# ---- going backward ----


def test_gradients_at_both_ends() -> None:
    cell = Function(lambda x, y: (x * y, x + y))
    calls = watched(cell)
    cell(X, Y)
    assert calls == []

    def function(x: Any, y: Any) -> Any:
        a, b = cell(x, y)
        return a * 2.0 + b * 5.0

    assert plain(grad(function, (0, 1))(X, Y)) == (13.0, 11.0)
    assert calls == [(2.0, 5.0), ((13.0, 11.0), (2.0, 5.0))]


@pytest.mark.parametrize(
    ("cell", "function", "grad_input", "grad_output"),
    [
        (Function(lambda x, y: x * y), lambda c, x: c(x, Y), (4.0, None), (1.0,)),  # y asks for none
        (Function(lambda x, k, y: x * k * y), lambda c, x: c(x, 2, Y), (8.0, None), (1.0,)),
        (Function(lambda x, k: x * k), lambda c, x: c(x, Tensor([2], ms.int32)), (2.0, None), (1.0,)),
        (Function(lambda x, y: x * x), lambda c, x: c(x, x), (6.0, 0.0), (1.0,)),  # y isn't used
        (Function(lambda x: (x * x, x * 5.0)), lambda c, x: c(x)[0], (6.0,), (1.0, 0.0)),
        (Function(lambda x: (x * x, "text")), lambda c, x: c(x)[0], (6.0,), (1.0,)),
        (Function(lambda x: {"a": x * x, "b": [x]}), lambda c, x: c(x), (7.0,), (1.0, 1.0)),
        (Function(lambda k: k * 2.0), lambda c, x: c(x.asnumpy().item()) + x, None, None),
    ],
)
def test_inputs_and_outputs_of_all_kinds(cell: nn.Cell, function: Any, grad_input: Any, grad_output: Any) -> None:
    calls = watched(cell)
    grad(lambda x: function(cell, x))(X)
    assert calls == ([] if grad_input is None else [grad_output, (grad_input, grad_output)])


def test_if_only_weights_ask_there_is_no_gradient_of_inputs() -> None:
    w = Parameter(Tensor([2.0]), name="w")
    cell = Function(lambda x: x * w)
    calls = watched(cell)
    assert plain(grad(cell, None, w)(X)) == 3.0
    assert calls == [(1.0,), ((None,), (1.0,))]


def test_a_cell_that_is_called_twice() -> None:
    cell = square()
    calls = watched(cell)
    assert plain(grad(lambda x: cell(cell(x)))(X)) == 108.0
    assert calls == [(1.0,), ((18.0,), (1.0,)), (18.0,), ((108.0,), (18.0,))]


def test_several_hooks_pass_on_what_they_return() -> None:
    cell, gradients = square(), []
    for factor in (2.0, 3.0):
        cell.register_backward_hook(lambda cell, gi, go, f=factor: (gradients.append(plain(gi)), gi[0] * f)[1])
        cell.register_backward_pre_hook(lambda cell, go, f=factor: (gradients.append(plain(go)), go[0] * f)[1])
    assert plain(grad(cell)(X)) == 6.0 * 36.0
    assert gradients == [(1.0,), (2.0,), (36.0,), (72.0,)]


def test_what_can_take_the_place_of_a_gradient() -> None:
    for returned, expected in [
        (lambda gi: None, 6.0),
        (lambda gi: (None,), 6.0),
        (lambda gi: gi[0] * 2.0, 12.0),
        (lambda gi: (gi[0] * 2.0,), 12.0),
        (lambda gi: [gi[0].astype(ms.float16)], 6.0),
    ]:
        cell = square()
        cell.register_backward_hook(lambda cell, gi, go, returned=returned: returned(gi))
        gradient = grad(cell)(X)
        assert (plain(gradient), gradient.dtype) == (expected, np.float32)


@pytest.mark.parametrize("register", ["register_backward_hook", "register_backward_pre_hook"])
@pytest.mark.parametrize(
    ("returned", "error", "words"),
    [
        ((X, X), TypeError, ["2", "1", "not equal"]),
        (3, TypeError, ["Tensor", "int"]),
        (("a",), TypeError, ["Tensor", "str"]),
        (Tensor([1.0, 2.0]), ValueError, ["(1,)", "(2,)"]),
    ],
)
def test_what_cannot(register: str, returned: Any, error: type[Exception], words: list[str]) -> None:
    cell = square()
    getattr(cell, register)(lambda *_: returned)
    with pytest.raises(error) as raised:
        grad(cell)(X)
    assert [word for word in words if word not in str(raised.value)] == []


def test_a_backward_hook_that_is_removed_between_the_passes() -> None:
    cell, calls = square(), []
    handle = cell.register_backward_hook(lambda cell, gi, go: calls.append(1))

    def function(x: Any) -> Any:
        y = cell(x)
        handle.remove()
        return y

    assert plain(grad(function)(X)) == 6.0
    assert calls == []


def test_hooks_are_given_the_cell_and_in_half_precision_its_dtype() -> None:
    cell, calls = square().to_float(ms.float16), []
    for register in REGISTERS:
        getattr(cell, register)(lambda hooked, *values: calls.append((hooked is cell, str(values[-1][0].dtype))))
    grad(cell)(X)
    assert [is_cell for is_cell, _ in calls] == [True] * 4
    assert [dtype for _, dtype in calls] == ["float32", "float16", "float16", "float16"]


def test_second_derivatives_with_a_scaling_hook() -> None:
    cell = Function(lambda x: x * x * x)
    cell.register_backward_hook(lambda cell, gi, go: gi[0] * 10.0)
    assert plain(grad(grad(cell))(X)) == 180.0  # of 10 * 3 x^2


def test_as_torch_on_a_network() -> None:
    a, b = normal(4, 3), normal(2, 3, seed=1)
    layer = nn.Dense(3, 2, weight_init=Tensor(b), bias_init="zeros", dtype=ms.float64)
    module = torch.nn.Linear(3, 2, bias=False, dtype=torch.float64)
    module.weight.data = torch.from_numpy(b)
    cell_gradients: list[Any] = []
    module_gradients: list[Any] = []
    layer.register_backward_hook(lambda cell, gi, go: cell_gradients.extend([gi[0].asnumpy(), go[0].asnumpy()]))
    module.register_full_backward_hook(lambda module, gi, go: module_gradients.extend([gi[0].numpy(), go[0].numpy()]))
    grad(lambda x: (layer(x) ** 3).sum())(Tensor(a))
    (module(torch.from_numpy(a).requires_grad_()) ** 3).sum().backward()
    for got, expected in zip(cell_gradients, module_gradients, strict=True):
        np.testing.assert_allclose(got, expected, rtol=1e-12)


# ---- registering ----


@pytest.mark.parametrize("register", REGISTERS)
def test_a_hook_must_be_callable_and_take_its_arguments(register: str) -> None:
    with pytest.raises(TypeError, match="callable hook function, but got int"):
        getattr(square(), register)(3)
    cell = square()
    getattr(cell, register)(lambda: None)
    with pytest.raises(TypeError, match="positional arguments"):
        grad(cell)(X)


# ---- hooks on tensors ----


def test_hooks_on_tensors() -> None:
    gradients: list[Any] = []
    x = Tensor([3.0])
    handles = [x.register_hook(lambda g: g * 2.0), x.register_hook(lambda g: (gradients.append(plain(g)), g * 5.0)[1])]
    assert plain(grad(square())(x)) == 60.0
    assert gradients == [12.0]
    for handle in handles:
        handle.remove()
    assert plain(grad(square())(x)) == 6.0


def test_a_hook_within_a_function_sees_the_complete_gradient() -> None:
    gradients: list[Any] = []

    def function(x: Any) -> Any:
        y = x * x
        y.register_hook(lambda g: (gradients.append(plain(g)), g * 10.0)[1])
        return y * 3.0 + y

    assert plain(grad(function)(X)) == 240.0
    assert gradients == [4.0]


def test_a_hook_on_a_parameter_runs_once_for_each_request() -> None:
    w, gradients = Parameter(Tensor([2.0]), name="w"), []
    w.register_hook(lambda g: (gradients.append(plain(g)), g * 10.0)[1])
    assert plain(grad(lambda x: w * x, None, [w, w])(X)) == (30.0, 30.0)
    assert plain(grad(lambda p, x: p * x, 0, w)(w, X)) == (30.0, 30.0)
    assert gradients == [3.0, 3.0]


def test_refused_hooks_on_tensors() -> None:
    with pytest.raises(TypeError, match="callable hook function, but got int"):
        X.register_hook(3)  # type: ignore[arg-type]
    for returned, error in ((3, TypeError), (Tensor([1.0, 2.0]), ValueError)):
        x = Tensor([3.0])
        x.register_hook(lambda g, returned=returned: returned)
        with pytest.raises(error, match="hook"):
            grad(square())(x)
