"""U-Net of guided diffusion, against one with group norms written out, scale and shift apart, and skips by name."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ..twin import Twin

CHANNELS, EMBEDDING, GROUPS, HEADS = 12, 20, 4, 2


class GroupNorm32(nn.GroupNorm):
    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x.float()).type(x.dtype)


def normalization(channels: int) -> nn.Module:
    return GroupNorm32(GROUPS, channels)


def timestep_embedding(timesteps: Tensor, dim: int, max_period: int = 10000) -> Tensor:
    half = dim // 2
    freqs = torch.exp(-math.log(max_period) * torch.arange(start=0, end=half, dtype=torch.float32) / half)
    args = timesteps[:, None].float() * freqs[None]
    return torch.cat([torch.cos(args), torch.sin(args)], dim=-1)


class ResBlock(nn.Module):
    def __init__(self, channels: int, out: int) -> None:
        super().__init__()
        self.in_layers = nn.Sequential(normalization(channels), nn.SiLU(), nn.Conv2d(channels, out, 3, padding=1))
        self.emb_layers = nn.Sequential(nn.SiLU(), nn.Linear(EMBEDDING, 2 * out))
        self.out_layers = nn.Sequential(
            normalization(out), nn.SiLU(), nn.Dropout(0.1), nn.Conv2d(out, out, 3, padding=1)
        )
        self.skip_connection = nn.Identity() if channels == out else nn.Conv2d(channels, out, 1)

    def forward(self, x: Tensor, emb: Tensor) -> Tensor:
        h = self.in_layers(x)
        emb_out = self.emb_layers(emb).type(h.dtype)
        while len(emb_out.shape) < len(h.shape):
            emb_out = emb_out[..., None]
        out_norm, out_rest = self.out_layers[0], self.out_layers[1:]
        scale, shift = torch.chunk(emb_out, 2, dim=1)
        h = out_norm(h) * (1 + scale) + shift
        return self.skip_connection(x) + out_rest(h)


class QKVAttentionLegacy(nn.Module):
    def forward(self, qkv: Tensor) -> Tensor:
        bs, width, length = qkv.shape
        ch = width // (3 * HEADS)
        q, k, v = qkv.reshape(bs * HEADS, ch * 3, length).split(ch, dim=1)
        scale = 1 / math.sqrt(math.sqrt(ch))
        weight = torch.einsum("bct,bcs->bts", q * scale, k * scale)
        weight = torch.softmax(weight.float(), dim=-1).type(weight.dtype)
        return torch.einsum("bts,bcs->bct", weight, v).reshape(bs, -1, length)


class AttentionBlock(nn.Module):
    def __init__(self, channels: int) -> None:
        super().__init__()
        self.norm, self.qkv = normalization(channels), nn.Conv1d(channels, channels * 3, 1)
        self.attention, self.proj_out = QKVAttentionLegacy(), nn.Conv1d(channels, channels, 1)

    def forward(self, x: Tensor) -> Tensor:
        b, c, *spatial = x.shape
        x = x.reshape(b, c, -1)
        return (x + self.proj_out(self.attention(self.qkv(self.norm(x))))).reshape(b, c, *spatial)


class Upsample(nn.Module):
    def __init__(self, channels: int) -> None:
        super().__init__()
        self.conv = nn.Conv2d(channels, channels, 3, padding=1)

    def forward(self, x: Tensor) -> Tensor:
        return self.conv(F.interpolate(x, scale_factor=2, mode="nearest"))


class Downsample(nn.Module):
    def __init__(self, channels: int) -> None:
        super().__init__()
        self.op = nn.Conv2d(channels, channels, 3, stride=2, padding=1)

    def forward(self, x: Tensor) -> Tensor:
        return self.op(x)


class TimestepEmbedSequential(nn.Sequential):
    def forward(self, x: Tensor, emb: Tensor) -> Tensor:
        for layer in self:
            x = layer(x, emb) if isinstance(layer, ResBlock) else layer(x)
        return x


class UNetModel(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.time_embed = nn.Sequential(nn.Linear(CHANNELS, EMBEDDING), nn.SiLU(), nn.Linear(EMBEDDING, EMBEDDING))
        self.input_blocks = nn.ModuleList([
            TimestepEmbedSequential(nn.Conv2d(3, CHANNELS, 3, padding=1)),
            TimestepEmbedSequential(ResBlock(CHANNELS, CHANNELS)), TimestepEmbedSequential(Downsample(CHANNELS)),
            TimestepEmbedSequential(ResBlock(CHANNELS, 16), AttentionBlock(16)),
        ])  # fmt: skip
        self.middle_block = TimestepEmbedSequential(ResBlock(16, 16), AttentionBlock(16), ResBlock(16, 16))
        self.output_blocks = nn.ModuleList([
            TimestepEmbedSequential(ResBlock(32, 16), AttentionBlock(16)),
            TimestepEmbedSequential(ResBlock(16 + CHANNELS, 16), AttentionBlock(16), Upsample(16)),
            TimestepEmbedSequential(ResBlock(16 + CHANNELS, CHANNELS)),
            TimestepEmbedSequential(ResBlock(2 * CHANNELS, CHANNELS)),
        ])  # fmt: skip
        self.out = nn.Sequential(normalization(CHANNELS), nn.SiLU(), nn.Conv2d(CHANNELS, 3, 3, padding=1))

    def forward(self, x: Tensor, timesteps: Tensor) -> Tensor:
        h, hs, emb = x, [], self.time_embed(timestep_embedding(timesteps, CHANNELS))
        for module in self.input_blocks:
            h = module(h, emb)
            hs.append(h)
        h = self.middle_block(h, emb)
        for module in self.output_blocks:
            h = module(torch.cat([h, hs.pop()], dim=1), emb)
        return self.out(h)


def inputs() -> tuple[Tensor, ...]:
    return torch.randn(2, 3, 8, 12), torch.tensor([7, 131])


class Norm(nn.Module):
    def __init__(self, channels: int) -> None:
        super().__init__()
        self.scale, self.bias = nn.Parameter(torch.ones(channels)), nn.Parameter(torch.zeros(channels))

    def forward(self, x: Tensor) -> Tensor:
        b, c, h, w = x.shape
        g = x.reshape(b, GROUPS, -1)
        g = g - g.mean(-1, keepdim=True)
        g = g / torch.sqrt((g * g).mean(-1, keepdim=True) + 1e-5)
        return g.reshape(b, c, h, w) * self.scale[:, None, None] + self.bias[:, None, None]


def swish(x: Tensor) -> Tensor:
    return x * torch.sigmoid(x)


class Residual(nn.Module):
    def __init__(self, size_in: int, size_out: int) -> None:
        super().__init__()
        self.norm1, self.conv1 = Norm(size_in), nn.Conv2d(size_in, size_out, 3, 1, 1)
        self.norm2, self.conv2 = Norm(size_out), nn.Conv2d(size_out, size_out, 3, 1, 1)
        self.to_scale, self.to_shift = nn.Linear(EMBEDDING, size_out), nn.Linear(EMBEDDING, size_out)
        self.shortcut = nn.Conv2d(size_in, size_out, 1) if size_in != size_out else None

    def forward(self, x: Tensor, t: Tensor) -> Tensor:
        y = self.conv1(swish(self.norm1(x)))
        t = swish(t)
        scale, shift = self.to_scale(t)[:, :, None, None], self.to_shift(t)[:, :, None, None]
        y = self.norm2(y) * (scale + 1) + shift
        y = self.conv2(swish(y))
        return y + (x if self.shortcut is None else self.shortcut(x))


class SelfAttention(nn.Module):
    def __init__(self, channels: int) -> None:
        super().__init__()
        self.norm, self.q, self.k, self.v, self.out = Norm(channels), *(nn.Linear(channels, channels) for _ in range(4))

    def forward(self, x: Tensor) -> Tensor:
        b, c, h, w = x.shape
        y = self.norm(x).flatten(2).mT
        q, k, v = (layer(y).view(b, h * w, HEADS, -1).transpose(1, 2) for layer in (self.q, self.k, self.v))
        y = F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(b, h * w, c)
        return x + self.out(y).mT.reshape(b, c, h, w)


class Denoiser(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.time1, self.time2 = nn.Linear(CHANNELS, EMBEDDING), nn.Linear(EMBEDDING, EMBEDDING)
        self.stem, self.down1 = nn.Conv2d(3, CHANNELS, 3, 1, 1), Residual(CHANNELS, CHANNELS)
        self.halve = nn.Conv2d(CHANNELS, CHANNELS, 3, 2, 1)
        self.down2, self.down2_attn = Residual(CHANNELS, 16), SelfAttention(16)
        self.mid1, self.mid_attn, self.mid2 = Residual(16, 16), SelfAttention(16), Residual(16, 16)
        self.up1, self.up1_attn = Residual(32, 16), SelfAttention(16)
        self.up2, self.up2_attn = Residual(16 + CHANNELS, 16), SelfAttention(16)
        self.enlarge = nn.Conv2d(16, 16, 3, 1, 1)
        self.up3, self.up4 = Residual(16 + CHANNELS, CHANNELS), Residual(2 * CHANNELS, CHANNELS)
        self.last_norm, self.last = Norm(CHANNELS), nn.Conv2d(CHANNELS, 3, 3, 1, 1)

    def forward(self, x: Tensor, steps: Tensor) -> Tensor:
        frequencies = 10000.0 ** (-torch.arange(CHANNELS // 2).float() / (CHANNELS // 2))
        angles = steps[:, None] * frequencies
        t = self.time2(swish(self.time1(torch.cat([angles.cos(), angles.sin()], -1))))
        stem = self.stem(x)
        full = self.down1(stem, t)
        half = self.halve(full)
        deep = self.down2_attn(self.down2(half, t))
        y = self.mid2(self.mid_attn(self.mid1(deep, t)), t)
        y = self.up1_attn(self.up1(torch.cat([y, deep], 1), t))
        y = self.up2_attn(self.up2(torch.cat([y, half], 1), t))
        y = self.enlarge(y.repeat_interleave(2, -1).repeat_interleave(2, -2))
        y = self.up3(torch.cat([y, full], 1), t)
        y = self.up4(torch.cat([y, stem], 1), t)
        return self.last(swish(self.last_norm(y)))


def port(reference: nn.Module) -> nn.Module:
    w = reference.state_dict()
    state: dict[str, Tensor] = {}

    def copy(to: str, of: str) -> None:
        state[f"{to}.weight"], state[f"{to}.bias"] = w[f"{of}.weight"], w[f"{of}.bias"]

    def norm(to: str, of: str) -> None:
        state[f"{to}.scale"], state[f"{to}.bias"] = w[f"{of}.weight"], w[f"{of}.bias"]

    def residual(to: str, of: str) -> None:
        norm(f"{to}.norm1", f"{of}.in_layers.0")
        copy(f"{to}.conv1", f"{of}.in_layers.2")
        norm(f"{to}.norm2", f"{of}.out_layers.0")
        copy(f"{to}.conv2", f"{of}.out_layers.3")
        for kind in ("weight", "bias"):
            state[f"{to}.to_scale.{kind}"], state[f"{to}.to_shift.{kind}"] = w[f"{of}.emb_layers.1.{kind}"].chunk(2)
        if f"{of}.skip_connection.weight" in w:
            copy(f"{to}.shortcut", f"{of}.skip_connection")

    def attention(to: str, of: str) -> None:
        norm(f"{to}.norm", f"{of}.norm")
        for kind in ("weight", "bias"):
            rows = w[f"{of}.qkv.{kind}"]
            rows = rows.unflatten(0, (HEADS, 3, -1)).transpose(0, 1).flatten(1, 2)
            for letter, part in zip("qkv", rows, strict=True):
                state[f"{to}.{letter}.{kind}"] = part.squeeze(-1) if kind == "weight" else part
        copy(f"{to}.out", f"{of}.proj_out")
        state[f"{to}.out.weight"] = state[f"{to}.out.weight"].squeeze(-1)

    copy("time1", "time_embed.0")
    copy("time2", "time_embed.2")
    copy("stem", "input_blocks.0.0")
    copy("last", "out.2")
    residual("down1", "input_blocks.1.0")
    copy("halve", "input_blocks.2.0.op")
    residual("down2", "input_blocks.3.0")
    attention("down2_attn", "input_blocks.3.1")
    residual("mid1", "middle_block.0")
    attention("mid_attn", "middle_block.1")
    residual("mid2", "middle_block.2")
    for i in range(4):
        residual(f"up{i + 1}", f"output_blocks.{i}.0")
    attention("up1_attn", "output_blocks.0.1")
    attention("up2_attn", "output_blocks.1.1")
    copy("enlarge", "output_blocks.1.2.conv")
    norm("last_norm", "out.0")
    module = Denoiser()
    module.load_state_dict(state)
    return module


TWINS = [Twin("adm/by name", UNetModel, port, inputs)]
