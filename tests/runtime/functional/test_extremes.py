"""Largest and smallest elements and their places: values, indices, dtypes, and who gets the gradient."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import cellbridge.runtime as ms
from cellbridge.runtime import Tensor, grad, ops
from tests.runtime.functional.judging import require_agreement

TIES = Tensor(np.array([2.0, 5.0, 5.0, 1.0, 1.0], np.float32))
F = Tensor(np.array([[1.0, -2.0, 3.0], [4.0, 0.5, -6.0]], np.float32))
FLAGS = Tensor(np.array([[True, False, True], [False, False, True]]))


@settings(max_examples=50, deadline=None)
@given(
    st.sampled_from(["max", "min"]),
    st.sampled_from([(4,), (3, 4), (2, 3, 4), (1, 5)]),
    st.integers(-1, 2),
    st.booleans(),
    st.integers(0, 2**32),
)
def test_along_an_axis(name: str, shape: tuple[int, ...], axis: int, kept: bool, seed: int) -> None:
    axis = min(axis, len(shape) - 1)
    x = np.random.default_rng(seed).permutation(int(np.prod(shape))).reshape(shape) * 0.5
    function = getattr(ops, name)
    require_agreement(lambda t: function(t, axis, kept), lambda t: getattr(t, name)(axis, kept), x)
    value, index = function(Tensor(x), axis, kept)
    with_value = getattr(ops, f"Arg{name.capitalize()}WithValue")(axis=axis, keep_dims=kept)(Tensor(x))
    assert [part.tolist() for part in with_value] == [index.tolist(), value.tolist()]
    where = getattr(ops, f"arg{name}")(Tensor(x), axis, kept)
    assert where.tolist() == index.tolist()
    assert where.dtype == (ms.int64 if name == "max" else ms.int32)
    primitive = getattr(ops, f"Arg{name}")(axis)(Tensor(x))
    assert (primitive.dtype, primitive.tolist()) == (ms.int32, getattr(np, f"arg{name}")(x, axis).tolist())


def test_of_all_elements() -> None:
    value, index = ops.max(F)
    assert (value.item(), value.dtype, index.item(), index.dtype, index.shape) == (4.0, ms.float32, 0, ms.int64, ())
    assert isinstance(index, Tensor)
    assert [part.item() for part in ops.min(F)] == [-6.0, 0]
    assert ops.max(F, keepdims=True)[0].shape == ops.min(F, None, True)[1].shape == ()  # nothing to keep
    assert (ops.argmax(F).item(), ops.argmin(F).item(), F.argmax().item(), F.argmin().item()) == (3, 5, 3, 5)
    assert ops.ReduceMax(keep_dims=True)(F, ()).tolist() == ops.amax(F, (0, 1), True).tolist() == [[4.0]]
    assert (ops.reduce_max(F, 1).tolist(), ops.reduce_min(F).item(), ops.ReduceMin()(F).item()) == (
        [3.0, 4.0],
        -6.0,
        -6.0,
    )


def test_tensor_methods_give_values_alone() -> None:
    assert F.max().item() == 4.0
    assert F.max(1).tolist() == F.max(axis=1).tolist() == F.amax(1).tolist() == [3.0, 4.0]
    assert F.min(axis=(0, 1)).item() == -6.0
    assert F.max(1, True).tolist() == F.max(axis=1, keepdims=True).tolist() == [[3.0], [4.0]]
    for pair in (F.max(axis=1, return_indices=True), F.max(dim=1), F.argmax_with_value(1)):
        assert [part.tolist() for part in pair] == [[3.0, 4.0], [2, 0]]
    assert [part.tolist() for part in F.argmin_with_value()] == [[1.0, -2.0, -6.0], [0, 0, 1]]
    assert F.argmax(axis=0, keepdims=True).tolist() == F.argmax(dim=0, keepdim=True).tolist() == [[1, 1, 0]]
    assert (F.ptp().item(), F.ptp(1).tolist(), F.ptp(0, True).tolist()) == (10.0, [5.0, 10.0], [[3.0, 2.5, 9.0]])
    assert [part.tolist() for part in F.aminmax()] == [[1.0, -2.0, -6.0], [4.0, 0.5, 3.0]]


def test_the_first_of_equals_counts_along_an_axis() -> None:
    assert ops.max(TIES, 0)[1].item() == ops.argmax(TIES).item() == 1
    assert ops.min(TIES, 0)[1].item() == ops.argmin(TIES).item() == 3
    first = [0.0, 1.0, 0.0, 0.0, 0.0]
    for along in (lambda x: ops.max(x, 0)[0], lambda x: x.max(axis=0), lambda x: ops.ArgMaxWithValue()(x)[1]):
        assert grad(along)(TIES).tolist() == first


def test_equals_share_the_gradient_over_several_axes() -> None:
    shared = [0.0, 0.5, 0.5, 0.0, 0.0]
    for over in (
        ops.amax,
        ops.ReduceMax(),
        lambda x: x.max(),
        lambda x: ops.max(x)[0],
        lambda x: ops.ReduceMax()(x, 0),
    ):
        assert grad(over)(TIES).tolist() == shared
    assert grad(lambda x: x.ptp())(TIES).tolist() == [0.0, 0.5, 0.5, -0.5, -0.5]


def test_initial_counts_where_a_mask_does_not_hold() -> None:
    expected = np.max(F.asnumpy(), axis=0, initial=-1.0, where=FLAGS.asnumpy())
    assert ops.amax(F, 0, initial=-1.0, where=FLAGS).tolist() == expected.tolist() == [1.0, -1.0, 3.0]
    assert F.max(axis=0, initial=-1.0, where=FLAGS).tolist() == expected.tolist()
    assert ops.max(F, 0, initial=-1.0, where=FLAGS)[0].tolist() == expected.tolist()
    assert ops.amin(F, initial=-10.0).item() == -10.0
    with pytest.raises(ValueError, match="'initial'"):
        ops.amax(F, 0, where=FLAGS)


@pytest.mark.parametrize("dtype", [ms.int32, ms.uint8, ms.float16, ms.bool_])
def test_dtypes(dtype: Any) -> None:
    x = Tensor(np.array([[0, 1, 1], [1, 0, 0]]).astype(dtype))
    assert ops.max(x, 1)[0].dtype == x.min().dtype == ops.amax(x).dtype == dtype
    assert (ops.argmax(x, 1).tolist(), ops.argmin(x, 1).tolist()) == ([1, 0], [0, 1])
    assert ops.Argmax(output_type=ms.int64)(x).dtype == ms.int64


def test_scalars_and_errors() -> None:
    assert [part.item() for part in ops.max(Tensor(3.0), 0)] == [3.0, 0]
    assert ops.argmax(Tensor(3.0)).item() == 0
    with pytest.raises(ValueError, match="axis 5 is out of range"):
        ops.argmax(F, 5)
    with pytest.raises(TypeError, match="'axis' must be an int"):
        ops.max(F, (0, 1))
    with pytest.raises(ValueError, match="no element"):
        ops.max(Tensor(np.zeros((0,), np.float32)))


def test_second_derivative_through_a_maximum() -> None:
    x = Tensor(np.array([1.0, 3.0, 2.0]))
    assert grad(grad(lambda v: ops.max(v**3, 0)[0]))(x).tolist() == [0.0, 18.0, 0.0]
    require_agreement(lambda t: ops.amax(t * t, 0), lambda t: torch.amax(t * t, 0), np.array([[1.0, -2.0], [0.5, 1.0]]))
