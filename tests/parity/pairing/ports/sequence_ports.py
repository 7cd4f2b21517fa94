"""Blocks of networks for text and time series in torch, and their right ports by hand."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import nn as tnn
from torch.nn import functional as F

from cellbridge.runtime import Parameter, Tensor, nn, ops
from cellbridge.runtime.common.initializer import initializer


class TorchAttention(tnn.Module):
    """Attention with several heads, written out."""

    def __init__(self, size: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.query, self.key, self.value = (tnn.Linear(size, size) for _ in range(3))
        self.out = tnn.Linear(size, size)
        self.dropout = tnn.Dropout(0.2)

    def forward(self, x: torch.Tensor, mask: torch.Tensor | None = None) -> torch.Tensor:
        b, t, c = x.shape
        q, k, v = (f(x).view(b, t, self.heads, -1).transpose(1, 2) for f in (self.query, self.key, self.value))
        scores = q @ k.transpose(-2, -1) / math.sqrt(c // self.heads)
        if mask is not None:
            scores = scores.masked_fill(~mask, -1e4)
        y = self.dropout(scores.softmax(-1)) @ v
        return self.out(y.transpose(1, 2).reshape(b, t, c))


class Attention(nn.Cell):
    def __init__(self, size: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.query = nn.Dense(size, size)
        self.key = nn.Dense(size, size)
        self.value = nn.Dense(size, size)
        self.out = nn.Dense(size, size)
        self.dropout = nn.Dropout(keep_prob=0.8)
        self.softmax = nn.Softmax(axis=-1)
        self.scale = 1 / math.sqrt(size // heads)

    def split(self, x: Tensor) -> Tensor:
        b, t, _ = x.shape
        return x.reshape(b, t, self.heads, -1).transpose(0, 2, 1, 3)

    def construct(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        q, k, v = self.split(self.query(x)), self.split(self.key(x)), self.split(self.value(x))
        scores = ops.BatchMatMul(transpose_b=True)(q, k) * self.scale
        if mask is not None:
            scores = ops.masked_fill(scores, ops.logical_not(mask), -1e4)
        y = ops.matmul(self.dropout(self.softmax(scores)), v)
        return self.out(y.transpose(0, 2, 1, 3).reshape(x.shape))


class TorchEncoderLayer(tnn.Module):
    """A layer of BERT: normalization behind the residual."""

    def __init__(self, size: int = 8, heads: int = 2) -> None:
        super().__init__()
        self.attention = TorchAttention(size, heads)
        self.norm1 = tnn.LayerNorm(size, eps=1e-12)
        self.intermediate = tnn.Linear(size, 2 * size)
        self.output = tnn.Linear(2 * size, size)
        self.norm2 = tnn.LayerNorm(size, eps=1e-12)

    def forward(self, x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        x = self.norm1(x + self.attention(x, mask))
        return self.norm2(x + self.output(F.gelu(self.intermediate(x))))


class EncoderLayer(nn.Cell):
    def __init__(self, size: int = 8, heads: int = 2) -> None:
        super().__init__()
        self.attention = Attention(size, heads)
        self.norm1 = nn.LayerNorm((size,), epsilon=1e-12)
        self.intermediate = nn.Dense(size, 2 * size, activation=nn.GELU(approximate=False))
        self.output = nn.Dense(2 * size, size)
        self.norm2 = nn.LayerNorm((size,), epsilon=1e-12)

    def construct(self, x: Tensor, mask: Tensor) -> Tensor:
        x = self.norm1(x + self.attention(x, mask))
        return self.norm2(x + self.output(self.intermediate(x)))


class TorchDecoder(tnn.Module):
    """A small language model; the embedding is the head's weight, too."""

    def __init__(self, words: int = 11, size: int = 8) -> None:
        super().__init__()
        self.tokens = tnn.Embedding(words, size)
        self.positions = tnn.Parameter(0.1 * torch.randn(16, size))
        self.layers = tnn.ModuleList(TorchDecoderBlock(size) for _ in range(2))
        self.norm = TorchRMSNorm(size)
        self.head = tnn.Linear(size, words, bias=False)
        self.head.weight = self.tokens.weight

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        x = self.tokens(ids) + self.positions[: ids.shape[1]]
        mask = torch.ones(ids.shape[1], ids.shape[1], dtype=torch.bool).tril()
        for layer in self.layers:
            x = layer(x, mask)
        return self.head(self.norm(x))


class TorchRMSNorm(tnn.Module):
    def __init__(self, size: int) -> None:
        super().__init__()
        self.weight = tnn.Parameter(torch.rand(size) + 0.5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.weight


class TorchDecoderBlock(tnn.Module):
    def __init__(self, size: int) -> None:
        super().__init__()
        self.norm1, self.norm2 = TorchRMSNorm(size), TorchRMSNorm(size)
        self.attention = TorchAttention(size, 2)
        self.gate = tnn.Linear(size, 12, bias=False)
        self.up = tnn.Linear(size, 12, bias=False)
        self.down = tnn.Linear(12, size, bias=False)

    def forward(self, x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        x = x + self.attention(self.norm1(x), mask)
        y = self.norm2(x)
        return x + self.down(F.silu(self.gate(y)) * self.up(y))


class RMSNorm(nn.Cell):
    def __init__(self, size: int) -> None:
        super().__init__()
        self.gamma = Parameter(initializer("ones", (size,)))

    def construct(self, x: Tensor) -> Tensor:
        return x * ops.rsqrt(ops.square(x).mean(-1, keep_dims=True) + 1e-6) * self.gamma


class DecoderBlock(nn.Cell):
    def __init__(self, size: int) -> None:
        super().__init__()
        self.norm1 = RMSNorm(size)
        self.norm2 = RMSNorm(size)
        self.attention = Attention(size, 2)
        self.gate = nn.Dense(size, 12, has_bias=False, activation=nn.SiLU())
        self.up = nn.Dense(size, 12, has_bias=False)
        self.down = nn.Dense(12, size, has_bias=False)

    def construct(self, x: Tensor, mask: Tensor) -> Tensor:
        x = x + self.attention(self.norm1(x), mask)
        y = self.norm2(x)
        return x + self.down(self.gate(y) * self.up(y))


class Decoder(nn.Cell):
    def __init__(self, words: int = 11, size: int = 8) -> None:
        super().__init__()
        self.tokens = nn.Embedding(words, size)
        self.positions = Parameter(initializer("normal", (16, size)))
        self.layers = nn.CellList([DecoderBlock(size) for _ in range(2)])
        self.norm = RMSNorm(size)

    def construct(self, ids: Tensor) -> Tensor:
        length = ids.shape[1]
        x = self.tokens(ids) + self.positions[:length]
        mask = ops.tril(ops.ones((length, length))).astype("bool")
        for layer in self.layers:
            x = layer(x, mask)
        return ops.matmul(self.norm(x), self.tokens.embedding_table.T)


class TorchLSTMClassifier(tnn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embedding = tnn.Embedding(13, 5)
        self.lstm = tnn.LSTM(5, 4, num_layers=2, batch_first=True, bidirectional=True, dropout=0.2)
        self.fc = tnn.Linear(8, 3)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        output, (hidden, _) = self.lstm(self.embedding(ids))
        return self.fc(output.mean(1)) + self.fc(torch.cat([hidden[-2], hidden[-1]], -1))


class LSTMClassifier(nn.Cell):
    """With the time first, as nn.LSTM has it if nothing is said."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(13, 5)
        self.rnn = nn.LSTM(5, 4, num_layers=2, bidirectional=True, dropout=0.2)
        self.classifier = nn.Dense(8, 3)

    def construct(self, ids: Tensor) -> Tensor:
        output, (hidden, _) = self.rnn(self.embedding(ids).swapaxes(0, 1))
        return self.classifier(output.mean(0)) + self.classifier(ops.concat([hidden[-2], hidden[-1]], -1))


class TorchSeq2Seq(tnn.Module):
    """A GRU that reads, and a GRU cell that writes step by step."""

    def __init__(self) -> None:
        super().__init__()
        self.encoder = tnn.GRU(4, 6, batch_first=True)
        self.cell = tnn.GRUCell(3, 6)
        self.out = tnn.Linear(6, 3)

    def forward(self, source: torch.Tensor, first: torch.Tensor, steps: int = 3) -> dict[str, Any]:
        encoded, hidden = self.encoder(source)
        state, y, ys = hidden[0], first, []
        for _ in range(steps):
            state = self.cell(y, state)
            y = torch.tanh(self.out(state))
            ys.append(y)
        return {"written": torch.stack(ys, 1), "state": (state, encoded)}


class Seq2Seq(nn.Cell):
    def __init__(self) -> None:
        super().__init__()
        self.encoder = nn.GRU(4, 6, batch_first=True)
        self.cell = nn.GRUCell(3, 6)
        self.out = nn.Dense(6, 3)

    def construct(self, source: Tensor, first: Tensor, steps: int = 3) -> dict[str, Any]:
        encoded, hidden = self.encoder(source)
        state, y, ys = hidden[0], first, []
        for _ in range(steps):
            state = self.cell(y, state)
            y = ops.tanh(self.out(state))
            ys.append(y)
        return {"written": ops.stack(ys, 1), "state": (state, encoded)}


class TorchPretrained(tnn.Module):
    """A frozen part, a part behind a cut, the framework's own attention."""

    def __init__(self, size: int = 8) -> None:
        super().__init__()
        self.backbone = tnn.Sequential(tnn.Linear(5, size), tnn.Tanh())
        self.backbone.requires_grad_(False)
        self.attention = tnn.MultiheadAttention(size, 2, batch_first=True)
        self.layer = tnn.TransformerEncoderLayer(size, 2, 12, dropout=0.1, batch_first=True)
        self.head = tnn.Linear(size, 2)
        self.auxiliary = tnn.Linear(size, 1)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        y = self.backbone(x)
        y = self.layer(self.attention(y, y, y, need_weights=False)[0])
        return self.head(y), self.auxiliary(y.detach())


class Pretrained(nn.Cell):
    def __init__(self, size: int = 8) -> None:
        super().__init__()
        self.backbone = nn.SequentialCell([nn.Dense(5, size), nn.Tanh()])
        for parameter in self.backbone.get_parameters():
            parameter.requires_grad = False
        self.attention = nn.MultiheadAttention(size, 2, batch_first=True)
        self.layer = nn.TransformerEncoderLayer(size, 2, 12, dropout=0.1, batch_first=True)
        self.head = nn.Dense(size, 2)
        self.auxiliary = nn.Dense(size, 1)

    def construct(self, x: Tensor) -> tuple[Tensor, Tensor]:
        y = self.backbone(x)
        y = self.layer(self.attention(y, y, y, need_weights=False)[0])
        return self.head(y), self.auxiliary(ops.stop_gradient(y))


class TorchVAE(tnn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.encoder = tnn.Linear(6, 8)
        self.decoder = tnn.Linear(4, 6)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        mean, logvar = self.encoder(x).chunk(2, dim=-1)
        z = mean + torch.randn_like(mean) * torch.exp(0.5 * logvar)
        divergence = -0.5 * torch.mean(1 + logvar - mean**2 - logvar.exp())
        return torch.sigmoid(self.decoder(z)), divergence


class VAE(nn.Cell):
    def __init__(self) -> None:
        super().__init__()
        self.encoder = nn.Dense(6, 8)
        self.decoder = nn.Dense(4, 6)

    def construct(self, x: Tensor) -> tuple[Tensor, Tensor]:
        mean, logvar = ops.chunk(self.encoder(x), 2, axis=-1)
        z = mean + ops.standard_normal(mean.shape) * ops.exp(0.5 * logvar)
        divergence = -0.5 * (1 + logvar - mean**2 - ops.exp(logvar)).mean()
        return ops.sigmoid(self.decoder(z)), divergence
