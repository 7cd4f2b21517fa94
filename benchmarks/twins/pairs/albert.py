"""ALBERT of transformers, whose one layer is called again and again, against the way of a port to plain functions."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ..twin import Twin

WIDTH, SMALL, HEADS, DEPTH, WORDS, FEED, TEXT = 24, 10, 3, 3, 41, 44, 12


def build() -> nn.Module:
    from transformers import AlbertConfig, AlbertModel

    return AlbertModel(
        AlbertConfig(
            vocab_size=WORDS,
            embedding_size=SMALL,
            hidden_size=WIDTH,
            num_hidden_layers=DEPTH,
            num_attention_heads=HEADS,
            intermediate_size=FEED,
            max_position_embeddings=TEXT,
            hidden_act="gelu_new",
        )
    )


def inputs() -> tuple[Tensor, ...]:
    mask = torch.ones(2, 7, dtype=torch.long)
    mask[1, 5:] = 0
    return torch.randint(1, WORDS, (2, 7)) * mask, mask, torch.tensor([[0, 0, 0, 1, 1, 1, 1], [0, 0, 1, 1, 1, 0, 0]])


class Shared(nn.Module):
    """The layer: [batch, words, width]."""

    def __init__(self) -> None:
        super().__init__()
        self.in_proj = nn.Linear(WIDTH, 3 * WIDTH)
        self.out_proj = nn.Linear(WIDTH, WIDTH)
        self.ln_a = nn.LayerNorm(WIDTH, eps=1e-12)
        self.w1 = nn.Linear(WIDTH, FEED)
        self.w2 = nn.Linear(FEED, WIDTH)
        self.ln_b = nn.LayerNorm(WIDTH, eps=1e-12)

    def forward(self, x: Tensor, keep: Tensor) -> Tensor:
        q, k, v = self.in_proj(x).unflatten(-1, (3, HEADS, -1)).unbind(-3)
        scores = torch.einsum("bqhd,bkhd->bhqk", q, k) / (WIDTH // HEADS) ** 0.5
        scores = scores.masked_fill(~keep[:, None, None], float("-inf"))
        y = torch.einsum("bhqk,bkhd->bqhd", scores.softmax(-1), v).flatten(-2)
        x = self.ln_a(x + self.out_proj(y))
        return self.ln_b(x + self.w2(F.gelu(self.w1(x), approximate="tanh")))


class LiteBert(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.tok = nn.Parameter(torch.zeros(WORDS, SMALL))
        self.pos = nn.Parameter(torch.zeros(TEXT, SMALL))
        self.seg = nn.Parameter(torch.zeros(2, SMALL))
        self.ln = nn.LayerNorm(SMALL, eps=1e-12)
        self.up = nn.Linear(SMALL, WIDTH)
        self.layer = Shared()
        self.pool = nn.Linear(WIDTH, WIDTH)

    def forward(self, ids: Tensor, mask: Tensor, kinds: Tensor) -> dict[str, Tensor]:
        x = (
            F.embedding(ids, self.tok, padding_idx=0)
            + self.pos[: ids.shape[1]]
            + F.one_hot(kinds, 2).to(self.seg.dtype) @ self.seg
        )
        x = self.up(self.ln(x))
        for _ in range(DEPTH):
            x = self.layer(x, mask.bool())
        return {"hidden": x, "pooled": torch.tanh(self.pool(x[:, 0]))}


def port(reference: nn.Module) -> nn.Module:
    w = reference.state_dict()
    inner = "encoder.albert_layer_groups.0.albert_layers.0"
    names = {
        "ln": "embeddings.LayerNorm",
        "up": "encoder.embedding_hidden_mapping_in",
        "pool": "pooler",
        "layer.out_proj": f"{inner}.attention.dense",
        "layer.ln_a": f"{inner}.attention.LayerNorm",
        "layer.w1": f"{inner}.ffn",
        "layer.w2": f"{inner}.ffn_output",
        "layer.ln_b": f"{inner}.full_layer_layer_norm",
    }
    state = {f"{to}.{part}": w[f"{of}.{part}"] for to, of in names.items() for part in ("weight", "bias")}
    for part in ("weight", "bias"):
        state[f"layer.in_proj.{part}"] = torch.cat(
            [w[f"{inner}.attention.{n}.{part}"] for n in ("query", "key", "value")]
        )
    for to, of in (("tok", "word"), ("pos", "position"), ("seg", "token_type")):
        state[to] = w[f"embeddings.{of}_embeddings.weight"]
    module = LiteBert()
    module.load_state_dict(state)
    return module


TWINS = [Twin("albert/one layer", build, port, inputs)]
