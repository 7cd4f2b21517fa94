"""Cross entropy and negative log likelihood against torch; labels that count for nothing or are no classes."""

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
from cellbridge.runtime import Tensor, nn, ops
from tests.runtime.against_torch import assert_as_torch, normal

REDUCTIONS = st.sampled_from(["mean", "sum", "none"])
SHAPES = st.sampled_from([(4,), (3, 4), (2, 4, 3), (2, 4, 2, 3)])
SMOOTHING = st.sampled_from([0.0, 0.3, 1.0])


def labels_for(shape: tuple[int, ...], seed: int, ignored: int | None = None) -> np.ndarray[Any, Any]:
    """Class indices for logits of a shape, some of them the ignored one, but not all."""
    axis = 1 if len(shape) > 1 else 0
    rng = np.random.default_rng(seed)
    target = np.asarray(rng.integers(0, shape[axis], (*shape[:axis], *shape[axis + 1 :])))
    if ignored is not None and target.size > 1:
        target.flat[rng.integers(0, target.size)] = ignored
    return target


@settings(deadline=None)
@given(SHAPES, REDUCTIONS, SMOOTHING, st.sampled_from([-100, -1, 2]), st.booleans(), st.integers(0, 1000))
def test_class_indices_are_judged_as_torch_s(
    shape: tuple[int, ...], reduction: str, smoothing: float, ignored: int, weighted: bool, seed: int
) -> None:
    target = labels_for(shape, seed, ignored)
    if np.all(target == ignored):
        target = np.zeros_like(target)
    weight = np.abs(normal(4, seed=seed)) if weighted else None
    torch_weight = None if weight is None else torch.from_numpy(weight)
    weight_tensor = None if weight is None else Tensor(weight)
    assert_as_torch(
        lambda x: ops.cross_entropy(x, Tensor(target), weight_tensor, ignored, reduction, smoothing),
        lambda x: F.cross_entropy(
            x,
            torch.from_numpy(target),
            torch_weight,
            ignore_index=ignored,
            reduction=reduction,
            label_smoothing=smoothing,
        ),
        normal(*shape, seed=seed) * 3.0,
    )


@settings(deadline=None)
@given(SHAPES, REDUCTIONS, SMOOTHING, st.booleans(), st.integers(0, 1000))
def test_probabilities_are_judged_as_torch_s(
    shape: tuple[int, ...], reduction: str, smoothing: float, weighted: bool, seed: int
) -> None:
    weight = np.abs(normal(4, seed=seed)) if weighted else None
    torch_weight = None if weight is None else torch.from_numpy(weight)
    weight_tensor = None if weight is None else Tensor(weight)
    target = torch.softmax(torch.from_numpy(normal(*shape, seed=seed + 1)), 1 if len(shape) > 1 else 0).numpy()
    assert_as_torch(
        lambda x, t: ops.cross_entropy(x, t, weight_tensor, reduction=reduction, label_smoothing=smoothing),
        lambda x, t: F.cross_entropy(x, t, torch_weight, reduction=reduction, label_smoothing=smoothing),
        normal(*shape, seed=seed), target,
    )  # fmt: skip


@settings(deadline=None)
@given(SHAPES, REDUCTIONS, st.booleans(), st.integers(0, 1000))
def test_nll_loss_is_torch_s(shape: tuple[int, ...], reduction: str, weighted: bool, seed: int) -> None:
    target = labels_for(shape, seed, -100)
    if np.all(target == -100):
        target = np.zeros_like(target)
    weight = np.abs(normal(4, seed=seed)) if weighted else None
    torch_weight = None if weight is None else torch.from_numpy(weight)
    weight_tensor = None if weight is None else Tensor(weight)
    assert_as_torch(
        lambda x: ops.nll_loss(x, Tensor(target), weight_tensor, reduction=reduction),
        lambda x: F.nll_loss(x, torch.from_numpy(target), torch_weight, reduction=reduction),
        normal(*shape, seed=seed),
    )


def test_a_mean_of_nothing_is_nan_as_in_torch() -> None:
    assert np.isnan(float(ops.cross_entropy(Tensor(normal(2, 3)), Tensor([-100, -100]))))


def test_large_logits_stay_finite() -> None:
    loss, gradient = ms.value_and_grad(ops.cross_entropy)(Tensor([[1e4, 0.0], [-1e4, 0.0]]), Tensor([1, 0]))
    assert float(loss) == 1e4
    np.testing.assert_array_equal(gradient.asnumpy(), [[0.5, -0.5], [-0.5, 0.5]])


@pytest.mark.parametrize("dtype", [ms.int32, ms.int64])
def test_sparse_and_dense_labels_give_the_same_rows(dtype: np.dtype[Any]) -> None:
    logits, target = normal(3, 4), np.array([1, 3, 0])
    one_hot = np.eye(4)[target]
    sparse = nn.SoftmaxCrossEntropyWithLogits(sparse=True)
    dense = nn.SoftmaxCrossEntropyWithLogits()
    assert_as_torch(
        lambda x: (sparse(x, Tensor(target, dtype)), dense(x, Tensor(one_hot))),
        lambda x: (F.cross_entropy(x, torch.from_numpy(target), reduction="none"),) * 2,
        logits,
    )


def test_operator_objects_return_the_gradient_too() -> None:
    logits, target = Tensor(normal(3, 4)), Tensor(np.array([1, 3, 0]))
    one_hot = Tensor(np.eye(4)[[1, 3, 0]])
    rows, gradient = ops.SoftmaxCrossEntropyWithLogits()(logits, one_hot)
    by_tape = ms.grad(lambda x: ops.SoftmaxCrossEntropyWithLogits()(x, one_hot)[0].sum())(logits)
    np.testing.assert_allclose(gradient.asnumpy(), by_tape.asnumpy(), rtol=1e-12)
    mean = ops.SparseSoftmaxCrossEntropyWithLogits()
    np.testing.assert_allclose(float(mean(logits, target)), rows.asnumpy().mean(), rtol=1e-12)
    of_mean = ops.SparseSoftmaxCrossEntropyWithLogits(is_grad=True)(logits, target)
    np.testing.assert_allclose(of_mean.asnumpy(), ms.grad(mean)(logits, target).asnumpy(), rtol=1e-12)


def test_the_nll_object_returns_the_weight_of_what_counts() -> None:
    x, weight = Tensor(normal(3, 2)), Tensor([0.5, 2.0], ms.float64)
    loss, total = ops.NLLLoss(ignore_index=0)(x, Tensor([1, 0, 1]), weight)
    assert float(total) == 4.0
    assert float(loss) == float(ops.nll_loss(x, Tensor([1, 0, 1]), weight, 0))


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
def test_a_negative_sparse_label_counts_as_a_loss_of_0(reduction: str) -> None:
    logits = Tensor(normal(3, 4))
    loss = nn.SoftmaxCrossEntropyWithLogits(sparse=True, reduction=reduction)
    value, gradient = ms.value_and_grad(loss)(logits, Tensor([1, -1, -7]))
    first = float(ops.cross_entropy(logits[:1], Tensor([1])))
    expected = {"mean": first / 3, "sum": first, "none": np.array([first, 0.0, 0.0])}[reduction]
    np.testing.assert_allclose(value.asnumpy(), expected, rtol=1e-12)
    assert np.all(gradient.asnumpy()[1:] == 0)
    object_gradient = ops.SparseSoftmaxCrossEntropyWithLogits(True)(logits, Tensor([1, -1, -7])).asnumpy()
    assert np.all(object_gradient[1:] == 0)


SPARSE = nn.SoftmaxCrossEntropyWithLogits(sparse=True)
DENSE = nn.SoftmaxCrossEntropyWithLogits()


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda x: ops.cross_entropy(x, Tensor([0, 4])), ValueError, ["[0, 4)", "ignore_index -100", "4 at position"]),
        (lambda x: ops.cross_entropy(x, Tensor([0, -1])), ValueError, ["[0, 4)", "-1 at position (1,)"]),
        (lambda x: ops.nll_loss(x, Tensor([4, 0])), ValueError, ["[0, 4)", "4 at position (0,)"]),
        (lambda x: SPARSE(x, Tensor([0, 4])), ValueError, ["[0, 4)", "4 at position (1,)"]),
        (lambda x: ops.cross_entropy(x, Tensor([0.0, 1.0])), TypeError, ["int32 or int64", "Float32"]),
        (lambda x: ops.nll_loss(x, Tensor([0.0, 1.0])), TypeError, ["int32 or int64", "Float32"]),
        (lambda x: SPARSE(x, Tensor([0.0, 1.0])), TypeError, ["int32 or int64", "Float32"]),
        (lambda x: SPARSE(x, Tensor([0, 1], ms.int16)), TypeError, ["int32 or int64", "Int16"]),
        (lambda x: DENSE(x, Tensor([0, 1])), TypeError, ["'labels'", "floating-point", "Int64"]),
        (lambda x: ops.cross_entropy(x, Tensor([0])), ValueError, ["(2,)", "(1,)"]),
        (lambda x: ops.cross_entropy(x, Tensor([[0.0]])), ValueError, ["probabilities", "(2, 4)", "(1, 1)"]),
        (lambda x: ops.cross_entropy(x, Tensor([0, 1]), Tensor([1.0])), ValueError, ["'weight'", "(4,)", "(1,)"]),
        (lambda x: ops.cross_entropy(x, Tensor([0, 1]), label_smoothing=2), ValueError, ["label_smoothing", "[0, 1]"]),
        (lambda x: ops.cross_entropy(x, Tensor([0, 1]), reduction="avg"), ValueError, ["'reduction'", "'avg'"]),
        (lambda x: ops.cross_entropy(x, Tensor([0, 1]), ignore_index=1.5), TypeError, ["'ignore_index'", "float"]),
        (lambda x: ops.cross_entropy(x.astype(ms.int32), Tensor([0, 1])), TypeError, ["'input'", "Int32"]),
        (lambda x: DENSE(x[0], x[0]), ValueError, ["'logits'", "(N, C)", "(4,)"]),
    ],
)
def test_errors_name_what_is_wrong(call: Callable[..., Any], error: type[Exception], words: list[str]) -> None:
    with pytest.raises(error) as raised:
        call(Tensor(np.ones((2, 4), np.float32)))
    assert [word for word in words if word not in str(raised.value)] == []
