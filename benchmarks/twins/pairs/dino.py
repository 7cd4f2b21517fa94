"""DINOv2 with registers and its head, against one with layer scales in the weights, and q, k, v and gates apart.

A bias that isn't scaled is one of the last product inside `attn` and a factor of `ls1` beside it. The port has one
product for both, which returns neither what `attn` nor what `ls1` returns: the block is the smallest Cell around them.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.utils.parametrizations import weight_norm

from ..twin import Twin

WIDTH, HEADS, HIDDEN, PATCH, HEIGHT, BREADTH, REGISTERS, DEPTH, BOTTLENECK, PROTOTYPES = 12, 2, 22, 4, 8, 12, 3, 2, 7, 9


class PatchEmbed(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.proj, self.norm = nn.Conv2d(3, WIDTH, PATCH, PATCH), nn.Identity()

    def forward(self, x: Tensor) -> Tensor:
        return self.norm(self.proj(x).flatten(2).transpose(1, 2))


class LayerScale(nn.Module):
    def __init__(self, inplace: bool = False) -> None:
        super().__init__()
        self.inplace, self.gamma = inplace, nn.Parameter(0.1 * torch.ones(WIDTH))

    def forward(self, x: Tensor) -> Tensor:
        return x.mul_(self.gamma) if self.inplace else x * self.gamma


class Attention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.scale, self.qkv, self.proj = (WIDTH // HEADS) ** -0.5, nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        b, n, c = x.shape
        qkv = self.qkv(x).reshape(b, n, 3, HEADS, c // HEADS).permute(2, 0, 3, 1, 4)
        q, k, v = qkv[0] * self.scale, qkv[1], qkv[2]
        attn = (q @ k.transpose(-2, -1)).softmax(dim=-1)
        return self.proj((attn @ v).transpose(1, 2).reshape(b, n, c))


class SwiGLUFFN(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.w12, self.w3 = nn.Linear(WIDTH, 2 * HIDDEN), nn.Linear(HIDDEN, WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        x1, x2 = self.w12(x).chunk(2, dim=-1)
        return self.w3(F.silu(x1) * x2)


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm1, self.attn, self.ls1 = nn.LayerNorm(WIDTH, eps=1e-6), Attention(), LayerScale()
        self.norm2, self.mlp, self.ls2 = nn.LayerNorm(WIDTH, eps=1e-6), SwiGLUFFN(), LayerScale()

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.ls1(self.attn(self.norm1(x)))
        return x + self.ls2(self.mlp(self.norm2(x)))


class DINOHead(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.mlp = nn.Sequential(nn.Linear(WIDTH, 16), nn.GELU(), nn.Linear(16, BOTTLENECK))
        self.last_layer = weight_norm(nn.Linear(BOTTLENECK, PROTOTYPES, bias=False))

    def forward(self, x: Tensor) -> Tensor:
        x = self.mlp(x)
        eps = 1e-6 if x.dtype == torch.float16 else 1e-12
        return self.last_layer(F.normalize(x, dim=-1, p=2, eps=eps))


class DinoVisionTransformer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.patch_embed = PatchEmbed()
        self.cls_token = nn.Parameter(torch.zeros(1, 1, WIDTH))
        self.pos_embed = nn.Parameter(torch.zeros(1, 1 + HEIGHT * BREADTH // PATCH**2, WIDTH))
        self.register_tokens = nn.Parameter(torch.zeros(1, REGISTERS, WIDTH))
        self.blocks, self.norm = nn.ModuleList(Block() for _ in range(DEPTH)), nn.LayerNorm(WIDTH, eps=1e-6)
        self.dino_head = DINOHead()

    def prepare_tokens(self, x: Tensor) -> Tensor:
        x = self.patch_embed(x)
        x = torch.cat((self.cls_token.expand(x.shape[0], -1, -1), x), dim=1)
        x = x + self.pos_embed
        return torch.cat((x[:, :1], self.register_tokens.expand(x.shape[0], -1, -1), x[:, 1:]), dim=1)

    def forward(self, x: Tensor) -> dict[str, Tensor]:
        x = self.prepare_tokens(x)
        for blk in self.blocks:
            x = blk(x)
        x = self.norm(x)
        return {"prototypes": self.dino_head(x[:, 0]), "patches": x[:, REGISTERS + 1 :]}


def inputs() -> tuple[Tensor, ...]:
    return (torch.randn(2, 3, HEIGHT, BREADTH),)


class MultiHead(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.query, self.key, self.value, self.output = (nn.Linear(WIDTH, WIDTH) for _ in range(4))

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = (layer(x).unflatten(-1, (HEADS, -1)).transpose(1, 2) for layer in (self.query, self.key, self.value))
        return self.output(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2))


class Gated(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.gate, self.up, self.down = nn.Linear(WIDTH, HIDDEN), nn.Linear(WIDTH, HIDDEN), nn.Linear(HIDDEN, WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        return self.down(F.silu(self.gate(x)) * self.up(x))


class Layer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.before_attention, self.attention = nn.LayerNorm(WIDTH, 1e-6), MultiHead()
        self.before_mlp, self.mlp = nn.LayerNorm(WIDTH, 1e-6), Gated()

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.attention(self.before_attention(x))
        return x + self.mlp(self.before_mlp(x))


class Dino(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.patches = nn.Conv2d(3, WIDTH, PATCH, PATCH)
        self.first, self.registers = nn.Parameter(torch.zeros(WIDTH)), nn.Parameter(torch.zeros(REGISTERS, WIDTH))
        self.positions = nn.Parameter(torch.zeros(HEIGHT * BREADTH // PATCH**2, WIDTH))
        self.layers, self.norm = nn.Sequential(*(Layer() for _ in range(DEPTH))), nn.LayerNorm(WIDTH, 1e-6)
        self.head1, self.head2 = nn.Linear(WIDTH, 16), nn.Linear(16, BOTTLENECK)
        self.prototypes = nn.Linear(BOTTLENECK, PROTOTYPES, bias=False)

    def forward(self, image: Tensor) -> tuple[Tensor, Tensor]:
        x = self.patches(image).flatten(2).mT + self.positions
        prefix = torch.cat([self.first[None], self.registers]).expand(len(x), -1, -1)
        x = self.norm(self.layers(torch.cat([prefix, x], 1)))
        y = self.head2(F.gelu(self.head1(x[:, 0])))
        y = y / y.norm(dim=-1, keepdim=True).clamp(min=1e-12)
        return self.prototypes(y), x[:, 1 + REGISTERS :]


def port(reference: nn.Module) -> nn.Module:
    w = reference.state_dict()
    state: dict[str, Tensor] = {}

    def copy(to: str, of: str) -> None:
        state[f"{to}.weight"], state[f"{to}.bias"] = w[f"{of}.weight"], w[f"{of}.bias"]

    def scaled(to: str, of: str, gamma: str) -> None:
        state[f"{to}.weight"], state[f"{to}.bias"] = w[gamma][:, None] * w[f"{of}.weight"], w[gamma] * w[f"{of}.bias"]

    copy("patches", "patch_embed.proj")
    positions = w["pos_embed"][0]
    state["first"], state["positions"] = w["cls_token"][0, 0] + positions[0], positions[1:]
    state["registers"] = w["register_tokens"][0]
    for i in range(DEPTH):
        to, of = f"layers.{i}", f"blocks.{i}"
        copy(f"{to}.before_attention", f"{of}.norm1")
        copy(f"{to}.before_mlp", f"{of}.norm2")
        for part in ("weight", "bias"):
            for name, rows in zip(("query", "key", "value"), w[f"{of}.attn.qkv.{part}"].chunk(3), strict=True):
                state[f"{to}.attention.{name}.{part}"] = rows
            state[f"{to}.mlp.gate.{part}"], state[f"{to}.mlp.up.{part}"] = w[f"{of}.mlp.w12.{part}"].chunk(2)
        scaled(f"{to}.attention.output", f"{of}.attn.proj", f"{of}.ls1.gamma")
        scaled(f"{to}.mlp.down", f"{of}.mlp.w3", f"{of}.ls2.gamma")
    copy("norm", "norm")
    copy("head1", "dino_head.mlp.0")
    copy("head2", "dino_head.mlp.2")
    g, v = (w[f"dino_head.last_layer.parametrizations.weight.original{i}"] for i in (0, 1))
    state["prototypes.weight"] = g * v / v.norm(dim=1, keepdim=True)
    module = Dino()
    module.load_state_dict(state)
    return module


TWINS = [Twin("dino/folded", DinoVisionTransformer, port, inputs)]
