from __future__ import annotations

import numpy as np
import torch
from torch import nn

from cellbridge import converter


class Masked(nn.Module):
    def forward(self, x: torch.Tensor, keep: torch.Tensor) -> torch.Tensor:
        bias = (1.0 - keep.to(x.dtype)) * torch.finfo(x.dtype).min
        return torch.softmax(x + bias, -1)


def test_the_lowest_number_of_a_wider_dtype_stays_a_number() -> None:
    x, keep = torch.randn(2, 4, dtype=torch.float64), torch.tensor([[1, 1, 0, 1], [1, 0, 0, 1]])
    program = converter.from_torch(Masked(), (x, keep))
    expected = Masked()(x, keep).numpy()
    for dtype, tolerance in (("float32", 1e-6), ("float16", 2e-3)):
        narrow = program.astype(dtype)(x.numpy().astype(dtype), keep)
        np.testing.assert_allclose(narrow, expected, atol=tolerance)


def test_infinity_stays_infinite() -> None:
    class Filled(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x.masked_fill(x > 0, float("-inf"))

    program = converter.from_torch(Filled(), (torch.ones(3, dtype=torch.float64),))
    assert np.isneginf(program.astype("float32")(np.ones(3, np.float32))).all()
