"""Cases of what floating-point numbers are made of."""

from __future__ import annotations

import numpy as np
import torch

from tests.runtime.ops.cases import OpCase

_X = np.array([[0.0, -0.0, 1.0, -3.0], [0.1, 1024.0, -7.5e-5, 6e4]])
_TOWARDS = np.array([[1.0, 0.5, 1.0, -9.0], [-1.0, 2000.0, 1.0, 5.0]])

CASES = [
    OpCase("signbit", (_X,), {}, torch.signbit, differentiable=False),
    OpCase("nextafter", (_X, _TOWARDS), {}, torch.nextafter, differentiable=False),
    OpCase("frexp", (_X[1],), {}, torch.frexp),
    OpCase("frexp", (_X[0],), {}, torch.frexp, "zeros", differentiable=False),
]
