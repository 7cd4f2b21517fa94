"""A mixture of experts with ALiBi attention: two of four experts for each token, and a shared one."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class AlibiAttention(nn.Module):
    """Causal attention with a penalty that grows with the distance, at another rate in each head."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.steepness = 8.0
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = self.qkv(x).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        positions = torch.arange(x.shape[1])
        distance = positions[None, :] - positions[:, None]
        slopes = 2.0 ** (-self.steepness * torch.arange(1, self.heads + 1, dtype=x.dtype) / self.heads)
        bias = slopes[:, None, None] * distance
        bias = bias.masked_fill(distance > 0, float("-inf"))
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=bias)
        return self.out(y.transpose(1, 2).flatten(2))


class Expert(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.w1 = nn.Linear(width, 2 * width, bias=False)
        self.w2 = nn.Linear(2 * width, width, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        return self.w2(F.relu(self.w1(x)).square())


class Mixture(nn.Module):
    """The experts with the largest scores, weighted by the softmax of these scores."""

    def __init__(self, width: int, experts: int, top: int) -> None:
        super().__init__()
        self.top = top
        self.router = nn.Linear(width, experts, bias=False)
        self.experts = nn.ModuleList(Expert(width) for _ in range(experts))
        self.shared = Expert(width)
        self.gate = nn.Linear(width, 1)

    def forward(self, x: Tensor) -> Tensor:
        scores = self.router(x).softmax(dim=-1)
        weights, chosen = scores.topk(self.top, dim=-1)
        weights = weights / weights.sum(dim=-1, keepdim=True)
        share = torch.zeros_like(scores).scatter(-1, chosen, weights)
        y = torch.zeros_like(x)
        for number, expert in enumerate(self.experts):
            y = y + share[..., number : number + 1] * expert(x)
        return y + torch.sigmoid(self.gate(x)) * self.shared(x)


class Layer(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm1 = nn.LayerNorm(width)
        self.attention = AlibiAttention(width, 2)
        self.norm2 = nn.LayerNorm(width)
        self.mixture = Mixture(width, 4, 2)

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.attention(self.norm1(x))
        return x + self.mixture(self.norm2(x))


class MixtureDecoder(nn.Module):
    """ids [batch, length] to scores [batch, length, words]."""

    def __init__(self, width: int = 8) -> None:
        super().__init__()
        self.embedding = nn.Embedding(20, width)
        self.layers = nn.ModuleList(Layer(width) for _ in range(2))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, 20)

    def forward(self, ids: Tensor) -> Tensor:
        x = self.embedding(ids)
        for layer in self.layers:
            x = layer(x)
        return 5.0 * torch.tanh(self.head(self.norm(x)) / 5.0)


def build() -> nn.Module:
    return MixtureDecoder()


def inputs() -> tuple[Tensor, ...]:
    return (torch.randint(0, 20, (2, 8)),)
