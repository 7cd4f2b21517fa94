"""How each op is written: one table, filled family by family."""

from __future__ import annotations

from . import arithmetic, lookups, networks, normalization, random, recurrent, shapes
from .table import FORMS, Cannot, Operation, Several

GRADIENTS = "it stands in gradient programs only"

CONTROL = "branches and loops aren't written as source"
FOUND_SIZE = "a size that the run finds isn't written as source"
GROUPED = "products by group have no operator there"

WITHOUT_FORM = {
    "adaptive_avg_pool_gradient": GRADIENTS,
    "avg_pool_gradient": GRADIENTS,
    "bitcast": "no module that is captured has it",
    "boundary": "it is where a call begins or ends",
    "by_value": "no module that is captured has it",
    "by_value_gradient": GRADIENTS,
    "cond": CONTROL,
    "conv_weight_gradient": GRADIENTS,
    "ctc_alphas": "no module that is captured has it",
    "ctc_loss": "no module that is captured has it",
    "ctc_loss_gradient": GRADIENTS,
    "grouped_matmul": GROUPED,
    "grouped_outer": GRADIENTS,
    "gru_gradient": GRADIENTS,
    "loop": CONTROL,
    "lstm_gradient": GRADIENTS,
    "max_pool_gradient": GRADIENTS,
    "nonzero": FOUND_SIZE,
    "read_sizes": FOUND_SIZE,
    "resize_gradient": GRADIENTS,
    "rnn_gradient": GRADIENTS,
    "scan": CONTROL,
    "unique": FOUND_SIZE,
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
