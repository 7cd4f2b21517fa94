"""BEiT as its authors write it, against an engine's kind: dicts of tensors, with the biases by distance written out."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ..twin import Twin

WIDTH, HEADS, DEPTH, PATCH, SIDE_H, SIDE_W, HIDDEN = 12, 3, 2, 4, 12, 16, 30
GRID = (SIDE_H // PATCH, SIDE_W // PATCH)


class PatchEmbed(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.proj = nn.Conv2d(3, WIDTH, PATCH, PATCH)

    def forward(self, x: Tensor) -> Tensor:
        return self.proj(x).flatten(2).transpose(1, 2)


def relative_index(h: int, w: int) -> tuple[Tensor, int]:
    coords = torch.stack(torch.meshgrid(torch.arange(h), torch.arange(w), indexing="ij")).flatten(1)
    apart = (coords[:, :, None] - coords[:, None, :]).permute(1, 2, 0)
    apart[:, :, 0] += h - 1
    apart[:, :, 1] += w - 1
    apart[:, :, 0] *= 2 * w - 1
    count = (2 * h - 1) * (2 * w - 1) + 3
    index = torch.zeros((h * w + 1,) * 2, dtype=torch.long)
    index[1:, 1:] = apart.sum(-1)
    index[0, 0:], index[0:, 0], index[0, 0] = count - 3, count - 2, count - 1
    return index, count


class Attention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.num_heads, self.scale = HEADS, (WIDTH // HEADS) ** -0.5
        self.qkv = nn.Linear(WIDTH, 3 * WIDTH, bias=False)
        self.q_bias, self.v_bias = nn.Parameter(torch.zeros(WIDTH)), nn.Parameter(torch.zeros(WIDTH))
        index, count = relative_index(*GRID)
        self.relative_position_bias_table = nn.Parameter(torch.zeros(count, HEADS))
        self.register_buffer("relative_position_index", index)
        self.attn_drop, self.proj, self.proj_drop = nn.Dropout(0.0), nn.Linear(WIDTH, WIDTH), nn.Dropout(0.0)

    def forward(self, x: Tensor) -> Tensor:
        b, n, c = x.shape
        bias = torch.cat((self.q_bias, torch.zeros_like(self.v_bias, requires_grad=False), self.v_bias))
        qkv = F.linear(x, self.qkv.weight, bias).reshape(b, n, 3, self.num_heads, -1).permute(2, 0, 3, 1, 4)
        q, k, v = qkv[0], qkv[1], qkv[2]
        attn = (q * self.scale) @ k.transpose(-2, -1)
        relative = self.relative_position_bias_table[self.relative_position_index.view(-1)].view(n, n, -1)
        attn = attn + relative.permute(2, 0, 1).contiguous().unsqueeze(0)
        attn = self.attn_drop(attn.softmax(dim=-1))
        x = (attn @ v).transpose(1, 2).reshape(b, n, c)
        return self.proj_drop(self.proj(x))


class Mlp(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.fc1, self.act = nn.Linear(WIDTH, HIDDEN), nn.GELU()
        self.fc2, self.drop = nn.Linear(HIDDEN, WIDTH), nn.Dropout(0.0)

    def forward(self, x: Tensor) -> Tensor:
        return self.drop(self.fc2(self.act(self.fc1(x))))


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm1, self.attn = nn.LayerNorm(WIDTH, eps=1e-6), Attention()
        self.drop_path = nn.Identity()
        self.norm2, self.mlp = nn.LayerNorm(WIDTH, eps=1e-6), Mlp()
        self.gamma_1, self.gamma_2 = nn.Parameter(0.1 * torch.ones(WIDTH)), nn.Parameter(0.1 * torch.ones(WIDTH))

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.drop_path(self.gamma_1 * self.attn(self.norm1(x)))
        return x + self.drop_path(self.gamma_2 * self.mlp(self.norm2(x)))


class Beit(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.patch_embed, self.cls_token = PatchEmbed(), nn.Parameter(torch.zeros(1, 1, WIDTH))
        self.pos_drop = nn.Dropout(0.0)
        self.blocks = nn.ModuleList(Block() for _ in range(DEPTH))
        self.norm, self.fc_norm = nn.Identity(), nn.LayerNorm(WIDTH, eps=1e-6)
        self.head = nn.Linear(WIDTH, 5)

    def forward(self, x: Tensor) -> Tensor:
        x = self.patch_embed(x)
        x = self.pos_drop(torch.cat((self.cls_token.expand(x.shape[0], -1, -1), x), dim=1))
        for block in self.blocks:
            x = block(x)
        return self.head(self.fc_norm(self.norm(x)[:, 1:, :].mean(1)))


def inputs() -> tuple[Tensor, ...]:
    return (torch.randn(2, 3, SIDE_H, SIDE_W),)


def attend(x: Tensor, w: nn.ParameterDict) -> Tensor:
    b, n, _ = x.shape
    scale = (WIDTH // HEADS) ** -0.5
    q = (x @ w["wq"] + w["bq"]) * scale
    k, v = x @ w["wk"], x @ w["wv"] + w["bv"]
    q, k, v = (t.view(b, n, HEADS, -1) for t in (q, k, v))
    scores = torch.einsum("bihd,bjhd->bhij", q, k) + w["bias"]
    y = torch.einsum("bhij,bjhd->bihd", scores.softmax(-1), v).flatten(2)
    return y @ w["wo"] + w["bo"]


def feed_forward(x: Tensor, w: nn.ParameterDict) -> Tensor:
    return F.gelu(x @ w["w1"] + w["b1"]) @ w["w2"] + w["b2"]


def layer_norm(x: Tensor, gain: Tensor, offset: Tensor) -> Tensor:
    return F.layer_norm(x, (WIDTH,), gain, offset, 1e-6)


class Engine(nn.Module):
    def __init__(self, tensors: dict[str, nn.Parameter], layers: list[dict[str, nn.Parameter]]) -> None:
        super().__init__()
        self.tensors = nn.ParameterDict(tensors)
        self.layers = nn.ModuleList(nn.ParameterDict(layer) for layer in layers)

    def forward(self, image: Tensor) -> Tensor:
        t = self.tensors
        b = image.shape[0]
        patches = image.unfold(2, PATCH, PATCH).unfold(3, PATCH, PATCH)
        x = patches.permute(0, 2, 3, 4, 5, 1).reshape(b, GRID[0] * GRID[1], -1) @ t["patch"] + t["patch_bias"]
        x = torch.cat([t["cls"].expand(b, 1, WIDTH), x], 1)
        for w in self.layers:
            x = x + w["scale_a"] * attend(layer_norm(x, w["g1"], w["o1"]), w)
            x = x + w["scale_f"] * feed_forward(layer_norm(x, w["g2"], w["o2"]), w)
        x = layer_norm(x[:, 1:].mean(1), t["g"], t["o"])
        return x @ t["head"] + t["head_bias"]


def own(tensors: dict[str, Tensor]) -> dict[str, nn.Parameter]:
    return {name: nn.Parameter(tensor.clone().contiguous()) for name, tensor in tensors.items()}


def port(reference: nn.Module) -> nn.Module:
    w = reference.state_dict()
    tensors = {
        "patch": w["patch_embed.proj.weight"].permute(2, 3, 1, 0).flatten(0, 2),
        "patch_bias": w["patch_embed.proj.bias"],
        "cls": w["cls_token"][0, 0],
        "g": w["fc_norm.weight"],
        "o": w["fc_norm.bias"],
        "head": w["head.weight"].T,
        "head_bias": w["head.bias"],
    }
    layers = []
    for i in range(DEPTH):
        layer = f"blocks.{i}."
        q, k, v = w[layer + "attn.qkv.weight"].chunk(3)
        table, index = w[layer + "attn.relative_position_bias_table"], w[layer + "attn.relative_position_index"]
        layers.append(
            {
                "wq": q.T,
                "wk": k.T,
                "wv": v.T,
                "bq": w[layer + "attn.q_bias"],
                "bv": w[layer + "attn.v_bias"],
                "bias": table[index].permute(2, 0, 1),
                "wo": w[layer + "attn.proj.weight"].T,
                "bo": w[layer + "attn.proj.bias"],
                "w1": w[layer + "mlp.fc1.weight"].T,
                "b1": w[layer + "mlp.fc1.bias"],
                "w2": w[layer + "mlp.fc2.weight"].T,
                "b2": w[layer + "mlp.fc2.bias"],
                "g1": w[layer + "norm1.weight"],
                "o1": w[layer + "norm1.bias"],
                "g2": w[layer + "norm2.weight"],
                "o2": w[layer + "norm2.bias"],
                "scale_a": w[layer + "gamma_1"],
                "scale_f": w[layer + "gamma_2"],
            }
        )
    return Engine(own(tensors), [own(tensors) for tensors in layers])


TWINS = [Twin("beit/engine", Beit, port, inputs)]
