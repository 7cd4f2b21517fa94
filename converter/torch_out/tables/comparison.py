"""Comparison, logic and bits."""

from __future__ import annotations

import operator
from typing import Any

from .table import torch_function

OPERATORS: dict[str, Any] = {
    "equal": operator.eq,
    "not_equal": operator.ne,
    "less": operator.lt,
    "less_equal": operator.le,
    "greater": operator.gt,
    "greater_equal": operator.ge,
    "bitwise_and": operator.and_,
    "bitwise_or": operator.or_,
    "bitwise_xor": operator.xor,
    "left_shift": operator.lshift,
    "right_shift": operator.rshift,
}
for _op, _function in OPERATORS.items():
    torch_function(_op, _function, numbers=True)
torch_function("bitwise_not", operator.invert)
