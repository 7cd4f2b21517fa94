"""ATen connectionist temporal classification."""

from __future__ import annotations

from typing import Any

from ....runtime.ir.dims import Dim
from ....runtime.ir.types import INT64
from ....runtime.ops import comparison, creation, ctc, elementwise, indexing, scanning, shaping
from ....runtime.tracing import SymbolicTensor
from .loss import MEAN, reduce
from .table import Context, aten, cast


@aten("aten.ctc_loss.IntList", "aten.ctc_loss.Tensor")
def ctc_loss(
    context: Context,
    log_probs: SymbolicTensor,
    targets: SymbolicTensor,
    input_lengths: Any,
    target_lengths: Any,
    blank: int = 0,
    reduction: int = MEAN,
    zero_infinity: bool = False,
) -> Any:
    """ctc_loss(Tensor log_probs, Tensor targets, Tensor input_lengths, Tensor target_lengths, int blank=0,
    int reduction=Mean, bool zero_infinity=False) -> Tensor

    Lengths are tensors or lists of int. For one sequence, `log_probs` may be (time, classes). Targets are
    (batch, length) or concatenated in a vector.
    """
    single = log_probs.ndim == 2
    if single:
        log_probs = shaping.reshape(log_probs, shape=(log_probs.shape[0], 1, log_probs.shape[1]))
    batch = log_probs.shape[1]
    steps, lengths = (_vector(context, vector) for vector in (input_lengths, target_lengths))
    longest = max(target_lengths, default=0) if isinstance(target_lengths, (list, tuple)) else None
    classes = cast(targets, INT64)
    if targets.ndim == 1:
        classes = _rows(context, classes, lengths, batch, targets.shape[0] if longest is None else longest)
    loss = ctc.ctc_loss(log_probs, classes, steps, lengths, blank=blank)
    if zero_infinity:
        loss = elementwise.where(comparison.isinf(loss), context.builder.constant(0.0, loss.dtype), loss)
    if reduction == MEAN:
        loss = loss / elementwise.clamp(cast(lengths, loss.dtype), minimum=1.0)
    return shaping.reshape(loss, shape=()) if single else reduce(loss, reduction)


def _vector(context: Context, lengths: Any) -> Any:
    """The lengths of the sequences or targets, int64 (batch,)."""
    if not isinstance(lengths, SymbolicTensor):
        return context.builder.constant(list(lengths), INT64)
    whole = cast(lengths, INT64)
    return whole if whole.ndim else shaping.reshape(whole, shape=(1,))


def _rows(context: Context, vector: SymbolicTensor, lengths: Any, batch: Dim, longest: Dim) -> Any:
    """Concatenated targets as rows of a matrix; elements after the end of a target are arbitrary."""
    size = vector.shape[0]
    if size == 0:
        return shaping.reshape(vector, shape=(batch, 0))
    begins = shaping.reshape(scanning.cumsum(lengths, axis=0) - lengths, shape=(batch, 1))
    places = begins + context.builder.create(creation.arange, stop=longest, dtype=INT64)
    last = context.builder.create(creation.full, shape=(), value=size - 1, dtype=INT64)
    return indexing.take(vector, elementwise.minimum(places, last), axis=0)
