"""Connectionist temporal classification (CTC): a loss for sequences of classes without alignment in time."""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import checks
from ..common.dtype import int64
from ..common.tensor import is_known
from ..ops import comparison, ctc, elementwise, shaping
from .arguments import require_integers
from .losses import reduce_loss
from .operands import as_tensor, require_floating
from .public_op import Primitive, public_op


@public_op(
    primitive=Primitive(
        "CTCLossV2", init_args=("blank", "reduction", "zero_infinity"), defaults={"reduction": "none"}
    )
)  # fmt: skip
def ctc_loss(
    log_probs: Any, targets: Any, input_lengths: Any, target_lengths: Any, blank: int = 0, reduction: str = "mean",
    zero_infinity: bool = False,
) -> tuple[Any, Any]:  # fmt: skip
    """CTC loss: minus the logarithm of the probability of `targets` (Graves et al. 2006; ATen `ctc_loss`), reduced.

    Args:
        log_probs: logarithms of the probabilities of classes, (time, batch, classes), floating-point.
        targets: classes, integers (batch, length); elements beyond the length of a target are ignored.
        input_lengths: the lengths of the sequences, integers: a tensor (batch,), a tuple or a list.
        target_lengths: the lengths of the targets, likewise.
        blank: the blank class.
        reduction: "none"; "sum"; or "mean", of the losses divided by the lengths of their targets (at least 1).
        zero_infinity: whether a loss is 0, instead of infinite, where the target doesn't fit into the sequence. The
            gradient is 0 in both cases.

    Returns:
        The loss, (batch,) or 0-d; and the logarithms of the forward variables (the probabilities of all prefixes of
        paths), (batch, time, 2 * length + 1), which have no gradient.

    Raises:
        TypeError: `log_probs` isn't floating-point, lengths or targets aren't integers, or a flag isn't a bool.
        ValueError: a shape doesn't fit, a length or class is out of range, or `reduction` is unknown.
    """
    x, classes, ends = _check_operands(log_probs, targets, input_lengths, target_lengths, blank)
    loss = _loss(x, classes, *ends, blank, reduction, zero_infinity)
    _, alphas = ctc.ctc_loss_with_alphas(x, classes, *ends, blank=blank)
    return loss, elementwise.cast(shaping.transpose(alphas, permutation=(1, 0, 2)), dtype=x.dtype)


def ctc_loss_value(
    log_probs: Any, targets: Any, input_lengths: Any, target_lengths: Any, blank: int, reduction: str,
    zero_infinity: bool,
) -> Any:  # fmt: skip
    """The first result of `ctc_loss`."""
    x, classes, ends = _check_operands(log_probs, targets, input_lengths, target_lengths, blank)
    return _loss(x, classes, *ends, blank, reduction, zero_infinity)


def _loss(
    x: Any, targets: Any, input_lengths: Any, target_lengths: Any, blank: int, reduction: str, zero_infinity: bool
) -> Any:
    of = "ctc_loss"
    loss = ctc.ctc_loss(x, targets, input_lengths, target_lengths, blank=blank)
    if checks.of_type(zero_infinity, "zero_infinity", bool, of=of):
        loss = elementwise.where(comparison.isinf(loss), np.zeros((), x.dtype), loss)
    if reduction == "mean":
        lengths = elementwise.maximum(elementwise.cast(target_lengths, dtype=x.dtype), np.ones((), x.dtype))
        loss = loss / lengths
    return reduce_loss(loss, reduction, of=of)


def _check_operands(
    log_probs: Any, targets: Any, input_lengths: Any, target_lengths: Any, blank: Any
) -> tuple[Any, Any, tuple[Any, Any]]:
    """Check the operands, and return log-probabilities, targets, and the lengths of both."""
    of = "ctc_loss"
    x = require_floating(log_probs, "log_probs", of=of)
    classes = require_integers(as_tensor(targets, "targets", of=of), "targets", of=of)
    checks.of_type(blank, "blank", int, of=of)
    if x.ndim != 3 or classes.ndim != 2 or classes.shape[0] != x.shape[1]:
        raise ValueError(
            f"For '{of}', needed 'log_probs' (time, batch, classes) and 'targets' (batch, length), but got "
            f"{tuple(x.shape)} and {tuple(classes.shape)}"
        )
    if not 0 <= blank < x.shape[2]:
        raise ValueError(f"For '{of}', 'blank' must be in [0, {x.shape[2]}), but got {blank}")
    ends = (
        _lengths(input_lengths, "input_lengths", x.shape[1], x.shape[0]),
        _lengths(target_lengths, "target_lengths", x.shape[1], classes.shape[1]),
    )
    if is_known(classes) and is_known(ends[1]):
        inside = np.arange(classes.shape[1]) < np.asarray(ends[1])[:, None]
        wrong = inside & ((np.asarray(classes) < 0) | (np.asarray(classes) >= x.shape[2]))
        if wrong.any():
            index = tuple(int(i) for i in np.argwhere(wrong)[0])
            raise ValueError(
                f"For '{of}', 'targets' must hold classes in [0, {x.shape[2]}), but got {np.asarray(classes)[index]} "
                f"at position {index}"
            )
    return x, classes, ends


def _lengths(value: Any, name: str, count: Any, most: Any) -> Any:
    of = "ctc_loss"
    lengths = require_integers(as_tensor(value, name, of=of), name, of=of)
    lengths = lengths if lengths.ndim else shaping.reshape(lengths, shape=(1,))
    if tuple(lengths.shape) != (count,):
        raise ValueError(f"For '{of}', '{name}' must hold {count} lengths, but got shape {tuple(lengths.shape)}")
    if is_known(lengths):
        values = np.asarray(lengths)
        if values.size and not (values.min() >= 0 and values.max() <= most):
            raise ValueError(f"For '{of}', '{name}' must be in [0, {most}], but got {values.tolist()}")
    return lengths if lengths.dtype == int64 else elementwise.cast(lengths, dtype=int64)
