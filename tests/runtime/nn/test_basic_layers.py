"""Dense and the layers that rearrange: initial values, names, against torch, errors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import cellbridge.runtime as ms
from cellbridge.runtime import Tensor, nn, ops
from tests.runtime.against_torch import assert_as_torch, assert_cell_as_module, normal

# ---- fully connected ----


@pytest.mark.parametrize("shape", [(3,), (4, 3), (2, 4, 3), (2, 1, 4, 3)])
@pytest.mark.parametrize("bias", [True, False])
def test_dense_is_torch_s_linear(shape: tuple[int, ...], bias: bool) -> None:
    module = torch.nn.Linear(3, 5, bias=bias, dtype=torch.float64)
    for cell in (nn.Dense(3, 5, has_bias=bias, dtype=ms.float64), nn.Linear(3, 5, bias, dtype=ms.float64)):
        assert_cell_as_module(cell, module, normal(*shape))


def test_initial_values_lie_within_the_bound_of_the_inputs() -> None:
    for cell in (nn.Dense(400, 300), nn.Linear(400, 300)):
        for parameter, shape in ((cell.weight, (300, 400)), (cell.bias, (300,))):
            values = parameter.asnumpy()
            assert values.shape == shape
            assert 0.049 < np.abs(values).max() <= 0.05
            assert abs(values.std() - 0.05 / np.sqrt(3)) < 0.003


def test_initial_values_can_be_given() -> None:
    weight = normal(2, 3).astype(np.float32)
    cell = nn.Dense(3, 2, Tensor(weight), "ones")
    np.testing.assert_array_equal(cell.weight.asnumpy(), weight)
    np.testing.assert_array_equal(cell.bias.asnumpy(), [1.0, 1.0])
    assert nn.Dense(3, 2, "zeros", dtype=ms.float16).weight.dtype == ms.float16
    assert [p.name for p in cell.trainable_params()] == ["weight", "bias"]
    assert [p.name for p in nn.Dense(3, 2, has_bias=False).trainable_params()] == ["weight"]


def test_the_activation_may_be_a_name_a_cell_or_an_operator_object() -> None:
    x, weight = Tensor(normal(4, 3).astype(np.float32)), Tensor(normal(2, 3).astype(np.float32))
    for activation in ("relu", nn.ReLU(), ops.ReLU()):
        cell = nn.Dense(3, 2, weight, "zeros", activation=activation)
        expected = np.maximum(x.asnumpy() @ weight.asnumpy().T, 0)
        np.testing.assert_allclose(cell(x).asnumpy(), expected, rtol=1e-5)
    assert [p.name for p in nn.Dense(3, 2, activation="prelu").trainable_params()] == ["weight", "bias", "activation.w"]


def test_repr_shows_sizes_bias_and_activation() -> None:
    assert repr(nn.Dense(2, 1)) == "Dense(input_channels=2, output_channels=1, has_bias=True)"
    assert repr(nn.Dense(2, 1, has_bias=False)) == "Dense(input_channels=2, output_channels=1)"
    assert repr(nn.Dense(2, 1, activation="relu")).startswith(
        "Dense(\n  input_channels=2, output_channels=1, has_bias=True, activation=ReLU()"
    )
    assert repr(nn.Linear(2, 1)) == "Linear(input_features=2, output_features=1, has_bias=True)"


def test_to_float_makes_dtypes_meet() -> None:
    cell = nn.Dense(3, 2).to_float(ms.float16)
    assert cell(Tensor(np.ones((1, 3), np.float32))).dtype == ms.float16
    assert cell(Tensor(np.ones((1, 3), np.float16))).dtype == ms.float16


HALF = Tensor(np.ones((2, 3), np.float16))


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda: nn.Dense(3, 2)(HALF), TypeError, ["MatMul", "type", "Float16", "Float32"]),
        (lambda: nn.Dense(3, 2)(HALF.astype(ms.int32)), TypeError, ["MatMul", "Int32"]),
        (lambda: nn.Dense(HALF), TypeError, ["out_channels"]),
        (lambda: nn.Dense(2, 2, dtype=ms.float16)(HALF), ValueError, ["[2, 3]", "MatMul", "3 features", "takes 2"]),
        (lambda: nn.Dense(0, 2), ValueError, ["'Dense'", "'in_channels'", "> 0", "0"]),
        (lambda: nn.Dense(2, 2.0), TypeError, ["'out_channels'", "int", "float"]),
        (lambda: nn.Dense(2, 2, has_bias=1), TypeError, ["'has_bias'", "bool", "int"]),
        (lambda: nn.Dense(2, 2, activation=3), TypeError, ["'activation'", "int"]),
        (lambda: nn.Dense(2, 2, activation="foo"), KeyError, ["'Dense'", "'activation'", "relu", "'foo'"]),
        (lambda: nn.Dense(3, 2, Tensor(np.ones((3, 2)))), ValueError, ["'Dense'", "'weight_init'", "(2, 3)", "(3, 2)"]),
        (lambda: nn.Dense(3, 2, bias_init=Tensor(np.ones(3))), ValueError, ["'Dense'", "'bias_init'", "(2,)", "(3,)"]),
        (lambda: nn.Dense(3, 2, "no such"), ValueError, ["'no such'"]),
        (lambda: nn.get_activation("foo"), KeyError, ["relu", "'foo'"]),
        (lambda: nn.Flatten()("a"), TypeError, ["'Flatten'", "'x'", "Tensor", "str"]),
        (lambda: nn.Flatten(2)(HALF), ValueError, ["'Flatten'", "'start_dim'", "2", "(2, 3)"]),
        (lambda: nn.Unflatten(1, (2, 2))(HALF), ValueError, ["(2, 2, 2)"]),
        (lambda: nn.OneHot(depth=3)(HALF), TypeError, ["integers"]),
        (lambda: nn.Pad([[1, 0], [0, 1]]), TypeError, ["'paddings'", "tuple", "list"]),
        (lambda: nn.Pad(((1, 0), (0, 1, 2))), ValueError, ["'paddings'", "pair"]),
        (lambda: nn.Pad(((1, 0), (0, 1)), "WRAP"), ValueError, ["'mode'", "SYMMETRIC", "'WRAP'"]),
        (lambda: nn.Pad(((1, 0),))(HALF), ValueError, ["'paddings'", "2 axes"]),
        (lambda: nn.Pad(((2, 0), (0, 0)), "REFLECT")(HALF), ValueError, ["reflect", "axis 0"]),
        (lambda: nn.Pad(((3, 0), (0, 0)), "SYMMETRIC")(HALF), ValueError, ["SYMMETRIC", "axis 0"]),
        (lambda: nn.Roll((1, 2), 0), ValueError, ["'Roll'", "2 and 1"]),
    ],
)
def test_errors_name_what_is_wrong(call: Callable[[], Any], error: type[Exception], words: list[str]) -> None:
    with pytest.raises(error) as raised:
        call()
    assert [word for word in words if word not in str(raised.value)] == []


# ---- rearranging ----


@pytest.mark.parametrize(("start", "end"), [(1, -1), (0, -1), (1, 2), (0, 1), (-2, -1)])
def test_flatten_and_unflatten_are_torch_s(start: int, end: int) -> None:
    assert_as_torch(nn.Flatten(start, end), torch.nn.Flatten(start, end), normal(2, 3, 2, 2))
    assert_as_torch(nn.Unflatten(-1, (2, -1)), torch.nn.Unflatten(-1, (2, -1)), normal(2, 3, 4))


def test_identity_takes_any_arguments() -> None:
    assert nn.Identity(3, size=4)(HALF) is HALF


def test_one_hot_marks_places() -> None:
    ids = Tensor([0, 2, 5, -1], ms.int32)
    np.testing.assert_array_equal(nn.OneHot(depth=3)(ids).asnumpy(), [[1, 0, 0], [0, 0, 1], [0, 0, 0], [0, 0, 0]])
    columns = nn.OneHot(0, 2, 5, 1, ms.int32)(Tensor([0, 1]))
    assert columns.dtype == ms.int32
    np.testing.assert_array_equal(columns.asnumpy(), [[5, 1], [1, 5]])


@pytest.mark.parametrize(("mode", "numpy_mode"), [("CONSTANT", "constant"), ("REFLECT", "reflect"),
                                                  ("SYMMETRIC", "symmetric")])  # fmt: skip
def test_pad_is_numpy_s_and_its_gradient_sums_copies(mode: str, numpy_mode: str) -> None:
    x, widths = normal(3, 4), ((1, 2), (2, 0))
    cell = nn.Pad(widths, mode)
    y, gradient = ms.value_and_grad(lambda t: (cell(t) * cell(t)).sum())(Tensor(x))
    padded = np.pad(x, widths, numpy_mode)  # type: ignore[call-overload]
    np.testing.assert_allclose(float(y), (padded**2).sum())
    copies = np.pad(np.arange(12.0).reshape(3, 4) + 1, widths, numpy_mode)  # type: ignore[call-overload]
    counts = np.bincount(copies.astype(int).ravel(), minlength=13)[1:].reshape(3, 4)
    np.testing.assert_allclose(gradient.asnumpy(), 2 * x * counts)


def test_triangles_rolls_and_sizes_are_torch_s() -> None:
    x = normal(2, 3, 4)
    assert_as_torch(lambda t: nn.Tril()(t, 1), lambda t: t.tril(1), x)
    assert_as_torch(lambda t: nn.Triu()(t), lambda t: t.triu(), x)
    assert_as_torch(nn.Roll((1, -2), (0, -1)), lambda t: t.roll((1, -2), (0, -1)), x)
    assert_as_torch(nn.Roll(2, 1), lambda t: t.roll(2, 1), x)
    assert_as_torch(nn.Upsample(scale_factor=2.0), torch.nn.Upsample(scale_factor=2.0), x)
    assert_as_torch(
        nn.Upsample((5, 7), mode="bilinear", align_corners=True),
        torch.nn.Upsample((5, 7), mode="bilinear", align_corners=True),
        normal(1, 2, 3, 4),
    )
