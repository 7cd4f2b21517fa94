"""Cross entropy and negative log likelihood: losses for classification.

Classes lie along axis 1 of the logits (axis 0 if they have one dimension only): (C,), (N, C) or (N, C, d1, ...).
"""

from __future__ import annotations

from typing import Any

from .. import checks
from ..common.dtype import dtype_name, int32, int64
from ..ir.types import is_floating
from ..ops import activation, comparison, creation, elementwise, indexing, loss, shaping
from ..ops.declarations import zero
from ..ops.reduction import reduce_mean, reduce_sum
from .losses import reduce_loss
from .operands import as_tensor, require_floating
from .public_op import Primitive, public_op


@public_op()
def cross_entropy(
    input: Any,
    target: Any,
    weight: Any = None,
    ignore_index: int = -100,
    reduction: str = "mean",
    label_smoothing: float = 0.0,
) -> Any:
    """Cross entropy loss between logits and class indices or class probabilities.

    For class indices, it is `nll_loss` of the logarithms of the softmax of `input`.

    Args:
        input: logits, floating-point, with classes along axis 1.
        target: class indices as in `nll_loss`, or floating-point probabilities shaped as `input`.
        weight: (C,), a factor for each class.
        ignore_index: as in `nll_loss`.
        reduction: "mean", "sum" or "none"; for probabilities, the mean is over all rows.
        label_smoothing: the fraction of the target that is spread uniformly over all classes, in [0, 1].

    Raises:
        TypeError: `input` isn't floating-point; class indices aren't int32 or int64.
        ValueError: shapes don't fit, or a class index or another argument is out of range.
    """
    of = "cross_entropy"
    logits, target = require_floating(input, of=of), as_tensor(target, "target", of=of)
    log_probabilities = activation.log_softmax(logits, axis=_class_axis(logits))
    if is_floating(target.dtype) and target.ndim >= logits.ndim:
        return _against_probabilities(log_probabilities, target, weight, reduction, label_smoothing, of=of)
    return _against_classes(log_probabilities, target, weight, ignore_index, reduction, label_smoothing, of=of)[0]


@public_op()
def nll_loss(
    inputs: Any,
    target: Any,
    weight: Any = None,
    ignore_index: int = -100,
    reduction: str = "mean",
    label_smoothing: float = 0.0,
) -> Any:
    """Negative log likelihood loss: -weight[c] * inputs[n, c] where c = target[n], reduced.

    Args:
        inputs: logarithms of probabilities, floating-point, with classes along axis 1.
        target: int32 or int64 class indices, shaped as `inputs` without the class axis.
        weight: (C,), a factor for each class.
        ignore_index: a target to ignore.
        reduction: "mean" (the sum divided by the weights of all targets that aren't ignored), "sum" or "none".
        label_smoothing: the fraction of the target that is spread uniformly over all classes, in [0, 1].

    Raises:
        TypeError: `inputs` isn't floating-point; class indices aren't int32 or int64.
        ValueError: shapes don't fit, or a class index or another argument is out of range.
    """
    log_p = require_floating(inputs, "inputs", of="nll_loss")
    target = as_tensor(target, "target", of="nll_loss")
    return _against_classes(log_p, target, weight, ignore_index, reduction, label_smoothing, of="nll_loss")[0]


@public_op(primitive=Primitive("NLLLoss", init_args=("reduction", "ignore_index")))
def _nll_loss_and_weight(
    logits: Any, labels: Any, weight: Any = None, reduction: str = "mean", ignore_index: int = -100
) -> tuple[Any, Any]:
    """`nll_loss`, and the sum of the weights of targets that aren't ignored."""
    log_p, target = require_floating(logits, "logits", of="NLLLoss"), as_tensor(labels, "labels", of="NLLLoss")
    return _against_classes(log_p, target, weight, ignore_index, reduction, 0.0, of="NLLLoss")


@public_op(primitive="SoftmaxCrossEntropyWithLogits")
def _softmax_cross_entropy(logits: Any, labels: Any) -> tuple[Any, Any]:
    """Cross entropy (N,) between logits and class probabilities, both (N, C), and its gradient for the logits.

    Raises:
        TypeError: an operand isn't floating-point.
        ValueError: an operand isn't (N, C).
    """
    rows = soft_rows(logits, labels, of="SoftmaxCrossEntropyWithLogits")
    return rows, activation.softmax(logits, axis=1) - labels


@public_op(primitive=Primitive("SparseSoftmaxCrossEntropyWithLogits", init_args=("is_grad",)))
def _sparse_softmax_cross_entropy(logits: Any, labels: Any, is_grad: bool = False) -> Any:
    """Mean cross entropy between logits (N, C) and class indices (N,); if `is_grad`, its gradient for the logits.

    The loss of a row with a negative label is 0.

    Raises:
        TypeError: the logits aren't floating-point, the labels not int32 or int64.
        ValueError: the shapes don't fit, or a label isn't below C.
    """
    of = "SparseSoftmaxCrossEntropyWithLogits"
    rows = sparse_rows(logits, labels, of=of)
    if not is_grad:
        return reduce_mean(rows)
    logits = rows_of_logits(logits, of=of)
    count, classes = logits.shape
    places = shaping.reshape(as_tensor(labels), shape=(count, 1))
    labelled = comparison.equal(places, creation.arange(stop=classes, dtype=places.dtype))
    gradient = activation.softmax(logits, axis=1) - elementwise.cast(labelled, dtype=logits.dtype)
    return elementwise.where(comparison.less(places, 0), zero(gradient), gradient) / count


def soft_rows(logits: Any, labels: Any, *, of: str) -> Any:
    """Cross entropy between each row of logits (N, C) and a row of probabilities."""
    logits, labels = rows_of_logits(logits, of=of), require_floating(labels, "labels", of=of)
    return _against_probabilities(activation.log_softmax(logits, axis=1), labels, None, "none", 0.0, of=of)


def sparse_rows(logits: Any, labels: Any, *, of: str) -> Any:
    """Cross entropy between each row of logits (N, C) and class indices (N,), 0 where the label is negative."""
    logits, labels = rows_of_logits(logits, of=of), _class_indices(as_tensor(labels, "labels", of=of), of=of)
    negative_as_one = elementwise.maximum(labels, -1)
    log_p = activation.log_softmax(logits, axis=1)
    return _against_classes(log_p, negative_as_one, None, -1, "none", 0.0, of=of)[0]


def rows_of_logits(logits: Any, *, of: str) -> Any:
    """Check that the logits are floating-point and (N, C), and return them."""
    logits = require_floating(logits, "logits", of=of)
    if logits.ndim != 2:
        raise ValueError(f"For '{of}', 'logits' must have shape (N, C), but got {tuple(logits.shape)}")
    return logits


def _class_axis(x: Any) -> int:
    return 1 if x.ndim > 1 else 0


def _class_indices(target: Any, *, of: str) -> Any:
    if target.dtype not in (int32, int64):
        raise TypeError(
            f"For '{of}', labels that are class indices must be int32 or int64, but got {dtype_name(target.dtype)}"
        )
    return target


def _class_weights(weight: Any, log_p: Any, axis: int, *, of: str) -> Any:
    weight = require_floating(weight, "weight", of=of)
    if tuple(weight.shape) != (log_p.shape[axis],):
        raise ValueError(f"For '{of}', 'weight' must have shape ({log_p.shape[axis]},), but got {tuple(weight.shape)}")
    return elementwise.cast(weight, dtype=log_p.dtype)


def _broadcast_classes(weight: Any, x: Any, axis: int) -> Any:
    """Reshape (C,) to broadcast along the class axis of `x`."""
    return shaping.reshape(weight, shape=(weight.shape[0], *(1,) * (x.ndim - axis - 1)))


def _against_probabilities(log_p: Any, target: Any, weight: Any, how: str, smoothing: float, *, of: str) -> Any:
    """The loss against probabilities; smoothing mixes them with the uniform distribution over classes."""
    checks.in_range(smoothing, "label_smoothing", "[0, 1]", of=of)
    if tuple(target.shape) != tuple(log_p.shape):
        raise ValueError(
            f"For '{of}', labels that are probabilities must have the shape of the logits {tuple(log_p.shape)}, but "
            f"got {tuple(target.shape)}"
        )
    axis = _class_axis(log_p)
    if weight is None:
        weighted = log_p
    else:
        weighted = log_p * _broadcast_classes(_class_weights(weight, log_p, axis, of=of), log_p, axis)
    rows = -reduce_sum(elementwise.cast(target, dtype=log_p.dtype) * weighted, axes=(axis,))
    if smoothing:
        rows = rows * (1.0 - smoothing) - reduce_mean(weighted, axes=(axis,)) * smoothing
    return reduce_loss(rows, how, of=of)


def _against_classes(
    log_p: Any, target: Any, weight: Any, ignored: int, how: str, smoothing: float, *, of: str
) -> tuple[Any, Any]:
    """The loss against class indices, and the sum of the weights of targets that aren't ignored."""
    checks.of_type(ignored, "ignore_index", int, of=of)
    checks.in_range(smoothing, "label_smoothing", "[0, 1]", of=of)
    axis = _class_axis(log_p)
    _class_indices(target, of=of)
    expected = (*log_p.shape[:axis], *log_p.shape[axis + 1 :])
    if tuple(target.shape) != expected:
        raise ValueError(f"For '{of}', class indices must have shape {expected}, but got {tuple(target.shape)}")
    classes = loss.class_index(target, classes=log_p.shape[axis], ignore_index=ignored)
    counts = comparison.not_equal(target, ignored)
    if weight is None:
        share = elementwise.cast(counts, dtype=log_p.dtype)
    else:
        weight = _class_weights(weight, log_p, axis, of=of)
        share = elementwise.where(counts, indexing.take(weight, classes, axis=0), zero(log_p))
    places = shaping.reshape(classes, shape=(*log_p.shape[:axis], 1, *log_p.shape[axis + 1 :]))
    target_log_p = shaping.reshape(indexing.gather(log_p, places, axis=axis), shape=tuple(target.shape))
    rows = -elementwise.where(counts, target_log_p * share, zero(log_p))
    if smoothing:
        weighted = log_p if weight is None else log_p * _broadcast_classes(weight, log_p, axis)
        spread = reduce_mean(weighted, axes=(axis,)) * smoothing
        rows = rows * (1.0 - smoothing) - elementwise.where(counts, spread, zero(log_p))
    total_weight = reduce_sum(share)
    if how == "mean":
        return reduce_sum(rows) / total_weight, total_weight
    return reduce_loss(rows, how, of=of), total_weight
