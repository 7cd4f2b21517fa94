from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from cellbridge.runtime import ops
from tests.runtime.functional.judging import require_agreement

X = np.array([0.5, -1.5, 2.0])


def test_agreement_is_found() -> None:
    require_agreement(lambda x: (ops.exp(x), ops.abs(x)), lambda x: (torch.exp(x), torch.abs(x)), X)


@pytest.mark.parametrize(
    "wrong",
    [
        lambda x: ops.exp(x) + 1e-6,
        lambda x: ops.exp(x).reshape(3, 1),
        lambda x: (ops.exp(x), x),
        lambda x: ops.exp(ops.stop_gradient(x)) + 0.0 * x,
        lambda x: ops.exp(x) + 1e-6 * (x - ops.stop_gradient(x)),
    ],
    ids=["value", "shape", "count", "no_gradient", "gradient"],
)
def test_a_planted_fault_is_found(wrong: Any) -> None:
    with pytest.raises(AssertionError):
        require_agreement(wrong, torch.exp, X)
