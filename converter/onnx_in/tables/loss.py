"""ONNX losses."""

from __future__ import annotations

from typing import Any

import numpy as np

from ....runtime.errors import ShapeError
from ....runtime.ir.types import INT64
from ....runtime.ops import activation, comparison, elementwise, indexing, reduction, shaping
from ....runtime.tracing import SymbolicTensor
from .context import Context
from .table import cast, onnx

REDUCTIONS = ("mean", "sum", "none")


def negative_log_likelihood(
    x: SymbolicTensor, target: SymbolicTensor, weight: SymbolicTensor | None, ignore_index: int | None, reduction_: str
) -> Any:
    """The negated entries of `x`, (batch, classes, ...), at the targets (batch, ...), weighted and reduced."""
    if reduction_ not in REDUCTIONS:
        raise ShapeError(f"reduction must be one of {', '.join(REDUCTIONS)}, given {reduction_!r}")
    places = cast(target, INT64)
    counts = None
    if ignore_index is not None:
        counts = comparison.not_equal(places, np.int64(ignore_index))
        places = elementwise.where(counts, places, np.int64(0))
    shape = (places.shape[0], 1, *places.shape[1:])
    losses = -shaping.reshape(
        indexing.gather(x, shaping.reshape(places, shape=shape), axis=1), shape=tuple(places.shape)
    )
    weights: Any = None
    if weight is not None:
        weights = indexing.take(weight, places, axis=0)
    if counts is not None:
        kept = cast(counts, x.dtype)
        weights = kept if weights is None else weights * kept
    if weights is not None:
        losses = losses * weights
    if reduction_ == "none":
        return losses
    total = reduction.reduce_sum(losses)
    if reduction_ == "sum":
        return total
    return reduction.reduce_mean(losses) if weights is None else total / reduction.reduce_sum(weights)


@onnx("NegativeLogLikelihoodLoss")
def negative_log_likelihood_loss(
    context: Context, input: SymbolicTensor, target: SymbolicTensor, weight: SymbolicTensor | None = None, *,
    ignore_index: int | None = None, reduction: str = "mean",
) -> Any:  # fmt: skip
    """NegativeLogLikelihoodLoss-12..22(input, target, weight?) -> loss"""
    return negative_log_likelihood(input, target, weight, ignore_index, reduction)


@onnx("SoftmaxCrossEntropyLoss")
def softmax_cross_entropy_loss(
    context: Context, scores: SymbolicTensor, labels: SymbolicTensor, weights: SymbolicTensor | None = None, *,
    ignore_index: int | None = None, reduction: str = "mean",
) -> Any:  # fmt: skip
    """SoftmaxCrossEntropyLoss-12..13(scores, labels, weights?) -> output, log_prob?"""
    logs = activation.log_softmax(scores, axis=1)
    return negative_log_likelihood(logs, labels, weights, ignore_index, reduction), logs
