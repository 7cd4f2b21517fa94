"""The tagger, ported by hand."""

from __future__ import annotations

import numpy as np

from cellbridge.runtime import Parameter, Tensor, nn, ops


class Highway(nn.Cell):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.transform = nn.Dense(width, width)
        self.gate = nn.Dense(width, width)

    def construct(self, x: Tensor) -> Tensor:
        gate = ops.sigmoid(self.gate(x))
        return gate * ops.relu(self.transform(x)) + (1 - gate) * x


class CharacterCell(nn.Cell):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.width = width
        self.weight_ih = Parameter(Tensor(np.zeros((4 * width, width), np.float32)))
        self.weight_hh = Parameter(Tensor(np.zeros((4 * width, width), np.float32)))
        self.bias = Parameter(Tensor(np.zeros(4 * width, np.float32)))

    def construct(self, x: Tensor) -> Tensor:
        h = c = ops.zeros((x.shape[0], self.width), x.dtype)
        states = []
        for t in range(x.shape[1]):
            gates = ops.matmul(x[:, t], self.weight_ih.T) + ops.matmul(h, self.weight_hh.T) + self.bias
            i, f, g, o = ops.chunk(gates, 4, -1)
            c = ops.sigmoid(f) * c + ops.sigmoid(i) * ops.tanh(g)
            h = ops.sigmoid(o) * ops.tanh(c)
            states.append(h)
        return ops.stack(states, axis=1)


class WordEmbedding(nn.Embedding):
    """An embedding whose row 0 isn't trained."""

    def construct(self, ids: Tensor) -> Tensor:
        rows = super().construct(ids)
        return rows * (ids != 0).expand_dims(-1).astype(rows.dtype)


class Tagger(nn.Cell):
    def __init__(self, width: int = 8) -> None:
        super().__init__()
        self.embedding = WordEmbedding(30, width)
        self.character = CharacterCell(width)
        self.lstm = nn.LSTM(width, width, num_layers=2, bidirectional=True, batch_first=True)
        self.norm = nn.LayerNorm((2 * width,), epsilon=1e-5)
        self.highway = nn.SequentialCell([Highway(2 * width), Highway(2 * width)])
        self.dropout = nn.Dropout(p=0.3)
        self.tags = nn.Dense(2 * width, 6)

    def construct(self, ids: Tensor) -> Tensor:
        x = self.embedding(ids)
        x = x + self.character(x)
        x, _ = self.lstm(x)
        x = self.highway(self.norm(x))
        return ops.log_softmax(self.tags(self.dropout(x)), -1)


def build() -> nn.Cell:
    return Tagger()
