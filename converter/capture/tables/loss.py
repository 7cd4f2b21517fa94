"""ATen losses: elementwise, followed by a reduction: none (0), mean (1) or sum (2)."""

from __future__ import annotations

from typing import Any

from ....runtime.ir.types import INT64, at_least_float32
from ....runtime.ops import activation, comparison, creation, elementwise, indexing, rectifier, scanning, shaping
from ....runtime.ops import loss as ops
from ....runtime.ops import reduction as reduction_ops
from ....runtime.ops.common import broadcast_shapes
from ....runtime.tracing import SymbolicTensor
from .choice import clamp_numbers
from .table import Context, aten, cast, operands

NONE, MEAN, SUM = 0, 1, 2


@aten("aten.mse_loss.default")
def mse_loss(context: Context, self: SymbolicTensor, target: SymbolicTensor, reduction: int = MEAN) -> Any:
    """mse_loss(Tensor self, Tensor target, int reduction=Mean) -> Tensor"""
    difference = _difference(context, self, target)
    return reduce(difference * difference, reduction)


@aten("aten.l1_loss.default")
def l1_loss(context: Context, self: SymbolicTensor, target: SymbolicTensor, reduction: int = MEAN) -> Any:
    """l1_loss(Tensor self, Tensor target, int reduction=Mean) -> Tensor"""
    return reduce(elementwise.abs(_difference(context, self, target)), reduction)


@aten("aten.smooth_l1_loss.default")
def smooth_l1_loss(
    context: Context, self: SymbolicTensor, target: SymbolicTensor, reduction: int = MEAN, beta: float = 1.0
) -> Any:
    """smooth_l1_loss(Tensor self, Tensor target, int reduction=Mean, float beta=1.) -> Tensor"""
    if beta == 0.0:
        return l1_loss(context, self, target, reduction)
    difference = _difference(context, self, target)
    distance = elementwise.abs(difference)
    near, far = difference * difference * (0.5 / beta), distance - 0.5 * beta
    return reduce(elementwise.where(comparison.less(distance, beta), near, far), reduction)


@aten("aten.huber_loss.default")
def huber_loss(
    context: Context, self: SymbolicTensor, target: SymbolicTensor, reduction: int = MEAN, delta: float = 1.0
) -> Any:
    """huber_loss(Tensor self, Tensor target, int reduction=Mean, float delta=1.) -> Tensor"""
    difference = _difference(context, self, target)
    distance = elementwise.abs(difference)
    near, far = difference * difference * 0.5, (distance - 0.5 * delta) * delta
    return reduce(elementwise.where(comparison.less_equal(distance, delta), near, far), reduction)


@aten("aten.binary_cross_entropy.default")
def binary_cross_entropy(
    context: Context, self: SymbolicTensor, target: SymbolicTensor, weight: Any = None, reduction: int = MEAN
) -> Any:
    """binary_cross_entropy(Tensor self, Tensor target, Tensor? weight=None, int reduction=Mean) -> Tensor"""
    loss = ops.binary_cross_entropy(self, target)
    return reduce(loss if weight is None else loss * weight, reduction)


@aten("aten.binary_cross_entropy_with_logits.default")
def binary_cross_entropy_with_logits(
    context: Context,
    self: SymbolicTensor,
    target: SymbolicTensor,
    weight: Any = None,
    pos_weight: Any = None,
    reduction: int = MEAN,
) -> Any:
    """binary_cross_entropy_with_logits(Tensor self, Tensor target, Tensor? weight=None, Tensor? pos_weight=None, int
    reduction=Mean) -> Tensor
    """
    # -log(sigmoid(x)) for a positive, x - log(sigmoid(x)) for a negative
    positive = -activation.log_sigmoid(self)
    if pos_weight is not None:
        positive = positive * ((pos_weight - 1.0) * target + 1.0)
    loss = (1.0 - target) * self + positive
    return reduce(loss if weight is None else loss * weight, reduction)


@aten("aten.kl_div.default")
def kl_div(
    context: Context, self: SymbolicTensor, target: SymbolicTensor, reduction: int = MEAN, *, log_target: bool = False
) -> Any:
    """kl_div(Tensor self, Tensor target, int reduction=Mean, *, bool log_target=False) -> Tensor"""
    self, target = operands(context, context.dtype, self, target)
    if log_target:
        return reduce(elementwise.exp(target) * (target - self), reduction)
    # 0 * log(0) is 0
    one = context.builder.constant(1.0, target.dtype)
    logarithm = elementwise.log(elementwise.where(comparison.equal(target, 0.0), one, target))
    return reduce(target * logarithm - target * self, reduction)


@aten("aten.soft_margin_loss.default")
def soft_margin_loss(context: Context, self: SymbolicTensor, target: SymbolicTensor, reduction: int = MEAN) -> Any:
    """soft_margin_loss(Tensor self, Tensor target, int reduction=Mean) -> Tensor"""
    self, target = operands(context, context.dtype, self, target)
    return reduce(elementwise.log1p(elementwise.exp(-target * self)), reduction)


@aten("aten.margin_ranking_loss.default")
def margin_ranking_loss(
    context: Context,
    input1: SymbolicTensor,
    input2: SymbolicTensor,
    target: SymbolicTensor,
    margin: float = 0.0,
    reduction: int = MEAN,
) -> Any:
    """margin_ranking_loss(Tensor input1, Tensor input2, Tensor target, float margin=0., int reduction=1) -> Tensor"""
    input1, input2, target = operands(context, context.dtype, input1, input2, target)
    return reduce(clamp_numbers(-target * (input1 - input2) + margin, 0.0, None), reduction)


@aten("aten.hinge_embedding_loss.default")
def hinge_embedding_loss(
    context: Context, self: SymbolicTensor, target: SymbolicTensor, margin: float = 1.0, reduction: int = MEAN
) -> Any:
    """hinge_embedding_loss(Tensor self, Tensor target, float margin=1., int reduction=Mean) -> Tensor"""
    self, target = operands(context, context.dtype, self, target)
    zero = context.builder.constant(0.0, self.dtype)
    beyond = clamp_numbers(margin - self, 0.0, None)
    dissimilar = elementwise.where(comparison.equal(target, 1.0), zero, beyond)
    similar = elementwise.where(comparison.equal(target, -1.0), zero, self)
    return reduce(dissimilar + similar, reduction)


@aten("aten.multilabel_margin_loss.default")
def multilabel_margin_loss(
    context: Context, self: SymbolicTensor, target: SymbolicTensor, reduction: int = MEAN
) -> Any:
    """multilabel_margin_loss(Tensor self, Tensor target, int reduction=Mean) -> Tensor

    The sum over classes y that are targets and classes i that aren't, of max(0, 1 - (x_y - x_i)) / number of classes.
    Targets end at the first -1. (torch's own decomposition also uses those after it.)
    """
    rows, classes = (1, *self.shape, 1)[:2] if self.ndim < 2 else self.shape
    x, labels = (shaping.reshape(t, shape=(rows, classes)) for t in (self, cast(target, INT64)))
    counts = scanning.cumprod(cast(comparison.greater_equal(labels, 0), x.dtype), axis=1)
    chosen = elementwise.where(comparison.greater(counts, 0.0), labels, context.builder.constant(0, INT64))
    numbers = context.builder.create(creation.arange, stop=classes, dtype=INT64)
    marks = comparison.equal(shaping.reshape(chosen, shape=(rows, classes, 1)), numbers)
    weights = shaping.reshape(counts, shape=(rows, classes, 1))
    other = 1.0 - reduction_ops.reduce_max(cast(marks, x.dtype) * weights, axes=(1,), keepdims=True)
    of_target = shaping.reshape(indexing.gather(x, chosen, axis=1), shape=(rows, classes, 1))
    gaps = rectifier.relu(1.0 - of_target + shaping.reshape(x, shape=(rows, 1, classes)))
    loss = reduction_ops.reduce_sum(gaps * weights * other, axes=(1, 2)) / classes
    return reduce(shaping.reshape(loss, shape=self.shape[:-1]), reduction)


@aten("aten.cosine_similarity.default")
def cosine_similarity(context: Context, x1: SymbolicTensor, x2: SymbolicTensor, dim: int = 1, eps: float = 1e-8) -> Any:
    """cosine_similarity(Tensor x1, Tensor x2, int dim=1, float eps=1e-08) -> Tensor"""
    x1, x2 = operands(context, at_least_float32(context.dtype), x1, x2)
    if x1.shape != x2.shape:  # norms are taken after broadcasting, which changes them along `dim`
        shape = broadcast_shapes(x1.shape, x2.shape)
        x1, x2 = (shaping.expand(x, shape=shape) for x in (x1, x2))
    directions = [x / elementwise.sqrt(_clamped_square(x, dim, eps)) for x in (x1, x2)]
    return cast(reduction_ops.reduce_sum(directions[0] * directions[1], axes=(dim,)), context.dtype)


def _clamped_square(x: SymbolicTensor, dim: int, eps: float) -> Any:
    """The squared norm along `dim`, at least `eps` squared."""
    return elementwise.clamp(reduction_ops.reduce_sum(x * x, axes=(dim,), keepdims=True), minimum=eps * eps)


def _difference(context: Context, a: SymbolicTensor, b: SymbolicTensor) -> Any:
    a, b = operands(context, context.dtype, a, b)
    return a - b


def reduce(loss: Any, how: int) -> Any:
    """Reduce the losses of the elements."""
    if how == NONE:
        return loss
    return reduction_ops.reduce_mean(loss) if how == MEAN else reduction_ops.reduce_sum(loss)
