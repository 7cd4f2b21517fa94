"""Cases of losses."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch.nn import functional

from tests.runtime.ops.cases import OpCase

_rng = np.random.default_rng(0)
_PROBABILITIES = _rng.uniform(0.05, 0.95, (3, 4))
_TARGETS = _rng.uniform(0.0, 1.0, (3, 4))


def _loss(x: Any, target: Any) -> Any:
    return functional.binary_cross_entropy(x, target, reduction="none")


CASES = [
    OpCase("binary_cross_entropy", (_PROBABILITIES, _TARGETS), {}, _loss, "soft"),
    OpCase("binary_cross_entropy", (_PROBABILITIES, np.round(_TARGETS)), {}, _loss, "hard"),
    OpCase(
        "binary_cross_entropy",
        (np.array([0.0, 1.0, 0.0, 1.0, 1e-9]), np.array([0.0, 1.0, 1.0, 0.0, 0.5])),
        {},
        _loss,
        "certain",
        differentiable=False,
    ),
    OpCase("class_index", (np.array([[2, 0], [1, 2]]),), {"classes": 3}, lambda target: target, "plain"),
    OpCase(
        "class_index",
        (np.array([2, -100, 0, -100]),),
        {"classes": 3, "ignore_index": -100},
        lambda target: torch.where(target == -100, 0, target),
        "ignored",
    ),
]
