"""A decoder with LoRA beside its projections, against one with the same merged into its matrices."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ..twin import Twin

WIDTH, HEADS, RANK, ALPHA, DEPTH, WORDS, LENGTH = 16, 2, 3, 6.0, 2, 24, 10


class LoraLinear(nn.Module):
    """As peft writes it: the layer itself, and two small ones whose product is added."""

    def __init__(self, size: int, out: int) -> None:
        super().__init__()
        self.base_layer = nn.Linear(size, out)
        self.lora_A = nn.Linear(size, RANK, bias=False)
        self.lora_B = nn.Linear(RANK, out, bias=False)
        self.lora_dropout = nn.Dropout(0.05)
        self.scaling = ALPHA / RANK

    def forward(self, x: Tensor) -> Tensor:
        return self.base_layer(x) + self.lora_B(self.lora_A(self.lora_dropout(x))) * self.scaling


class Attention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.q_proj = LoraLinear(WIDTH, WIDTH)
        self.k_proj = nn.Linear(WIDTH, WIDTH)
        self.v_proj = LoraLinear(WIDTH, WIDTH)
        self.o_proj = nn.Linear(WIDTH, WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        b, t, _ = x.shape
        q, k, v = (p(x).view(b, t, HEADS, -1).transpose(1, 2) for p in (self.q_proj, self.k_proj, self.v_proj))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.o_proj(y.transpose(1, 2).reshape(b, t, WIDTH))


class Layer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm1 = nn.LayerNorm(WIDTH)
        self.attention = Attention()
        self.norm2 = nn.LayerNorm(WIDTH)
        self.fc1 = nn.Linear(WIDTH, 2 * WIDTH)
        self.act = nn.GELU()
        self.fc2 = nn.Linear(2 * WIDTH, WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.attention(self.norm1(x))
        return x + self.fc2(self.act(self.fc1(self.norm2(x))))


class AdaptedDecoder(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(WORDS, WIDTH)
        self.place = nn.Embedding(LENGTH, WIDTH)
        self.layers = nn.ModuleList(Layer() for _ in range(DEPTH))
        self.norm = nn.LayerNorm(WIDTH)
        self.head = nn.Linear(WIDTH, WORDS, bias=False)

    def forward(self, ids: Tensor) -> Tensor:
        x = self.embed(ids) + self.place(torch.arange(ids.shape[1]))
        for layer in self.layers:
            x = layer(x)
        return self.head(self.norm(x))


def inputs() -> tuple[Tensor, ...]:
    return (torch.randint(0, WORDS, (2, 6)),)


class MergedBlock(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.ln = nn.ModuleList(nn.LayerNorm(WIDTH) for _ in range(2))
        self.query, self.key, self.value, self.result = (nn.Linear(WIDTH, WIDTH) for _ in range(4))
        self.mlp = nn.Sequential(nn.Linear(WIDTH, 2 * WIDTH), nn.GELU(), nn.Linear(2 * WIDTH, WIDTH))

    def heads(self, x: Tensor) -> Tensor:
        return x.reshape(*x.shape[:2], HEADS, -1).movedim(2, 1)

    def forward(self, x: Tensor, later: Tensor) -> Tensor:
        y = self.ln[0](x)
        q, k, v = (self.heads(layer(y)) for layer in (self.query, self.key, self.value))
        scores = torch.einsum("bhqd,bhkd->bhqk", q, k) / (WIDTH // HEADS) ** 0.5
        weights = scores.masked_fill(later, float("-inf")).softmax(-1)
        x = x + self.result(torch.einsum("bhqk,bhkd->bqhd", weights, v).flatten(2))
        return x + self.mlp(self.ln[1](x))


class MergedDecoder(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(WORDS, WIDTH)
        self.places = nn.Parameter(torch.zeros(LENGTH, WIDTH))
        self.blocks = nn.ModuleList(MergedBlock() for _ in range(DEPTH))
        self.out_norm = nn.LayerNorm(WIDTH)
        self.out = nn.Linear(WIDTH, WORDS, bias=False)

    def forward(self, ids: Tensor) -> Tensor:
        length = ids.shape[1]
        later = torch.ones(length, length, dtype=torch.bool).triu(1)
        x = self.words(ids) + self.places[:length]
        for block in self.blocks:
            x = block(x, later)
        return self.out(self.out_norm(x))


PARTS = {"ln.0": "norm1", "ln.1": "norm2", "key": "attention.k_proj", "result": "attention.o_proj", "mlp.0": "fc1",
         "mlp.2": "fc2"}  # fmt: skip


def port(reference: nn.Module) -> nn.Module:
    w = reference.state_dict()
    state = {
        "words.weight": w["embed.weight"],
        "places": w["place.weight"],
        "out_norm.weight": w["norm.weight"],
        "out_norm.bias": w["norm.bias"],
        "out.weight": w["head.weight"],
    }
    for i in range(DEPTH):
        target, source = f"blocks.{i}", f"layers.{i}"
        for part in ("weight", "bias"):
            state |= {
                f"{target}.{target_name}.{part}": w[f"{source}.{name}.{part}"] for target_name, name in PARTS.items()
            }
        for module, letter in (("query", "q"), ("value", "v")):
            layer = f"{source}.attention.{letter}_proj"
            added = w[f"{layer}.lora_B.weight"] @ w[f"{layer}.lora_A.weight"] * (ALPHA / RANK)
            state[f"{target}.{module}.weight"] = w[f"{layer}.base_layer.weight"] + added
            state[f"{target}.{module}.bias"] = w[f"{layer}.base_layer.bias"]
    module = MergedDecoder()
    module.load_state_dict(state)
    return module


TWINS = [Twin("lora/merged", AdaptedDecoder, port, inputs)]
