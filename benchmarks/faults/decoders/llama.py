"""A Llama with a cache: positions are rotated once for all layers; the state is the keys and values of each layer."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

WIDTH, HEADS, GROUPS, WORDS = 16, 4, 2, 24


class Rotary(nn.Module):
    """Cosines and sines [batch or 1, 1, length, channels / 2] of positions [batch or 1, length]."""

    def forward(self, positions: Tensor, like: Tensor) -> tuple[Tensor, Tensor]:
        size = WIDTH // HEADS
        frequencies = 10000.0 ** (-torch.arange(0, size, 2, dtype=like.dtype) / size)
        angles = positions[:, None, :, None].to(like.dtype) * frequencies
        return angles.cos(), angles.sin()


def rotate(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    first, second = x.chunk(2, dim=-1)
    return torch.cat([first * cos - second * sin, second * cos + first * sin], dim=-1)


class Attention(nn.Module):
    def __init__(self, number: int) -> None:
        super().__init__()
        self.number, size = number, WIDTH // HEADS
        self.q_proj, self.o_proj = nn.Linear(WIDTH, WIDTH, bias=False), nn.Linear(WIDTH, WIDTH, bias=False)
        self.k_proj, self.v_proj = (nn.Linear(WIDTH, GROUPS * size, bias=False) for _ in range(2))

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor, cache: Any, mask: Tensor | None) -> tuple[Tensor, Any]:
        batch, new, _ = x.shape
        q, k, v = (f(x).view(batch, new, -1, WIDTH // HEADS).transpose(1, 2)
                   for f in (self.q_proj, self.k_proj, self.v_proj))  # fmt: skip
        q, k = rotate(q, cos, sin), rotate(k, cos, sin)
        if cache is not None:
            k, v = torch.cat([cache[0], k], 2), torch.cat([cache[1], v], 2)
        kept = k, v
        length = k.shape[2]
        seen = torch.ones(new, length, dtype=torch.bool).tril(length - new)
        if mask is not None:
            seen = seen & mask[:, None, None, :].bool()
        k, v = (t.repeat_interleave(HEADS // GROUPS, 1) for t in (k, v))
        scores = (q @ k.transpose(-2, -1) * (WIDTH // HEADS) ** -0.5).masked_fill(~seen, -1e9)
        y = (scores.softmax(-1) @ v).transpose(1, 2).reshape(batch, new, WIDTH)
        return self.o_proj(y), kept


class Layer(nn.Module):
    def __init__(self, number: int) -> None:
        super().__init__()
        self.input_norm, self.post_norm = nn.RMSNorm(WIDTH, eps=1e-5), nn.RMSNorm(WIDTH, eps=1e-5)
        self.self_attn = Attention(number)
        self.up, self.down = nn.Linear(WIDTH, 32), nn.Linear(32, WIDTH)

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor, cache: Any, mask: Tensor | None) -> tuple[Tensor, Any]:
        update, cache = self.self_attn(self.input_norm(x), cos, sin, cache, mask)
        x = x + update
        return x + self.down(F.silu(self.up(self.post_norm(x)))), cache


class Llama(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed_tokens, self.rotary = nn.Embedding(WORDS, WIDTH), Rotary()
        self.layers = nn.ModuleList(Layer(number) for number in range(2))
        self.norm, self.lm_head = nn.RMSNorm(WIDTH, eps=1e-5), nn.Linear(WIDTH, WORDS, bias=False)

    def forward(self, tokens: Tensor, state: Any = None, mask: Tensor | None = None) -> tuple[Tensor, Any]:
        start = 0 if state is None else state[0][0].shape[2]
        positions = torch.arange(start, start + tokens.shape[1])[None]
        if mask is not None:
            positions = (mask.cumsum(1) - 1).clamp(min=0)[:, -tokens.shape[1] :]
        x = self.embed_tokens(tokens)
        cos, sin = self.rotary(positions, x)
        caches = [None] * len(self.layers) if state is None else state
        kept = []
        for layer, cache in zip(self.layers, caches, strict=True):
            x, cache = layer(x, cos, sin, cache, mask)
            kept.append(cache)
        return self.lm_head(self.norm(x)), kept


def build() -> nn.Module:
    return Llama()


def inputs() -> Tensor:
    return torch.randint(0, WORDS, (2, 6))


def decode(module: nn.Module, tokens: Tensor, state: Any, mask: Tensor | None = None) -> Any:
    return module(tokens, state, mask)
