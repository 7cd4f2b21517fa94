"""A value that is read in another place, in another shape: that it is reshaped there isn't what is wrong."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from cellbridge import parity

pytestmark = pytest.mark.causes


class Gate(nn.Module):
    """Chooses by scores with a bias, and weights by those without."""

    def __init__(self, size: int = 6) -> None:
        super().__init__()
        self.linear = nn.Linear(4, size)
        self.register_buffer("bias", torch.linspace(-0.4, 0.5, size))

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        scores = self.linear(x).sigmoid()
        order = (scores + self.bias).topk(2)[1]
        return scores.gather(1, order) * 1.7, order


class Regrouped(Gate):
    """Has the scores in groups, and weights by those with the bias."""

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        scores = self.linear(x).sigmoid() + self.bias
        scores = scores.view(len(x), 2, -1).flatten(1)
        order = scores.topk(2)[1]
        return scores.gather(1, order) * 1.7, order


def test_an_operand_is_named_not_the_reshape_behind_it() -> None:
    torch.manual_seed(0)
    reference, port = Gate(), Regrouped()
    port.load_state_dict(reference.state_dict())
    report = parity.compare(reference, port, torch.randn(5, 4), probe=False)
    (cause,) = report.cells[""].causes
    assert "x of gather is the result of `scores.view(len(x), 2, -1).flatten(1)` in the candidate" in cause.summary
    assert "the result of `self.linear(x).sigmoid()` in the reference" in cause.summary
