"""What a case of the op table is; `cases_<family>.py` list them, `test_all_ops.py` runs them all."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np


@dataclass(frozen=True)
class OpCase:
    """One application of an op and what torch says of it.

    Attributes:
        op: name in the registry.
        inputs: arrays (float64 for floating ones: the test casts them to other dtypes), None for an absent operand.
        attributes: of the op.
        torch: the same in torch, on tensors, returning a tensor or a tuple; None where torch has no counterpart.
        name: tells this case from others of the op.
        differentiable: whether gradients are compared too.
        skip_onnx: why this case isn't tried in ONNX Runtime ("" : it is).
        undifferentiated: positions of the floating-point inputs that get no gradient (None), by what the op means.
    """

    op: str
    inputs: tuple[np.ndarray[Any, Any] | None, ...]
    attributes: dict[str, Any] = field(default_factory=dict)
    torch: Callable[..., Any] | None = None
    name: str = ""
    differentiable: bool = True
    skip_onnx: str = ""
    undifferentiated: tuple[int, ...] = ()

    def __str__(self) -> str:
        return f"{self.op}-{self.name}" if self.name else self.op
