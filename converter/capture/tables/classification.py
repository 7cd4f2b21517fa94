"""ATen cross entropy and negative log likelihood. Reductions: none (0), mean (1), sum (2)."""

from __future__ import annotations

from typing import Any

from ....runtime.ir.types import INT64, is_floating
from ....runtime.ops import activation, boundary, comparison, elementwise, indexing, linear, reduction, shaping
from ....runtime.tracing import SymbolicTensor
from ...rows import Row
from ...unsupported import Unsupported
from .loss import MEAN, NONE, SUM, reduce
from .table import Context, aten, cast, pass_on


@aten("aten.cross_entropy_loss.default")
def cross_entropy_loss(
    context: Context, self: SymbolicTensor, target: SymbolicTensor, weight: Any = None, reduction: int = MEAN,
    ignore_index: int = -100, label_smoothing: float = 0.0,
) -> Any:  # fmt: skip
    """cross_entropy_loss(Tensor self, Tensor target, Tensor? weight=None, int reduction=Mean, SymInt
        ignore_index=-100, float label_smoothing=0.0) -> Tensor

    The target holds class indices, or a probability for each class; the class axis of `self` is 1 (0 without a batch).
    """
    log_probabilities = activation.log_softmax(self, axis=_class_axis(self))
    if is_floating(target.dtype):
        return _class_probability_loss(log_probabilities, cast(target, self.dtype), weight, reduction, label_smoothing)
    return _class_index_loss(context, log_probabilities, target, weight, reduction, ignore_index, label_smoothing)[0]


@aten("aten.nll_loss_nd.default", "aten.nll_loss.default", "aten.nll_loss2d.default")
def nll_loss(
    context: Context,
    self: SymbolicTensor,
    target: SymbolicTensor,
    weight: Any = None,
    reduction: int = MEAN,
    ignore_index: int = -100,
) -> Any:
    """nll_loss_nd(Tensor self, Tensor target, Tensor? weight=None, int reduction=Mean, SymInt ignore_index=-100) ->
    Tensor
    """
    return _class_index_loss(context, self, target, weight, reduction, ignore_index, 0.0)[0]


@aten("torch_nn._linear_cross_entropy_batch_chunked.default")
def linear_cross_entropy(
    context: Context, input: SymbolicTensor, linear_weight: SymbolicTensor, target: SymbolicTensor, linear_bias: Any,
    weight: Any,
    reduction: str, ignore_index: int, label_smoothing: float, batch_chunk_size: int, acc_policy: str, acc_dtype: Any,
    *computed: bool,
) -> Any:  # fmt: skip
    """_linear_cross_entropy_batch_chunked(Tensor input, Tensor linear_weight, Tensor target, Tensor? linear_bias,
    Tensor? weight, str reduction, SymInt ignore_index, float label_smoothing, SymInt batch_chunk_size, str acc_policy,
    ScalarType acc_dtype, bool allow_retain_graph, bool compute_input_grad, bool compute_linear_weight_grad, bool
    compute_linear_bias_grad) -> (Tensor, Tensor, Tensor, Tensor)

    The loss of `torch.nn.functional.linear_cross_entropy` with `options`, which torch computes chunk by chunk of the
    batch, together with its gradients, which are the other results.
    """
    if label_smoothing or any(context.used[1:]):
        raise Unsupported("for its gradients, or with label smoothing")
    how = {"mean": MEAN, "sum": SUM}[reduction]
    return _of_linear(context, input, linear_weight, target, linear_bias, weight, how, ignore_index, acc_dtype), *(
        (None,) * 3
    )


@aten("torch_nn._linear_cross_entropy_batch_chunked_no_reduction.default")
def linear_cross_entropy_of_each(
    context: Context, input: SymbolicTensor, linear_weight: SymbolicTensor, target: SymbolicTensor, linear_bias: Any,
    weight: Any,
    ignore_index: int, batch_chunk_size: int, acc_policy: str, acc_dtype: Any,
) -> Any:  # fmt: skip
    """_linear_cross_entropy_batch_chunked_no_reduction(Tensor input, Tensor linear_weight, Tensor target, Tensor?
    linear_bias, Tensor? weight, SymInt ignore_index, SymInt batch_chunk_size, str acc_policy, ScalarType acc_dtype) ->
    Tensor
    """
    return _of_linear(context, input, linear_weight, target, linear_bias, weight, NONE, ignore_index, acc_dtype)


def _of_linear(
    context: Context, x: SymbolicTensor, linear_weight: SymbolicTensor, target: SymbolicTensor, bias: Any, weight: Any,
    how: int, ignored: int,
    dtype: Any,
) -> Any:  # fmt: skip
    """The cross entropy of a linear layer's results, computed in `dtype`; torch has no gradient for the weights."""
    bias = None if bias is None else cast(bias, dtype)
    weight = None if weight is None else boundary.stop_gradient(cast(weight, dtype))
    log_p = activation.log_softmax(linear.linear(cast(x, dtype), cast(linear_weight, dtype), bias), axis=1)
    return cast(_class_index_loss(context, log_p, target, weight, how, ignored, 0.0)[0], context.dtype)


def _class_axis(x: SymbolicTensor) -> int:
    return 1 if x.ndim > 1 else 0


def _class_probability_loss(log_p: Any, target: SymbolicTensor, weight: Any, how: int, smoothing: float) -> Any:
    """The loss for target probabilities; smoothing mixes them with a uniform distribution."""
    axis = _class_axis(log_p)
    weighted = log_p if weight is None else log_p * _reshape_along(weight, log_p, axis)
    loss = -reduction.reduce_sum(target * weighted, axes=(axis,))
    if smoothing:
        loss = loss * (1.0 - smoothing) - reduction.reduce_mean(weighted, axes=(axis,)) * smoothing
    return reduce(loss, how)


def _class_index_loss(
    context: Context, log_p: Any, target: SymbolicTensor, weight: Any, how: int, ignored: int, smoothing: float
) -> tuple[Any, Any]:
    """The loss for class indices and, for a mean, the sum of weights that it is divided by."""
    axis = _class_axis(log_p)
    zero = context.builder.constant(0.0, log_p.dtype)
    counts = comparison.not_equal(target, ignored)
    classes = elementwise.where(counts, target, context.builder.constant(0, target.dtype))
    share = cast(counts, log_p.dtype)
    if weight is not None:
        share = elementwise.where(counts, indexing.take(weight, classes, axis=0), zero)
    places = shaping.reshape(classes, shape=(*log_p.shape[:axis], 1, *log_p.shape[axis + 1 :]))
    chosen = shaping.reshape(indexing.gather(log_p, cast(places, INT64), axis=axis), shape=target.shape)
    loss = -elementwise.where(counts, chosen * share, zero)
    if smoothing:
        weighted = log_p if weight is None else log_p * _reshape_along(weight, log_p, axis)
        spread = shaping.reshape(reduction.reduce_mean(weighted, axes=(axis,)), shape=target.shape)
        loss = loss * (1.0 - smoothing) - elementwise.where(counts, spread * smoothing, zero)
    if how == NONE:
        return loss, None
    total = reduction.reduce_sum(loss)
    if how == SUM:
        return total, None
    total_weight = reduction.reduce_sum(share)
    return total / total_weight, total_weight


def _reshape_along(weight: SymbolicTensor, x: SymbolicTensor, axis: int) -> Any:
    """A vector (classes,) reshaped to broadcast along the class axis of `x`."""
    return shaping.reshape(weight, shape=(weight.shape[0], *(1,) * (x.ndim - axis - 1)))


ROWS: dict[str, Row] = {
    "aten.nll_loss_forward.default": (
        _class_index_loss,
        "context, self, target, weight, reduction, ignore_index, 0.0",
    ),
    "aten.nll_loss2d_forward.default": (
        _class_index_loss,
        "context, self, target, weight, reduction, ignore_index, 0.0",
    ),
}
pass_on(ROWS)
