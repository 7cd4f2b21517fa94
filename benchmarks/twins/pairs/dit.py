"""DiT as in its authors' code, against one whose modulations are computed at once for all blocks."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ..twin import Twin

WIDTH, HEADS, DEPTH, PATCH, SIDE, CHANNELS, CLASSES, FREQUENCIES = 16, 2, 2, 2, 8, 3, 5, 12


def modulate(x, shift, scale):
    return x * (1 + scale.unsqueeze(1)) + shift.unsqueeze(1)


class TimestepEmbedder(nn.Module):
    def __init__(self, hidden_size, frequency_embedding_size=FREQUENCIES):
        super().__init__()
        self.mlp = nn.Sequential(
            nn.Linear(frequency_embedding_size, hidden_size, bias=True),
            nn.SiLU(),
            nn.Linear(hidden_size, hidden_size, bias=True),
        )
        self.frequency_embedding_size = frequency_embedding_size

    @staticmethod
    def timestep_embedding(t, dim, max_period=10000):
        half = dim // 2
        freqs = torch.exp(-math.log(max_period) * torch.arange(start=0, end=half, dtype=torch.float32) / half)
        args = t[:, None].float() * freqs[None]
        return torch.cat([torch.cos(args), torch.sin(args)], dim=-1)

    def forward(self, t):
        return self.mlp(self.timestep_embedding(t, self.frequency_embedding_size))


class LabelEmbedder(nn.Module):
    def __init__(self, num_classes, hidden_size):
        super().__init__()
        self.embedding_table = nn.Embedding(num_classes + 1, hidden_size)

    def forward(self, labels):
        return self.embedding_table(labels)


class PatchEmbed(nn.Module):
    def __init__(self):
        super().__init__()
        self.proj = nn.Conv2d(CHANNELS, WIDTH, kernel_size=PATCH, stride=PATCH)

    def forward(self, x):
        return self.proj(x).flatten(2).transpose(1, 2)


class Attention(nn.Module):
    def __init__(self, dim, num_heads):
        super().__init__()
        self.num_heads = num_heads
        self.head_dim = dim // num_heads
        self.qkv = nn.Linear(dim, dim * 3, bias=True)
        self.proj = nn.Linear(dim, dim)

    def forward(self, x):
        b, n, c = x.shape
        qkv = self.qkv(x).reshape(b, n, 3, self.num_heads, self.head_dim).permute(2, 0, 3, 1, 4)
        q, k, v = qkv.unbind(0)
        x = F.scaled_dot_product_attention(q, k, v)
        return self.proj(x.transpose(1, 2).reshape(b, n, c))


class Mlp(nn.Module):
    def __init__(self, dim, hidden):
        super().__init__()
        self.fc1 = nn.Linear(dim, hidden)
        self.act = nn.GELU(approximate="tanh")
        self.fc2 = nn.Linear(hidden, dim)

    def forward(self, x):
        return self.fc2(self.act(self.fc1(x)))


class DiTBlock(nn.Module):
    def __init__(self, hidden_size, num_heads, mlp_ratio=3.0):
        super().__init__()
        self.norm1 = nn.LayerNorm(hidden_size, elementwise_affine=False, eps=1e-6)
        self.attn = Attention(hidden_size, num_heads)
        self.norm2 = nn.LayerNorm(hidden_size, elementwise_affine=False, eps=1e-6)
        self.mlp = Mlp(hidden_size, int(hidden_size * mlp_ratio))
        self.adaLN_modulation = nn.Sequential(nn.SiLU(), nn.Linear(hidden_size, 6 * hidden_size, bias=True))

    def forward(self, x, c):
        shift_msa, scale_msa, gate_msa, shift_mlp, scale_mlp, gate_mlp = self.adaLN_modulation(c).chunk(6, dim=1)
        x = x + gate_msa.unsqueeze(1) * self.attn(modulate(self.norm1(x), shift_msa, scale_msa))
        return x + gate_mlp.unsqueeze(1) * self.mlp(modulate(self.norm2(x), shift_mlp, scale_mlp))


class FinalLayer(nn.Module):
    def __init__(self, hidden_size, patch_size, out_channels):
        super().__init__()
        self.norm_final = nn.LayerNorm(hidden_size, elementwise_affine=False, eps=1e-6)
        self.linear = nn.Linear(hidden_size, patch_size * patch_size * out_channels, bias=True)
        self.adaLN_modulation = nn.Sequential(nn.SiLU(), nn.Linear(hidden_size, 2 * hidden_size, bias=True))

    def forward(self, x, c):
        shift, scale = self.adaLN_modulation(c).chunk(2, dim=1)
        return self.linear(modulate(self.norm_final(x), shift, scale))


class DiT(nn.Module):
    def __init__(self):
        super().__init__()
        self.x_embedder = PatchEmbed()
        self.t_embedder = TimestepEmbedder(WIDTH)
        self.y_embedder = LabelEmbedder(CLASSES, WIDTH)
        grid = torch.arange((SIDE // PATCH) ** 2).float()
        angles = grid[:, None] / 10 ** (torch.arange(WIDTH // 2) / 4)
        self.pos_embed = nn.Parameter(torch.cat([angles.sin(), angles.cos()], 1)[None], requires_grad=False)
        self.blocks = nn.ModuleList([DiTBlock(WIDTH, HEADS) for _ in range(DEPTH)])
        self.final_layer = FinalLayer(WIDTH, PATCH, 2 * CHANNELS)

    def unpatchify(self, x):
        c, p = 2 * CHANNELS, PATCH
        h = w = int(x.shape[1] ** 0.5)
        x = x.reshape(shape=(x.shape[0], h, w, p, p, c))
        x = torch.einsum("nhwpqc->nchpwq", x)
        return x.reshape(shape=(x.shape[0], c, h * p, h * p))

    def forward(self, x, t, y):
        x = self.x_embedder(x) + self.pos_embed
        c = self.t_embedder(t) + self.y_embedder(y)
        for block in self.blocks:
            x = block(x, c)
        return self.unpatchify(self.final_layer(x, c))


def inputs() -> tuple[Tensor, ...]:
    return torch.randn(2, CHANNELS, SIDE, SIDE), torch.tensor([7, 431]), torch.tensor([2, 5])


class Mixer(nn.Module):
    """Attention and what follows it; shifts, scales and gates come from outside, [6, batch, 1, width]."""

    def __init__(self) -> None:
        super().__init__()
        self.to_q, self.to_k, self.to_v = (nn.Linear(WIDTH, WIDTH) for _ in range(3))
        self.to_out = nn.Linear(WIDTH, WIDTH)
        self.ff = nn.Sequential(nn.Linear(WIDTH, 3 * WIDTH), nn.GELU(approximate="tanh"), nn.Linear(3 * WIDTH, WIDTH))

    def forward(self, x: Tensor, modulation: Tensor) -> Tensor:
        shift_a, scale_a, gate_a, shift_b, scale_b, gate_b = modulation
        y = F.layer_norm(x, (WIDTH,), eps=1e-6) * (1 + scale_a) + shift_a
        q, k, v = (to(y).unflatten(-1, (HEADS, -1)) for to in (self.to_q, self.to_k, self.to_v))
        weights = torch.softmax(torch.einsum("bnhd,bmhd->bhnm", q, k) / math.sqrt(WIDTH // HEADS), -1)
        x = x + gate_a * self.to_out(torch.einsum("bhnm,bmhd->bnhd", weights, v).flatten(2))
        y = F.layer_norm(x, (WIDTH,), eps=1e-6) * (1 + scale_b) + shift_b
        return x + gate_b * self.ff(y)


class Diffuser(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.patch = nn.Linear(PATCH * PATCH * CHANNELS, WIDTH)
        self.register_buffer("position", torch.zeros((SIDE // PATCH) ** 2, WIDTH))
        self.time_1, self.time_2 = nn.Linear(FREQUENCIES, WIDTH), nn.Linear(WIDTH, WIDTH)
        self.label = nn.Embedding(CLASSES + 1, WIDTH)
        self.modulation = nn.Linear(WIDTH, (6 * DEPTH + 2) * WIDTH)
        self.blocks = nn.ModuleList(Mixer() for _ in range(DEPTH))
        self.out = nn.Linear(WIDTH, PATCH * PATCH * 2 * CHANNELS)

    def time(self, t: Tensor) -> Tensor:
        half = FREQUENCIES // 2
        angles = t[:, None] * 10000.0 ** (-torch.arange(half) / half)
        waves = torch.cat([angles.cos(), angles.sin()], -1)
        return self.time_2(F.silu(self.time_1(waves)))

    def forward(self, image: Tensor, t: Tensor, y: Tensor) -> dict[str, Tensor]:
        side = SIDE // PATCH
        x = image.unfold(2, PATCH, PATCH).unfold(3, PATCH, PATCH).permute(0, 2, 3, 1, 4, 5).reshape(-1, side**2, 12)
        x = self.patch(x) + self.position
        condition = F.silu(self.time(t) + self.label(y))
        parts = self.modulation(condition).unflatten(-1, (-1, WIDTH)).transpose(0, 1).unsqueeze(2)
        for i, block in enumerate(self.blocks):
            x = block(x, parts[6 * i : 6 * i + 6])
        shift, scale = parts[-2], parts[-1]
        x = self.out(F.layer_norm(x, (WIDTH,), eps=1e-6) * (1 + scale) + shift)
        x = x.view(-1, side, side, PATCH, PATCH, 2 * CHANNELS).permute(0, 5, 1, 3, 2, 4)
        return {"sample": x.reshape(-1, 2 * CHANNELS, SIDE, SIDE)}


def port(reference: nn.Module) -> nn.Module:
    w = reference.state_dict()
    state = {
        "patch.weight": w["x_embedder.proj.weight"].flatten(1),
        "patch.bias": w["x_embedder.proj.bias"],
        "position": w["pos_embed"][0],
        "label.weight": w["y_embedder.embedding_table.weight"],
    }
    for part in ("weight", "bias"):
        state |= {f"time_1.{part}": w[f"t_embedder.mlp.0.{part}"], f"time_2.{part}": w[f"t_embedder.mlp.2.{part}"]}
        state[f"out.{part}"] = w[f"final_layer.linear.{part}"]
        rows = [w[f"blocks.{i}.adaLN_modulation.1.{part}"] for i in range(DEPTH)]
        shift, scale = w[f"final_layer.adaLN_modulation.1.{part}"].chunk(2)
        state[f"modulation.{part}"] = torch.cat([*rows, shift, scale])
        for i in range(DEPTH):
            for n, r in zip("qkv", w[f"blocks.{i}.attn.qkv.{part}"].chunk(3), strict=True):
                state[f"blocks.{i}.to_{n}.{part}"] = r
            state[f"blocks.{i}.to_out.{part}"] = w[f"blocks.{i}.attn.proj.{part}"]
            state[f"blocks.{i}.ff.0.{part}"] = w[f"blocks.{i}.mlp.fc1.{part}"]
            state[f"blocks.{i}.ff.2.{part}"] = w[f"blocks.{i}.mlp.fc2.{part}"]
    module = Diffuser()
    module.load_state_dict(state)
    return module


TWINS = [Twin("dit/modulated at once", DiT, port, inputs)]
