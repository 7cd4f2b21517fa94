"""Swin of transformers, against Microsoft's kind: a fused q/k/v, and masks that are made once."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from ..twin import Twin

WIDTH, HEADS, WINDOW, SIDE, DEPTH = 8, 2, 4, 16, 2
EPS = 1e-5


def build() -> nn.Module:
    from transformers import SwinConfig, SwinModel

    return SwinModel(
        SwinConfig(
            image_size=SIDE, patch_size=2, embed_dim=WIDTH, depths=[DEPTH, DEPTH], num_heads=[HEADS, HEADS],
            window_size=WINDOW, mlp_ratio=2.0,
        )
    )  # fmt: skip


def inputs() -> tuple[Tensor, ...]:
    return (torch.randn(2, 3, SIDE, SIDE),)


def to_windows(x: Tensor) -> Tensor:
    b, h, w, c = x.shape
    x = x.view(b, h // WINDOW, WINDOW, w // WINDOW, WINDOW, c)
    return x.permute(0, 1, 3, 2, 4, 5).reshape(-1, WINDOW * WINDOW, c)


def from_windows(x: Tensor, h: int, w: int) -> Tensor:
    x = x.view(-1, h // WINDOW, w // WINDOW, WINDOW, WINDOW, x.shape[-1])
    return x.permute(0, 1, 3, 2, 4, 5).reshape(-1, h, w, x.shape[-1])


class WindowAttention(nn.Module):
    def __init__(self, dim: int) -> None:
        super().__init__()
        self.scale = (dim // HEADS) ** -0.5
        self.bias_table = nn.Parameter(torch.zeros((2 * WINDOW - 1) ** 2, HEADS))
        places = torch.stack(torch.meshgrid(torch.arange(WINDOW), torch.arange(WINDOW), indexing="ij")).flatten(1)
        apart = places[:, :, None] - places[:, None, :] + WINDOW - 1
        self.register_buffer("index", apart[0] * (2 * WINDOW - 1) + apart[1], persistent=False)
        self.qkv = nn.Linear(dim, dim * 3)
        self.proj = nn.Linear(dim, dim)

    def forward(self, x: Tensor, mask: Tensor | None) -> Tensor:
        windows, n, c = x.shape
        q, k, v = self.qkv(x).reshape(windows, n, 3, HEADS, c // HEADS).permute(2, 0, 3, 1, 4).unbind(0)
        attn = (q * self.scale) @ k.transpose(-2, -1)
        attn = attn + self.bias_table[self.index].permute(2, 0, 1).unsqueeze(0)
        if mask is not None:
            count = mask.shape[0]
            attn = attn.view(windows // count, count, HEADS, n, n) + mask[None, :, None]
            attn = attn.view(-1, HEADS, n, n)
        return self.proj((attn.softmax(-1) @ v).transpose(1, 2).reshape(windows, n, c))


class SwinBlock(nn.Module):
    def __init__(self, dim: int, side: int, shift: int) -> None:
        super().__init__()
        self.side = side
        self.shift = shift if side > WINDOW else 0
        self.norm1 = nn.LayerNorm(dim, eps=EPS)
        self.attn = WindowAttention(dim)
        self.norm2 = nn.LayerNorm(dim, eps=EPS)
        self.mlp = nn.Sequential(nn.Linear(dim, 2 * dim), nn.GELU(), nn.Linear(2 * dim, dim))
        self.register_buffer("mask", self.make_mask() if self.shift else None, persistent=False)

    def make_mask(self) -> Tensor:
        region = torch.zeros(1, self.side, self.side, 1)
        number = 0
        cuts = (slice(0, -WINDOW), slice(-WINDOW, -self.shift), slice(-self.shift, None))
        for rows in cuts:
            for columns in cuts:
                region[:, rows, columns] = number
                number += 1
        numbers = to_windows(region).squeeze(-1)
        return torch.where(numbers[:, None] == numbers[:, :, None], 0.0, -100.0)

    def forward(self, x: Tensor) -> Tensor:
        b, n, c = x.shape
        y = self.norm1(x).view(b, self.side, self.side, c)
        if self.shift:
            y = torch.roll(y, (-self.shift, -self.shift), (1, 2))
        y = from_windows(self.attn(to_windows(y), self.mask), self.side, self.side)
        if self.shift:
            y = torch.roll(y, (self.shift, self.shift), (1, 2))
        x = x + y.view(b, n, c)
        return x + self.mlp(self.norm2(x))


class PatchMerging(nn.Module):
    def __init__(self, dim: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(4 * dim)
        self.reduction = nn.Linear(4 * dim, 2 * dim, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        b, n, c = x.shape
        x = x.view(b, int(n**0.5), int(n**0.5), c)
        x = torch.cat([x[:, 0::2, 0::2], x[:, 1::2, 0::2], x[:, 0::2, 1::2], x[:, 1::2, 1::2]], -1)
        return self.reduction(self.norm(x.flatten(1, 2)))


class SwinTransformer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.patch = nn.Conv2d(3, WIDTH, 2, 2)
        self.patch_norm = nn.LayerNorm(WIDTH)
        side = SIDE // 2
        self.stages = nn.Sequential(
            *(SwinBlock(WIDTH, side, shift) for shift in (0, WINDOW // 2)),
            PatchMerging(WIDTH),
            *(SwinBlock(2 * WIDTH, side // 2, shift) for shift in (0, WINDOW // 2)),
        )
        self.norm = nn.LayerNorm(2 * WIDTH, eps=EPS)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        x = self.patch_norm(self.patch(x).flatten(2).transpose(1, 2))
        x = self.norm(self.stages(x))
        return x, x.transpose(1, 2).mean(-1)


NAMES = {
    "norm1": "layernorm_before", "norm2": "layernorm_after", "attn.proj": "attention.o_proj", "mlp.0": "mlp.fc1",
    "mlp.2": "mlp.fc2",
}  # fmt: skip
BLOCKS = {0: "encoder.layers.0.blocks.0", 1: "encoder.layers.0.blocks.1",
          3: "encoder.layers.1.blocks.0", 4: "encoder.layers.1.blocks.1"}  # fmt: skip


def port(reference: nn.Module) -> nn.Module:
    w = reference.state_dict()
    state = {"stages.2.reduction.weight": w["encoder.layers.0.downsample.reduction.weight"]}
    for part in ("weight", "bias"):
        state[f"patch.{part}"] = w[f"embeddings.patch_embeddings.projection.{part}"]
        state[f"patch_norm.{part}"] = w[f"embeddings.norm.{part}"]
        state[f"norm.{part}"] = w[f"layernorm.{part}"]
        state[f"stages.2.norm.{part}"] = w[f"encoder.layers.0.downsample.norm.{part}"]
        for number, source in BLOCKS.items():
            target = f"stages.{number}"
            state |= {
                f"{target}.{target_name}.{part}": w[f"{source}.{name}.{part}"] for target_name, name in NAMES.items()
            }
            state[f"{target}.attn.qkv.{part}"] = torch.cat([w[f"{source}.attention.{a}_proj.{part}"] for a in "qkv"])
            table = w[f"{source}.attention.relative_position_bias.relative_position_bias_table"]
            state[f"{target}.attn.bias_table"] = table
    module = SwinTransformer()
    module.load_state_dict(state)
    return module


TWINS = [Twin("swin/microsoft", build, port, inputs)]
