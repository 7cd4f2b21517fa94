"""Cases of the identities."""

from __future__ import annotations

import numpy as np
import torch

from tests.runtime.ops.cases import OpCase

_X = np.random.default_rng(0).standard_normal((2, 3))

CASES = [
    OpCase("boundary", (_X,), {"call": 0, "kind": "input", "slot": "[0]"}, torch.clone),
    OpCase("guard", (_X, np.array(True)), {"message": "x"}, lambda x, condition: x.clone()),
    OpCase("guard", (np.arange(3), np.array(True)), {"message": "x"}, lambda x, _: x, "integers", differentiable=False),
    OpCase("stop_gradient", (_X,), {}, torch.Tensor.detach, undifferentiated=(0,)),
]
