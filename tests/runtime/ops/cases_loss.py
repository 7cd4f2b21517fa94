"""Cases of losses."""

from __future__ import annotations

from typing import Any

import numpy as np
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
]
