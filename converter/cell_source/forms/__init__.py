"""How each op is written: one table, filled family by family."""

from __future__ import annotations

from . import arithmetic, lookups, networks, normalization, random, recurrent, shapes
from .table import FORMS, Cannot, Operation, Several

GRADIENTS = "it stands in gradient programs only"

WITHOUT_FORM = {
    "adaptive_avg_pool_gradient": GRADIENTS,
    "avg_pool_gradient": GRADIENTS,
    "bitcast": "no module that is captured has it",
    "boundary": "it is where a call begins or ends",
    "by_value": "no module that is captured has it",
    "by_value_gradient": GRADIENTS,
    "conv_weight_gradient": GRADIENTS,
    "ctc_alphas": "no module that is captured has it",
    "ctc_loss": "no module that is captured has it",
    "ctc_loss_gradient": GRADIENTS,
    "gru_gradient": GRADIENTS,
    "lstm_gradient": GRADIENTS,
    "max_pool_gradient": GRADIENTS,
    "resize_gradient": GRADIENTS,
    "rnn_gradient": GRADIENTS,
}
"""The ops that can't be written, and why."""

__all__ = [
    "FORMS",
    "WITHOUT_FORM",
    "Cannot",
    "Operation",
    "Several",
    "arithmetic",
    "lookups",
    "networks",
    "normalization",
    "random",
    "recurrent",
    "shapes",
]
