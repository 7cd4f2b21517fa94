"""`grad`, `value_and_grad` and `GradOperation`: what they return, of what, and when they refuse."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import cellbridge.runtime as ms
from cellbridge.runtime import GradOperation, Parameter, ParameterTuple, Tensor, get_grad, grad, nn, ops, value_and_grad
from tests.runtime.against_torch import assert_as_torch, normal


class Line(nn.Cell):
    """w x + b, with w = 2 and b = 1."""

    def __init__(self) -> None:
        super().__init__()
        self.w = Parameter(Tensor([2.0]), name="w")
        self.b = Parameter(Tensor([1.0]), name="b")

    def construct(self, x: Any) -> Any:
        return self.w * x + self.b


X, Y = Tensor([3.0]), Tensor([5.0])


def product(x: Any, y: Any) -> Any:
    return x * x * y


def plain(structure: Any) -> Any:
    """Numbers in place of tensors of one element."""
    if isinstance(structure, Tensor):
        return structure.asnumpy().item()
    if isinstance(structure, (tuple, list)):
        return type(structure)(plain(item) for item in structure)
    return structure


# ---- what is returned ----


@pytest.mark.parametrize(
    ("position", "expected"),
    [(0, 30.0), (1, 9.0), ((0,), 30.0), ((1,), 9.0), ((0, 1), (30.0, 9.0)), ((1, 0), (9.0, 30.0))],
)
def test_gradients_by_position(position: Any, expected: Any) -> None:
    assert plain(grad(product, position)(X, Y)) == expected
    assert plain(value_and_grad(product, position)(X, Y)) == (45.0, expected)


def test_gradients_by_weight() -> None:
    net = Line()
    w, b = net.w, net.b
    for given in ([w, b], (w, b), ParameterTuple([w, b])):
        assert plain(grad(net, None, given)(X)) == (3.0, 1.0)
    assert plain(grad(net, None, w)(X)) == 3.0
    assert plain(grad(net, None, [w])(X)) == (3.0,)
    assert plain(grad(net, None, [b, w, b])(X)) == (1.0, 3.0, 1.0)
    assert plain(grad(net, None, [])(X)) == ()
    assert plain(grad(net, 0, [w, b])(X)) == (2.0, (3.0, 1.0))
    assert plain(grad(net, 0, w)(X)) == (2.0, 3.0)
    assert plain(grad(net, (0,), [])(X)) == (2.0, ())
    assert plain(value_and_grad(net, None, [w])(X)) == (7.0, (3.0,))
    assert plain(value_and_grad(net, None, [])(X)) == (7.0, ())


def test_only_the_first_output_is_differentiated_with_aux() -> None:
    def function(x: Any) -> Any:
        return x * x, x * 5.0, "label"

    assert plain(grad(function, has_aux=True)(X)) == (6.0, (15.0, "label"))
    assert plain(value_and_grad(function, has_aux=True)(X)) == ((9.0, 15.0, "label"), 6.0)
    assert plain(grad(lambda x: (x * x, x), has_aux=True)(X)) == (6.0, (3.0,))  # a tuple even of one
    assert plain(grad(lambda x: (x * x, x))(X)) == 7.0


def test_outputs_of_any_structure_are_summed() -> None:
    function = value_and_grad(lambda x: {"a": x * 2.0, "b": [x * x, (x, 4)]})
    outputs, gradient = function(X)
    assert plain(outputs["b"]) == [9.0, (3.0, 4)]
    assert plain(gradient) == 2.0 + 6.0 + 1.0

    def twice(x: Any) -> Any:
        y = x * x
        return y, y

    assert plain(grad(twice)(X)) == 12.0
    assert plain(grad(lambda x: (x * x, x > 1, x.astype(ms.int32)))(X)) == 6.0
    assert plain(grad(lambda x: 3.0)(X)) == 0.0
    assert plain(grad(lambda x: x)(X)) == 1.0


def test_gradients_with_their_names() -> None:
    net = Line()
    assert plain(grad(product, (0, 1), return_ids=True)(X, Y)) == ((0, 30.0), (1, 9.0))
    assert plain(grad(net, 0, return_ids=True)(X)) == (0, 2.0)
    assert plain(grad(net, None, net.w, return_ids=True)(X)) == ("w", 3.0)
    both = grad(net, 0, [net.w, net.b], return_ids=True)(X)
    assert plain(both) == ((0, 2.0), (("w", 3.0), ("b", 1.0)))
    assert [plain(get_grad(both, key)) for key in (0, net.b, "w")] == [2.0, 1.0, 3.0]
    with pytest.raises(RuntimeError, match="no gradient for 7"):
        get_grad(both, 7)


def test_unused_and_frozen_ones_have_gradients_of_zeros() -> None:
    net = Line()
    unused = Parameter(Tensor([[1.0, 2.0]]), name="other")
    net.b.requires_grad = False
    of_x, (of_w, of_b, of_other) = grad(net, 0, [net.w, net.b, unused])(X)
    assert plain((of_x, of_w, of_b)) == (2.0, 3.0, 0.0)
    assert of_other.tolist() == [[0.0, 0.0]]
    assert plain(grad(lambda x, y: x, (0, 1))(X, Y)) == (1.0, 0.0)


def test_what_is_not_a_tensor() -> None:
    assert plain(grad(lambda x, k: x * k)(X, 4)) == 4.0
    assert grad(lambda xs: xs[0] * xs[1])((X, Y)) == ()
    assert plain(grad(lambda x, y=X: x * y)(X, y=Y)) == 5.0
    of_integers = grad(lambda x: x * x)(Tensor([3], ms.int32))
    assert (of_integers.dtype, plain(of_integers)) == (np.int32, 6)
    assert grad(lambda x, y: x * y, (0, 1))(X.astype(ms.float16), Y)[0].dtype == np.float16


def test_the_gradient_function_is_named_after_the_function() -> None:
    assert grad(product).__name__ == "product"


# ---- what a Parameter or tensor stands for ----


def test_a_parameter_among_the_arguments_is_the_one_it_is_elsewhere() -> None:
    net = Line()

    def function(p: Any, x: Any) -> Any:
        return p * net.w * x

    assert plain(grad(function, 0)(net.w, X)) == 12.0  # 2 w x
    assert plain(grad(function, 0, net.w)(net.w, X)) == (12.0, 12.0)


def test_what_cuts_a_gradient_and_what_does_not() -> None:
    w = Parameter(Tensor([2.0]), name="w")
    for kept in (lambda: w, lambda: w.value(), lambda: w.copy()):
        assert plain(grad(lambda x, kept=kept: kept() * x, None, w)(X)) == 3.0
    for cut in (lambda: w.data, lambda: Tensor(w), lambda: Tensor(w.asnumpy()), lambda: ops.stop_gradient(w)):
        assert plain(grad(lambda x, cut=cut: cut() * x, None, w)(X)) == 0.0


def test_tensors_that_escaped_are_constants() -> None:
    kept: list[Any] = []

    def function(x: Any) -> Any:
        kept.append(x * x)
        return kept[0]

    grad(function)(X)
    assert plain(kept[0] * 2.0) == 18.0
    assert plain(grad(lambda x: x * kept[0])(X)) == 9.0
    assert plain(grad(lambda y: y * y)(kept[0])) == 18.0


# ---- derivatives of derivatives ----


def test_higher_orders() -> None:
    cube = grad(lambda x: x * x * x)
    assert [plain(f(X)) for f in (cube, grad(cube), grad(grad(cube)))] == [27.0, 18.0, 6.0]
    assert plain(grad(value_and_grad(lambda x: x * x * x))(X)) == 27.0 + 18.0
    assert plain(grad(lambda x, y: grad(product, 1)(x, y))(X, Y)) == 6.0
    assert plain(grad(grad(product, (0, 1)), (0, 1))(X, Y)) == (10.0 + 6.0, 6.0)


def test_an_inner_variable_is_not_the_outer_one() -> None:
    assert plain(grad(lambda x: x * grad(lambda y: x * y)(Y))(X)) == 6.0  # x * x
    assert plain(grad(lambda y: grad(lambda x: x * x * y)(X))(Y)) == 6.0


def test_second_order_in_weights() -> None:
    net = Line()

    def slope(x: Any) -> Any:
        return grad(lambda z: net(z) * net(z))(x)  # 2 w (w x + b)

    of_x, of_weights = grad(slope, 0, [net.w, net.b])(X)
    assert plain((of_x, of_weights)) == (8.0, (4 * 2.0 * 3.0 + 2.0, 4.0))


def test_second_order_as_torch() -> None:
    a, b = normal(4, 3), normal(3, 2, seed=1)

    def gradient(x: Any, w: Any) -> Any:
        return grad(lambda z: (ops.tanh(ops.matmul(z, w)) ** 2).sum())(x)

    def torch_gradient(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        return torch.autograd.grad((torch.tanh(x @ w) ** 2).sum(), x, create_graph=True)[0]

    assert_as_torch(gradient, torch_gradient, a, b)


# ---- GradOperation ----


def test_grad_operation_by_its_flags() -> None:
    net = Line()
    assert plain(GradOperation()(net)(X)) == 2.0
    assert plain(GradOperation(get_all=True)(product)(X, Y)) == (30.0, 9.0)
    assert plain(GradOperation(get_all=True)(lambda x, k, y: x * y * k)(X, 2, Y)) == (10.0, 6.0)
    assert plain(GradOperation(get_by_list=True)(net)(X)) == (3.0, 1.0)
    assert plain(GradOperation(get_by_list=True)(net, [net.b])(X)) == (1.0,)
    assert plain(GradOperation(get_all=True, get_by_list=True)(net)(X)) == ((2.0,), (3.0, 1.0))
    net.b.requires_grad = False
    assert plain(GradOperation(get_by_list=True)(net)(X)) == (3.0,)


def test_a_parameter_that_is_itself_an_output() -> None:
    w, frozen = Parameter(Tensor([3.0]), name="w"), Parameter(Tensor([3.0]), name="f", requires_grad=False)
    assert plain(grad(lambda x: (x * w, w, frozen), 0, [w, frozen])(X)) == (3.0, (X.item() + 1.0, 0.0))
    assert plain(grad(lambda x: w, None, w)(X)) == 1.0
    inner = grad(lambda x: (x * w, w), None, w)  # x + 1
    assert plain(grad(lambda x: inner(x) * w, (0,), w)(X)) == (3.0, X.item() + 1.0)


def test_grad_operation_with_an_output_gradient() -> None:
    times_ten = GradOperation(sens_param=True)(product)
    assert plain(times_ten(X, Y, Tensor([10.0]))) == 300.0
    assert plain(times_ten(X, Y, sens=Tensor([10.0]))) == 300.0
    two = GradOperation(get_all=True, sens_param=True)(lambda x, y: (x * y, x + y))
    assert plain(two(X, Y, (Tensor([10.0]), Tensor([1.0])))) == (51.0, 31.0)
    half = times_ten(X, Y, Tensor([10.0], ms.float16))
    assert half.dtype == np.float32


# ---- what is refused ----


@pytest.mark.parametrize(
    ("make", "error", "words"),
    [
        (lambda: grad(product, None), ValueError, ["grad_position", "weights", "None"]),
        (lambda: grad(product, (0, 0)), ValueError, ["duplicate", "(0, 0)"]),
        (lambda: grad(product, -1), ValueError, ["grad_position", ">= 0", "-1"]),
        (lambda: grad(product, (0, -2)), ValueError, ["grad_position", "-2"]),
        (lambda: grad(product, ()), RuntimeError, ["grad_position", "empty"]),
        (lambda: grad(product, [0]), TypeError, ["grad_position", "int", "[0]"]),
        (lambda: grad(product, "0"), TypeError, ["grad_position", "'0'"]),
        (lambda: grad(product, True), TypeError, ["grad_position", "True"]),
        (lambda: grad(product, (0, 1.5)), TypeError, ["grad_position", "1.5"]),
        (lambda: grad(product, 0, X), TypeError, ["weights", "Tensor"]),
        (lambda: grad(product, 0, [X]), TypeError, ["weights", "Parameter", "Tensor"]),
        (lambda: grad(product, has_aux=1), TypeError, ["has_aux", "bool", "int"]),
        (lambda: grad(product, return_ids="x"), TypeError, ["return_ids", "bool", "str"]),
        (lambda: grad(3), TypeError, ["fn", "int"]),
        (lambda: grad(product, 2)(X, Y), RuntimeError, ["grad_position", "2", "exceeds"]),
        (lambda: grad(lambda x, y: x, 1)(X, y=Y), RuntimeError, ["keyword"]),
        (lambda: grad(product, (0, 1))(X, 2.0), TypeError, ["argument 1", "Tensor", "2.0"]),
        (lambda: grad(lambda x: x, has_aux=True)(X), ValueError, ["has_aux", "more than one"]),
        (lambda: grad(lambda x: {"a": x, "b": x}, has_aux=True)(X), ValueError, ["has_aux"]),
        (lambda: grad(lambda x: None)(X), TypeError, ["nothing to differentiate", "Tensor", "`return` missing"]),
        (lambda: grad(lambda x: "x")(X), TypeError, ["nothing to differentiate", "Tensor", "'x' (str)"]),
        (lambda: grad(lambda x: ({}, x), has_aux=True)(X), TypeError, ["nothing to differentiate", "{} (dict)"]),
        (lambda: GradOperation(get_all=1), TypeError, ["get_all", "bool", "int"]),
        (lambda: GradOperation(get_by_list=True)(product), ValueError, ["weights"]),
        (lambda: GradOperation()(lambda: X)(), TypeError, ["positional argument"]),
        (lambda: GradOperation(sens_param=True)(lambda x: x)(X), TypeError, ["output gradient"]),
        (lambda: GradOperation(sens_param=True)(lambda x: x)(X, Tensor([1.0, 2.0])), ValueError, ["(1,)", "(2,)"]),
        (lambda: GradOperation(sens_param=True)(lambda x: (x, x))(X, (X,)), RuntimeError, ["1 tensors", "2"]),
    ],
)
def test_refusals_say_what_is_needed(make: Callable[[], Any], error: type[Exception], words: list[str]) -> None:
    with pytest.raises(error) as raised:
        make()
    assert [word for word in words if word not in str(raised.value)] == []


def test_threads_differentiate_apart() -> None:
    results: dict[int, list[float]] = {}

    def work(k: int) -> None:
        f = grad(lambda x: x * x * float(k))
        results[k] = [plain(f(Tensor([float(i)]))) for i in range(50)]

    threads = [threading.Thread(target=work, args=(k,)) for k in range(1, 5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == {k: [2.0 * i * k for i in range(50)] for k in range(1, 5)}


def test_what_comes_before_a_cut_has_no_backward_pass() -> None:
    before, hooks_called = Line(), []
    before.register_backward_hook(lambda cell, gi, go: hooks_called.append("before"))
    before.w.register_hook(lambda g: hooks_called.append("w"))
    after = Line()
    after.register_backward_hook(lambda cell, gi, go: hooks_called.append("after"))
    weights = [before.w, after.w]
    assert plain(grad(lambda x: after(ops.stop_gradient(before(x))), 0, weights)(X)) == (0.0, (0.0, 7.0))
    assert hooks_called == ["after"]


def test_a_frozen_parameter_lets_gradients_through_to_those_before_it() -> None:
    before, after = Line(), Line()
    after.w.requires_grad = False
    assert plain(grad(lambda x: after(before(x)), 0, [before.w, after.w])(X)) == (4.0, (6.0, 0.0))
