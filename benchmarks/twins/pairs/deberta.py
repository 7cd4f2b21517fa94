"""DeBERTa (version 2) of transformers, against a plain one with distances computed in Python and a fused q/k/v."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ..twin import Twin

WIDTH, HEADS, FEED, DEPTH, WORDS, BUCKETS, FARTHEST = 18, 3, 30, 2, 33, 4, 12
SIZE = WIDTH // HEADS


def build() -> nn.Module:
    from transformers import DebertaV2Config, DebertaV2Model

    return DebertaV2Model(
        DebertaV2Config(
            vocab_size=WORDS,
            hidden_size=WIDTH,
            num_hidden_layers=DEPTH,
            num_attention_heads=HEADS,
            intermediate_size=FEED,
            max_position_embeddings=FARTHEST,
            relative_attention=True,
            position_buckets=BUCKETS,
            pos_att_type=["c2p", "p2c"],
            share_att_key=True,
            norm_rel_ebd="layer_norm",
            position_biased_input=False,
            type_vocab_size=0,
            hidden_act="gelu",
        )
    )


def inputs() -> tuple[Tensor, ...]:
    mask = torch.ones(2, 9, dtype=torch.long)
    mask[1, 6:] = 0
    return torch.randint(1, WORDS, (2, 9)), mask


def bucket(distance: int) -> int:
    mid = BUCKETS // 2
    far = abs(distance)
    if far <= mid:
        return distance
    steps = math.ceil(math.log(far / mid) / math.log((FARTHEST - 1) / mid) * (mid - 1)) + mid
    return steps if distance > 0 else -steps


class RelativeAttention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.in_proj = nn.Linear(WIDTH, 3 * WIDTH)
        self.out_proj = nn.Linear(WIDTH, WIDTH)

    def heads(self, x: Tensor) -> Tensor:
        return x.unflatten(-1, (HEADS, SIZE)).transpose(-3, -2)

    def forward(self, x: Tensor, table: Tensor, mask: Tensor) -> Tensor:
        n = x.shape[1]
        q, k, v = (self.heads(part) for part in self.in_proj(x).chunk(3, dim=-1))
        w, b = self.in_proj.weight, self.in_proj.bias
        table_q = self.heads(F.linear(table, w[:WIDTH], b[:WIDTH]))
        table_k = self.heads(F.linear(table, w[WIDTH : 2 * WIDTH], b[WIDTH : 2 * WIDTH]))
        rows = torch.tensor([[bucket(i - j) + BUCKETS for j in range(n)] for i in range(n)])
        c2c = torch.einsum("bhid,bhjd->bhij", q, k)
        c2p = torch.einsum("bhid,hijd->bhij", q, table_k[:, rows])
        p2c = torch.einsum("bhjd,hijd->bhij", k, table_q[:, rows])
        scores = (c2c + c2p + p2c) / math.sqrt(3 * SIZE)
        both = (mask[:, None, :, None] * mask[:, None, None, :]) > 0
        scores = scores.masked_fill(~both, torch.finfo(scores.dtype).min)
        y = torch.einsum("bhij,bhjd->bihd", scores.softmax(-1), v).flatten(2)
        return self.out_proj(y)


class Layer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.attention = RelativeAttention()
        self.norm1 = nn.LayerNorm(WIDTH, eps=1e-7)
        self.fc1 = nn.Linear(WIDTH, FEED)
        self.fc2 = nn.Linear(FEED, WIDTH)
        self.norm2 = nn.LayerNorm(WIDTH, eps=1e-7)

    def forward(self, x: Tensor, table: Tensor, mask: Tensor) -> Tensor:
        x = self.norm1(x + self.attention(x, table, mask))
        return self.norm2(x + self.fc2(F.gelu(self.fc1(x))))


class Disentangled(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(WORDS, WIDTH)
        self.words_norm = nn.LayerNorm(WIDTH, eps=1e-7)
        self.distances = nn.Parameter(torch.empty(2 * BUCKETS, WIDTH))
        self.distances_norm = nn.LayerNorm(WIDTH, eps=1e-7)
        self.layers = nn.ModuleList(Layer() for _ in range(DEPTH))

    def forward(self, ids: Tensor, mask: Tensor) -> Tensor:
        x = self.words_norm(self.words(ids)) * mask[..., None]
        table = self.distances_norm(self.distances)
        for layer in self.layers:
            x = layer(x, table, mask)
        return x


def port(reference: nn.Module) -> nn.Module:
    w = reference.state_dict()
    model = Disentangled()
    out = {"words.weight": w["embeddings.word_embeddings.weight"], "distances": w["encoder.rel_embeddings.weight"]}
    for part in ("weight", "bias"):
        out[f"words_norm.{part}"] = w[f"embeddings.LayerNorm.{part}"]
        out[f"distances_norm.{part}"] = w[f"encoder.LayerNorm.{part}"]
        for i in range(DEPTH):
            source, target = f"encoder.layer.{i}", f"layers.{i}"
            out[f"{target}.attention.in_proj.{part}"] = torch.cat(
                [w[f"{source}.attention.self.{n}_proj.{part}"] for n in ("query", "key", "value")]
            )
            for to, of in {
                "attention.out_proj": "attention.output.dense",
                "fc1": "intermediate.dense",
                "norm1": "attention.output.LayerNorm",
                "fc2": "output.dense",
                "norm2": "output.LayerNorm",
            }.items():
                out[f"{target}.{to}.{part}"] = w[f"{source}.{of}.{part}"]
    model.load_state_dict(out)
    return model


TWINS = [Twin("deberta/plain", build, port, inputs)]
