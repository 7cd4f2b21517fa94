"""Sequences of different lengths in one tensor: reversal, and labels aligned to them (CTC)."""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import checks
from ..common.dtype import int64
from ..common.tensor import wrapped
from ..ops import comparison, elementwise, indexing, padding, shaping
from ..ops import reduction as reduction_ops
from ..ops.common import normalize_axis
from .arguments import concrete, integer, require_integers
from .joining import stack, unstack
from .operands import as_tensor, floating
from .spelling import Primitive, spelled


@spelled(method="reverse_sequence", primitive=Primitive("ReverseSequence", made_with=("seq_dim", "batch_dim")))
def reverse_sequence(x: Any, seq_lengths: Any, seq_dim: int, batch_dim: int = 0) -> Any:
    """Each item of a batch with its first `seq_lengths[i]` slices along `seq_dim` reversed.

    Raises:
        TypeError: an axis is no int or the lengths are no integers.
        ValueError: the axes are the same or out of range, or there isn't a length for each item.
        RuntimeError: a length is negative or above the size of the axis.
    """
    of = "reverse_sequence"
    tensor = as_tensor(x, "x", of=of)
    lengths = require_integers(seq_lengths, "seq_lengths", of=of)
    steps, batch = (
        normalize_axis(integer(axis, name, of=of), tensor.ndim)
        for axis, name in ((seq_dim, "seq_dim"), (batch_dim, "batch_dim"))
    )
    if steps == batch:
        raise ValueError(f"For '{of}', 'seq_dim' and 'batch_dim' must differ, but got {seq_dim} and {batch_dim}")
    if tuple(lengths.shape) != (tensor.shape[batch],):
        raise ValueError(
            f"For '{of}', needed a length for each of {tensor.shape[batch]} items, but got {lengths.shape}"
        )
    values = concrete(lengths, f"the lengths of '{of}'")
    size = tensor.shape[steps]
    if values.size and not (values.min() >= 0 and values.max() <= size):
        raise RuntimeError(f"For '{of}', 'seq_lengths' must lie in [0, {size}], but got {values.tolist()}")
    place = np.arange(size)
    order = np.where(place < values[:, None], values[:, None] - 1 - place, place)  # (batch, steps)
    shape = tuple(n if axis in (batch, steps) else 1 for axis, n in enumerate(tensor.shape))
    index = (order if batch < steps else order.T).reshape(shape)
    return indexing.gather(tensor, wrapped(np.broadcast_to(index, tensor.shape).astype(int64)), axis=steps)


_NOWHERE = -1e30  # in place of minus infinity, around which differences are NaN


@spelled(
    primitive=Primitive("CTCLossV2", made_with=("blank", "reduction", "zero_infinity"), defaults={"reduction": "none"})
)
def ctc_loss(
    log_probs: Any,
    targets: Any,
    input_lengths: Any,
    target_lengths: Any,
    blank: int = 0,
    reduction: str = "mean",
    zero_infinity: bool = False,
) -> tuple[Any, Any]:
    """Minus the log-probability of label sequences under all their alignments (Graves et al., "Connectionist Temporal
    Classification", 2006).

    Args:
        log_probs: (T, N, C), logarithms of the probabilities of C classes at each step.
        targets: (N, S), integers: the labels, none of them `blank`.
        input_lengths: N integers: how many steps count.
        target_lengths: N integers: how many labels count.
        blank: the class for no label.
        reduction: "none", "sum", or "mean": each loss is divided by the number of its labels first.
        zero_infinity: whether the loss is 0 where there are too few steps for the labels, instead of infinite.

    Returns:
        The loss, and the log-probabilities of the beginnings of all alignments, (N, T, 2 S + 1).

    Raises:
        TypeError: an operand is of another dtype.
        ValueError: a shape doesn't fit, a length or label is out of range, or `reduction` is another.
    """
    of = "ctc_loss"
    x = floating(log_probs, "log_probs", of=of)
    labels = require_integers(as_tensor(targets, "targets", of=of), "targets", of=of)
    checks.one_of(reduction, "reduction", ("mean", "sum", "none"), of=of)
    if x.ndim != 3 or labels.ndim != 2 or labels.shape[0] != x.shape[1]:
        raise ValueError(f"For '{of}', 'log_probs' {tuple(x.shape)} and 'targets' {tuple(labels.shape)} don't fit")
    steps, batch, classes = x.shape
    if not 0 <= integer(blank, "blank", of=of) < classes:
        raise ValueError(f"For '{of}', 'blank' must lie in [0, {classes}), but got {blank}")
    durations = _lengths(input_lengths, "input_lengths", batch, steps, of=of)
    counts = _lengths(target_lengths, "target_lengths", batch, labels.shape[1], of=of)

    states = np.full((batch, 2 * labels.shape[1] + 1), blank)  # labels with blanks between and around them
    states[:, 1::2] = concrete(labels, "the labels")
    if states.size and not (states.min() >= 0 and states.max() < classes):
        raise ValueError(f"For '{of}', 'targets' must lie in [0, {classes}), but got {states.min()} to {states.max()}")
    skips = np.zeros(states.shape, bool)  # whether the blank before a label may be left out
    skips[:, 3::2] = states[:, 3::2] != states[:, 1:-2:2]
    emitted = unstack(indexing.gather(x, wrapped(np.broadcast_to(states, (steps, *states.shape)).copy()), axis=2))

    nowhere = np.asarray(_NOWHERE, x.dtype)
    first = wrapped(np.broadcast_to(np.arange(states.shape[1]) < 2, states.shape).copy())
    alphas = [elementwise.where(first, emitted[0], nowhere)]
    for t in range(1, steps):
        before = alphas[-1]
        ways = stack([
            before, _moved(before, 1), elementwise.where(wrapped(skips), _moved(before, 2), nowhere),
        ])  # fmt: skip
        reached = emitted[t] + reduction_ops.logsumexp(ways, axes=(0,))
        reached = elementwise.clamp(reached, minimum=_NOWHERE)
        alphas.append(elementwise.where(wrapped((t < durations)[:, None]), reached, before))
    ends = np.stack([2 * counts, np.maximum(2 * counts - 1, 0)], 1)
    last = indexing.gather(alphas[-1], wrapped(ends), axis=1)
    last = elementwise.where(wrapped(np.stack([counts >= 0, counts > 0], 1)), last, nowhere)
    loss = elementwise.neg(reduction_ops.logsumexp(last, axes=(1,)))
    impossible = comparison.greater(loss, np.asarray(-_NOWHERE / 2, x.dtype))
    loss = elementwise.where(impossible, np.asarray(0 if zero_infinity else np.inf, x.dtype), loss)
    if reduction == "sum":
        loss = reduction_ops.reduce_sum(loss)
    elif reduction == "mean":
        loss = reduction_ops.reduce_mean(loss / wrapped(np.maximum(counts, 1).astype(x.dtype)))
    history = stack(alphas, 1)
    unreached = comparison.less(history, np.asarray(_NOWHERE / 2, x.dtype))
    return loss, elementwise.where(unreached, np.asarray(-np.inf, x.dtype), history)


def _moved(alpha: Any, by: int) -> Any:
    """(N, states) moved by a number of states towards the end."""
    if alpha.shape[1] < by:
        return alpha * 0.0 + _NOWHERE
    return padding.pad(alpha, before=(0, by), after=(0, -by), value=_NOWHERE)


def _lengths(given: Any, name: str, count: int, most: int, *, of: str) -> np.ndarray[Any, Any]:
    lengths = concrete(require_integers(as_tensor(given, name, of=of), name, of=of), name).astype(np.int64)
    if lengths.shape != (count,) or (count and not (lengths.min() >= 0 and lengths.max() <= most)):
        raise ValueError(
            f"For '{of}', '{name}' must hold {count} integers from 0 to {most}, but got {lengths.tolist()}"
        )
    return lengths


@spelled(primitive=Primitive("CTCGreedyDecoder", made_with=("merge_repeated",)))
def ctc_greedy_decoder(inputs: Any, sequence_length: Any, merge_repeated: bool = True) -> tuple[Any, Any, Any, Any]:
    """The likeliest class of each step, without the last class, which is the blank.

    Args:
        inputs: (T, N, C), scores of C classes at each step.
        sequence_length: N integers: how many steps count.
        merge_repeated: whether a class of several steps in a row counts once.

    Returns:
        Coordinates (count, 2) of the labels in a matrix with a row for each sequence, the labels (count), the size of
        that matrix (2), all int64; and minus the sum of the scores chosen in each sequence, (N, 1).
    """
    of = "ctc_greedy_decoder"
    x = floating(inputs, "inputs", of=of)
    if x.ndim != 3:
        raise ValueError(f"For '{of}', 'inputs' must have 3 dimensions, but got shape {tuple(x.shape)}")
    steps, batch, classes = x.shape
    durations = _lengths(sequence_length, "sequence_length", batch, steps, of=of)
    counted = np.arange(steps)[:, None] < durations
    best = np.argmax(concrete(x, "the scores"), axis=2)
    kept = counted & (best != classes - 1)
    if merge_repeated:
        kept[1:] &= best[1:] != best[:-1]
    rows = [best[kept[:, i], i] for i in range(batch)]
    places = [(i, j) for i, row in enumerate(rows) for j in range(len(row))]
    scores = reduction_ops.reduce_max(x, axes=(2,)) * wrapped(counted.astype(x.dtype))
    return (
        wrapped(np.array(places, np.int64).reshape(-1, 2)),
        wrapped(np.concatenate([*rows, np.zeros(0)]).astype(np.int64)),
        wrapped(np.array([batch, max(map(len, rows), default=0)])),
        shaping.reshape(elementwise.neg(reduction_ops.reduce_sum(scores, axes=(0,))), shape=(batch, 1)),
    )
