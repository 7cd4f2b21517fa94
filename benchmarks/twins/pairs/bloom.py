"""Bloom of transformers (q, k and v side by side in each head) against q, k and v apart and a bias of distances."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ..twin import Twin

WIDTH, HEADS, DEPTH, WORDS = 24, 4, 2, 31
SIZE = WIDTH // HEADS


def build() -> nn.Module:
    from transformers import BloomConfig, BloomForCausalLM

    return BloomForCausalLM(
        BloomConfig(vocab_size=WORDS, hidden_size=WIDTH, n_layer=DEPTH, n_head=HEADS, use_cache=False)
    )


def inputs() -> tuple[Tensor, ...]:
    return (torch.randint(0, WORDS, (2, 7)),)


class Attention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.q = nn.Linear(WIDTH, WIDTH)
        self.k = nn.Linear(WIDTH, WIDTH)
        self.v = nn.Linear(WIDTH, WIDTH)
        self.o = nn.Linear(WIDTH, WIDTH)
        self.register_buffer("slopes", 2.0 ** (-8.0 / HEADS * torch.arange(1, HEADS + 1)), persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        n = x.shape[1]
        q, k, v = (f(x).unflatten(-1, (HEADS, SIZE)) for f in (self.q, self.k, self.v))
        place = torch.arange(n)
        distance = place[:, None] - place[None, :]
        bias = -self.slopes[:, None, None] * distance
        bias = bias.masked_fill(distance < 0, float("-inf"))
        scores = torch.einsum("bqhd,bkhd->bhqk", q, k) / SIZE**0.5 + bias
        y = torch.einsum("bhqk,bkhd->bqhd", scores.softmax(-1), v)
        return self.o(y.flatten(2))


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.ln1, self.ln2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.attn = Attention()
        self.up = nn.Linear(WIDTH, 4 * WIDTH)
        self.down = nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.attn(self.ln1(x))
        return x + self.down(F.gelu(self.up(self.ln2(x)), approximate="tanh"))


class Alibi(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.wte = nn.Embedding(WORDS, WIDTH)
        self.ln_in = nn.LayerNorm(WIDTH)
        self.blocks = nn.ModuleList(Block() for _ in range(DEPTH))
        self.ln_out = nn.LayerNorm(WIDTH)

    def forward(self, ids: Tensor) -> Tensor:
        x = self.ln_in(self.wte(ids))
        for block in self.blocks:
            x = block(x)
        return self.ln_out(x) @ self.wte.weight.T


def port(reference: nn.Module) -> nn.Module:
    w = reference.state_dict()
    out = {"wte.weight": w["transformer.word_embeddings.weight"]}
    for kind in ("weight", "bias"):
        out[f"ln_in.{kind}"] = w[f"transformer.word_embeddings_layernorm.{kind}"]
        out[f"ln_out.{kind}"] = w[f"transformer.ln_f.{kind}"]
        for i in range(DEPTH):
            source, target = f"transformer.h.{i}", f"blocks.{i}"
            q, k, v = w[f"{source}.self_attention.query_key_value.{kind}"].unflatten(0, (HEADS, 3, SIZE)).unbind(1)
            for name, part in (("q", q), ("k", k), ("v", v)):
                out[f"{target}.attn.{name}.{kind}"] = part.flatten(0, 1)
            out[f"{target}.attn.o.{kind}"] = w[f"{source}.self_attention.dense.{kind}"]
            out[f"{target}.ln1.{kind}"] = w[f"{source}.input_layernorm.{kind}"]
            out[f"{target}.ln2.{kind}"] = w[f"{source}.post_attention_layernorm.{kind}"]
            out[f"{target}.up.{kind}"] = w[f"{source}.mlp.dense_h_to_4h.{kind}"]
            out[f"{target}.down.{kind}"] = w[f"{source}.mlp.dense_4h_to_h.{kind}"]
    model = Alibi()
    model.load_state_dict(out)
    return model


TWINS = [Twin("bloom/distances", build, port, inputs, rounding=1e-6)]
