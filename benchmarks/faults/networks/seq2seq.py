"""A translator: GRU encoder, GRU decoder with additive attention at every step, coverage of what was read."""

from __future__ import annotations

import torch
from torch import Tensor, nn


class AdditiveAttention(nn.Module):
    """Scores by a small network of state and memory, and of how much was read of each word before."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.state = nn.Linear(width, width)
        self.memory = nn.Linear(width, width, bias=False)
        self.coverage = nn.Linear(1, width, bias=False)
        self.score = nn.Linear(width, 1, bias=False)

    def forward(self, state: Tensor, memory: Tensor, read: Tensor) -> tuple[Tensor, Tensor]:
        features = self.state(state)[:, None] + self.memory(memory) + self.coverage(read[..., None])
        weights = self.score(features.tanh()).squeeze(-1).softmax(dim=1)
        return (weights[..., None] * memory).sum(dim=1), weights


class Maxout(nn.Module):
    """The larger of neighbouring channels."""

    def __init__(self, width_in: int, width: int) -> None:
        super().__init__()
        self.linear = nn.Linear(width_in, 2 * width)

    def forward(self, x: Tensor) -> Tensor:
        return self.linear(x).unflatten(-1, (-1, 2)).amax(-1)


class Seq2Seq(nn.Module):
    """source and target ids [batch, length] to scores of target words."""

    def __init__(self, width: int = 8) -> None:
        super().__init__()
        self.source = nn.Embedding(20, width)
        self.target = nn.Embedding(20, width)
        self.encoder = nn.GRU(width, width, batch_first=True)
        self.bridge = nn.Linear(width, width)
        self.attention = AdditiveAttention(width)
        self.cell = nn.GRUCell(2 * width, width)
        self.dropout = nn.Dropout(0.2)
        self.maxout = Maxout(3 * width, width)
        self.out = nn.Linear(width, 20)

    def forward(self, source: Tensor, target: Tensor) -> Tensor:
        memory, last = self.encoder(self.source(source))
        state = torch.tanh(self.bridge(last[-1]))
        read = torch.zeros_like(memory[..., 0])
        words = self.target(target)
        scores = []
        for step in range(target.shape[1]):
            word = words[:, step]
            context, weights = self.attention(state, memory, read)
            read = read + weights
            state = self.cell(torch.cat([word, context], dim=-1), state)
            features = torch.cat([state, context, word], dim=-1)
            scores.append(self.out(self.maxout(self.dropout(features))))
        return torch.stack(scores, dim=1)


def build() -> nn.Module:
    return Seq2Seq()


def inputs() -> tuple[Tensor, ...]:
    return torch.randint(0, 20, (2, 6)), torch.randint(0, 20, (2, 4))
