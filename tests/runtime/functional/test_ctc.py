"""Connectionist temporal classification: against torch, impossible targets, without batch, errors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import cellbridge.runtime as ms
from cellbridge.runtime import Tensor, nn, ops
from tests.runtime.against_torch import assert_as_torch, normal

LENGTHS = (np.array([8, 6, 5]), np.array([3, 2, 0]))
TARGETS = np.array([[1, 1, 3], [2, 4, 0], [0, 0, 0]])


def torch_loss(*rest: Any, **options: Any) -> Callable[..., Any]:
    return lambda x: torch.nn.functional.ctc_loss(x.log_softmax(2), *map(torch.from_numpy, rest), **options)


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
@pytest.mark.parametrize("dtype", [np.int32, np.int64])
def test_the_loss_is_torch_s(reduction: str, dtype: Any) -> None:
    x = normal(8, 3, 5)
    rest = [array.astype(dtype) for array in (TARGETS, *LENGTHS)]

    def own_loss(x: Any) -> Any:
        return nn.CTCLoss(reduction=reduction)(ops.log_softmax(x, 2), *map(Tensor, rest))

    assert_as_torch(own_loss, torch_loss(*rest, reduction=reduction), x)


@settings(max_examples=30, deadline=None)
@given(st.data())
def test_any_lengths_and_targets(data: st.DataObject) -> None:
    time, batch, classes, length = (data.draw(st.integers(1, n)) for n in (7, 3, 4, 3))
    blank = data.draw(st.integers(0, classes))
    others = [c for c in range(classes + 1) if c != blank]
    targets = np.array([data.draw(st.lists(st.sampled_from(others), min_size=length, max_size=length))
                        for _ in range(batch)])  # fmt: skip
    lengths = np.array([data.draw(st.integers(0, length)) for _ in range(batch)])
    steps = np.array([data.draw(st.integers(1, time)) for _ in range(batch)])
    x = normal(time, batch, classes + 1)

    def own_loss(x: Any) -> Any:
        loss, _ = ops.ctc_loss(ops.log_softmax(x, 2), *map(Tensor, (targets, steps, lengths)), blank, "sum", True)
        return loss

    assert_as_torch(own_loss, torch_loss(targets, steps, lengths, blank=blank, reduction="sum", zero_infinity=True), x)


def test_a_target_that_does_not_fit_has_an_infinite_loss_and_no_gradient() -> None:
    x, targets = Tensor(normal(2, 1, 3)), Tensor([[1, 1]])
    for zero_infinity, expected in ((False, np.inf), (True, 0.0)):
        cell = nn.CTCLoss(reduction="none", zero_infinity=zero_infinity)
        loss, gradient = ms.value_and_grad(lambda x, cell=cell: cell(x, targets, (2,), (2,)))(x)
        np.testing.assert_array_equal(loss.asnumpy(), [expected])
        assert not gradient.asnumpy().any()


def test_without_a_batch() -> None:
    x = Tensor(np.log(np.full((4, 3), 1 / 3)))
    for reduction in ("mean", "none"):
        cell = nn.CTCLoss(reduction=reduction)
        alone = cell(x, Tensor([1, 2]), 4, 2)
        batch = cell(ops.expand_dims(x, 1), Tensor([[1, 2]]), (4,), (2,))
        assert alone.shape == ()
        np.testing.assert_allclose(alone.asnumpy(), batch.asnumpy().reshape(()))


def test_beginnings_of_paths_and_the_operator_object() -> None:
    x = normal(4, 2, 3)
    x = x - np.log(np.exp(x).sum(2, keepdims=True))
    rest = (Tensor([[1, 2], [2, 1]]), Tensor([4, 4]), Tensor([2, 2]))
    loss, alphas = ops.CTCLossV2()(Tensor(x), *rest)
    expected = torch._ctc_loss(torch.from_numpy(x), torch.tensor([[1, 2], [2, 1]]), [4, 4], [2, 2], 0, False)
    for y, e in zip((loss, alphas), expected, strict=True):
        np.testing.assert_allclose(y.asnumpy(), e.numpy(), rtol=1e-12)


X = Tensor(np.zeros((4, 2, 3), np.float32))
T = Tensor([[1, 2], [2, 1]])


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda: nn.CTCLoss(reduction="no"), ValueError, ["'reduction'", "'no'"]),
        (lambda: nn.CTCLoss(0.0), TypeError, ["'blank'", "int"]),
        (lambda: nn.CTCLoss(zero_infinity=1), TypeError, ["'zero_infinity'", "bool"]),
        (lambda: nn.CTCLoss(3)(X, T, (4, 4), (2, 2)), ValueError, ["'blank'", "[0, 3)", "3"]),
        (lambda: nn.CTCLoss()(X, T, (5, 4), (2, 2)), ValueError, ["'input_lengths'", "[0, 4]", "5"]),
        (lambda: nn.CTCLoss()(X, T, (4, 4), (3, 2)), ValueError, ["'target_lengths'", "[0, 2]", "3"]),
        (lambda: nn.CTCLoss()(X, T, (4,), (2, 2)), ValueError, ["'input_lengths'", "2 lengths", "(1,)"]),
        (lambda: nn.CTCLoss()(X, T + 1, (4, 4), (2, 2)), ValueError, ["'targets'", "[0, 3)", "3 at position (0, 1)"]),
        (lambda: nn.CTCLoss()(X, X, (4, 4), (2, 2)), TypeError, ["'targets'", "integers"]),
        (lambda: nn.CTCLoss()(T, T, (4, 4), (2, 2)), TypeError, ["'log_probs'", "floating-point"]),
        (lambda: nn.CTCLoss()(X, T, (4.0, 4.0), (2, 2)), TypeError, ["'input_lengths'", "integers"]),
        (lambda: ops.ctc_loss(X[0], T, (4, 4), (2, 2)), ValueError, ["(time, batch, classes)", "(2, 3)"]),
    ],
)
def test_errors_name_what_is_wrong(call: Callable[[], Any], error: type[Exception], words: list[str]) -> None:
    with pytest.raises(error) as raised:
        call()
    assert [word for word in words if word not in str(raised.value)] == []
