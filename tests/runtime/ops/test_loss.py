"""The gradient of `binary_cross_entropy` where probabilities are certain is finite; what `class_index` rejects."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch.nn import functional as F

from cellbridge.runtime.ops import loss
from cellbridge.runtime.programs.gradient_program import differentiate
from cellbridge.runtime.programs.interpreter import execute
from tests.runtime.ops.cases import OpCase
from tests.runtime.ops.checks import one_node_program

CERTAIN = np.array([0.0, 1.0, 0.5])


@pytest.mark.parametrize("target", [0.0, 0.3, 1.0])
def test_gradient_at_certainty_is_finite(target: float) -> None:
    targets = np.full_like(CERTAIN, target)
    program = one_node_program(OpCase("binary_cross_entropy", (CERTAIN, targets)), np.float64)
    backward = differentiate(program)
    gradient = backward.input_gradients[0]
    assert gradient is not None
    (computed,) = execute(backward.program, [CERTAIN, targets, np.ones_like(CERTAIN)], wanted=[gradient])
    x = torch.tensor(CERTAIN, requires_grad=True)
    F.binary_cross_entropy(x, torch.tensor(targets), reduction="sum").backward()
    assert x.grad is not None
    assert np.isfinite(computed).all()
    np.testing.assert_allclose(computed, x.grad.numpy(), rtol=1e-12)


@pytest.mark.parametrize(("target", "ignore_index"), [(3, None), (-1, None), (-1, -100), (-100, None), (7, -100)])
def test_class_index_rejects_what_is_no_class(target: int, ignore_index: int | None) -> None:
    with pytest.raises(ValueError, match=rf"\[0, 3\).* {target} at position \(1, 0\)"):
        loss.class_index(np.array([[0, 2], [target, 1]]), classes=3, ignore_index=ignore_index)
