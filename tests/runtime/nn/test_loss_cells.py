"""Losses as Cells: defaults, against torch's modules, `LossBase` for losses of one's own, focal and Dice losses."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch.nn import functional as F

import cellbridge.runtime as ms
from cellbridge.runtime import Tensor, nn, ops
from cellbridge.runtime.nn.loss.loss import _Loss
from tests.runtime.against_torch import assert_as_torch, normal

X, Y = normal(3, 4), normal(3, 4, seed=1)
PROBABILITIES = np.random.default_rng(2).uniform(0.05, 0.95, (3, 4))
CLASSES = np.array([1, 3, 0])
SIGNS = np.sign(normal(3, 4, seed=4))
WEIGHT = np.array([0.5, 2.0, 1.0, 3.0])
POSITIVE = np.abs(Y) + 0.1

ON_PAIRS: list[tuple[nn.Cell, torch.nn.Module, tuple[np.ndarray[Any, Any], ...]]] = [
    (nn.MSELoss(), torch.nn.MSELoss(), (X, Y)),
    (nn.MSELoss("none"), torch.nn.MSELoss(reduction="none"), (X, Y)),
    (nn.L1Loss(), torch.nn.L1Loss(), (X, Y)),
    (nn.MAELoss("sum"), torch.nn.L1Loss(reduction="sum"), (X, Y)),
    (nn.SmoothL1Loss(), torch.nn.SmoothL1Loss(reduction="none"), (X, Y)),
    (nn.SmoothL1Loss(0.5, "mean"), torch.nn.SmoothL1Loss(beta=0.5), (X, Y)),
    (nn.HuberLoss(), torch.nn.HuberLoss(), (X, Y)),
    (nn.HuberLoss("sum", 0.5), torch.nn.HuberLoss("sum", 0.5), (X, Y)),
    (nn.BCELoss(), torch.nn.BCELoss(), (PROBABILITIES, PROBABILITIES.T.reshape(3, 4))),
    (nn.BCELoss(Tensor(WEIGHT), "sum"), torch.nn.BCELoss(torch.from_numpy(WEIGHT), reduction="sum"),
     (PROBABILITIES, PROBABILITIES)),
    (nn.BCEWithLogitsLoss(), torch.nn.BCEWithLogitsLoss(), (X, PROBABILITIES)),
    (nn.BCEWithLogitsLoss("sum", Tensor(WEIGHT), Tensor(WEIGHT)),
     torch.nn.BCEWithLogitsLoss(torch.from_numpy(WEIGHT), reduction="sum", pos_weight=torch.from_numpy(WEIGHT)),
     (X, PROBABILITIES)),
    (nn.KLDivLoss("batchmean"), torch.nn.KLDivLoss(reduction="batchmean"), (X, PROBABILITIES)),
    (nn.PoissonNLLLoss(full=True), torch.nn.PoissonNLLLoss(full=True), (X, POSITIVE)),
    (nn.GaussianNLLLoss(full=True, eps=0.2), torch.nn.GaussianNLLLoss(full=True, eps=0.2), (X, Y, POSITIVE)),
    (nn.NLLLoss(), torch.nn.NLLLoss(), (X, CLASSES)),
    (nn.NLLLoss(Tensor(WEIGHT), 3), torch.nn.NLLLoss(torch.from_numpy(WEIGHT), ignore_index=3), (X, CLASSES)),
    (nn.CrossEntropyLoss(), torch.nn.CrossEntropyLoss(), (X, CLASSES)),
    (nn.CrossEntropyLoss(Tensor(WEIGHT), 0, "sum", 0.1),
     torch.nn.CrossEntropyLoss(torch.from_numpy(WEIGHT), ignore_index=0, reduction="sum", label_smoothing=0.1),
     (X, CLASSES)),
    (nn.SoftmaxCrossEntropyWithLogits(True, "mean"), torch.nn.CrossEntropyLoss(), (X, CLASSES)),
    (nn.SoftMarginLoss(), torch.nn.SoftMarginLoss(), (X, SIGNS)),
    (nn.HingeEmbeddingLoss(0.5), torch.nn.HingeEmbeddingLoss(0.5), (X, SIGNS)),
    (nn.MarginRankingLoss(0.5), torch.nn.MarginRankingLoss(0.5), (X, Y, SIGNS)),
    (nn.CosineEmbeddingLoss(0.1), torch.nn.CosineEmbeddingLoss(0.1), (X, Y, np.array([1, -1, -1]))),
    (nn.TripletMarginLoss(), torch.nn.TripletMarginLoss(), (X, Y, POSITIVE)),
    (nn.TripletMarginLoss(swap=True, margin=0.5), torch.nn.TripletMarginLoss(swap=True, margin=0.5), (X, Y, POSITIVE)),
    (nn.TripletMarginWithDistanceLoss(), torch.nn.TripletMarginWithDistanceLoss(), (X, Y, POSITIVE)),
    (nn.MultiMarginLoss(2, 0.5, weight=Tensor(WEIGHT)),
     torch.nn.MultiMarginLoss(2, 0.5, torch.from_numpy(WEIGHT)), (X, CLASSES)),
    (nn.MultilabelMarginLoss(), torch.nn.MultiLabelMarginLoss(), (X, np.array([[0, 2, -1, 1]] * 3))),
    (nn.MultiLabelSoftMarginLoss(Tensor(WEIGHT)), torch.nn.MultiLabelSoftMarginLoss(torch.from_numpy(WEIGHT)),
     (X, PROBABILITIES)),
]  # fmt: skip


@pytest.mark.parametrize(("cell", "module", "arrays"), ON_PAIRS, ids=[case[0].cls_name for case in ON_PAIRS])
def test_is_torch_s(cell: nn.Cell, module: torch.nn.Module, arrays: tuple[Any, ...]) -> None:
    first, *others = arrays
    assert_as_torch(lambda x: cell(x, *map(Tensor, others)), lambda x: module(x, *map(torch.from_numpy, others)), first)


def test_rmse_is_the_root_of_mse() -> None:
    assert_as_torch(nn.RMSELoss(), lambda x, y: F.mse_loss(x, y).sqrt(), X, Y)


def test_arguments_at_the_call_count_where_the_cell_has_none() -> None:
    x, y, z = map(Tensor, (X, Y, POSITIVE))
    expected = ops.triplet_margin_loss(x, y, z, margin=3.0)
    assert float(nn.TripletMarginLoss()(x, y, z, 3.0)) == float(expected)
    assert float(nn.TripletMarginLoss(margin=3.0)(x, y, z, 7.0)) == float(expected)
    weighted = ops.multi_margin_loss(x, Tensor(CLASSES), weight=Tensor(WEIGHT))
    assert float(nn.MultiMarginLoss()(x, Tensor(CLASSES), Tensor(WEIGHT))) == float(weighted)
    by_sum = nn.TripletMarginWithDistanceLoss(lambda a, b: (a - b).abs().sum(1), swap=True, reduction="none")
    assert_as_torch(
        by_sum,
        torch.nn.TripletMarginWithDistanceLoss(
            distance_function=lambda a, b: (a - b).abs().sum(1), swap=True, reduction="none"
        ),
        X, Y, POSITIVE,
    )  # fmt: skip


# ---- losses of one's own ----


class AbsoluteError(nn.LossBase):
    def construct(self, logits: Any, labels: Any, weights: Any = 1.0) -> Any:
        return self.get_loss(ops.abs(logits - labels), weights)


@pytest.mark.parametrize(("reduction", "expected"), [("mean", 3.0), ("sum", 12.0), ("none", [[2.0, 2.0], [6.0, 2.0]])])
def test_get_loss_weights_and_reduces(reduction: str, expected: Any) -> None:
    x, y = Tensor([[1.0, 2.0], [3.0, 4.0]]), Tensor([[0.0, 1.0], [0.0, 5.0]])
    assert AbsoluteError(reduction)(x, y, 2.0).tolist() == expected
    assert AbsoluteError(reduction)(x, y, Tensor([2.0, 2.0])).tolist() == expected


def test_get_loss_computes_half_precision_in_float32() -> None:
    x = Tensor(np.full(10, 6000.0, np.float16))
    mean = AbsoluteError()(x, x * 0, 100.0)  # as float16 the products would be infinite
    assert mean.dtype == ms.float16
    assert np.isinf(float(mean))
    assert float(AbsoluteError()(x, x * 0, Tensor([10.0] * 5 + [-10.0] * 5))) == 0.0


def test_the_old_name_of_the_base_warns() -> None:
    with pytest.warns(DeprecationWarning, match="LossBase"):
        loss = _Loss("sum")
    assert isinstance(loss, nn.LossBase)
    assert loss.reduction == "sum"


def test_a_loss_without_construct_says_so() -> None:
    with pytest.raises(NotImplementedError, match="construct"):
        nn.LossBase()(Tensor(1.0), Tensor(1.0))


@pytest.mark.parametrize(
    "make",
    [nn.LossBase, nn.MSELoss, nn.L1Loss, nn.NLLLoss, nn.CrossEntropyLoss, nn.BCELoss, nn.KLDivLoss, nn.SmoothL1Loss,
     nn.BCEWithLogitsLoss, nn.HuberLoss, nn.FocalLoss, nn.TripletMarginLoss, nn.GaussianNLLLoss],
)  # fmt: skip
def test_an_unknown_reduction_is_refused_when_the_cell_is_made(make: Any) -> None:
    with pytest.raises(ValueError, match=rf"'{make.__name__}', 'reduction' must be .*'mean'.*but got 'avg'"):
        make(reduction="avg")


# ---- classes of different frequency ----


def torch_focal(x: torch.Tensor, target: torch.Tensor, gamma: float, weight: torch.Tensor) -> torch.Tensor:
    """Focal loss of (N, C, L) against (N, L), averaged over L."""
    log_p = torch.log_softmax(x, 1).gather(1, target[:, None])[:, 0]
    return (-((1 - log_p.exp()) ** gamma) * log_p * weight[target]).mean(1)


@pytest.mark.parametrize("gamma", [0.0, 2.0, 3.5])
@pytest.mark.parametrize("shape", [(3, 4), (3, 4, 2), (3, 4, 2, 5)])
def test_focal_loss_discounts_easy_examples(gamma: float, shape: tuple[int, ...]) -> None:
    target = np.random.default_rng(0).integers(0, 4, (3, 1, *shape[2:]))
    flat = torch.from_numpy(target.reshape(3, -1))
    cell = nn.FocalLoss(Tensor(WEIGHT), gamma, "none")
    assert_as_torch(
        lambda x: cell(x, Tensor(target)),
        lambda x: torch_focal(x.reshape(3, 4, -1), flat, gamma, torch.from_numpy(WEIGHT)),
        normal(*shape),
    )


def test_focal_loss_takes_factors_for_every_class() -> None:
    one_hot = np.eye(4)[CLASSES]
    per_class = nn.FocalLoss(reduction="none")(Tensor(X), Tensor(one_hot))
    assert per_class.shape == (3, 4)
    rows = nn.FocalLoss(reduction="none")(Tensor(X), Tensor(CLASSES[:, None]))
    np.testing.assert_allclose(per_class.asnumpy().sum(1), rows.asnumpy())


def test_focal_loss_without_focus_is_cross_entropy() -> None:
    assert_as_torch(
        lambda x: nn.FocalLoss(gamma=0.0)(x, Tensor(CLASSES[:, None])),
        lambda x: F.cross_entropy(x, torch.from_numpy(CLASSES)),
        X,
    )


def torch_dice(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return 1 - 2 * (x * y).sum() / ((x * x).sum() + (y * y).sum() + 1e-5)


def test_dice_losses_compare_areas() -> None:
    masks = (Y > 0).astype(np.float64)
    assert_as_torch(nn.DiceLoss(), torch_dice, PROBABILITIES, masks)
    assert float(nn.DiceLoss()(Tensor(masks), Tensor(masks))) < 1e-5

    def by_class(x: torch.Tensor, left_out: int | None) -> torch.Tensor:
        p, y = torch.softmax(x, -1), torch.from_numpy(masks)
        kept = [i for i in range(4) if i != left_out]
        return torch.stack([torch_dice(p[:, i], y[:, i]) for i in kept]).sum() / 4

    for left_out in (None, 2):
        cell = nn.MultiClassDiceLoss(ignore_indiex=left_out)
        assert_as_torch(lambda x, c=cell: c(x, Tensor(masks)), lambda x, i=left_out: by_class(x, i), X)
    weighted = nn.MultiClassDiceLoss(Tensor(np.ones((4, 2))), activation=None)(Tensor(PROBABILITIES), Tensor(masks))
    assert weighted.shape == (2,)


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda: nn.SoftmaxCrossEntropyWithLogits(True, "avg"), ValueError, ["reduction", "avg"]),
        (lambda: nn.SoftmaxCrossEntropyWithLogits(1), TypeError, ["'sparse'", "bool"]),
        (lambda: nn.CrossEntropyLoss([1.0, 2.0]), TypeError, ["'weight'", "Tensor", "list"]),
        (lambda: nn.CrossEntropyLoss(label_smoothing=1.5), ValueError, ["'label_smoothing'", "[0, 1]", "1.5"]),
        (lambda: nn.NLLLoss(Tensor(np.ones((2, 2)))), ValueError, ["'weight'", "(C,)", "(2, 2)"]),
        (lambda: nn.HuberLoss(delta=0.0), ValueError, ["'delta'", "> 0"]),
        (lambda: nn.SmoothL1Loss(-1.0), ValueError, ["'beta'", ">= 0"]),
        (lambda: nn.CosineEmbeddingLoss(2.0), ValueError, ["'margin'", "[-1, 1]"]),
        (lambda: nn.MultiMarginLoss(3), ValueError, ["'p'", "3"]),
        (lambda: nn.DiceLoss(0.0), ValueError, ["'smooth'", "> 0"]),
        (lambda: nn.DiceLoss()(Tensor(X), Tensor(X[0])), ValueError, ["(3, 4)", "(4,)"]),
        (lambda: nn.MultiClassDiceLoss(activation="foo"), KeyError, ["'activation'", "'foo'"]),
        (lambda: nn.MultiClassDiceLoss()(Tensor(X[0]), Tensor(X[0])), ValueError, ["(N, C, ...)", "(4,)"]),
        (lambda: nn.FocalLoss()(Tensor(X), Tensor(CLASSES)), ValueError, ["(3, 4)", "(3,)"]),
        (lambda: nn.FocalLoss()(Tensor(X), Tensor(X[:, :2])), ValueError, ["4 and 2"]),
        (lambda: nn.FocalLoss()(Tensor(X), Tensor([[0], [4], [0]])), ValueError, ["[0, 4)", "4"]),
    ],
)
def test_errors_name_what_is_wrong(call: Callable[[], Any], error: type[Exception], words: list[str]) -> None:
    with pytest.raises(error) as raised:
        call()
    assert [word for word in words if word not in str(raised.value)] == []
