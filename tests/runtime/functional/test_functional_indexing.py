"""Looking up, scattering and segments: against torch, outputs and gradients; errors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn import functional as F

import cellbridge.runtime as ms
from cellbridge.runtime import Parameter, Tensor, ops
from tests.runtime.against_torch import assert_as_torch, normal

INDICES = np.array([[0, 2], [1, 0]])
ELEMENTS = np.array([[[0, 2, 1, 1]], [[2, 2, 0, 1]]])
COORDINATES = np.array([[0, 1], [1, 2], [0, 1]])
DISTINCT = np.array([[0, 1], [1, 2]])
ROWS = np.array([1, 0, 1])
MASK = np.array([True, False, True, True])

CASES: dict[str, tuple[Callable[..., Any], Callable[..., Any], tuple[Any, ...]]] = {
    "gather": (lambda x, i: ops.gather(x, i, 1), lambda x, i: x[:, i], (INDICES,)),
    "gather last": (lambda x, i: ops.gather(x, i, -1), lambda x, i: x[..., i], (INDICES,)),
    "Gather": (lambda x, i: ops.Gather()(x, i, 0), lambda x, i: x[i], (ROWS,)),
    "GatherV2": (lambda x, i: ops.GatherV2()(x, i, 1), lambda x, i: x[:, i], (INDICES,)),
    "gather one": (lambda x: ops.gather(x, Tensor(-1), 1), lambda x: x[:, -1], ()),
    "x.gather": (lambda x, i: x.gather(i, 2), lambda x, i: x[..., i], (ROWS,)),
    "x.gather(dim, index)": (lambda x, i: x.gather(1, i), lambda x, i: x.gather(1, i), (ELEMENTS,)),
    "gather batch": (
        lambda x, i: ops.gather(x, i, 1, 1),
        lambda x, i: torch.stack([x[b][i[b]] for b in range(2)]),
        (INDICES,),
    ),
    "gather batch, later axis": (
        lambda x, i: ops.gather(x, i, 2, batch_dims=1),
        lambda x, i: torch.stack([x[b][:, i[b]] for b in range(2)]),
        (INDICES,),
    ),
    "Gather batch": (
        lambda x, i: ops.Gather(batch_dims=2)(x, i, 2),
        lambda x, i: torch.stack([torch.stack([x[b, c][i[b, c]] for c in range(3)]) for b in range(2)]),
        (np.array([[0, 3], [1, 0], [2, 2]]) + np.zeros((2, 1, 1), np.int64),),
    ),
    "index_select": (lambda x, i: ops.index_select(x, 1, i), lambda x, i: x.index_select(1, i), (np.array([2, 0]),)),
    "take": (lambda x, i: ops.take(x, i), lambda x, i: x.take(i), (np.array([[5, 23], [-1, 0]]),)),
    "x.take": (lambda x, i: x.take(i, 1), lambda x, i: x[:, i], (INDICES,)),
    "x.take clip": (lambda x, i: x.take(i), lambda x, i: x.take(i.clamp(-24, 23)), (np.array([50, -1]),)),
    "x.take wrap": (lambda x, i: x.take(i, mode="wrap"), lambda x, i: x.take(i % 24), (np.array([50, -30]),)),
    "gather_elements": (lambda x, i: ops.gather_elements(x, 1, i), lambda x, i: x.gather(1, i), (ELEMENTS,)),
    "GatherD": (lambda x, i: ops.GatherD()(x, 1, i), lambda x, i: x.gather(1, i), (ELEMENTS,)),
    "gather_nd": (lambda x, i: ops.gather_nd(x, i), lambda x, i: x[i[:, 0], i[:, 1]], (COORDINATES,)),
    "GatherNd": (lambda x, i: ops.GatherNd()(x, i), lambda x, i: x[i[:, 0], i[:, 1]], (COORDINATES,)),
    "embedding": (lambda x, i: ops.embedding(i, x[0]), lambda x, i: F.embedding(i, x[0]), (INDICES,)),
    "embedding padded": (
        lambda x, i: ops.embedding(i, x[0], -1),
        lambda x, i: F.embedding(i, x[0], -1),
        (INDICES,),
    ),
    "EmbeddingLookup": (
        lambda x, i: ops.EmbeddingLookup()(x, i, 1),
        lambda x, i: torch.stack([x[0], x[1], torch.zeros_like(x[0])]),
        (np.array([1, 2, 0]),),
    ),
    "masked_select": (lambda x: ops.masked_select(x, x > 0), lambda x: x.masked_select(x > 0), ()),
    "masked_select broadcast": (lambda x, m: x.masked_select(m), lambda x, m: x.masked_select(m), (MASK,)),
    "MaskedSelect": (lambda x, m: ops.MaskedSelect()(x, m), lambda x, m: x.masked_select(m), (MASK,)),
    "masked_fill": (lambda x, m: ops.masked_fill(x, m, -1.0), lambda x, m: x.masked_fill(m, -1.0), (MASK,)),
    "masked_fill tensor": (
        lambda x, m, v: ops.MaskedFill()(x, m, v),
        lambda x, m, v: x.masked_fill(m, v),
        (MASK, np.array(2.5)),
    ),
    "one_hot values": (
        lambda x, i: ops.one_hot(i, 3, x[0, 0, 0], x[0, 0, 1]),
        lambda x, i: torch.where(F.one_hot(i, 3) == 1, x[0, 0, 0], x[0, 0, 1]),
        (INDICES,),
    ),
    "tensor_scatter_update": (
        lambda x, i, u: ops.tensor_scatter_update(x, i, u),
        lambda x, i, u: x.index_put(tuple(i.T), u),
        (DISTINCT, normal(2, 4)),
    ),
    "TensorScatterUpdate": (
        lambda x, i, u: ops.TensorScatterUpdate()(x, i, u),
        lambda x, i, u: x.index_put(tuple(i.T), u),
        (DISTINCT, normal(2, 4)),
    ),
    "tensor_scatter_add": (
        lambda x, i, u: ops.tensor_scatter_add(x, i, u),
        lambda x, i, u: x.index_put(tuple(i.T), u, accumulate=True),
        (COORDINATES, normal(3, 4)),
    ),
    "x.scatter_add": (
        lambda x, i, u: x.scatter_add(i, u),
        lambda x, i, u: x.index_put(tuple(i.T), u, accumulate=True),
        (COORDINATES, normal(3, 4)),
    ),
    "x.scatter_add(dim, index, src)": (
        lambda x, i, u: x.scatter_add(1, i, u),
        lambda x, i, u: x.scatter_add(1, i, u),
        (ELEMENTS, normal(2, 1, 4)),
    ),
    "tensor_scatter_sub": (
        lambda x, i, u: ops.tensor_scatter_sub(x, i, u),
        lambda x, i, u: x.index_put(tuple(i.T), -u, accumulate=True),
        (COORDINATES, normal(3, 4)),
    ),
    "tensor_scatter_mul": (
        lambda x, i, u: ops.tensor_scatter_mul(x, i, u),
        lambda x, i, u: x.index_put(tuple(i.T), x[tuple(i.T)] * u),
        (DISTINCT, normal(2, 4)),
    ),
    "tensor_scatter_div": (
        lambda x, i, u: ops.tensor_scatter_div(x, i, u),
        lambda x, i, u: x.index_put(tuple(i.T), x[tuple(i.T)] / u),
        (DISTINCT, normal(2, 4)),
    ),
    "tensor_scatter_max": (
        lambda x, i, u: ops.TensorScatterMax()(x, i, u),
        lambda x, i, u: x.index_put(tuple(i.T), torch.maximum(x[tuple(i.T)], u)),
        (DISTINCT, normal(2, 4)),
    ),
    "tensor_scatter_min": (
        lambda x, i, u: x.scatter_min(i, u),
        lambda x, i, u: x.index_put(tuple(i.T), torch.minimum(x[tuple(i.T)], u)),
        (DISTINCT, normal(2, 4)),
    ),
    "scatter_nd": (
        lambda x, i: ops.scatter_nd(i, x[0], (2, 3, 4)),
        lambda x, i: torch.zeros(2, 3, 4, dtype=x.dtype).index_put(tuple(i.T), x[0], accumulate=True),
        (COORDINATES,),
    ),
    "tensor_scatter_elements": (
        lambda x, i, u: ops.tensor_scatter_elements(x, i, u, 1),
        lambda x, i, u: x.scatter(1, i, u),
        (ELEMENTS, normal(2, 1, 4)),
    ),
    "TensorScatterElements": (
        lambda x, i, u: ops.TensorScatterElements(1, "add")(x, i, u),
        lambda x, i, u: x.scatter_add(1, i, u),
        (ELEMENTS, normal(2, 1, 4)),
    ),
    "scatter": (lambda x, i: ops.scatter(x, 1, i, 2.5), lambda x, i: x.scatter(1, i, 2.5), (ELEMENTS,)),
    "index_fill": (
        lambda x, i: ops.index_fill(x, 1, i, 2.0),
        lambda x, i: x.index_fill(1, i, 2.0),
        (np.array([2, 0]),),
    ),
    "slice_scatter": (
        lambda x, s: ops.slice_scatter(x, s, 2, 1, None, 2),
        lambda x, s: x.slice_scatter(s, 2, 1, None, 2),
        (normal(2, 3, 2),),
    ),
    "select_scatter": (
        lambda x, s: x.select_scatter(s, 1, -1),
        lambda x, s: x.select_scatter(s, 1, -1),
        (normal(2, 4),),
    ),
    "x.index_add": (
        lambda x, i, u: x.index_add(i, u, 1),
        lambda x, i, u: x.index_add(1, i, u),
        (ROWS, normal(2, 3, 4, seed=5)),
    ),
    "x.index_add(dim, index, source)": (
        lambda x, i, u: x.index_add(1, i, u),
        lambda x, i, u: x.index_add(1, i, u),
        (ROWS, normal(2, 3, 4, seed=5)),
    ),
    "inplace_update": (
        lambda x, v: ops.inplace_update(x, v, (1,)),
        lambda x, v: torch.cat([x[:1], v]),
        (normal(1, 3, 4),),
    ),
    "InplaceAdd": (
        lambda x, v: ops.InplaceAdd((1,))(x, v),
        lambda x, v: torch.cat([x[:1], x[1:] + v]),
        (normal(1, 3, 4),),
    ),
    "inplace_sub": (
        lambda x, v: ops.inplace_sub(x, v, (1,)),
        lambda x, v: torch.cat([x[:1], x[1:] - v]),
        (normal(1, 3, 4),),
    ),
    "segment_sum": (
        lambda x, i: ops.unsorted_segment_sum(x, i, 4),
        lambda x, i: torch.zeros(4, 3, 4, dtype=x.dtype).index_add(0, i, x),
        (np.array([3, 0]),),
    ),
    "UnsortedSegmentSum of two axes": (
        lambda x, i: ops.UnsortedSegmentSum()(x, i, 3),
        lambda x, i: torch.zeros(3, 4, dtype=x.dtype).index_add(0, i.reshape(-1), x.reshape(6, 4)),
        (np.array([[2, 0, 2], [2, 0, 0]]),),
    ),
    "segment_sum leaves out": (
        lambda x, i: x.unsorted_segment_sum(i, 2),
        lambda x, i: torch.stack([x[1], torch.zeros_like(x[0])]),
        (np.array([-1, 0]),),
    ),
    "segment_max": (
        lambda x, i: ops.unsorted_segment_max(x[0], i, 2),
        lambda x, i: torch.stack([x[0, 1], x[0, ::2].amax(0)]),
        (ROWS,),
    ),
    "UnsortedSegmentMin": (
        lambda x, i: ops.UnsortedSegmentMin()(x[0], i, Tensor(2)),
        lambda x, i: torch.stack([x[0, 1], x[0, ::2].amin(0)]),
        (ROWS,),
    ),
    "segment_prod": (
        lambda x, i: ops.unsorted_segment_prod(x[0], i, 3),
        lambda x, i: torch.stack([x[0, 1], x[0, ::2].prod(0), torch.ones_like(x[0, 0])]),
        (ROWS,),
    ),
}


@pytest.mark.parametrize(("function", "torch_function", "others"), CASES.values(), ids=CASES)
def test_as_torch(function: Callable[..., Any], torch_function: Callable[..., Any], others: tuple[Any, ...]) -> None:
    assert_as_torch(function, torch_function, normal(2, 3, 4), *others)


@settings(max_examples=50, deadline=None)
@given(st.lists(st.integers(1, 3), min_size=1, max_size=3), st.data())
def test_gather_in_batches(shape: list[int], data: st.DataObject) -> None:
    batches = data.draw(st.integers(0, len(shape) - 1))
    axis = data.draw(st.integers(batches, len(shape) - 1))
    lookups = tuple(data.draw(st.lists(st.integers(1, 3), max_size=2)))
    x = normal(*shape)
    indices = np.random.default_rng(0).integers(0, shape[axis], (*shape[:batches], *lookups))
    expected = np.stack(
        [np.take(x[place], indices[place], axis - batches) for place in np.ndindex(*shape[:batches])]
    ).reshape((*shape[:axis], *lookups, *shape[axis + 1 :]))
    np.testing.assert_array_equal(ops.gather(Tensor(x), Tensor(indices), axis, batches).asnumpy(), expected)


def test_one_hot() -> None:
    i = Tensor([[2, 0], [5, -1]])
    plain = ops.one_hot(i, 3)
    assert plain.dtype == np.int64
    assert plain.asnumpy().tolist() == [[[0, 0, 1], [1, 0, 0]], [[0, 0, 0], [0, 0, 0]]]
    assert ops.one_hot(i, 3, 1.0, 0.0).dtype == np.float32
    assert ops.OneHot()(i, 3, Tensor(1.0, ms.float16), Tensor(0.0, ms.float16)).dtype == np.float16
    first = ops.OneHot(axis=0)(i, 3, Tensor(2), Tensor(1))
    assert first.shape == (3, 2, 2)
    assert first.asnumpy()[2].tolist() == [[2, 1], [1, 1]]


def test_places_and_different_elements() -> None:
    x = Tensor([[1, 0], [0, 3]])
    assert ops.nonzero(x).dtype == np.int64
    assert ops.nonzero(x).asnumpy().tolist() == ops.NonZero()(x).asnumpy().tolist() == [[0, 0], [1, 1]]
    assert [places.asnumpy().tolist() for places in x.nonzero(as_tuple=True)] == [[0, 1], [0, 1]]
    assert ops.argwhere(x > 5).shape == (0, 2)
    values, which = ops.unique(Tensor([3, 1, 3], ms.int32))
    assert (values.asnumpy().tolist(), which.asnumpy().tolist()) == ([3, 1], [0, 1, 0])
    assert (values.dtype, which.dtype) == (np.int32, np.int32)
    assert ops.sequence_mask(Tensor([1, 3]), 4).astype(ms.int32).tolist() == [[1, 0, 0, 0], [1, 1, 1, 0]]
    assert ops.sequence_mask(Tensor([1, 3])).shape == (2, 3)


def test_empty_segments() -> None:
    x, ids = Tensor([1.0, 2.0]), Tensor([1, 1])
    limits = np.finfo(np.float32)
    assert ops.unsorted_segment_max(x, ids, 2).asnumpy().tolist() == [limits.min, 2.0]
    assert ops.unsorted_segment_min(x, ids, 2).asnumpy().tolist() == [limits.max, 1.0]
    assert ops.unsorted_segment_max(Tensor([5], ms.int8), Tensor([1]), 2).asnumpy().tolist() == [-128, 5]
    assert ops.unsorted_segment_sum(Tensor([1.0, 2.0], ms.float16), ids, 2).dtype == np.float16


UPDATING: dict[str, tuple[Callable[..., Any], Callable[..., Any], Any]] = {
    "scatter_update": (ops.scatter_update, lambda x, i, u: x.__setitem__(i, u), np.array([0, 2])),
    "ScatterUpdate": (ops.ScatterUpdate(), lambda x, i, u: x.__setitem__(i, u), np.array([0, 2])),
    "scatter_add": (ops.scatter_add, lambda x, i, u: np.add.at(x, i, u), np.array([0, 0])),
    "ScatterSub": (ops.ScatterSub(), lambda x, i, u: np.subtract.at(x, i, u), np.array([0, 0])),
    "scatter_mul": (ops.scatter_mul, lambda x, i, u: np.multiply.at(x, i, u), np.array([0, 0])),
    "scatter_div": (ops.scatter_div, lambda x, i, u: np.divide.at(x, i, u), np.array([1, 0])),
    "scatter_max": (ops.scatter_max, lambda x, i, u: np.maximum.at(x, i, u), np.array([0, 0])),
    "scatter_min": (ops.scatter_min, lambda x, i, u: np.minimum.at(x, i, u), np.array([0, 0])),
    "scatter_nd_update": (ops.scatter_nd_update, lambda x, i, u: x.__setitem__(i[:, 0], u), np.array([[2], [0]])),
    "scatter_nd_add": (ops.scatter_nd_add, lambda x, i, u: np.add.at(x, i[:, 0], u), np.array([[2], [2]])),
    "scatter_nd_sub": (ops.scatter_nd_sub, lambda x, i, u: np.subtract.at(x, i[:, 0], u), np.array([[2], [2]])),
    "scatter_nd_mul": (ops.scatter_nd_mul, lambda x, i, u: np.multiply.at(x, i[:, 0], u), np.array([[2], [2]])),
    "scatter_nd_div": (ops.scatter_nd_div, lambda x, i, u: np.divide.at(x, i[:, 0], u), np.array([[2], [1]])),
    "scatter_nd_max": (ops.scatter_nd_max, lambda x, i, u: np.maximum.at(x, i[:, 0], u), np.array([[2], [2]])),
    "scatter_nd_min": (ops.scatter_nd_min, lambda x, i, u: np.minimum.at(x, i[:, 0], u), np.array([[2], [2]])),
    "index_add": (lambda x, i, u: ops.index_add(x, i, u, 0), lambda x, i, u: np.add.at(x, i, u), np.array([1, 1])),
    "IndexAdd": (lambda x, i, u: ops.IndexAdd(0)(x, i, u), lambda x, i, u: np.add.at(x, i, u), np.array([1, 1])),
}


@pytest.mark.parametrize(("update", "numpy_update", "indices"), UPDATING.values(), ids=UPDATING)
def test_a_parameter_takes_over_what_is_written(
    update: Callable[..., Any], numpy_update: Callable[..., Any], indices: Any
) -> None:
    x, u = normal(3, 2), normal(2, 2, seed=1)
    p = Parameter(Tensor(x), name="p")
    returned = update(p, Tensor(indices), Tensor(u))
    numpy_update(x, indices, u)
    np.testing.assert_allclose(p.asnumpy(), x)
    np.testing.assert_allclose(returned.asnumpy(), x)


@pytest.mark.parametrize(
    ("wrong", "error", "words"),
    [
        (lambda x: ops.gather(x, Tensor([0.0]), 0), TypeError, ("gather", "integers", "float32")),
        (lambda x: ops.gather(x, [0], 0), TypeError, ("gather", "Tensor", "list")),
        (lambda x: ops.gather(x, Tensor([2]), 0), IndexError, ("2", "out of bounds")),
        (lambda x: ops.gather(x, Tensor([[0], [1], [0]]), 1, 1), ValueError, ("gather", "(2, 3)", "(3, 1)")),
        (lambda x: ops.index_select(x, 0, Tensor([[0]])), ValueError, ("index_select", "vector")),
        (lambda x: ops.take(x, Tensor([6])), IndexError, ("6",)),
        (lambda x: x.take(Tensor([6]), mode="foo"), ValueError, ("take", "mode", "'foo'")),
        (lambda x: ops.embedding(Tensor([0]), x, 5), ValueError, ("embedding", "padding_idx", "5")),
        (lambda x: ops.masked_select(x, Tensor([1, 0, 1])), RuntimeError, ("masked_select", "bool", "int64")),
        (lambda x: ops.masked_fill(x, Tensor([1, 0, 1]), 0.0), TypeError, ("masked_fill", "bool", "int64")),
        (lambda x: ops.masked_fill(x, x > 0, Tensor([0.0])), ValueError, ("masked_fill", "value", "(1,)")),
        (lambda x: ops.one_hot(x, 3), TypeError, ("one_hot", "integers")),
        (lambda x: ops.one_hot(Tensor([1]), -1), ValueError, ("one_hot", "depth", "-1")),
        (lambda x: ops.tensor_scatter_add(x, Tensor([[0]]), Tensor([[1, 2, 3]])), TypeError, ("type", "Int64")),
        (lambda x: ops.tensor_scatter_add(x, Tensor([[0]]), Tensor(normal(2, 3))), ValueError, ("(1, 3)", "(2, 3)")),
        (lambda x: ops.tensor_scatter_elements(x, Tensor([[0]]), x[:1, :1], 0, "foo"), ValueError, ("reduction",)),
        (lambda x: ops.slice_scatter(x, x, step=0), ValueError, ("slice_scatter", "step")),
        (lambda x: ops.unsorted_segment_sum(x, Tensor([0, 2]), 2), IndexError, ("segment_ids", "below 2")),
        (lambda x: ops.unsorted_segment_sum(x, Tensor([0]), 2), ValueError, ("segment_ids", "(1,)", "(2, 3)")),
        (lambda x: ops.unsorted_segment_sum(x, Tensor([0, 1]), 0), ValueError, ("num_segments", "positive")),
        (lambda x: ops.index_put(x, Tensor([0]), x), TypeError, ("index_put", "tuple")),
    ],
)
def test_errors(wrong: Callable[[Tensor], Any], error: type[Exception], words: tuple[str, ...]) -> None:
    with pytest.raises(error) as raised:
        wrong(Tensor(normal(2, 3)))
    assert [word for word in words if word not in str(raised.value)] == []
