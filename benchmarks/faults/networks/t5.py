"""An encoder and decoder with T5's buckets of relative positions, RMS norms, cross attention, no scale."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class RMSNorm(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))
        self.eps = 1e-6

    def forward(self, x: Tensor) -> Tensor:
        return self.weight * x * torch.rsqrt(x.square().mean(-1, keepdim=True) + self.eps)


class RelativeBias(nn.Module):
    """A learned bias of attention for each head and bucket of distances; far distances share buckets."""

    def __init__(self, heads: int, bidirectional: bool) -> None:
        super().__init__()
        self.buckets, self.max_distance, self.bidirectional = 8, 16, bidirectional
        self.table = nn.Embedding(self.buckets, heads)

    def bucket(self, distance: Tensor) -> Tensor:
        buckets, offset = self.buckets, torch.zeros_like(distance)
        if self.bidirectional:
            buckets //= 2
            offset = (distance > 0).long() * buckets
            distance = distance.abs()
        else:
            distance = -distance.clamp(max=0)
        exact = buckets // 2
        growth = torch.log(distance.clamp(min=1).double() / exact) / math.log(self.max_distance / exact)
        large = (exact + (growth * (buckets - exact)).long()).clamp(max=buckets - 1)
        return offset + torch.where(distance < exact, distance, large)

    def forward(self, queries: int, keys: int) -> Tensor:
        distance = torch.arange(keys)[None, :] - torch.arange(queries)[:, None]
        return self.table(self.bucket(distance)).permute(2, 0, 1)


class Attention(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.q = nn.Linear(width, width, bias=False)
        self.k = nn.Linear(width, width, bias=False)
        self.v = nn.Linear(width, width, bias=False)
        self.o = nn.Linear(width, width, bias=False)

    def forward(self, x: Tensor, memory: Tensor, bias: Tensor) -> Tensor:
        q, k, v = (p.unflatten(-1, (self.heads, -1)).transpose(1, 2) for p in (self.q(x), self.k(memory),
                                                                              self.v(memory)))  # fmt: skip
        scores = torch.einsum("bhqd,bhkd->bhqk", q, k) + bias
        context = torch.einsum("bhqk,bhkd->bqhd", scores.softmax(-1), v)
        return self.o(context.flatten(2))


class Layer(nn.Module):
    """Self-attention, cross attention if there is a memory, and a gated MLP."""

    def __init__(self, width: int, heads: int, cross: bool) -> None:
        super().__init__()
        self.norm1, self.self_attention = RMSNorm(width), Attention(width, heads)
        self.cross = cross
        if cross:
            self.norm2, self.cross_attention = RMSNorm(width), Attention(width, heads)
        self.norm3 = RMSNorm(width)
        self.wi_0, self.wi_1 = nn.Linear(width, 24, bias=False), nn.Linear(width, 24, bias=False)
        self.wo = nn.Linear(24, width, bias=False)

    def forward(self, x: Tensor, bias: Tensor, memory: Tensor | None = None, padding: Tensor | None = None) -> Tensor:
        y = self.norm1(x)
        x = x + self.self_attention(y, y, bias)
        if memory is not None and padding is not None:
            x = x + self.cross_attention(self.norm2(x), memory, padding)
        y = self.norm3(x)
        return x + self.wo(F.gelu(self.wi_0(y), approximate="tanh") * self.wi_1(y))


class T5(nn.Module):
    """Encoder ids, padding mask and decoder ids [batch, length] to scores of words."""

    def __init__(self, width: int = 16, heads: int = 2) -> None:
        super().__init__()
        self.width = width
        self.shared = nn.Embedding(25, width)
        self.encoder_bias, self.decoder_bias = RelativeBias(heads, True), RelativeBias(heads, False)
        self.encoder = nn.ModuleList(Layer(width, heads, False) for _ in range(2))
        self.decoder = nn.ModuleList(Layer(width, heads, True) for _ in range(2))
        self.encoder_norm, self.decoder_norm = RMSNorm(width), RMSNorm(width)

    def forward(self, ids: Tensor, mask: Tensor, decoder_ids: Tensor) -> Tensor:
        padding = torch.zeros(mask.shape, dtype=self.shared.weight.dtype).masked_fill(~mask, -1e9)[:, None, None]
        memory = self.shared(ids)
        bias = self.encoder_bias(ids.shape[1], ids.shape[1]) + padding
        for layer in self.encoder:
            memory = layer(memory, bias)
        memory = self.encoder_norm(memory)
        length = decoder_ids.shape[1]
        causal = torch.full((length, length), -1e9, dtype=memory.dtype).triu(1)
        bias = self.decoder_bias(length, length) + causal
        y = self.shared(decoder_ids)
        for layer in self.decoder:
            y = layer(y, bias, memory, padding)
        return F.linear(self.decoder_norm(y) * self.width**-0.5, self.shared.weight)


def build() -> nn.Module:
    return T5()


def inputs() -> tuple[Tensor, ...]:
    mask = torch.ones(2, 10, dtype=torch.bool)
    mask[1, 7:] = False
    return torch.randint(0, 25, (2, 10)), mask, torch.randint(0, 25, (2, 6))
