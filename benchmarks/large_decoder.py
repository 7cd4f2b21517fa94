"""A decoder of any size on the meta device, and random weights for it in a file, written one tensor at a time."""

from __future__ import annotations

import json
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn import functional


class Attention(nn.Module):
    """Causal self-attention of vectors [batch, length, width]."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.q, self.k, self.v, self.o = (nn.Linear(width, width, bias=False) for _ in range(4))

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = (part(x).unflatten(-1, (self.heads, -1)).transpose(1, 2) for part in (self.q, self.k, self.v))
        y = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.o(y.transpose(1, 2).flatten(2))


class MLP(nn.Module):
    """The gated layers of a block."""

    def __init__(self, width: int, inner: int) -> None:
        super().__init__()
        self.gate, self.up = nn.Linear(width, inner, bias=False), nn.Linear(width, inner, bias=False)
        self.down = nn.Linear(inner, width, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        return self.down(functional.silu(self.gate(x)) * self.up(x))


class Block(nn.Module):
    """A block with norms before its layers."""

    def __init__(self, width: int, inner: int, heads: int) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.RMSNorm(width), nn.RMSNorm(width)
        self.attention, self.mlp = Attention(width, heads), MLP(width, inner)

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.attention(self.norm1(x))
        return x + self.mlp(self.norm2(x))


class Decoder(nn.Module):
    """ids [batch, length] to scores [batch, length, words]."""

    def __init__(self, width: int, inner: int, heads: int, blocks: int, words: int) -> None:
        super().__init__()
        self.embed = nn.Embedding(words, width)
        self.layers = nn.ModuleList(Block(width, inner, heads) for _ in range(blocks))
        self.norm, self.head = nn.RMSNorm(width), nn.Linear(width, words, bias=False)

    def forward(self, ids: Tensor) -> Tensor:
        x = self.embed(ids)
        for layer in self.layers:
            x = layer(x)
        return self.head(self.norm(x))


def decoder(folder: Path) -> Decoder:
    """Return the decoder of the sizes in `sizes.json`, on the meta device and in bfloat16."""
    with torch.device("meta"):
        return Decoder(*json.loads((folder / "sizes.json").read_text(encoding="utf-8"))).bfloat16()


def write(folder: Path) -> int:
    """Write `weights.safetensors` for it, and return the bytes of the largest tensor."""
    parameters = dict(decoder(folder).named_parameters())
    sizes = {name: 2 * p.numel() for name, p in parameters.items()}
    header, end = {}, 0
    for name, parameter in parameters.items():
        begin, end = end, end + sizes[name]
        header[name] = {"dtype": "BF16", "shape": list(parameter.shape), "data_offsets": [begin, end]}
    text = json.dumps(header).encode()
    generator = torch.Generator().manual_seed(0)
    with (folder / "weights.safetensors").open("wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        for parameter in parameters.values():
            if parameter.ndim == 1:
                data = torch.ones(parameter.shape)
            else:
                data = torch.randn(parameter.shape, generator=generator) / parameter.shape[-1] ** 0.5
            file.write(data.bfloat16().view(torch.int16).numpy().tobytes())
    return max(sizes.values())
