"""Losses inside a model."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tests.converter.capturing import Each, Function, assert_matches_torch
from tests.converter.test_tables_neural import data

A, B = data(4, 3), data(4, 3).flip(0)
P, PROBABILITIES = torch.sigmoid(A), torch.sigmoid(B)
SIGNS = torch.tensor([1.0, -1.0, -1.0, 1.0])
LABELS = torch.tensor([2, 0, -100, 1])
SETS = torch.tensor([[2, 0, -1], [1, -1, 2], [-1, 0, 1], [0, 1, 2]])
PIXELS, MAP = data(2, 3, 4, 5), torch.randint(3, (2, 4, 5), generator=torch.Generator().manual_seed(0))
WEIGHT = torch.tensor([0.5, 2.0, 1.0])
CERTAIN = torch.tensor([0.0, 1.0, 0.0, 1.0, 0.3])
FRAMES = torch.log_softmax(data(5, 2, 3), 2)
ROWS, ROW = torch.tensor([[1, 2, 0], [2, 1, 2]]), torch.tensor([1, 2, 2])
STEPS, LENGTHS = torch.tensor([5, 4]), torch.tensor([2, 1], dtype=torch.int32)

Case = tuple[Callable[..., Any], tuple[Any, ...]]
LOSSES: dict[str, Case] = {
    "mse": (F.mse_loss, (A, B)),
    "l1": (F.l1_loss, (A, B)),
    "smooth l1": (lambda a, b: F.smooth_l1_loss(a, b, beta=0.5), (A, B)),
    "smooth l1, beta 0": (lambda a, b: F.smooth_l1_loss(a, b, beta=0.0), (A, B)),
    "huber": (lambda a, b: F.huber_loss(a, b, delta=0.7), (A, B)),
    "bce": (F.binary_cross_entropy, (P, PROBABILITIES)),
    "bce, certain": (lambda p, t: F.binary_cross_entropy(p, t.detach(), reduction="none"), (CERTAIN, CERTAIN.flip(0))),
    "bce, weighted": (lambda p, t, w: F.binary_cross_entropy(p, t, w.detach()), (P, PROBABILITIES, WEIGHT)),
    "bce with logits": (F.binary_cross_entropy_with_logits, (A * 20, PROBABILITIES)),
    "bce with logits, weighted": (
        lambda x, t, w, v: F.binary_cross_entropy_with_logits(x, t, v.detach(), pos_weight=w.detach()),
        (A, PROBABILITIES, WEIGHT, SIGNS[:, None]),
    ),
    "gaussian, variances below eps": (lambda x, t, v: F.gaussian_nll_loss(x, t, v, eps=0.5), (A, B, P)),
    "kl": (lambda a, b: F.kl_div(a, b.detach(), reduction="batchmean"), (A, PROBABILITIES)),
    "kl, zeros": (lambda a, b: F.kl_div(a, b.detach(), reduction="sum"), (A, PROBABILITIES.round())),
    "kl, logarithms": (lambda a, b: F.kl_div(a, b, reduction="none", log_target=True), (A, B)),
    "cross entropy": (F.cross_entropy, (A, LABELS)),
    "cross entropy, weighted": (lambda x, t, w: F.cross_entropy(x, t, w.detach()), (A, LABELS, WEIGHT)),
    "cross entropy, sum": (lambda x, t: F.cross_entropy(x, t, reduction="sum", ignore_index=1), (A, LABELS.clamp(0))),
    "cross entropy, each": (lambda x, t: F.cross_entropy(x, t, reduction="none", label_smoothing=0.2), (A, LABELS)),
    "cross entropy, smooth": (lambda x, t: F.cross_entropy(x, t, label_smoothing=0.1), (A, LABELS)),
    "cross entropy, smooth and weighted": (
        lambda x, t, w: F.cross_entropy(x, t, w.detach(), label_smoothing=0.1), (A, LABELS, WEIGHT)
    ),
    "cross entropy of pixels": (
        lambda x, t, w: F.cross_entropy(x, t, w.detach(), label_smoothing=0.1), (PIXELS, MAP, WEIGHT)
    ),
    "cross entropy without batch": (F.cross_entropy, (A[0], torch.tensor(2))),
    "cross entropy of probabilities": (lambda x, t: F.cross_entropy(x, t.softmax(1)), (A, B)),
    "cross entropy of probabilities, smooth": (
        lambda x, t, w: F.cross_entropy(x, t.softmax(1), w.detach(), label_smoothing=0.1), (PIXELS, PIXELS + 1, WEIGHT)
    ),
    "nll": (lambda x, t: F.nll_loss(x.log_softmax(1), t, ignore_index=2), (A, LABELS.clamp(0))),
    "nll of pixels": (lambda x, t, w: F.nll_loss(x, t, w.detach()), (PIXELS, MAP, WEIGHT)),
    "soft margin": (lambda x, t: F.soft_margin_loss(x, t.detach()), (A, SIGNS[:, None].expand(4, 3))),
    "margin ranking": (lambda a, b, t: F.margin_ranking_loss(a, b, t.detach(), margin=0.3), (A[:, 0], B[:, 0], SIGNS)),
    "hinge embedding": (lambda a, t: F.hinge_embedding_loss(a, t.detach(), margin=0.4), (A[:, 0], SIGNS)),
    "cosine similarity": (lambda a, b: F.cosine_similarity(a, b, dim=-1), (A, B)),
    "cosine similarity of what is broadcast": (
        lambda a, b: F.cosine_similarity(a[None], b.detach()[:, None]), (A, B)
    ),
    "cosine similarity of zeros": (F.cosine_similarity, (torch.zeros(2, 3), A[:2])),
    "poisson": (lambda a, t: F.poisson_nll_loss(a, t.detach(), full=True), (A, PROBABILITIES * 3)),
    "cosine embedding": (lambda a, b, t: F.cosine_embedding_loss(a, b, t.detach(), margin=0.1), (A, B, SIGNS)),
    "triplet": (F.triplet_margin_loss, (A, B, A.roll(1, 0))),
    "pairwise distance": (F.pairwise_distance, (A, B)),
    "multi margin, weighted": (
        lambda x, t, w: F.multi_margin_loss(x, t, weight=w.detach(), reduction="none"), (A, LABELS.clamp(0), WEIGHT)
    ),
    "multi margin of one": (lambda x, t: F.multi_margin_loss(x[0], t[0], reduction="sum"), (A, LABELS.clamp(0))),
    "multilabel margin, at it": (F.multilabel_margin_loss, (A.round(), SETS)),
    "multi margin": (lambda x, t: F.multi_margin_loss(x, t, p=2, margin=0.7), (A, LABELS.clamp(0))),
    "multilabel margin": (F.multilabel_margin_loss, (A, SETS)),
    "multilabel margin, each": (lambda x, t: F.multilabel_margin_loss(x, t, reduction="none"), (A, SETS)),
    "multilabel margin, one": (F.multilabel_margin_loss, (A[0], SETS[0])),
    "ctc": (F.ctc_loss, (FRAMES, ROWS, STEPS, LENGTHS)),
    "ctc, targets one after the other": (
        lambda x, *rest: F.ctc_loss(x.log_softmax(2), *rest, reduction="sum"), (FRAMES, ROW, STEPS, LENGTHS)
    ),
    "ctc, lengths known": (lambda x, t: F.ctc_loss(x, t, (5, 4), [2, 1], blank=2, reduction="none"), (FRAMES, ROW % 2)),
    "ctc, impossible": (
        lambda x, *rest: F.ctc_loss(x, *rest, zero_infinity=True), (FRAMES, ROWS, STEPS - 3, LENGTHS)
    ),
    "ctc of one sequence": (lambda x, t: F.ctc_loss(x[:, 0], t, torch.tensor(5), torch.tensor(3)), (FRAMES, ROW)),
    "ctc without targets": (lambda x: F.ctc_loss(x, torch.zeros(0, dtype=torch.int64), (5, 4), (0, 0)), (FRAMES,)),
    "multilabel soft margin": (lambda x, t: F.multilabel_soft_margin_loss(x, t.detach()), (A, PROBABILITIES.round())),
}  # fmt: skip


@pytest.mark.parametrize(
    "dtype", [torch.float64, pytest.param(torch.float32, marks=pytest.mark.slow)], ids=["float64", "float32"]
)
def test_agrees_with_torch(dtype: torch.dtype) -> None:
    modules: dict[str, nn.Module] = {name: Function(call) for name, (call, _) in LOSSES.items()}
    assert_matches_torch(Each(modules), {name: args for name, (_, args) in LOSSES.items()}, dtype=dtype)


def test_sequences_may_vary_in_number_and_length() -> None:
    def loss(x: Tensor, targets: Tensor, steps: Tensor, lengths: Tensor) -> Tensor:
        return F.ctc_loss(x.log_softmax(2), targets, steps, lengths)

    one_by_one = torch.tensor([1, 2, 1, 2, 2, 2, 1])
    for targets, axes, other_targets in ((ROWS, {0: "batch", 1: "length"}, ROWS[:, :2].repeat(2, 1)),
                                 (ROW, {0: "total"}, one_by_one)):  # fmt: skip
        assert_matches_torch(
            Function(loss), FRAMES, targets, STEPS, LENGTHS,
            dynamic_shapes=(({0: "time", 1: "batch"}, axes, {0: "batch"}, {0: "batch"}),),
            other_args=(data(7, 4, 3), other_targets, torch.tensor([7, 6, 6, 5]), torch.tensor([2, 2, 1, 2]).int()),
        )  # fmt: skip


def test_a_loss_of_sequences_stays_whole_beside_what_is_written_in_place() -> None:
    def loss(x: Tensor) -> Tensor:
        x = x.log_softmax(2)
        x = x.clone()
        x[0] -= 0.5
        return F.ctc_loss(x, ROWS, STEPS, LENGTHS)

    program = assert_matches_torch(Function(loss), FRAMES)
    assert [node.op for node in program.nodes].count("ctc_loss") == 1


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=["float16", "bfloat16"])
def test_cosine_similarity_does_not_overflow_in_half_precision(dtype: torch.dtype) -> None:
    x = torch.tensor([[300.0, -400.0, 350.0], [1e-4, 2e-4, -1e-4]])
    assert_matches_torch(Function(torch.no_grad()(F.cosine_similarity)), x, x.roll(1, 1), dtype=dtype)


OPTIONS = nn.LinearCrossEntropyOptions(batch_chunk_size=2, allow_retain_graph=True)
LINEAR_LOSSES: dict[str, Case] = {
    "mean": (F.linear_cross_entropy, (A, data(5, 3), LABELS)),
    "bias, weights": (
        lambda x, w, t, b, c: F.linear_cross_entropy(x, w, t, linear_bias=b, weight=c.detach(), options=OPTIONS),
        (A, data(3, 3), LABELS, data(3), WEIGHT),
    ),
    "in parts": (lambda x, w, t: F.linear_cross_entropy(x, w, t, options=OPTIONS), (A, data(5, 3), LABELS)),
    "sum": (
        lambda x, w, t: F.linear_cross_entropy(x, w, t, reduction="sum", ignore_index=1, options=OPTIONS),
        (A, data(5, 3), LABELS.clamp(0)),
    ),
    "of each": (
        lambda x, w, t, b, c: F.linear_cross_entropy(
            x, w, t, linear_bias=b, weight=c.detach(), reduction="none", options=OPTIONS
        ),
        (A, data(3, 3), LABELS, data(3), WEIGHT),
    ),
    "of one": (lambda x, w, t: F.linear_cross_entropy(x, w, t, options=OPTIONS), (A[0], data(5, 3), torch.tensor(2))),
}


@pytest.mark.parametrize(
    "dtype", [torch.float64, pytest.param(torch.float32, marks=pytest.mark.slow)], ids=["float64", "float32"]
)
def test_cross_entropy_of_a_linear_layer_agrees_with_torch(dtype: torch.dtype) -> None:
    modules: dict[str, nn.Module] = {name: Function(loss) for name, (loss, _) in LINEAR_LOSSES.items()}
    assert_matches_torch(Each(modules), {name: args for name, (_, args) in LINEAR_LOSSES.items()}, dtype=dtype)


def test_batch_may_vary() -> None:
    batch = torch.export.Dim("batch", min=2, max=64)

    def losses(x: Tensor, y: Tensor, labels: Tensor) -> tuple[Tensor, ...]:
        return F.cross_entropy(x, labels, label_smoothing=0.1), F.mse_loss(x, y), F.kl_div(x, y.softmax(1))

    assert_matches_torch(
        Function(losses), A, B, LABELS, dynamic_shapes=(({0: batch}, {0: batch}, {0: batch}),),
        other_args=(data(7, 3), data(7, 3), torch.arange(7) % 3),
    )  # fmt: skip
