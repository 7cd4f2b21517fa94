"""Joining, cutting, repeating and padding: against torch and NumPy, outputs and gradients; errors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn import functional as F

from cellbridge.runtime import ShapeError, Tensor, ops
from cellbridge.runtime.common.dtype import float16, float32, int64
from tests.runtime.against_torch import assert_as_torch, normal

CASES: dict[str, tuple[Callable[..., Any], Callable[..., Any], tuple[tuple[int, ...], ...]]] = {
    "cat": (lambda *xs: ops.cat(xs, 1), lambda *xs: torch.cat(xs, 1), ((2, 1), (2, 3))),
    "concat": (lambda *xs: ops.concat(list(xs), -1), lambda *xs: torch.cat(xs, -1), ((2, 1), (2, 3))),
    "Concat": (lambda *xs: ops.Concat(1)(xs), lambda *xs: torch.cat(xs, 1), ((2, 1), (2, 3), (2, 2))),
    "stack": (lambda *xs: ops.stack(xs, 1), lambda *xs: torch.stack(xs, 1), ((2, 3), (2, 3))),
    "Stack": (lambda *xs: ops.Stack(axis=-1)(xs), lambda *xs: torch.stack(xs, -1), ((2, 3), (2, 3))),
    "stack numbers": (lambda *xs: ops.stack(xs), lambda *xs: torch.stack(xs), ((), ())),
    "hstack": (lambda *xs: ops.hstack(xs), lambda *xs: torch.hstack(xs), ((2, 1), (2, 3))),
    "hstack vectors": (lambda *xs: ops.hstack(xs), lambda *xs: torch.hstack(xs), ((2,), (3,))),
    "vstack": (lambda *xs: ops.vstack(xs), lambda *xs: torch.vstack(xs), ((3,), (2, 3))),
    "dstack": (lambda *xs: ops.dstack(xs), lambda *xs: torch.dstack(xs), ((3,), (3,))),
    "column_stack": (lambda *xs: ops.column_stack(xs), lambda *xs: torch.column_stack(xs), ((3,), (3, 2))),
    "meshgrid": (lambda *xs: ops.meshgrid(*xs), lambda *xs: torch.meshgrid(*xs, indexing="xy"), ((2,), (3,), (4,))),
    "meshgrid ij": (
        lambda *xs: ops.Meshgrid(indexing="ij")(xs),
        lambda *xs: torch.meshgrid(*xs, indexing="ij"),
        ((2,), (3,)),
    ),
    "broadcast_tensors": (
        lambda *xs: ops.broadcast_tensors(*xs),
        lambda *xs: torch.broadcast_tensors(*xs),
        ((2, 1), (3,)),
    ),
    "split": (lambda x: ops.split(x, 3), lambda x: x.split(3), ((7, 2),)),
    "split sections": (lambda x: x.split([1, 4], 1), lambda x: x.split([1, 4], 1), ((2, 5),)),
    "Split": (lambda x: ops.Split(1, 2)(x), lambda x: x.split(2, 1), ((3, 4),)),
    "chunk": (lambda x: ops.chunk(x, 4), lambda x: x.chunk(4), ((5, 2),)),
    "x.chunk": (lambda x: x.chunk(2, axis=1), lambda x: x.chunk(2, 1), ((2, 3),)),
    "tensor_split": (lambda x: ops.tensor_split(x, 3), lambda x: x.tensor_split(3), ((7, 2),)),
    "tensor_split at": (
        lambda x: x.tensor_split((1, 1, 9), 0),
        lambda x: x.tensor_split((1, 1, 9), 0),
        ((5, 2),),
    ),
    "hsplit": (lambda x: ops.hsplit(x, 2), lambda x: x.hsplit(2), ((2, 4),)),
    "vsplit": (lambda x: ops.vsplit(x, [1]), lambda x: x.vsplit([1]), ((2, 4),)),
    "dsplit": (lambda x: ops.dsplit(x, 2), lambda x: x.dsplit(2), ((1, 2, 4),)),
    "unstack": (lambda x: ops.unstack(x, 1), lambda x: x.unbind(1), ((2, 3, 2),)),
    "Unstack": (lambda x: ops.Unstack(axis=-1)(x), lambda x: x.unbind(-1), ((2, 3),)),
    "unbind": (lambda x: x.unbind(), lambda x: x.unbind(), ((2, 3),)),
    "tile": (lambda x: ops.tile(x, (2, 1, 3)), lambda x: x.tile(2, 1, 3), ((2, 3),)),
    "tile fewer": (lambda x: x.tile((2,)), lambda x: x.tile(2), ((2, 3),)),
    "Tile": (lambda x: ops.Tile()(x, (2, 2)), lambda x: x.tile(2, 2), ((2, 3),)),
    "repeat": (lambda x: x.repeat(2, 1, 3), lambda x: x.repeat(2, 1, 3), ((2, 3),)),
    "repeat tuple": (lambda x: x.repeat((2, 3)), lambda x: x.repeat(2, 3), ((2, 3),)),
    "repeat_interleave": (lambda x: ops.repeat_interleave(x, 2), lambda x: x.repeat_interleave(2), ((2, 3),)),
    "repeat_interleave axis": (
        lambda x: x.repeat_interleave(3, 1),
        lambda x: x.repeat_interleave(3, 1),
        ((2, 2),),
    ),
    "repeat_interleave each": (
        lambda x: x.repeat_interleave(Tensor([2, 0, 1]), 0),
        lambda x: x.repeat_interleave(torch.tensor([2, 0, 1]), 0),
        ((3, 2),),
    ),
    "pad": (lambda x: ops.pad(x, (1, 2)), lambda x: F.pad(x, (1, 2)), ((2, 3),)),
    "pad value": (
        lambda x: ops.pad(x, [1, 0, 0, 2], value=5.0),
        lambda x: F.pad(x, [1, 0, 0, 2], value=5.0),
        ((2, 3),),
    ),
    "pad crop": (lambda x: ops.pad(x, (-1, 1)), lambda x: F.pad(x, (-1, 1)), ((2, 3),)),
    "pad tensor": (lambda x: ops.pad(x, Tensor([1, 1])), lambda x: F.pad(x, (1, 1)), ((2, 3),)),
    "pad reflect": (
        lambda x: ops.pad(x, (1, 2, 1, 0), mode="reflect"),
        lambda x: F.pad(x, (1, 2, 1, 0), mode="reflect"),
        ((1, 2, 3, 4),),
    ),
    "pad replicate": (
        lambda x: ops.pad(x, (3, 0), mode="replicate"),
        lambda x: F.pad(x, (3, 0), mode="replicate"),
        ((1, 2, 3),),
    ),
    "pad circular": (
        lambda x: ops.pad(x, (2, 1, 0, 1), mode="circular"),
        lambda x: F.pad(x, (2, 1, 0, 1), mode="circular"),
        ((1, 2, 3, 3),),
    ),
    "Pad": (
        lambda x: ops.Pad(((1, 0), (0, 2)))(x),
        lambda x: F.pad(x, (0, 2, 1, 0)),
        ((2, 3),),
    ),
    "MirrorPad": (
        lambda x: ops.MirrorPad()(x, Tensor([[0, 0], [2, 1]])),
        lambda x: F.pad(x, (2, 1), mode="reflect"),
        ((2, 3),),
    ),
    "MirrorPad symmetric": (
        lambda x: ops.MirrorPad("SYMMETRIC")(x, ((0, 1), (2, 1))),
        lambda x: x[[0, 1, 1]][:, [1, 0, 0, 1, 2, 2]],
        ((2, 3),),
    ),
    "unfold": (
        lambda x: ops.unfold(x, (2, 3), 1, (1, 0), 2),
        lambda x: F.unfold(x, (2, 3), 1, (1, 0), 2),
        ((2, 3, 5, 6),),
    ),
    "unfold dilated": (lambda x: x.unfold(2, 2), lambda x: F.unfold(x, 2, 2), ((1, 2, 4, 5),)),
    "fold": (
        lambda x: ops.fold(x, (4, 5), 2, 1, 1, 2),
        lambda x: F.fold(x, (4, 5), 2, 1, 1, 2),
        ((2, 12, 9),),
    ),
}


@pytest.mark.parametrize(("function", "torch_function", "shapes"), CASES.values(), ids=CASES)
def test_as_torch(
    function: Callable[..., Any], torch_function: Callable[..., Any], shapes: tuple[tuple[int, ...], ...]
) -> None:
    assert_as_torch(function, torch_function, *(normal(*shape, seed=i) for i, shape in enumerate(shapes)))


@settings(max_examples=50, deadline=None)
@given(st.integers(1, 9), st.integers(1, 9), st.sampled_from([0, 1]))
def test_pieces_join_to_the_whole(size: int, count: int, axis: int) -> None:
    x = normal(*((size, 2) if axis == 0 else (2, size)))
    for pieces in (
        ops.split(Tensor(x), count, axis),
        ops.chunk(Tensor(x), count, axis),
        ops.tensor_split(Tensor(x), count, axis),
    ):
        np.testing.assert_array_equal(ops.cat(pieces, axis).asnumpy(), x)


def test_cat_in_the_common_dtype() -> None:
    half, whole = Tensor([1.5], float16), Tensor([2], int64)
    assert ops.cat([half, Tensor([1.0])]).dtype == float32
    assert ops.cat([half, whole]).dtype == float16
    assert ops.cat([half, whole]).asnumpy().tolist() == [1.5, 2.0]


@pytest.mark.parametrize(
    ("wrong", "error", "words"),
    [
        (lambda x: ops.cat([]), ValueError, ("cat", "at least one")),
        (lambda x: ops.cat(x), TypeError, ("cat", "tuple or list", "Tensor")),
        (lambda x: ops.cat([x, 3]), TypeError, ("cat", "int")),
        (lambda x: ops.cat([x, x.T]), ValueError, ("(2, 3)", "(3, 2)")),
        (lambda x: ops.stack([x, x.T]), ValueError, ("stack", "(2, 3)", "(3, 2)")),
        (lambda x: ops.stack([x, x.astype(int64)]), TypeError, ("stack", "float64", "int64")),
        (lambda x: ops.meshgrid(x[0], x[0], indexing="yx"), ValueError, ("meshgrid", "indexing", "'yx'")),
        (lambda x: ops.meshgrid(x), ValueError, ("meshgrid", "(2, 3)")),
        (lambda x: ops.split(x, 0), ValueError, ("split", "positive")),
        (lambda x: ops.split(x, [1, 1], 1), ValueError, ("split", "3", "(1, 1)")),
        (lambda x: ops.Split(1, 2)(x), ValueError, ("Split", "3", "output_num=2")),
        (lambda x: ops.SplitV([1, -1], 2, 2)(x), ShapeError, ("axis 2", "2 dimensions")),
        (lambda x: ops.chunk(x, 0), ValueError, ("chunk", "positive")),
        (lambda x: ops.unstack(Tensor(1.0)), ValueError, ("unstack", "dimension")),
        (lambda x: x.repeat(2), ValueError, ("repeat", "2 axes")),
        (lambda x: ops.tile(x, (-1,)), ValueError, ("tile", "negative")),
        (lambda x: ops.repeat_interleave(x, [1, 2], 1), ValueError, ("repeat_interleave", "(1, 2)")),
        (lambda x: ops.pad(x, [1]), ValueError, ("pad", "padding", "1 numbers")),
        (lambda x: ops.pad(x, [1] * 6), ValueError, ("pad", "2 axes")),
        (lambda x: ops.pad(x, [1, 1], mode="foo"), ValueError, ("pad", "mode", "'foo'", "reflect")),
        (lambda x: ops.pad(x, [1, 1], mode="reflect", value=1.0), ValueError, ("pad", "value", "reflect")),
        (lambda x: ops.pad(x, [3, 0], mode="reflect"), ValueError, ("reflect", "2")),
        (lambda x: ops.Pad(((1, 1),))(x), ValueError, ("Pad", "2 axes")),
        (lambda x: ops.Pad(((1, 1), (0, -1)))(x), ValueError, ("Pad", "negative")),
        (lambda x: ops.MirrorPad("foo")(x, ((0, 0), (0, 0))), ValueError, ("MirrorPad", "mode", "'foo'")),
        (lambda x: ops.MirrorPad("SYMMETRIC")(x, ((0, 0), (4, 0))), ValueError, ("MirrorPad", "3", "axis 1")),
        (lambda x: ops.unfold(ops.ones((1, 1, 2, 2)), 3), ValueError, ("unfold", "kernel_size")),
        (lambda x: ops.fold(ops.ones((1, 4, 3)), 3, 2), ValueError, ("fold", "(1, 4, 3)")),
    ],
)
def test_errors(wrong: Callable[[Tensor], Any], error: type[Exception], words: tuple[str, ...]) -> None:
    with pytest.raises(error) as raised:
        wrong(Tensor(normal(2, 3)))
    assert [word for word in words if word not in str(raised.value)] == []
