"""Losses."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F

from ...rows import Row
from ..calls import functions
from .table import Context, no_torch_form, pass_on, torch_form


@torch_form("class_index")
def _(context: Context, target: Any, *, classes: int, ignore_index: int | None) -> Any:
    """The lookup raises for an index that isn't a class."""
    return target if ignore_index is None else context.call(torch.where, target == ignore_index, 0, target)


@torch_form("ctc_loss_with_alphas")
def _(context: Context, log_probs: Any, targets: Any, input_lengths: Any, target_lengths: Any, *, blank: int) -> Any:
    lengths = (input_lengths, target_lengths)
    loss = context.call(F.ctc_loss, log_probs, targets, *lengths, blank=blank, reduction="none")
    return loss, context.call(functions.ctc_alphas, log_probs, targets, target_lengths, blank)


no_torch_form(
    "ctc_loss_gradient",
    "torch computes it in the backward pass of the loss alone",
)


ROWS: dict[str, Row] = {
    "binary_cross_entropy": (F.binary_cross_entropy, 'x, target, reduction="none"'),
    "ctc_loss": (F.ctc_loss, 'log_probs, targets, input_lengths, target_lengths, blank=blank, reduction="none"'),
}
pass_on(ROWS)
