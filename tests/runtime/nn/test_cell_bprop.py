"""`bprop`: a backward pass written by hand, what it is given and what it may return."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import cellbridge.runtime as ms
from cellbridge.runtime import Parameter, ParameterTuple, Tensor, grad, nn

X, Y = Tensor([3.0]), Tensor([4.0])


class Own(nn.Cell):
    """A function with a backward pass of its own; notes what that is given."""

    def __init__(self, function: Callable[..., Any], backward: Callable[..., Any]) -> None:
        super().__init__()
        self.function, self.backward = function, backward
        self.given: list[Any] = []

    def construct(self, *args: Any) -> Any:
        return self.function(*args)

    def bprop(self, *args: Any) -> Any:
        self.given.append(plain(args))
        return self.backward(*args)


def plain(structure: Any) -> Any:
    if isinstance(structure, Tensor):
        return structure.asnumpy().item() if structure.size == 1 else structure.tolist()
    if isinstance(structure, dict):
        return {key: plain(item) for key, item in structure.items()}
    if isinstance(structure, (tuple, list)):
        return type(structure)(plain(item) for item in structure)
    return structure


# ---- what it is given ----


def test_inputs_output_and_its_gradient() -> None:
    cell = Own(lambda x, y: (x * y, x + y), lambda x, y, out, dout: (dout[0] * 10.0, dout[1] * 100.0))
    assert plain(grad(lambda x, y: cell(x * 2.0, y)[0] * 7.0, (0, 1))(X, Y)) == (140.0, 0.0)
    assert cell.given == [(6.0, 4.0, (24.0, 10.0), (7.0, 0.0))]
    assert plain(cell(X, Y)) == (12.0, 7.0)
    assert len(cell.given) == 1  # not in a plain call


@pytest.mark.parametrize(
    ("function", "pick", "dout"),
    [
        (lambda x: (x, (x * 3.0, x)), lambda out: out[1][0], (0.0, (1.0, 0.0))),
        (lambda x: [x, x * 3.0], lambda out: out[1], [0.0, 1.0]),
        (lambda x: {"a": x * 3.0, "b": x}, lambda out: out["a"], {"a": 1.0, "b": 0.0}),
        (lambda x: (x, 5), lambda out: out[0], (1.0, None)),
        (lambda x: (x, x.astype(ms.int32)), lambda out: out, (1.0, 1)),
    ],
)
def test_outputs_of_any_structure(function: Any, pick: Any, dout: Any) -> None:
    cell = Own(function, lambda x, out, dout: x * 10.0)
    assert plain(grad(lambda x: pick(cell(x)))(X)) == 30.0
    assert cell.given[0][2] == dout


def test_inputs_of_any_structure() -> None:
    cell = Own(lambda xs, k: xs[0] * xs[1][0] * k, lambda xs, k, out, dout: ((dout * 7.0, [dout * 8.0]), None))
    assert plain(grad(lambda x, y: cell((x, [y]), 2), (0, 1))(X, Y)) == (7.0, 8.0)
    assert cell.given == [((3.0, [4.0]), 2, 24.0, 1.0)]
    nothing = Own(lambda xs: xs[0], lambda xs, out, dout: (None,))
    assert plain(grad(lambda x: nothing((x, x)))(X)) == 0.0


def test_defaults_and_keywords_are_inputs_too() -> None:
    class Product(nn.Cell):
        def construct(self, x: Any, y: Any = 4.0) -> Any:
            return x * y

        def bprop(self, x: Any, y: Any, out: Any, dout: Any) -> Any:
            return dout * 10.0, dout * 20.0 if isinstance(y, Tensor) else None

    assert plain(grad(Product())(X)) == 10.0
    assert plain(grad(lambda x, y: Product()(y=y, x=x), (0, 1))(X, Y)) == (10.0, 20.0)


# ---- what it may return ----


@pytest.mark.parametrize(
    "returned",
    [
        lambda d: d * 7.0,
        lambda d: (d * 7.0,),
        lambda d: [d * 7.0],
        lambda d: (d * 7.0, d),
        lambda d: (d * 7.0).astype(ms.float16),
        lambda d: (d * 7.0).astype(ms.int32),
        lambda d: Tensor([[[3.0, 4.0]]]),
        lambda d: Tensor([[3.0], [4.0]]),  # summed, as for an input that was broadcast
    ],
)
def test_one_gradient_in_all_its_forms(returned: Callable[[Any], Any]) -> None:
    gradient = grad(Own(lambda x: x * x, lambda x, out, dout: returned(dout)))(X)
    assert (gradient.dtype, gradient.shape, plain(gradient)) == (np.float32, (1,), 7.0)


def test_a_number_is_a_gradient_of_a_number() -> None:
    assert plain(grad(Own(lambda x: x * x, lambda x, out, dout: 7.0))(Tensor(3.0))) == 7.0


def test_none_stands_for_zeros() -> None:
    cell = Own(lambda x, y: x * y, lambda x, y, out, dout: (None, dout * 7.0))
    assert plain(grad(cell, (0, 1))(X, Y)) == (0.0, 7.0)


@pytest.mark.parametrize(
    ("backward", "error", "words"),
    [
        (lambda x, y, o, d: None, TypeError, ["bprop of Own", "None", "2"]),
        (lambda x, y, o, d: d, RuntimeError, ["bprop of Own", "returned 1", "2 inputs"]),
        (lambda x, y, o, d: (d, Tensor([1.0, 2.0, 3.0])), RuntimeError, ["input 1", "(2,)", "(3,)"]),
        (lambda x, y, o, d: (d, "a"), TypeError, ["input 1", "Tensor", "str"]),
        (lambda x, y, o, d: {"x": d}, TypeError, ["bprop of Own", "tuple", "dict"]),
        (lambda x, y, o, d: (2.0, d), RuntimeError, ["input 0", "(2,)", "()"]),
        (lambda x, y, o, d: (d.sum(), d), RuntimeError, ["input 0", "(2,)", "()"]),
        (lambda x, y, o, d: (d, d[:1]), RuntimeError, ["input 1", "(2,)", "(1,)"]),
        (lambda x, y, o: (o, o), TypeError, ["positional argument"]),
    ],
)
@pytest.mark.parametrize("debug", [False, True])
def test_what_it_may_not(backward: Any, error: type[Exception], words: list[str], debug: bool) -> None:
    cell = Own(lambda x, y: x * y, backward)
    cell.bprop_debug = debug
    with pytest.raises(error) as raised:
        grad(cell, (0, 1))(Tensor([1.0, 2.0]), Tensor([3.0, 4.0]))
    assert [word for word in words if word not in str(raised.value)] == []
    assert ("its arguments were" in str(raised.value)) == (debug and "positional" not in words[0])


def test_structures_must_fit() -> None:
    cell = Own(lambda xs: xs[0] * xs[1], lambda xs, out, dout: ((dout,),))
    with pytest.raises(RuntimeError, match=r"input 0 holds 2 values.* got 1"):
        grad(lambda x, y: cell((x, y)))(X, Y)


def test_bprop_debug_is_a_bool() -> None:
    cell = nn.Cell()
    assert cell.bprop_debug is False
    with pytest.raises(TypeError, match=r"bprop_debug.*bool.*int"):
        cell.bprop_debug = 1  # type: ignore[assignment]


# ---- where it stands ----


def test_a_bprop_is_differentiated_in_its_turn() -> None:
    cell = Own(lambda x: x * x, lambda x, out, dout: dout * x * x)
    assert plain(grad(grad(cell))(X)) == 6.0


def test_bprop_within_bprop_and_gradients_within_construct() -> None:
    inner = Own(lambda x: x * x, lambda x, out, dout: dout * 100.0)
    outer = Own(lambda x: grad(inner)(x) + inner(x), lambda x, out, dout: grad(inner)(x) * dout)
    assert plain(outer(X)) == 109.0
    assert plain(grad(outer)(X)) == 100.0


def test_hooks_stand_around_it() -> None:
    cell, calls = Own(lambda x: x * x, lambda x, out, dout: dout * 7.0), []
    cell.register_backward_pre_hook(lambda cell, go: go[0] * 2.0)
    cell.register_backward_hook(lambda cell, gi, go: calls.append(plain((gi, go))))
    assert plain(grad(cell)(X)) == 14.0
    assert calls == [((14.0,), (2.0,))]


def test_an_exception_in_it_passes_unchanged() -> None:
    def fail(*_: Any) -> Any:
        raise RuntimeError("mine")

    with pytest.raises(RuntimeError, match=r"^mine$"):
        grad(Own(lambda x: x * x, fail))(X)


# ---- Parameters ----


class Weighted(nn.Cell):
    """w x; says what the gradients are, in a form of choice."""

    def __init__(self, form: Callable[[Any, Any], Any], internal: Any) -> None:
        super().__init__()
        self.w = Parameter(Tensor([5.0]), name="w")
        self.form = form
        if internal is not None:
            self.internal_params = internal(self.w)

    def construct(self, x: Any) -> Any:
        return self.w * x

    def bprop(self, x: Any, out: Any, dout: Any) -> Any:
        return self.form(dout * 7.0, {self.w: x * dout * 9.0})


@pytest.mark.parametrize("internal", [lambda w: [w], lambda w: (w,), lambda w: ParameterTuple([w])])
@pytest.mark.parametrize("form", [lambda dx, dw: ((dx,), dw), lambda dx, dw: (dx, dw)])
def test_internal_params(form: Any, internal: Any) -> None:
    cell = Weighted(form, internal)
    assert plain(grad(lambda x: cell(x) * 5.0, 0, cell.w)(X)) == (35.0, 135.0)
    assert plain(grad(cell, None, cell.w)(X)) == 27.0


def test_without_internal_params_the_parameters_have_no_gradient() -> None:
    for form in (lambda dx, dw: ((dx,), dw), lambda dx, dw: (dx,)):
        cell = Weighted(form, None)
        assert plain(grad(cell, 0, cell.w)(X)) == (7.0, 0.0)


@pytest.mark.parametrize(
    ("form", "internal", "error", "words"),
    [
        (lambda dx, dw: (dx,), lambda w: [w], RuntimeError, ["internal_params", "parameter: gradient", "tuple"]),
        (lambda dx, dw: ((dx,), {}), lambda w: [w], RuntimeError, ["no gradient", "'w'"]),
        (lambda dx, dw: ((dx,), dict.fromkeys(dw, "a")), lambda w: [w], TypeError, ["'w'", "Tensor", "str"]),
        (lambda dx, dw: ((dx,), dict.fromkeys(dw, 3)), lambda w: [w], RuntimeError, ["'w'", "(1,)", "()"]),
        (lambda dx, dw: ((dx,), dw), lambda w: w, TypeError, ["internal_params", "list", "Parameter"]),
        (lambda dx, dw: ((dx,), dw), lambda w: ["w"], TypeError, ["internal_params", "list", "'w'"]),
    ],
)
def test_internal_params_that_do_not_fit(form: Any, internal: Any, error: type[Exception], words: list[str]) -> None:
    cell = Weighted(form, internal)
    with pytest.raises(error) as raised:
        grad(cell, 0, cell.w)(X)
    assert [word for word in words if word not in str(raised.value)] == []
