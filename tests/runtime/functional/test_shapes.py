"""Shapes and orders of axes: every spelling against torch, outputs and gradients; errors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from cellbridge.runtime import Parameter, Tensor, ops
from tests.runtime.against_torch import assert_as_torch, normal

CASES: dict[str, tuple[Callable[..., Any], Callable[..., Any], tuple[int, ...]]] = {
    "reshape": (lambda x: ops.reshape(x, (4, -1)), lambda x: x.reshape(4, -1), (2, 3, 4)),
    "Reshape": (lambda x: ops.Reshape()(x, (3, 8)), lambda x: x.reshape(3, 8), (2, 3, 4)),
    "x.reshape(ints)": (lambda x: x.reshape(4, -1), lambda x: x.reshape(4, -1), (2, 3, 4)),
    "x.view(tuple)": (lambda x: x.view((6, 4)), lambda x: x.view(6, 4), (2, 3, 4)),
    "x.view(tensor)": (lambda x: x.view(Tensor([6, 4])), lambda x: x.view(6, 4), (2, 3, 4)),
    "x.view(-1)": (lambda x: x.view(-1), lambda x: x.view(-1), (2, 3)),
    "view_as": (lambda x: x.view_as(ops.ones((3, 2))), lambda x: x.view(3, 2), (2, 3)),
    "ravel": (ops.ravel, torch.ravel, (2, 3)),
    "flatten": (ops.flatten, lambda x: x.flatten(1), (2, 3, 4)),
    "flatten part": (lambda x: ops.flatten(x, start_dim=0, end_dim=1), lambda x: x.flatten(0, 1), (2, 3, 4)),
    "flatten F": (lambda x: ops.flatten(x, order="F"), lambda x: x.permute(2, 1, 0).flatten(1), (2, 3, 4)),
    "flatten number": (ops.flatten, torch.flatten, ()),
    "x.flatten": (lambda x: x.flatten(), lambda x: x.flatten(), (2, 3, 4)),
    "Flatten": (lambda x: ops.Flatten()(x), lambda x: x.flatten(1), (2, 3, 4)),
    "Flatten vector": (lambda x: ops.Flatten()(x), lambda x: x[:, None], (3,)),
    "squeeze": (ops.squeeze, torch.squeeze, (1, 3, 1)),
    "squeeze axis": (lambda x: x.squeeze(0), lambda x: x.squeeze(0), (1, 3, 1)),
    "squeeze other": (lambda x: x.squeeze(1), lambda x: x.squeeze(1), (1, 3, 1)),
    "Squeeze": (lambda x: ops.Squeeze((0, -1))(x), torch.squeeze, (1, 3, 1)),
    "expand_dims": (lambda x: ops.expand_dims(x, -1), lambda x: x.unsqueeze(-1), (2, 3)),
    "ExpandDims": (lambda x: ops.ExpandDims()(x, 0), lambda x: x.unsqueeze(0), (2, 3)),
    "unsqueeze": (lambda x: x.unsqueeze(1), lambda x: x.unsqueeze(1), (2, 3)),
    "atleast_1d": (ops.atleast_1d, torch.atleast_1d, ()),
    "atleast_2d": (ops.atleast_2d, torch.atleast_2d, (3,)),
    "atleast_3d": (ops.atleast_3d, torch.atleast_3d, (3,)),
    "atleast_3d matrix": (lambda x: ops.atleast_3d((x, x)), lambda x: torch.atleast_3d((x, x)), (3, 2)),
    "broadcast_to": (lambda x: ops.broadcast_to(x, (2, -1, 4)), lambda x: x.expand(2, 3, 4), (3, 1)),
    "BroadcastTo": (lambda x: ops.BroadcastTo((2, 3))(x), lambda x: x.expand(2, 3), (3,)),
    "x.expand": (lambda x: x.expand(2, -1), lambda x: x.expand(2, -1), (1, 3)),
    "x.expand(tuple)": (lambda x: x.expand((2, 2, -1)), lambda x: x.expand(2, 2, -1), (2, 3)),
    "expand_as": (lambda x: x.expand_as(ops.ones((4, 3))), lambda x: x.expand(4, 3), (3,)),
    "transpose": (lambda x: ops.transpose(x, (2, 0, 1)), lambda x: x.permute(2, 0, 1), (2, 3, 4)),
    "Transpose": (lambda x: ops.Transpose()(x, (0, 2, 1)), lambda x: x.permute(0, 2, 1), (2, 3, 4)),
    "x.transpose(ints)": (lambda x: x.transpose(2, 0, 1), lambda x: x.permute(2, 0, 1), (2, 3, 4)),
    "x.transpose(tuple)": (lambda x: x.transpose((2, 0, 1)), lambda x: x.permute(2, 0, 1), (2, 3, 4)),
    "x.transpose(two)": (lambda x: x.transpose(0, 2), lambda x: x.transpose(0, 2), (2, 3, 4)),
    "x.transpose()": (lambda x: x.transpose(), lambda x: x.permute(2, 1, 0), (2, 3, 4)),
    "x.permute": (lambda x: x.permute(1, -1, 0), lambda x: x.permute(1, 2, 0), (2, 3, 4)),
    "T": (lambda x: x.T, lambda x: x.permute(2, 1, 0), (2, 3, 4)),
    "mT": (lambda x: x.mT, lambda x: x.mT, (2, 3, 4)),
    "t": (lambda x: x.t(), lambda x: x.t(), (2, 3)),
    "swapaxes": (lambda x: x.swapaxes(0, -1), lambda x: x.swapaxes(0, -1), (2, 3, 4)),
    "moveaxis": (lambda x: ops.moveaxis(x, 0, 2), lambda x: x.moveaxis(0, 2), (2, 3, 4)),
    "movedim": (lambda x: x.movedim((0, 1), (2, 0)), lambda x: x.movedim((0, 1), (2, 0)), (2, 3, 4)),
    "flip": (lambda x: ops.flip(x, (0, -1)), lambda x: x.flip(0, -1), (2, 3, 4)),
    "ReverseV2": (lambda x: ops.ReverseV2([1])(x), lambda x: x.flip(1), (2, 3, 4)),
    "fliplr": (ops.fliplr, torch.fliplr, (2, 3)),
    "flipud": (ops.flipud, torch.flipud, (2, 3)),
    "roll": (lambda x: ops.roll(x, (1, -2), (0, 2)), lambda x: x.roll((1, -2), (0, 2)), (2, 3, 4)),
    "roll flat": (lambda x: x.roll(3), lambda x: x.roll(3), (2, 3)),
    "Roll": (lambda x: ops.Roll(1, 0)(x), lambda x: x.roll(1, 0), (3, 2)),
    "rot90 1": (lambda x: x.rot90(1, (0, 1)), lambda x: x.rot90(1, (0, 1)), (2, 3, 4)),
    "rot90 2": (lambda x: x.rot90(2, (0, 2)), lambda x: x.rot90(2, (0, 2)), (2, 3, 4)),
    "rot90 3": (lambda x: x.rot90(-1, (2, 0)), lambda x: x.rot90(-1, (2, 0)), (2, 3, 4)),
}


@pytest.mark.parametrize(("function", "torch_function", "shape"), CASES.values(), ids=CASES)
def test_as_torch(function: Callable[..., Any], torch_function: Callable[..., Any], shape: tuple[int, ...]) -> None:
    assert_as_torch(function, torch_function, normal(*shape))


@settings(max_examples=50, deadline=None)
@given(st.lists(st.integers(0, 3), min_size=1, max_size=4), st.data())
def test_orders_of_axes(shape: list[int], data: st.DataObject) -> None:
    order = tuple(data.draw(st.permutations(range(len(shape)))))
    source = data.draw(st.integers(-len(shape), len(shape) - 1))
    to = data.draw(st.integers(-len(shape), len(shape) - 1))
    x = normal(*shape)
    assert ops.transpose(Tensor(x), order).shape == x.transpose(order).shape
    np.testing.assert_array_equal(ops.transpose(Tensor(x), order).asnumpy(), x.transpose(order))
    np.testing.assert_array_equal(ops.moveaxis(Tensor(x), source, to).asnumpy(), np.moveaxis(x, source, to))
    np.testing.assert_array_equal(ops.swapaxes(Tensor(x), source, to).asnumpy(), np.swapaxes(x, source, to))


def test_what_the_shape_is() -> None:
    x = Tensor(normal(2, 3))
    assert ops.shape(x) == ops.Shape()(x) == (2, 3)
    assert (ops.rank(x), ops.Rank()(x), x.ndimension()) == (2, 2, 2)
    assert (ops.size(x), ops.Size()(x), x.size, x.nelement()) == (6, 6, 6, 6)
    vector = ops.dyn_shape(x)
    assert vector.dtype == np.int64
    assert vector.asnumpy().tolist() == [2, 3]
    assert ops.is_tensor(x)
    assert not ops.is_tensor(1)


def test_a_parameter_has_the_methods_too() -> None:
    assert Parameter(Tensor(normal(2, 3)), name="w").T.shape == (3, 2)


@pytest.mark.parametrize(
    ("wrong", "error", "words"),
    [
        (lambda x: x.reshape(5, 5), ValueError, ("reshape", "(5, 5)", "6")),
        (lambda x: x.reshape(-1, -1), ValueError, ("reshape", "-1")),
        (lambda x: x.reshape(4, -1), ValueError, ("reshape", "(4, -1)")),
        (lambda x: x.reshape(2.5), TypeError, ("reshape", "shape", "float")),
        (lambda x: ops.flatten(x, "A"), ValueError, ("flatten", "order", "'A'")),
        (lambda x: ops.flatten(x, start_dim=1, end_dim=0), ValueError, ("flatten", "start_dim", "end_dim")),
        (lambda x: ops.Flatten()(Tensor(1.0)), ValueError, ("Flatten", "dimension")),
        (lambda x: ops.expand_dims(x, 4), ValueError, ("axis 4", "out of range")),
        (lambda x: ops.broadcast_to(x, (2, 2)), ValueError, ("(2, 3)", "(2, 2)")),
        (lambda x: ops.broadcast_to(x, (-1, 2, 3)), ValueError, ("broadcast_to", "-1")),
        (lambda x: ops.transpose(x, (0, 0)), ValueError, ("permutation",)),
        (lambda x: ops.moveaxis(x, (0, 1), 0), ValueError, ("moveaxis",)),
        (lambda x: ops.roll(x, (1, 2), 0), ValueError, ("shift",)),
        (lambda x: ops.rot90(x, 1, (0, 0)), ValueError, ("dim",)),
        (lambda x: ops.reshape("x", (1,)), TypeError, ("reshape", "Tensor", "str")),
    ],
)
def test_errors(wrong: Callable[[Tensor], Any], error: type[Exception], words: tuple[str, ...]) -> None:
    with pytest.raises(error) as raised:
        wrong(Tensor(normal(2, 3)))
    assert [word for word in words if word not in str(raised.value)] == []
