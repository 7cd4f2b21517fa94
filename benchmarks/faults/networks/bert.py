"""A BERT: three embeddings added, post-norm layers, padding masked out, a pooled first token and tied word scores."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class Embeddings(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.word = nn.Embedding(40, width, padding_idx=0)
        self.position = nn.Embedding(12, width)
        self.token_type = nn.Embedding(2, width)
        self.norm = nn.LayerNorm(width, eps=1e-12)
        self.dropout = nn.Dropout(0.1)

    def forward(self, ids: Tensor, types: Tensor) -> Tensor:
        positions = torch.arange(ids.shape[1])
        x = self.word(ids) + self.position(positions) + self.token_type(types)
        return self.dropout(self.norm(x))


class SelfAttention(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.query = nn.Linear(width, width)
        self.key = nn.Linear(width, width)
        self.value = nn.Linear(width, width)

    def split(self, x: Tensor) -> Tensor:
        return x.unflatten(-1, (self.heads, -1)).transpose(1, 2)

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        q, k, v = self.split(self.query(x)), self.split(self.key(x)), self.split(self.value(x))
        scores = q @ k.transpose(-2, -1) / q.shape[-1] ** 0.5
        scores = scores + mask
        context = F.softmax(scores, dim=-1) @ v
        return context.transpose(1, 2).flatten(2)


class AddNorm(nn.Module):
    """A projection whose result is added to what went into the layer, and normalized."""

    def __init__(self, inner: int, width: int) -> None:
        super().__init__()
        self.dense = nn.Linear(inner, width)
        self.norm = nn.LayerNorm(width, eps=1e-12)

    def forward(self, y: Tensor, x: Tensor) -> Tensor:
        return self.norm(self.dense(y) + x)


class Layer(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.attention = SelfAttention(width, heads)
        self.attention_output = AddNorm(width, width)
        self.intermediate = nn.Linear(width, 3 * width)
        self.activation = nn.GELU()
        self.output = AddNorm(3 * width, width)

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        x = self.attention_output(self.attention(x, mask), x)
        return self.output(self.activation(self.intermediate(x)), x)


class Bert(nn.Module):
    """ids, types and padding mask [batch, length] to word scores [batch, length, words] and a pooled vector."""

    def __init__(self, width: int = 16, depth: int = 2, heads: int = 2) -> None:
        super().__init__()
        self.embeddings = Embeddings(width)
        self.layers = nn.ModuleList(Layer(width, heads) for _ in range(depth))
        self.pooler = nn.Linear(width, width)
        self.transform = nn.Linear(width, width)
        self.decoder = nn.Linear(width, 40)
        self.decoder.weight = self.embeddings.word.weight

    def forward(self, ids: Tensor, types: Tensor, attention_mask: Tensor) -> tuple[Tensor, Tensor]:
        mask = (1.0 - attention_mask[:, None, None, :]) * -1e4
        x = self.embeddings(ids, types)
        for layer in self.layers:
            x = layer(x, mask)
        pooled = torch.tanh(self.pooler(x[:, 0]))
        return self.decoder(F.gelu(self.transform(x))), pooled


def build() -> nn.Module:
    return Bert()


def inputs() -> tuple[Tensor, ...]:
    ids = torch.randint(1, 40, (2, 9))
    ids[1, 6:] = 0
    types = (torch.arange(9) > 4).long().expand(2, 9).contiguous()
    return ids, types, (ids != 0).long()
