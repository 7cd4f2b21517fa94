"""A GPT-2: learned positions, causal attention with transposed weights, tanh GELU, scores tied to the words."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class Conv1D(nn.Module):
    """A linear layer with its weight stored as [in, out]."""

    def __init__(self, width_in: int, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(width_in, width) * width_in**-0.5)
        self.bias = nn.Parameter(torch.zeros(width))

    def forward(self, x: Tensor) -> Tensor:
        return torch.matmul(x, self.weight) + self.bias


class Attention(nn.Module):
    """Causal self-attention whose mask is a buffer for the longest text."""

    causal: Tensor

    def __init__(self, width: int, heads: int, longest: int) -> None:
        super().__init__()
        self.heads = heads
        self.c_attn = Conv1D(width, 3 * width)
        self.c_proj = Conv1D(width, width)
        self.attn_dropout = nn.Dropout(0.1)
        self.register_buffer("causal", torch.ones(longest, longest, dtype=torch.bool).tril())

    def split(self, x: Tensor) -> Tensor:
        return x.view(*x.shape[:2], self.heads, -1).transpose(1, 2)

    def forward(self, x: Tensor) -> Tensor:
        length = x.shape[1]
        query, key, value = self.c_attn(x).split(x.shape[-1], dim=2)
        query, key, value = self.split(query), self.split(key), self.split(value)
        scores = query @ key.transpose(-1, -2) / value.shape[-1] ** 0.5
        allowed = self.causal[:length, :length]
        scores = torch.where(allowed, scores, torch.finfo(scores.dtype).min)
        weights = self.attn_dropout(F.softmax(scores, dim=-1))
        context = (weights @ value).transpose(1, 2).contiguous()
        return self.c_proj(context.view(*x.shape))


class NewGelu(nn.Module):
    """The GELU of GPT-2, with tanh."""

    def forward(self, x: Tensor) -> Tensor:
        return 0.5 * x * (1.0 + torch.tanh(0.7978845608028654 * (x + 0.044715 * torch.pow(x, 3.0))))


class Mlp(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.c_fc = Conv1D(width, 4 * width)
        self.act = NewGelu()
        self.c_proj = Conv1D(4 * width, width)
        self.dropout = nn.Dropout(0.1)

    def forward(self, x: Tensor) -> Tensor:
        return self.dropout(self.c_proj(self.act(self.c_fc(x))))


class Block(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.ln_1 = nn.LayerNorm(width)
        self.attn = Attention(width, heads, 12)
        self.ln_2 = nn.LayerNorm(width)
        self.mlp = Mlp(width)

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.attn(self.ln_1(x))
        return x + self.mlp(self.ln_2(x))


class Gpt2(nn.Module):
    """ids [batch, length] to scores [batch, length, words]."""

    def __init__(self, width: int = 16, depth: int = 2, heads: int = 4) -> None:
        super().__init__()
        self.wte = nn.Embedding(30, width)
        self.wpe = nn.Embedding(12, width)
        self.drop = nn.Dropout(0.1)
        self.h = nn.ModuleList(Block(width, heads) for _ in range(depth))
        self.ln_f = nn.LayerNorm(width)

    def forward(self, ids: Tensor) -> Tensor:
        positions = torch.arange(ids.shape[1])
        x = self.drop(self.wte(ids) + self.wpe(positions))
        for block in self.h:
            x = block(x)
        return F.linear(self.ln_f(x), self.wte.weight)


def build() -> nn.Module:
    return Gpt2()


def inputs() -> tuple[Tensor, ...]:
    return (torch.randint(0, 30, (2, 8)),)
