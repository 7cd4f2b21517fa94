"""Sequences of different lengths in one tensor: reversal, and greedy CTC decoding. See `ctc` for the loss."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..common.dtype import int64
from ..common.tensor import from_array
from ..ops import elementwise, indexing, shaping
from ..ops import reduction as reduction_ops
from ..ops.common import normalize_axis
from .arguments import integer, known_elements, require_integers
from .operands import as_tensor, require_floating
from .public_op import Primitive, public_op


@public_op(method="reverse_sequence", primitive=Primitive("ReverseSequence", init_args=("seq_dim", "batch_dim")))
def reverse_sequence(x: Any, seq_lengths: Any, seq_dim: int, batch_dim: int = 0) -> Any:
    """Reverse the first `seq_lengths[i]` slices along `seq_dim` of each item i of a batch.

    Raises:
        TypeError: an axis isn't an int, or the lengths aren't integers.
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
    values = known_elements(lengths, f"the lengths of '{of}'")
    size = tensor.shape[steps]
    if values.size and not (values.min() >= 0 and values.max() <= size):
        raise RuntimeError(f"For '{of}', 'seq_lengths' must lie in [0, {size}], but got {values.tolist()}")
    positions = np.arange(size)
    order = np.where(positions < values[:, None], values[:, None] - 1 - positions, positions)  # (batch, steps)
    shape = tuple(n if axis in (batch, steps) else 1 for axis, n in enumerate(tensor.shape))
    index = (order if batch < steps else order.T).reshape(shape)
    return indexing.gather(tensor, from_array(np.broadcast_to(index, tensor.shape).astype(int64)), axis=steps)


def _lengths(value: Any, name: str, count: int, most: int, *, of: str) -> np.ndarray[Any, Any]:
    lengths = known_elements(require_integers(as_tensor(value, name, of=of), name, of=of), name).astype(np.int64)
    if lengths.shape != (count,) or (count and not (lengths.min() >= 0 and lengths.max() <= most)):
        raise ValueError(
            f"For '{of}', '{name}' must hold {count} integers from 0 to {most}, but got {lengths.tolist()}"
        )
    return lengths


@public_op(primitive=Primitive("CTCGreedyDecoder", init_args=("merge_repeated",)))
def ctc_greedy_decoder(inputs: Any, sequence_length: Any, merge_repeated: bool = True) -> tuple[Any, Any, Any, Any]:
    """Greedy CTC decoding: the most likely class of each step, without blanks; the last class is the blank.

    Args:
        inputs: (T, N, C), scores of C classes at each step.
        sequence_length: N integers: the number of valid steps.
        merge_repeated: whether to merge successive steps of the same class.

    Returns:
        Coordinates (count, 2) of the labels in a matrix with a row for each sequence, the labels (count), the size of
        that matrix (2), all int64; and minus the sum of the scores chosen in each sequence, (N, 1).
    """
    of = "ctc_greedy_decoder"
    x = require_floating(inputs, "inputs", of=of)
    if x.ndim != 3:
        raise ValueError(f"For '{of}', 'inputs' must have 3 dimensions, but got shape {tuple(x.shape)}")
    steps, batch, classes = x.shape
    durations = _lengths(sequence_length, "sequence_length", batch, steps, of=of)
    counted = np.arange(steps)[:, None] < durations
    best = np.argmax(known_elements(x, "the scores"), axis=2)
    kept = counted & (best != classes - 1)
    if merge_repeated:
        kept[1:] &= best[1:] != best[:-1]
    rows = [best[kept[:, i], i] for i in range(batch)]
    places = [(i, j) for i, row in enumerate(rows) for j in range(len(row))]
    scores = reduction_ops.reduce_max(x, axes=(2,)) * from_array(counted.astype(x.dtype))
    return (
        from_array(np.array(places, np.int64).reshape(-1, 2)),
        from_array(np.concatenate([*rows, np.zeros(0)]).astype(np.int64)),
        from_array(np.array([batch, max(map(len, rows), default=0)])),
        shaping.reshape(elementwise.neg(reduction_ops.reduce_sum(scores, axes=(0,))), shape=(batch, 1)),
    )
