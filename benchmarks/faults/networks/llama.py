"""A Llama: RMS norm, rotary positions, grouped queries, a gated MLP, no biases."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class RMSNorm(nn.Module):
    def __init__(self, width: int, eps: float = 1e-5) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))
        self.eps = eps

    def forward(self, x: Tensor) -> Tensor:
        variance = x.pow(2).mean(-1, keepdim=True)
        return self.weight * (x * torch.rsqrt(variance + self.eps))


class Rotary(nn.Module):
    """Rotates pairs of channels by angles that grow with the position; pairs are a half apart."""

    def __init__(self, size: int, base: float = 10000.0) -> None:
        super().__init__()
        self.base = base
        self.size = size

    def forward(self, x: Tensor) -> Tensor:
        frequencies = self.base ** (-torch.arange(0, self.size, 2, dtype=x.dtype) / self.size)
        positions = torch.arange(x.shape[-2], dtype=x.dtype)
        angles = positions[:, None] * frequencies
        cos, sin = angles.cos(), angles.sin()
        first, second = x.chunk(2, dim=-1)
        return torch.cat([first * cos - second * sin, second * cos + first * sin], dim=-1)


class Attention(nn.Module):
    """Causal attention in which several query heads share the keys and values of one head."""

    def __init__(self, width: int, heads: int, kv_heads: int) -> None:
        super().__init__()
        self.heads, self.kv_heads, self.head_size = heads, kv_heads, width // heads
        self.q_proj = nn.Linear(width, heads * self.head_size, bias=False)
        self.k_proj = nn.Linear(width, kv_heads * self.head_size, bias=False)
        self.v_proj = nn.Linear(width, kv_heads * self.head_size, bias=False)
        self.o_proj = nn.Linear(width, width, bias=False)
        self.rotary = Rotary(self.head_size)

    def forward(self, x: Tensor) -> Tensor:
        batch, length, _ = x.shape
        q = self.q_proj(x).view(batch, length, self.heads, self.head_size).transpose(1, 2)
        k = self.k_proj(x).view(batch, length, self.kv_heads, self.head_size).transpose(1, 2)
        v = self.v_proj(x).view(batch, length, self.kv_heads, self.head_size).transpose(1, 2)
        q, k = self.rotary(q), self.rotary(k)
        k = k.repeat_interleave(self.heads // self.kv_heads, dim=1)
        v = v.repeat_interleave(self.heads // self.kv_heads, dim=1)
        scores = q @ k.transpose(-2, -1) * self.head_size**-0.5
        later = torch.ones(length, length, dtype=torch.bool).triu(1)
        weights = scores.masked_fill(later, float("-inf")).softmax(-1)
        return self.o_proj((weights @ v).transpose(1, 2).reshape(batch, length, -1))


class GatedMlp(nn.Module):
    def __init__(self, width: int, inner: int) -> None:
        super().__init__()
        self.gate_proj = nn.Linear(width, inner, bias=False)
        self.up_proj = nn.Linear(width, inner, bias=False)
        self.down_proj = nn.Linear(inner, width, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        return self.down_proj(F.silu(self.gate_proj(x)) * self.up_proj(x))


class Layer(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.input_norm = RMSNorm(width)
        self.self_attn = Attention(width, heads=4, kv_heads=2)
        self.post_norm = RMSNorm(width)
        self.mlp = GatedMlp(width, 2 * width)

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.self_attn(self.input_norm(x))
        return x + self.mlp(self.post_norm(x))


class Llama(nn.Module):
    """ids [batch, length] to scores [batch, length, words]."""

    def __init__(self, width: int = 16, depth: int = 2) -> None:
        super().__init__()
        self.embed_tokens = nn.Embedding(30, width)
        self.layers = nn.ModuleList(Layer(width) for _ in range(depth))
        self.norm = RMSNorm(width)
        self.lm_head = nn.Linear(width, 30, bias=False)

    def forward(self, ids: Tensor) -> Tensor:
        x = self.embed_tokens(ids)
        for layer in self.layers:
            x = layer(x)
        return self.lm_head(self.norm(x))


def build() -> nn.Module:
    return Llama()


def inputs() -> tuple[Tensor, ...]:
    return (torch.randint(0, 30, (2, 7)),)
