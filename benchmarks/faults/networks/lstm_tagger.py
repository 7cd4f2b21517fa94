"""A tagger: embedding, a bidirectional LSTM of two layers, highway connections and scores of tags."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class Highway(nn.Module):
    """A gate mixes a transformation of the input with the input itself."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.transform = nn.Linear(width, width)
        self.gate = nn.Linear(width, width)

    def forward(self, x: Tensor) -> Tensor:
        gate = torch.sigmoid(self.gate(x))
        return gate * F.relu(self.transform(x)) + (1 - gate) * x


class CharacterCell(nn.Module):
    """An LSTM cell written by hand that reads the features of a word from the left."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.width = width
        self.weight_ih = nn.Parameter(torch.randn(4 * width, width) * 0.3)
        self.weight_hh = nn.Parameter(torch.randn(4 * width, width) * 0.3)
        self.bias = nn.Parameter(torch.zeros(4 * width))

    def forward(self, x: Tensor) -> Tensor:
        h = c = x.new_zeros(x.shape[0], self.width)
        states = []
        for t in range(x.shape[1]):
            gates = x[:, t] @ self.weight_ih.T + h @ self.weight_hh.T + self.bias
            i, f, g, o = gates.chunk(4, dim=-1)
            c = f.sigmoid() * c + i.sigmoid() * g.tanh()
            h = o.sigmoid() * c.tanh()
            states.append(h)
        return torch.stack(states, dim=1)


class Tagger(nn.Module):
    """ids [batch, length] to scores [batch, length, tags] in the logarithm."""

    def __init__(self, width: int = 8) -> None:
        super().__init__()
        self.embedding = nn.Embedding(30, width, padding_idx=0)
        self.character = CharacterCell(width)
        self.lstm = nn.LSTM(width, width, num_layers=2, bidirectional=True, batch_first=True)
        self.norm = nn.LayerNorm(2 * width)
        self.highway = nn.Sequential(Highway(2 * width), Highway(2 * width))
        self.dropout = nn.Dropout(0.3)
        self.tags = nn.Linear(2 * width, 6)

    def forward(self, ids: Tensor) -> Tensor:
        x = self.embedding(ids)
        x = x + self.character(x)
        x, _ = self.lstm(x)
        x = self.highway(self.norm(x))
        return F.log_softmax(self.tags(self.dropout(x)), dim=-1)


def build() -> nn.Module:
    return Tagger()


def inputs() -> tuple[Tensor, ...]:
    ids = torch.randint(1, 30, (3, 7))
    ids[1, 4:] = 0
    return (ids,)
