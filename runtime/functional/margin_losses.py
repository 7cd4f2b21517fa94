"""Margin losses: on scores of classes, on distances, or on the distance from a decision boundary."""

from __future__ import annotations

from typing import Any

from .. import checks
from ..common.dtype import dtype_name, int32, int64
from ..ops import activation, comparison, creation, elementwise, indexing, loss, rectifier, scanning, shaping
from ..ops.declarations import zero
from ..ops.reduction import reduce_max, reduce_sum
from .distances import pairwise_distance
from .losses import comparable_pair, real_pair, reduce_loss
from .operands import as_floating, as_tensor, require_floating
from .public_op import Primitive, public_op

COSINE_EPSILON = 1e-12  # added to squared norms, as in ATen

# ---- two classes ----


@public_op(primitive=Primitive("SoftMarginLoss", init_args=("reduction",)))
def soft_margin_loss(input: Any, target: Any, reduction: str = "mean") -> Any:
    """log(1 + exp(-target * input)), reduced; `target` holds 1 and -1 and has the shape of `input`."""
    x, target = comparable_pair(input, target, ("input", "target"), of="soft_margin_loss")
    return reduce_loss(-activation.log_sigmoid(target * x), reduction, of="soft_margin_loss")


@public_op()
def hinge_embedding_loss(inputs: Any, targets: Any, margin: float = 1.0, reduction: str = "mean") -> Any:
    """x where the target is 1, max(0, margin - x) where it is -1, reduced; the operands broadcast."""
    x, target = real_pair(inputs, targets, ("inputs", "targets"), of="hinge_embedding_loss")
    checks.of_type(margin, "margin", (int, float), of="hinge_embedding_loss")
    similar = elementwise.where(comparison.equal(target, 1.0), x, zero(x))
    beyond = elementwise.clamp(margin - x, minimum=0.0)
    dissimilar = elementwise.where(comparison.equal(target, -1.0), beyond, zero(x))
    return reduce_loss(similar + dissimilar, reduction, of="hinge_embedding_loss")


@public_op()
def margin_ranking_loss(input1: Any, input2: Any, target: Any, margin: float = 0.0, reduction: str = "mean") -> Any:
    """max(0, -target * (input1 - input2) + margin), reduced; target 1 favours `input1`, -1 `input2`."""
    of = "margin_ranking_loss"
    a, b = real_pair(input1, input2, ("input1", "input2"), of=of)
    difference, target = real_pair(a - b, target, ("input1", "target"), of=of)
    checks.of_type(margin, "margin", (int, float), of=of)
    return reduce_loss(elementwise.clamp(margin - target * difference, minimum=0.0), reduction, of=of)


# ---- distances ----


@public_op()
def cosine_embedding_loss(input1: Any, input2: Any, target: Any, margin: float = 0.0, reduction: str = "mean") -> Any:
    """1 - c where the target is 1, max(0, c - margin) where it is -1, reduced; c is the cosine of the rows' angle.

    Args:
        input1: (N, D), or (D,) for one row.
        input2: likewise.
        target: (N,), or () for one row, of 1 and -1.
        margin: in [-1, 1].
        reduction: "mean", "sum" or "none".

    Raises:
        ValueError: shapes don't fit, `margin` is out of range or `reduction` unknown.
    """
    of = "cosine_embedding_loss"
    a, b = comparable_pair(input1, input2, ("input1", "input2"), of=of)
    checks.in_range(margin, "margin", "[-1, 1]", of=of)
    axes = (min(a.ndim, 2) - 1,)
    product = reduce_sum(a * b, axes=axes)
    lengths = [reduce_sum(x * x, axes=axes) + COSINE_EPSILON for x in (a, b)]
    cosine, target = comparable_pair(
        product / elementwise.sqrt(lengths[0] * lengths[1]), target, ("rows of input1", "target"), of=of
    )
    similar = elementwise.where(comparison.equal(target, 1.0), 1.0 - cosine, zero(cosine))
    beyond = elementwise.clamp(cosine - margin, minimum=0.0)
    dissimilar = elementwise.where(comparison.equal(target, -1.0), beyond, zero(cosine))
    return reduce_loss(similar + dissimilar, reduction, of=of)


@public_op(primitive=Primitive("TripletMarginLoss", init_args=("p", "swap", "eps", "reduction")))
def triplet_margin_loss(
    anchor: Any,
    positive: Any,
    negative: Any,
    margin: float = 1.0,
    p: float = 2,
    eps: float = 1e-6,
    swap: bool = False,
    reduction: str = "mean",
) -> Any:
    """max(0, d(anchor, positive) - d(anchor, negative) + margin), reduced (Balntas et al. 2016).

    Args:
        anchor: (N, D) or (D,); vectors lie along the last axis.
        positive: shaped as `anchor`.
        negative: shaped as `anchor`.
        margin: the required difference of the distances to negative and positive.
        p: d(x, y) is the p-norm of x - y + eps.
        eps: keeps the gradient of the norm finite.
        swap: whether d(positive, negative) replaces d(anchor, negative) where it is smaller.
        reduction: "mean", "sum" or "none".

    Raises:
        ValueError: shapes differ, or `reduction` is unknown.
    """
    of = "triplet_margin_loss"
    anchor, positive = comparable_pair(anchor, positive, ("anchor", "positive"), of=of)
    anchor, negative = comparable_pair(anchor, negative, ("anchor", "negative"), of=of)
    near, far = pairwise_distance(anchor, positive, p, eps), pairwise_distance(anchor, negative, p, eps)
    if swap:
        far = elementwise.minimum(far, pairwise_distance(positive, negative, p, eps))
    return reduce_loss(elementwise.clamp(near - far + margin, minimum=0.0), reduction, of=of)


# ---- several classes ----


@public_op(primitive=Primitive("MultiMarginLoss", init_args=("p", "margin", "reduction")))
def multi_margin_loss(
    input: Any, target: Any, p: int = 1, margin: float = 1, weight: Any = None, reduction: str = "mean"
) -> Any:
    """Multi-class margin loss (Crammer and Singer 2001), reduced.

    The loss of a row is the sum of max(0, margin - x[y] + x[i])**p over all classes i except y, divided by C.

    Args:
        input: scores x, (N, C) or (C,).
        target: the class y, (N,) or (), int32 or int64.
        p: 1 or 2.
        margin: the required difference between the score of class y and those of the others.
        weight: (C,), a factor for the rows of each class.
        reduction: "mean", "sum" or "none".

    Raises:
        TypeError: `target` isn't int32 or int64.
        ValueError: shapes don't fit, or a class index or another argument is out of range.
    """
    of = "multi_margin_loss"
    x, target = require_floating(input, of=of), _indices(target, of=of)
    checks.one_of(p, "p", (1, 2), of=of)
    classes = x.shape[-1] if x.ndim else 0
    if x.ndim not in (1, 2) or tuple(target.shape) != tuple(x.shape[:-1]):
        raise ValueError(
            f"For '{of}', 'input' must be (N, C) or (C,) and 'target' (N,) or (), but got {tuple(x.shape)} and "
            f"{tuple(target.shape)}"
        )
    labels = loss.class_index(target, classes=classes)
    places = shaping.reshape(labels, shape=(*target.shape, 1))
    gaps = rectifier.relu(margin - indexing.gather(x, places, axis=x.ndim - 1) + x)
    gaps = gaps if p == 1 else gaps * gaps
    is_target = comparison.equal(places, creation.arange(stop=classes, dtype=places.dtype))
    rows = reduce_sum(elementwise.where(is_target, zero(gaps), gaps), axes=(x.ndim - 1,)) / classes
    if weight is not None:
        rows = rows * indexing.take(as_floating(weight, "weight", of=of), labels, axis=0)
    return reduce_loss(rows, reduction, of=of)


@public_op()
def multilabel_margin_loss(input: Any, target: Any, reduction: str = "mean") -> Any:
    """Multi-label margin loss, reduced.

    The loss of a row is the sum of max(0, 1 - x[y] + x[i]) over all targets y and all classes i that aren't targets,
    divided by C.

    Args:
        input: scores x, (N, C) or (C,).
        target: int32 or int64 class indices, shaped as `input`; a row's targets end at its first -1.
        reduction: "mean", "sum" or "none".

    Raises:
        TypeError: `target` isn't int32 or int64.
        ValueError: the shapes differ, or `reduction` is unknown.
    """
    return _multilabel_margin_and_targets(input, target, reduction)[0]


@public_op(primitive=Primitive("MultilabelMarginLoss", init_args=("reduction",)))
def _multilabel_margin_and_targets(x: Any, target: Any, reduction: str = "mean") -> tuple[Any, Any]:
    """`multilabel_margin_loss`, and for each class 1 if it is a target, in the dtype of `target`."""
    of = "multilabel_margin_loss"
    x, labels = require_floating(x, "input", of=of), _indices(target, of=of)
    shape = tuple(x.shape)
    if x.ndim not in (1, 2) or tuple(labels.shape) != shape:
        raise ValueError(
            f"For '{of}', 'input' and 'target' must both be (N, C) or (C,), but got {shape} and {tuple(labels.shape)}"
        )
    classes = shape[-1]
    rows = shape[0] if len(shape) == 2 else 1
    # 1 up to the first negative label of a row, 0 from there
    counts = scanning.cumprod(
        elementwise.cast(comparison.greater_equal(labels, 0), dtype=x.dtype), axis=labels.ndim - 1
    )
    counted = elementwise.where(comparison.greater(counts, 0.0), labels, zero(labels))
    targets = loss.class_index(counted, classes=classes)
    marks = comparison.equal(
        shaping.reshape(targets, shape=(rows, classes, 1)), creation.arange(stop=classes, dtype=labels.dtype)
    )
    weights = shaping.reshape(counts, shape=(rows, classes, 1))
    is_target = reduce_max(elementwise.cast(marks, dtype=x.dtype) * weights, axes=(1,), keepdims=True)
    scores = shaping.reshape(indexing.gather(x, targets, axis=x.ndim - 1), shape=(rows, classes, 1))
    gaps = rectifier.relu(1.0 - scores + shaping.reshape(x, shape=(rows, 1, classes)))
    losses = reduce_sum(gaps * weights * (1.0 - is_target), axes=(1, 2)) / classes
    flags = elementwise.cast(shaping.reshape(is_target, shape=shape), dtype=labels.dtype)
    return reduce_loss(shaping.reshape(losses, shape=shape[:-1]), reduction, of=of), flags


@public_op()
def multilabel_soft_margin_loss(input: Any, target: Any, weight: Any = None, reduction: str = "mean") -> Any:
    """The mean over classes of `binary_cross_entropy_with_logits`, reduced.

    Args:
        input: (N, C) or (C,).
        target: 1 for the classes that apply, 0 for others; shaped as `input`.
        weight: a factor for each class; broadcasts.
        reduction: "mean", "sum" or "none".

    Raises:
        ValueError: the operands have different shapes, or `reduction` is unknown.
    """
    of = "multilabel_soft_margin_loss"
    x, target = comparable_pair(input, target, ("input", "target"), of=of)
    losses = -(target * activation.log_sigmoid(x) + (1.0 - target) * activation.log_sigmoid(-x))
    if weight is not None:
        losses = losses * weight
    return reduce_loss(reduce_sum(losses, axes=(x.ndim - 1,)) / x.shape[-1], reduction, of=of)


def _indices(target: Any, *, of: str) -> Any:
    target = as_tensor(target, "target", of=of)
    if target.dtype not in (int32, int64):
        raise TypeError(f"For '{of}', 'target' must be int32 or int64, but got {dtype_name(target.dtype)}")
    return target
