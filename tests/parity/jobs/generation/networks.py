"""Networks that continue a sequence, and faults of their step-by-step code."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

WIDTH, VOCABULARY = 16, 24


class Attention(nn.Module):
    def __init__(self, window: int | None = None, masks_padding: bool = True, half: bool = False) -> None:
        super().__init__()
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.window, self.masks_padding, self.half = window, masks_padding, half

    def forward(self, x: torch.Tensor, cache: Any, mask: torch.Tensor | None) -> tuple[torch.Tensor, Any]:
        q, k, v = self.qkv(x).chunk(3, -1)
        if cache is not None:
            k, v = torch.cat([cache[0], k], 1), torch.cat([cache[1], v], 1)
        new, all_ = q.shape[1], k.shape[1]
        allowed = torch.ones(new, all_, dtype=torch.bool).tril(all_ - new)[None]
        if mask is not None and self.masks_padding:
            allowed = allowed & mask[:, None, -all_:].bool()
        scores = (q @ k.mT / WIDTH**0.5).masked_fill(~allowed, -1e9)
        kept = (k, v) if self.window is None else (k[:, -self.window :], v[:, -self.window :])
        if self.half:
            kept = kept[0].half().to(k.dtype), kept[1]
        return self.out(scores.softmax(-1) @ v), kept


class Block(nn.Module):
    def __init__(self, **faults: Any) -> None:
        super().__init__()
        self.norm, self.attention = nn.LayerNorm(WIDTH), Attention(**faults)
        self.up, self.down = nn.Linear(WIDTH, 32), nn.Linear(32, WIDTH)

    def forward(self, x: torch.Tensor, cache: Any, mask: torch.Tensor | None) -> tuple[torch.Tensor, Any]:
        update, cache = self.attention(self.norm(x), cache, mask)
        x = x + update
        return x + self.down(torch.relu(self.up(x))), cache


class Decoder(nn.Module):
    """A decoder with learned positions; `offset` is added to positions after the first call."""

    def __init__(self, offset: int = 0, swaps_caches: bool = False, shifts: bool = True, **faults: Any) -> None:
        super().__init__()
        self.tokens, self.positions = nn.Embedding(VOCABULARY, WIDTH), nn.Embedding(64, WIDTH)
        self.blocks = nn.ModuleList([Block(), Block(**faults)])
        self.head = nn.Linear(WIDTH, VOCABULARY)
        self.offset, self.swaps_caches, self.shifts = offset, swaps_caches, shifts

    def forward(self, tokens: torch.Tensor, state: Any = None, mask: torch.Tensor | None = None) -> Any:
        length, caches = state or (0, [None, None])
        places = torch.arange(length, length + tokens.shape[1])[None] + (self.offset if length else 0)
        if mask is not None and self.shifts:
            places = (mask.cumsum(1) - 1).clamp(min=0)[:, -tokens.shape[1] :]
        x = self.tokens(tokens) + self.positions(places)
        kept = []
        for block, cache in zip(self.blocks, caches[::-1] if self.swaps_caches else caches, strict=True):
            x, cache = block(x, cache, mask)
            kept.append(cache)
        return self.head(x), (length + tokens.shape[1], kept)


def make(**faults: Any) -> tuple[Decoder, torch.Tensor]:
    torch.manual_seed(0)
    return Decoder(**faults), torch.randint(0, VOCABULARY, (2, 6))


def decode(module: nn.Module, tokens: torch.Tensor, state: Any, mask: torch.Tensor | None = None) -> Any:
    return module(tokens, state, mask)


class CausalConvolution(nn.Module):
    """A causal convolution over numbers [batch, length, channels], whose state is the end of its input."""

    def __init__(self, kept: int = 3) -> None:
        super().__init__()
        self.conv = nn.Conv1d(2, 2, 4)
        self.kept = kept

    def forward(self, x: torch.Tensor, state: torch.Tensor | None = None) -> tuple[torch.Tensor, torch.Tensor]:
        before = torch.zeros(len(x), 3, 2, dtype=x.dtype) if state is None else state
        whole = torch.cat([before, x], 1)
        filler = torch.zeros(len(x), 3 - self.kept, 2, dtype=x.dtype)
        return self.conv(whole.mT).mT, torch.cat([filler, whole[:, whole.shape[1] - self.kept :]], 1)


class Recurrent(nn.Module):
    """A GRU over numbers; with `forgets`, its state isn't carried over."""

    def __init__(self, forgets: bool = False) -> None:
        super().__init__()
        self.gru, self.out = nn.GRU(2, 5, batch_first=True), nn.Linear(5, 3)
        self.forgets = forgets

    def forward(self, x: torch.Tensor, state: torch.Tensor | None = None) -> tuple[torch.Tensor, torch.Tensor]:
        y, state = self.gru(x, None if self.forgets else state)
        return self.out(y), state
