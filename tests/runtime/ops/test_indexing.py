"""Properties of indexing."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from cellbridge.converter.onnx_out.export import to_onnx
from cellbridge.runtime.compiled.session import run_model
from cellbridge.runtime.errors import ShapeError
from cellbridge.runtime.ops import indexing
from tests.runtime.ops.cases import OpCase
from tests.runtime.ops.checks import inputs_of, one_node_program, run_kernel

Array = np.ndarray[Any, Any]
shapes = hnp.array_shapes(min_dims=1, max_dims=3, max_side=5)
TORCH_REDUCTIONS = {"add": "sum", "mul": "prod", "max": "amax", "min": "amin"}


def values(rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
    """Numbers with zeros and equal ones among them."""
    return rng.integers(-3, 4, shape) / 2


def gradients(op: Any, g: Array, y: Array, *inputs: Array, **attributes: Any) -> Any:
    with np.errstate(all="ignore"):
        return op.vjp_rule(g, y, *inputs, **op.attributes(attributes))


@settings(deadline=None)
@given(shapes, hnp.array_shapes(min_dims=0, max_dims=2, max_side=6), st.data())
def test_take_and_its_gradient(shape: tuple[int, ...], index_shape: tuple[int, ...], data: st.DataObject) -> None:
    rng = np.random.default_rng(data.draw(st.integers(0, 99)))
    axis = data.draw(st.integers(-len(shape), len(shape) - 1))
    x, indices = values(rng, shape), rng.integers(-shape[axis], shape[axis], index_shape)
    y = indexing.take(x, indices, axis=axis)
    np.testing.assert_array_equal(y, np.take(x, indices, axis))
    g = rng.standard_normal(y.shape)
    expected = np.zeros(shape)
    np.add.at(np.moveaxis(expected, axis, 0), indices, np.moveaxis(g, _axes(axis, shape, indices), range(indices.ndim)))
    to_x, none = gradients(indexing.take, g, y, x, indices, axis=axis)
    np.testing.assert_allclose(to_x, expected, rtol=1e-12, atol=1e-12)
    assert none is None


def _axes(axis: int, shape: tuple[int, ...], indices: Array) -> list[int]:
    """Where the axes of the indices stand in the result of `take`."""
    first = axis % len(shape)
    return list(range(first, first + indices.ndim))


@settings(deadline=None)
@given(shapes, st.sampled_from(sorted(TORCH_REDUCTIONS)), st.data())
def test_scatter_and_its_gradients(shape: tuple[int, ...], reduction: str, data: st.DataObject) -> None:
    rng = np.random.default_rng(data.draw(st.integers(0, 99)))
    axis = data.draw(st.integers(-len(shape), len(shape) - 1))
    counts = tuple(data.draw(st.integers(1, 6 if i == axis % len(shape) else size)) for i, size in enumerate(shape))
    x, updates, indices = values(rng, shape), values(rng, counts), rng.integers(0, shape[axis], counts)
    tensors = torch.from_numpy(x).requires_grad_(), torch.from_numpy(updates).requires_grad_()
    expected = tensors[0].scatter_reduce(axis, torch.from_numpy(indices), tensors[1], TORCH_REDUCTIONS[reduction])
    attributes = {"axis": axis, "reduction": reduction}
    y = indexing.scatter(x, indices, updates, **attributes)
    np.testing.assert_allclose(y, expected.detach().numpy(), rtol=1e-12)
    g = rng.standard_normal(y.shape)
    expected_gradients = torch.autograd.grad(expected, tensors, torch.from_numpy(g))
    to_x, _, to_updates = gradients(indexing.scatter, g, y, x, indices, updates, **attributes)
    np.testing.assert_allclose(to_x, expected_gradients[0].numpy(), rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(to_updates, expected_gradients[1].numpy(), rtol=1e-12, atol=1e-12)
    negative = indexing.scatter(x, indices - shape[axis], updates, **attributes)
    np.testing.assert_array_equal(negative, y)


@settings(deadline=None)
@given(shapes, st.data())
def test_gather_and_its_gradient(shape: tuple[int, ...], data: st.DataObject) -> None:
    rng = np.random.default_rng(data.draw(st.integers(0, 99)))
    axis = data.draw(st.integers(-len(shape), len(shape) - 1))
    counts = tuple(data.draw(st.integers(0, 6 if i == axis % len(shape) else size)) for i, size in enumerate(shape))
    x, indices = values(rng, shape), rng.integers(0, shape[axis], counts)
    tensor = torch.from_numpy(x).requires_grad_()
    expected = tensor.gather(axis, torch.from_numpy(indices))
    y = indexing.gather(x, indices, axis=axis)
    np.testing.assert_array_equal(y, expected.detach().numpy())
    g = rng.standard_normal(y.shape)
    (expected_gradient,) = torch.autograd.grad(expected, tensor, torch.from_numpy(g))
    np.testing.assert_allclose(
        gradients(indexing.gather, g, y, x, indices, axis=axis)[0], expected_gradient.numpy(), rtol=1e-12
    )


@settings(deadline=None)
@given(shapes, st.sampled_from(["none", "add", "mul", "max", "min"]), st.data())
def test_scatter_nd_is_scatter_of_flattened_indices(
    shape: tuple[int, ...], reduction: str, data: st.DataObject
) -> None:
    rng = np.random.default_rng(data.draw(st.integers(0, 99)))
    depth = data.draw(st.integers(1, len(shape)))
    count = 1 if reduction == "none" else data.draw(st.integers(0, 6))
    x = values(rng, shape)
    indices = np.stack([rng.integers(-size, size, count) for size in shape[:depth]], axis=-1)
    updates = values(rng, (count, *shape[depth:]))
    y = indexing.scatter_nd(x, indices, updates, reduction=reduction)
    rows = x.reshape(int(np.prod(shape[:depth])), -1)
    places = np.ravel_multi_index(tuple((indices % shape[:depth]).T), shape[:depth])
    flat_updates = updates.reshape(count, rows.shape[1])
    expected = indexing.scatter(
        rows, np.broadcast_to(places[:, None], flat_updates.shape), flat_updates, axis=0, reduction=reduction
    )
    np.testing.assert_array_equal(y, expected.reshape(shape))


def test_many_equal_indices_lose_no_more_than_torch() -> None:
    rng = np.random.default_rng(0)
    updates = rng.standard_normal((5000, 16)).astype(np.float32) + 1
    indices = rng.integers(0, 3, 5000)
    exact = np.zeros((3, 16))
    np.add.at(exact, indices, updates)
    x = np.zeros((3, 16), np.float32)
    actual = indexing.index_add(x, indices, updates, axis=0)
    by_torch = torch.from_numpy(x).index_add(0, torch.from_numpy(indices), torch.from_numpy(updates)).numpy()
    assert actual.dtype == np.float32
    assert np.abs(actual - exact).max() <= 2 * np.abs(by_torch - exact).max()


def test_operands_are_left_alone() -> None:
    x, updates = np.zeros((3, 2)), np.ones((2, 2))
    x.setflags(write=False)
    indexing.index_add(x, np.array([0, 1]), updates, axis=0)
    indexing.scatter(x, np.array([[0, 1], [1, 2]]), updates, axis=0)
    indexing.scatter_nd(x, np.array([[0], [1]]), updates, reduction="max")
    indexing.slice_scatter(x, updates, axis=0, start=0, stop=2)
    np.testing.assert_array_equal(x, 0)


def test_what_does_not_fit_is_refused() -> None:
    x = np.zeros((3, 2))
    with pytest.raises(ShapeError, match="needed integers as indices"):
        indexing.take(x, np.array([0.5]), axis=0)
    with pytest.raises(ShapeError, match="axis 1 has 3 indices for 2 elements"):
        indexing.gather(x, np.zeros((1, 3), np.int64), axis=0)
    with pytest.raises(ShapeError, match="needed updates of shape"):
        indexing.scatter(x, np.zeros((1, 2), np.int64), np.zeros((2, 2)), axis=0)
    with pytest.raises(ShapeError, match="1 to 2 coordinates"):
        indexing.gather_nd(x, np.zeros((1, 3), np.int64))
    with pytest.raises(IndexError):
        indexing.take(x, np.array([3]), axis=0)


REPEATED = np.arange(4096) % 2
ROWS = np.ones((4096, 64))
REPEATING = [
    OpCase("index_add", (np.zeros((3, 64)), REPEATED, ROWS), {"axis": 0}),
    OpCase("index_add", (np.zeros((64, 3)), REPEATED, ROWS.T), {"axis": 1}),
    OpCase("scatter_nd", (np.zeros((3, 64)), REPEATED[:, None], ROWS), {"reduction": "add"}),
    OpCase("scatter_nd", (np.zeros((2, 2, 64)), np.stack([REPEATED] * 2, 1), ROWS), {"reduction": "add"}),
]


@pytest.mark.parametrize("case", REPEATING, ids=str)
def test_onnx_runtime_adds_all_updates_of_one_place(case: OpCase) -> None:
    """In several threads too: its ScatterND loses some, now and then."""
    model = to_onnx(one_node_program(case, "float32"))
    assert "ScatterND" not in {node.op_type for node in model.graph.node}
    inputs = inputs_of(case, "float32")
    results = run_model(model, dict(zip([value.name for value in model.graph.input], inputs, strict=False)))
    (expected,) = run_kernel(case, inputs)
    assert expected.max() == 2048
    for actual in results.values():
        np.testing.assert_array_equal(actual, expected, strict=True)
