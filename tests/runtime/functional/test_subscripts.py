"""`x[...]` and `x[...] = value`: drawn indices against NumPy, gradients against torch; slices as functions; errors."""

from __future__ import annotations

import builtins
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st

import cellbridge.runtime as ms
from cellbridge.runtime import Parameter, Tensor, ops
from tests.runtime.against_torch import assert_as_torch, close, normal


@st.composite
def indexed(draw: st.DrawFn) -> tuple[tuple[int, ...], tuple[Any, ...]]:
    """A shape, and an index for it in NumPy's terms."""
    shape = tuple(draw(st.lists(st.integers(1, 4), min_size=1, max_size=4)))
    counts = draw(st.sampled_from([(), (2,), (3, 1)]))  # shapes of index arrays, which broadcast
    items: list[Any] = []
    axis = 0
    covered = draw(st.integers(0, len(shape)))
    while axis < covered:
        size = shape[axis]
        kind = draw(st.sampled_from(["int", "slice", "all", "new", "array", "mask"]))
        if kind == "new":
            items.append(None)
            continue
        if kind == "int":
            items.append(draw(st.integers(-size, size - 1)))
        elif kind == "slice":
            items.append(draw(st.slices(size)))
        elif kind == "array":
            length = int(np.prod(counts))
            values = draw(st.lists(st.integers(-size, size - 1), min_size=length, max_size=length))
            items.append(np.array(values, np.int64).reshape(counts))
        elif kind == "mask" and not any(isinstance(item, np.ndarray) for item in items):
            items.append(np.array(draw(st.lists(st.booleans(), min_size=size, max_size=size))))
            counts = ()  # index arrays beside a mask: numbers
        else:
            items.append(builtins.slice(None))
        axis += 1
    if draw(st.booleans()):
        items.insert(draw(st.integers(0, len(items))) if axis == len(shape) else len(items), Ellipsis)
    return shape, tuple(items)


def as_tensors(index: tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple(Tensor(item) if isinstance(item, np.ndarray) else item for item in index)


@settings(max_examples=300, deadline=None)
@given(indexed())
@example(((1, 1, 1), (None, None, np.array([0, 0]), Ellipsis, 0, builtins.slice(None))))
def test_getitem_is_numpy_s(case: tuple[tuple[int, ...], tuple[Any, ...]]) -> None:
    shape, index = case
    x = np.arange(np.prod(shape), dtype=np.float64).reshape(shape)
    y = Tensor(x)[as_tensors(index)]
    np.testing.assert_array_equal(y.asnumpy(), x[index], strict=True)
    g = ms.grad(lambda t: (t[as_tensors(index)] * t[as_tensors(index)]).sum())(Tensor(x))
    counts = np.zeros_like(x)
    np.add.at(counts, index, 1)
    np.testing.assert_allclose(g.asnumpy(), counts * 2 * x)


@settings(max_examples=300, deadline=None)
@given(indexed(), st.booleans())
def test_setitem_is_numpy_s(case: tuple[tuple[int, ...], tuple[Any, ...]], number: bool) -> None:
    shape, index = case
    x = np.arange(np.prod(shape), dtype=np.float64).reshape(shape)
    value: Any = 7.5 if number else -np.arange(x[index].size, dtype=np.float64).reshape(x[index].shape)
    y = Tensor(x)
    y[as_tensors(index)] = value if number else Tensor(value)
    x[index] = value
    np.testing.assert_array_equal(y.asnumpy(), x)


@pytest.mark.parametrize(
    "index",
    [
        0,
        -1,
        (builtins.slice(None), 2),
        (..., builtins.slice(None, None, 2)),
        (0, builtins.slice(1, None), None),
        [1, 0],
        (builtins.slice(None), [2, 0]),
        ([0, 1], builtins.slice(None), [1, 0]),
    ],
)
def test_gradients_of_writing_are_torch_s(index: Any) -> None:
    x = normal(2, 3, 4)

    def write(x: Any, v: Any) -> Any:
        y = x * 2.0
        y[index] = v * v
        y[0, 0] = y[0, 0] * 3.0
        return y * y

    assert_as_torch(write, write, x, normal(*torch.from_numpy(x)[index].shape, seed=1))


def test_lists_ranges_arrays_masks_and_tensors_of_no_dimensions() -> None:
    x = normal(3, 4)
    t = Tensor(x)
    for index, expected in [
        ([2, 0], x[[2, 0]]),
        (range(2), x[:2]),
        ([], x[[]]),
        (np.array([1]), x[[1]]),
        (np.int64(1), x[1]),
        ([True, False, True], x[[True, False, True]]),
        (Tensor(1), x[1]),
        ((Tensor(1), builtins.slice(1, 3)), x[1, 1:3]),
        (builtins.slice(Tensor(0), Tensor(2)), x[:2]),
        (t > 0, x[x > 0]),
        (Tensor([0, 2], ms.uint8), x[[0, 2]]),
    ]:
        np.testing.assert_array_equal(t[index].asnumpy(), expected)
    assert [row.asnumpy().tolist() for row in t] == x.tolist()
    assert len(t) == 3


def test_a_tensor_keeps_its_dtype_and_a_parameter_its_identity() -> None:
    p = Parameter(Tensor([1.0, 2.0, 3.0], ms.float32), name="p")
    same = p
    p[1:] = Tensor([7, 8])
    assert same is p
    assert p.dtype == ms.float32
    assert p.asnumpy().tolist() == [1.0, 7.0, 8.0]
    whole = Tensor([1, 2])
    whole[0] = 3.7
    assert whole.asnumpy().tolist() == [3, 2]


def test_a_value_with_leading_ones_is_written() -> None:
    x = Tensor(np.zeros((2, 3)))
    x[0] = Tensor(np.ones((1, 1, 3)))
    assert x.asnumpy().tolist() == [[1, 1, 1], [0, 0, 0]]


CASES: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = {
    "narrow": (lambda x: ops.narrow(x, 2, 1, 2), lambda x: x.narrow(2, 1, 2)),
    "narrow from the end": (lambda x: x.narrow(1, -2, 2), lambda x: x.narrow(1, -2, 2)),
    "slice": (lambda x: ops.slice(x, (0, 1, 0), (2, 2, -1)), lambda x: x[0:2, 1:3]),
    "Slice": (lambda x: ops.Slice()(x, (1, 0, 2), (1, 3, 1)), lambda x: x[1:2, :, 2:3]),
    "strided_slice": (
        lambda x: ops.strided_slice(x, (0, 1, 0), (2, 3, 4), (1, 1, 2)),
        lambda x: x[0:2, 1:3, 0:4:2],
    ),
    "strided_slice fewer": (lambda x: ops.strided_slice(x, (1,), (2,), (1,)), lambda x: x[1:2]),
    "strided_slice backwards": (lambda x: ops.strided_slice(x, (0, -1), (2, 0), (1, -1)), lambda x: x[:, 1:].flip(1)),
    "StridedSlice": (lambda x: ops.StridedSlice()(x, (0, 0, 1), (1, 3, 4), (1, 2, 1)), lambda x: x[0:1, 0:3:2, 1:4]),
    "begin and end mask": (
        lambda x: ops.StridedSlice(1, 2)(x, (1, 1, 1), (2, 2, 2), (1, 1, 1)),
        lambda x: x[:2, 1:, 1:2],
    ),
    "ellipsis mask": (
        lambda x: ops.strided_slice(x, (0, 1), (0, 3), (1, 1), ellipsis_mask=1),
        lambda x: x[..., 1:3],
    ),
    "new axis mask": (
        lambda x: ops.strided_slice(x, (0, 1), (0, 2), (1, 1), new_axis_mask=1),
        lambda x: x[None, 1:2],
    ),
    "shrink axis mask": (
        lambda x: ops.strided_slice(x, (1, -1), (2, 3), (1, 1), shrink_axis_mask=3),
        lambda x: x[1, -1],
    ),
    "index_put": (
        lambda x: ops.index_put(x, (Tensor([0, 1]), Tensor([2, 0])), Tensor(np.float64(5))),
        lambda x: x.index_put((torch.tensor([0, 1]), torch.tensor([2, 0])), torch.tensor(5.0, dtype=torch.float64)),
    ),
    "index_put accumulate": (
        lambda x: x.index_put((Tensor([1, 1]),), x[0] * 1.0, accumulate=True),
        lambda x: x.index_put((torch.tensor([1, 1]),), x[0] * 1.0, accumulate=True),
    ),
}


@pytest.mark.parametrize(("function", "torch_function"), CASES.values(), ids=CASES)
def test_slices_as_functions(function: Callable[..., Any], torch_function: Callable[..., Any]) -> None:
    assert_as_torch(function, torch_function, normal(2, 3, 4))


def test_writing_to_an_argument_leaves_the_caller_s_tensor() -> None:
    x = Tensor(normal(3))

    def f(x: Any) -> Any:
        x[0] = 5.0
        return (x * x).sum()

    gradient = ms.grad(f)(x)
    close(gradient[1:], torch.from_numpy(2 * x.asnumpy()[1:]))
    assert float(gradient[0]) == 0.0


@pytest.mark.parametrize(
    ("wrong", "error", "words"),
    [
        (lambda x: x[2], IndexError, ("index 2", "axis 0", "size 2")),
        (lambda x: x[0, -4], IndexError, ("index -4", "axis 1", "size 3")),
        (lambda x: x[0, 0, 0], IndexError, ("too many", "2 dimensions", "3")),
        (lambda x: x[..., ...], IndexError, ("ellipsis",)),
        (lambda x: x[1.5], IndexError, ("int", "float")),
        (lambda x: x["a"], IndexError, ("int", "str")),
        (lambda x: x[Tensor([0.5])], IndexError, ("int", "float32")),
        (lambda x: x[Tensor([2])], IndexError, ("2", "out of bounds")),
        (lambda x: x[Tensor([0, 1]), Tensor([0, 1, 2])], IndexError, ("fit",)),
        (lambda x: x[::0], ValueError, ("zero",)),
        (lambda x: x.__setitem__(0, Tensor([1.0, 2.0])), ValueError, ("(2,)", "(3,)")),
        (lambda x: ops.narrow(x, 1, 2, 2), ValueError, ("narrow", "start=2", "length=2", "size 3")),
        (lambda x: ops.slice(x, (0,), (1,)), ValueError, ("slice", "2 numbers")),
        (lambda x: ops.slice(x, (0, 2), (1, 2)), ValueError, ("2:4", "size 3")),
        (lambda x: ops.strided_slice(x, (0,), (1, 1), (1,)), ValueError, ("strided_slice", "one length")),
        (lambda x: ops.strided_slice(x, (0, 0), (1, 1), (1, 1), ellipsis_mask=3), ValueError, ("ellipsis_mask",)),
    ],
)
def test_errors(wrong: Callable[[Tensor], Any], error: type[Exception], words: tuple[str, ...]) -> None:
    with pytest.raises(error) as raised:
        wrong(Tensor(normal(2, 3)))
    assert [word for word in words if word not in str(raised.value)] == []
