"""Losses as functions against torch: outputs and gradients, reductions, spellings, what they reject."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.nn import functional as F

import cellbridge.runtime as ms
from cellbridge.runtime import Tensor, nn, ops
from tests.runtime.against_torch import assert_as_torch, normal

Function = Callable[..., Any]

X, Y = normal(3, 4) * 1.5, normal(3, 4, seed=1)
PROBABILITIES = np.random.default_rng(2).uniform(0.05, 0.95, (3, 4))
TARGETS = np.random.default_rng(3).uniform(0.05, 0.95, (3, 4))
SIGNS = np.sign(normal(3, 4, seed=4))
POSITIVE = np.abs(normal(3, 4, seed=5)) + 0.1
FACTORS = np.array([0.5, 2.0, 1.0, 3.0])

PAIRS: list[tuple[str, Function, Function, tuple[np.ndarray[Any, Any], ...]]] = [
    ("mse", ops.mse_loss, F.mse_loss, (X, Y)),
    ("l1", ops.l1_loss, F.l1_loss, (X, Y)),
    ("smooth l1", ops.smooth_l1_loss, F.smooth_l1_loss, (X, Y)),
    ("smooth l1 0.5", functools.partial(ops.smooth_l1_loss, beta=0.5),
     functools.partial(F.smooth_l1_loss, beta=0.5), (X, Y)),
    ("smooth l1 0", functools.partial(ops.smooth_l1_loss, beta=0), functools.partial(F.smooth_l1_loss, beta=0), (X, Y)),
    ("huber", ops.huber_loss, F.huber_loss, (X, Y)),
    ("huber 0.4", functools.partial(ops.huber_loss, delta=0.4), functools.partial(F.huber_loss, delta=0.4), (X, Y)),
    ("bce", ops.binary_cross_entropy, F.binary_cross_entropy, (PROBABILITIES, TARGETS)),
    ("bce of logits", ops.binary_cross_entropy_with_logits, F.binary_cross_entropy_with_logits, (X * 20, TARGETS)),
    ("kl", ops.kl_div, F.kl_div, (X, TARGETS)),
    ("poisson", ops.poisson_nll_loss, F.poisson_nll_loss, (X, POSITIVE)),
    ("soft margin", ops.soft_margin_loss, F.soft_margin_loss, (X, SIGNS)),
    ("hinge", ops.hinge_embedding_loss, F.hinge_embedding_loss, (X, SIGNS)),
    ("hinge 0.3", functools.partial(ops.hinge_embedding_loss, margin=0.3),
     functools.partial(F.hinge_embedding_loss, margin=0.3), (X, SIGNS)),
    ("ranking", ops.margin_ranking_loss, F.margin_ranking_loss, (X, Y, SIGNS)),
    ("ranking 0.5", functools.partial(ops.margin_ranking_loss, margin=0.5),
     functools.partial(F.margin_ranking_loss, margin=0.5), (X, Y, SIGNS)),
    ("cosine", ops.cosine_embedding_loss, F.cosine_embedding_loss, (X, Y, np.array([1.0, -1.0, -1.0]))),
    ("cosine 0.2", functools.partial(ops.cosine_embedding_loss, margin=0.2),
     functools.partial(F.cosine_embedding_loss, margin=0.2), (X, Y, np.array([1.0, -1.0, -1.0]))),
    ("triplet", ops.triplet_margin_loss, F.triplet_margin_loss, (X, Y, TARGETS)),
    ("triplet, 1-norm", functools.partial(ops.triplet_margin_loss, p=1, margin=0.1),
     functools.partial(F.triplet_margin_loss, p=1, margin=0.1), (X, Y, TARGETS)),
    ("triplet, 3-norm", functools.partial(ops.triplet_margin_loss, p=3, swap=True),
     functools.partial(F.triplet_margin_loss, p=3, swap=True), (X, Y, TARGETS)),
    ("soft labels", ops.multilabel_soft_margin_loss, F.multilabel_soft_margin_loss, (X, TARGETS)),
]  # fmt: skip


@pytest.mark.filterwarnings("ignore:reduction. 'mean' divides")
@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
@pytest.mark.parametrize(
    ("function", "torch_function", "arrays"), [case[1:] for case in PAIRS], ids=[case[0] for case in PAIRS]
)
def test_is_torch_s(function: Function, torch_function: Function, arrays: tuple[Any, ...], reduction: str) -> None:
    # the target's gradient isn't torch's business in several of these
    constant = len(arrays) - 1
    operands, target = arrays[:constant], arrays[constant]
    assert_as_torch(
        lambda *xs: function(*xs, Tensor(target), reduction=reduction),
        lambda *xs: torch_function(*xs, torch.from_numpy(target), reduction=reduction),
        *operands,
    )


@pytest.mark.parametrize("name", ["mse_loss", "l1_loss", "huber_loss", "smooth_l1_loss"])
def test_the_target_has_a_gradient_too(name: str) -> None:
    function, torch_function = getattr(ops, name), getattr(F, name)
    assert_as_torch(
        lambda x, y: function(x, y, reduction="sum"), lambda x, y: torch_function(x, y, reduction="sum"), X, Y
    )


@pytest.mark.parametrize("name", ["mse_loss", "l1_loss", "huber_loss"])
@pytest.mark.filterwarnings("ignore:Using a target size")
def test_operands_broadcast(name: str) -> None:
    assert_as_torch(getattr(ops, name), getattr(F, name), X, Y[0])


def test_kl_div_reduces_to_the_mean_of_the_batch_and_is_0_for_labels_of_0() -> None:
    labels = TARGETS * (TARGETS > 0.5)
    assert_as_torch(
        lambda x: ops.kl_div(x, Tensor(labels), "batchmean"),
        lambda x: F.kl_div(x, torch.from_numpy(labels), reduction="batchmean"),
        X,
    )
    of_labels = ms.grad(lambda x, y: ops.kl_div(x, y, "sum"), 1)(Tensor(X), Tensor(labels)).asnumpy()
    assert np.isfinite(of_labels).all()


@pytest.mark.parametrize("full", [False, True])
@pytest.mark.parametrize("shape", [(3, 4), (3, 1), (3,)])
def test_gaussian_nll_is_torch_s(full: bool, shape: tuple[int, ...]) -> None:
    variance = np.abs(normal(*shape, seed=6)) + 0.1
    assert_as_torch(
        lambda x, y, v: ops.gaussian_nll_loss(x, y, v, full=full),
        lambda x, y, v: F.gaussian_nll_loss(x, y, v, full=full),
        X, Y, variance,
    )  # fmt: skip


@pytest.mark.parametrize("full", [False, True])
@pytest.mark.parametrize("log_input", [False, True])
def test_poisson_nll_is_torch_s(full: bool, log_input: bool) -> None:
    counts = np.array([[0.0, 1.0, 2.0, 7.0]] * 3)
    assert_as_torch(
        lambda x: ops.poisson_nll_loss(x, Tensor(counts), log_input, full),
        lambda x: F.poisson_nll_loss(x, torch.from_numpy(counts), log_input, full),
        X if log_input else POSITIVE,
    )


def test_weights_multiply_the_elements() -> None:
    positives = FACTORS[::-1].copy()
    assert_as_torch(
        lambda p, x, w: (
            ops.binary_cross_entropy(p, Tensor(TARGETS), Tensor(FACTORS)),
            ops.binary_cross_entropy_with_logits(x, Tensor(TARGETS), Tensor(FACTORS), Tensor(positives)),
            ops.multilabel_soft_margin_loss(x, Tensor(TARGETS), w),
        ),
        lambda p, x, w: (
            F.binary_cross_entropy(p, torch.from_numpy(TARGETS), torch.from_numpy(FACTORS)),
            F.binary_cross_entropy_with_logits(
                x, torch.from_numpy(TARGETS), torch.from_numpy(FACTORS), pos_weight=torch.from_numpy(positives)
            ),
            F.multilabel_soft_margin_loss(x, torch.from_numpy(TARGETS), w),
        ),
        PROBABILITIES, X, FACTORS,
    )  # fmt: skip


# ---- classes ----


@given(st.integers(2, 5), st.sampled_from([1, 2]), st.sampled_from([0.5, 1.0, 2.0]), st.integers(0, 100))
def test_multi_margin_is_torch_s(classes: int, p: int, margin: float, seed: int) -> None:
    target = np.random.default_rng(seed).integers(0, classes, 3)
    weight = np.abs(normal(classes, seed=seed))
    assert_as_torch(
        lambda x: ops.multi_margin_loss(x, Tensor(target), p, margin, Tensor(weight)),
        lambda x: F.multi_margin_loss(x, torch.from_numpy(target), p, margin, torch.from_numpy(weight)),
        normal(3, classes, seed=seed),
    )


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
@pytest.mark.parametrize("target", [[[0, 2, -1, 1], [3, -1, 0, 0], [-1, 1, 1, 1]], [[0, 1, 2, 3]] * 3])
def test_multilabel_margin_is_torch_s(target: list[list[int]], reduction: str) -> None:
    labels = np.array(target)
    assert_as_torch(
        lambda x: ops.multilabel_margin_loss(x, Tensor(labels), reduction),
        lambda x: F.multilabel_margin_loss(x, torch.from_numpy(labels), reduction=reduction),
        X,
    )


def test_one_row_may_stand_alone() -> None:
    assert_as_torch(
        lambda a, b: (
            ops.multi_margin_loss(a, Tensor(2)),
            ops.multilabel_margin_loss(a, Tensor([1, -1, 0, 0])),
            ops.cosine_embedding_loss(a, b, Tensor(-1)),
            ops.triplet_margin_loss(a, b, b * 2.0),
        ),
        lambda a, b: (
            F.multi_margin_loss(a, torch.tensor(2)),
            F.multilabel_margin_loss(a, torch.tensor([1, -1, 0, 0])),
            F.cosine_embedding_loss(a, b, torch.tensor(-1)),
            F.triplet_margin_loss(a, b, b * 2.0),
        ),
        X[0], Y[0],
    )  # fmt: skip


# ---- spellings, dtypes, errors ----


def test_operator_objects_are_the_functions() -> None:
    x, y, p, t = map(Tensor, (X, Y, PROBABILITIES, TARGETS))
    target = Tensor(np.array([0, 3, 1]))
    labels = Tensor(np.array([[0, 2, -1, 1]] * 3))
    spelling = [
        (ops.smooth_l1_loss(x, y, 0.5, "sum"), ops.SmoothL1Loss(0.5, "sum")(x, y)),
        (ops.binary_cross_entropy(p, t, p), ops.BinaryCrossEntropy()(p, t, p)),
        (ops.binary_cross_entropy_with_logits(x, t, p, y, "none"), ops.BCEWithLogitsLoss("none")(x, t, p, y)),
        (ops.binary_cross_entropy_with_logits(x, t, reduction="none"), ops.SigmoidCrossEntropyWithLogits()(x, t)),
        (ops.kl_div(x, t, "sum"), ops.KLDivLoss("sum")(x, t)),
        (ops.soft_margin_loss(x, t), ops.SoftMarginLoss()(x, t)),
        (ops.multi_margin_loss(x, target, 2, 0.5), ops.MultiMarginLoss(2, 0.5)(x, target)),
        (ops.multilabel_margin_loss(x, labels), ops.MultilabelMarginLoss()(x, labels)[0]),
        ((x * x).sum() / 2, ops.L2Loss()(x)),
    ]
    for expected, of_object in spelling:
        np.testing.assert_array_equal(of_object.asnumpy(), expected.asnumpy())
    flags = ops.MultilabelMarginLoss()(x, labels)[1]
    np.testing.assert_array_equal(flags.asnumpy(), [[1, 0, 1, 0]] * 3)


def test_half_precision_is_kept_and_integers_become_float32() -> None:
    half = Tensor(X.astype(np.float16))
    assert ops.mse_loss(half, half * 2).dtype == ms.float16
    assert ops.l1_loss(Tensor([1, 2]), Tensor([3, 5])).dtype == ms.float32
    assert float(ops.l1_loss(Tensor([1, 2]), Tensor([3, 5]))) == 2.5


@pytest.mark.parametrize("name", ["mse_loss", "binary_cross_entropy", "kl_div", "soft_margin_loss", "huber_loss"])
def test_an_unknown_reduction_is_named(name: str) -> None:
    with pytest.raises(ValueError, match=rf"'{name}', 'reduction' must be one of .*'mean'.*got 'avg'"):
        getattr(ops, name)(Tensor(PROBABILITIES), Tensor(TARGETS), reduction="avg")


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda x: ops.smooth_l1_loss(x, x[0]), ValueError, ["'input'", "'target'", "(3, 4)", "(4,)"]),
        (lambda x: ops.binary_cross_entropy(x, x[0]), ValueError, ["'logits'", "'labels'", "(3, 4)", "(4,)"]),
        (lambda x: ops.smooth_l1_loss(x, x, -1), ValueError, ["'beta'", ">= 0", "-1"]),
        (lambda x: ops.huber_loss(x, x, delta=0), ValueError, ["'delta'", "> 0"]),
        (lambda x: ops.gaussian_nll_loss(x, x, x, eps=0), ValueError, ["'eps'", "> 0"]),
        (lambda x: ops.cosine_embedding_loss(x, x, Tensor([1.0] * 3), 2), ValueError, ["'margin'", "[-1, 1]", "2"]),
        (lambda x: ops.cosine_embedding_loss(x, x, Tensor([1.0])), ValueError, ["'target'", "(3,)", "(1,)"]),
        (lambda x: ops.multi_margin_loss(x, Tensor([0, 4, 0])), ValueError, ["[0, 4)", "4 at position (1,)"]),
        (lambda x: ops.multi_margin_loss(x, Tensor([0.0] * 3)), TypeError, ["'target'", "int32 or int64", "Float32"]),
        (lambda x: ops.multi_margin_loss(x, Tensor([0, 1])), ValueError, ["(N, C)", "(3, 4)", "(2,)"]),
        (lambda x: ops.multi_margin_loss(x, Tensor([0, 1, 2]), 3), ValueError, ["'p'", "[1, 2]", "3"]),
        (lambda x: ops.multilabel_margin_loss(x, Tensor([0, 1])), ValueError, ["(3, 4)", "(2,)"]),
        (lambda x: ops.mse_loss(x, None), TypeError, ["'mse_loss'", "'target'", "NoneType"]),
    ],
)
def test_errors_name_what_is_wrong(call: Function, error: type[Exception], words: list[str]) -> None:
    with pytest.raises(error) as raised:
        call(Tensor(np.ones((3, 4), np.float32)))
    assert [word for word in words if word not in str(raised.value)] == []


def test_cosine_similarity_is_torch_s() -> None:
    for shapes, dim in ((((3, 4), (3, 4)), 1), (((2, 3, 4), (3, 4)), -1), (((3, 4), (2, 3, 4)), 1)):
        assert_as_torch(
            lambda a, b, dim=dim: ops.cosine_similarity(a, b, dim),
            lambda a, b, dim=dim: F.cosine_similarity(a, b, dim),
            *(normal(*shape, seed=i) for i, shape in enumerate(shapes)),
        )
    zero = np.zeros((1, 3))
    assert_as_torch(ops.cosine_similarity, F.cosine_similarity, zero, np.ones((1, 3)))
    np.testing.assert_array_equal(nn.CosineSimilarity()(Tensor(zero), Tensor(zero)).asnumpy(), [0.0])
