"""Biases to which a factor isn't applied that the product has, such as the scale of queries."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from cellbridge import parity

pytestmark = pytest.mark.causes


class Scores(nn.Module):
    """Scores of tokens by queries that are scaled with their bias."""

    def __init__(self) -> None:
        super().__init__()
        self.qk = nn.Linear(6, 12)

    def forward(self, x: Tensor) -> Tensor:
        q, k = self.qk(x).unflatten(-1, (2, 2, 3)).permute(2, 0, 3, 1, 4)
        scores: Tensor = torch.softmax((q / 3**0.5) @ k.mT, -1)
        return scores


class OtherScores(Scores):
    """The same with a bias that is added to scaled queries."""

    def forward(self, x: Tensor) -> Tensor:
        q, k = (x @ self.qk.weight.T).unflatten(-1, (2, 2, 3)).permute(2, 0, 3, 1, 4)
        bias_of_q, bias_of_k = self.qk.bias.reshape(2, 2, 1, 3)
        scores: Tensor = torch.softmax((q / 3**0.5 + bias_of_q) @ (k + bias_of_k).mT, -1)
        return scores


def test_the_bias_of_queries_is_not_scaled() -> None:
    torch.manual_seed(0)
    reference, candidate = Scores().eval(), OtherScores().eval()
    candidate.load_state_dict(reference.state_dict())
    report = parity.compare(reference, candidate, (torch.randn(2, 5, 6),))
    (cause,) = report.cells[""].causes
    words = "qk.bias, isn't divided by the factor of that product in the candidate, but added after it"
    assert cause.summary.endswith(words), str(report)
