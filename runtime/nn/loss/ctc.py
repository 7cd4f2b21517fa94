"""The loss of connectionist temporal classification."""

from __future__ import annotations

from typing import Any

from ... import checks
from ...functional.ctc import ctc_loss_value
from ...functional.operands import as_tensor
from ...ops import shaping
from .loss import LossBase


class CTCLoss(LossBase):
    """Minus the logarithm of the probability of sequences of classes (Graves et al. 2006); see `ops.ctc_loss`.

    Args:
        blank: the blank class.
        reduction: "mean" (of the losses divided by the lengths of their targets), "sum" or "none".
        zero_infinity: whether the loss is 0 rather than infinite where the target doesn't fit into the sequence.

    Inputs:
        log_probs: logarithms of the probabilities of classes, (time, batch, classes), or without batch (time, classes).
        targets: classes, integers (batch, length), or (length,).
        input_lengths: the lengths of the sequences, integers (batch,); without batch one number.
        target_lengths: the lengths of the targets, likewise.

    Outputs:
        0-d; for "none" (batch,), 0-d without batch.

    Raises:
        TypeError: an argument has a wrong type; at a call, an input has another dtype.
        ValueError: `reduction` is unknown; at a call, a shape doesn't fit, or a length or class is out of range.
    """

    def __init__(self, blank: int = 0, reduction: str = "mean", zero_infinity: bool = False) -> None:
        super().__init__(reduction)
        self.blank = checks.of_type(blank, "blank", int, of="CTCLoss")
        self.zero_infinity = checks.of_type(zero_infinity, "zero_infinity", bool, of="CTCLoss")

    def construct(self, log_probs: Any, targets: Any, input_lengths: Any, target_lengths: Any) -> Any:
        """(time, batch, classes), (batch, length), (batch,) and (batch,). See the class."""
        x, classes = as_tensor(log_probs, "log_probs", of="CTCLoss"), as_tensor(targets, "targets", of="CTCLoss")
        is_unbatched = x.ndim == 2
        if is_unbatched:
            x = shaping.reshape(x, shape=(x.shape[0], 1, x.shape[1]))
            classes = classes if classes.ndim == 2 else shaping.reshape(classes, shape=(1, *classes.shape))
        loss = ctc_loss_value(x, classes, input_lengths, target_lengths, self.blank, self.reduction, self.zero_infinity)
        return shaping.reshape(loss, shape=()) if is_unbatched else loss

    def extend_repr(self) -> str:
        """The arguments."""
        return f"blank={self.blank}, reduction={self.reduction}, zero_infinity={self.zero_infinity}"
