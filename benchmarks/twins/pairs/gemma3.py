"""Gemma 3 of transformers, against one that turns pairs of neighbours, not halves, with one product for q, k and v."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ..twin import Twin

WIDTH, HEADS, KV, SIZE, FEED, DEPTH, WORDS, WINDOW, SCALAR = 20, 4, 2, 6, 28, 2, 31, 3, 5


def build() -> nn.Module:
    from transformers import Gemma3ForCausalLM, Gemma3TextConfig

    return Gemma3ForCausalLM(
        Gemma3TextConfig(
            vocab_size=WORDS,
            hidden_size=WIDTH,
            intermediate_size=FEED,
            num_hidden_layers=DEPTH,
            num_attention_heads=HEADS,
            num_key_value_heads=KV,
            head_dim=SIZE,
            sliding_window=WINDOW,
            layer_types=["sliding_attention", "full_attention"],
            query_pre_attn_scalar=SCALAR,
            max_position_embeddings=16,
            use_cache=False,
            pad_token_id=None,
        )
    )


def inputs() -> tuple[Tensor, ...]:
    return (torch.randint(1, WORDS, (2, 8)),)


class Norm(nn.Module):
    def __init__(self, size: int) -> None:
        super().__init__()
        self.gain = nn.Parameter(torch.zeros(size))

    def forward(self, x: Tensor) -> Tensor:
        return F.rms_norm(x, x.shape[-1:], 1 + self.gain, eps=1e-6)


class LocalOrGlobalAttention(nn.Module):
    def __init__(self, is_local: bool) -> None:
        super().__init__()
        self.is_local = is_local
        self.qkv = nn.Linear(WIDTH, (HEADS + 2 * KV) * SIZE, bias=False)
        self.q_gain, self.k_gain = Norm(SIZE), Norm(SIZE)
        self.proj = nn.Linear(HEADS * SIZE, WIDTH, bias=False)
        theta = 1e4 if is_local else 1e6
        angles = torch.outer(torch.arange(16).float(), theta ** (-torch.arange(0, SIZE, 2).float() / SIZE))
        self.register_buffer("turns", torch.stack((angles.cos(), angles.sin())), persistent=False)

    def rotated(self, x: Tensor) -> Tensor:
        """Turn [batch, heads, length, size]; 2i and 2i + 1 are a pair."""
        cos, sin = self.turns[:, : x.shape[2]]
        even, odd = x[..., ::2], x[..., 1::2]
        return torch.stack((even * cos - odd * sin, odd * cos + even * sin), dim=-1).flatten(-2)

    def forward(self, x: Tensor) -> Tensor:
        n = x.shape[1]
        parts = self.qkv(x).unflatten(-1, (-1, SIZE)).transpose(1, 2)
        q, k, v = parts.split((HEADS, KV, KV), dim=1)
        q, k = self.rotated(self.q_gain(q)), self.rotated(self.k_gain(k))
        seen = torch.ones(n, n, dtype=torch.bool).tril()
        if self.is_local:
            seen = seen & torch.ones(n, n, dtype=torch.bool).triu(1 - WINDOW)
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=seen, scale=SCALAR**-0.5, enable_gqa=True)
        return self.proj(y.transpose(1, 2).flatten(2))


class GatedFeed(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.gate, self.up = (nn.Linear(WIDTH, FEED, bias=False) for _ in range(2))
        self.down = nn.Linear(FEED, WIDTH, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        return self.down(F.gelu(self.gate(x), approximate="tanh") * self.up(x))


class SandwichBlock(nn.Module):
    def __init__(self, index: int) -> None:
        super().__init__()
        self.attention, self.feed = LocalOrGlobalAttention(index == 0), GatedFeed()
        self.norms = nn.ModuleList(Norm(WIDTH) for _ in range(4))

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.norms[1](self.attention(self.norms[0](x)))
        return x + self.norms[3](self.feed(self.norms[2](x)))


class PairwiseGemma(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(WORDS, WIDTH)
        self.blocks = nn.Sequential(*(SandwichBlock(i) for i in range(DEPTH)))
        self.last = Norm(WIDTH)

    def forward(self, ids: Tensor) -> Tensor:
        x = self.embed(ids) * WIDTH**0.5
        return self.last(self.blocks(x)) @ self.embed.weight.T


NORMS = ("input_layernorm", "post_attention_layernorm", "pre_feedforward_layernorm", "post_feedforward_layernorm")
FEEDS = {"gate": "gate_proj", "up": "up_proj", "down": "down_proj"}


def paired(weight: Tensor) -> Tensor:
    """Bring rows, or elements, of each head from two halves into pairs."""
    return weight.unflatten(0, (-1, 2, SIZE // 2)).transpose(1, 2).reshape(weight.shape)


def port(reference: nn.Module) -> nn.Module:
    w = reference.state_dict()
    out = {"embed.weight": w["model.embed_tokens.weight"], "last.gain": w["model.norm.weight"]}
    for i in range(DEPTH):
        source, target = f"model.layers.{i}", f"blocks.{i}"
        q, k, v = (w[f"{source}.self_attn.{name}_proj.weight"] for name in "qkv")
        out[f"{target}.attention.qkv.weight"] = torch.cat((paired(q), paired(k), v))
        out[f"{target}.attention.proj.weight"] = w[f"{source}.self_attn.o_proj.weight"]
        out[f"{target}.attention.q_gain.gain"] = paired(w[f"{source}.self_attn.q_norm.weight"])
        out[f"{target}.attention.k_gain.gain"] = paired(w[f"{source}.self_attn.k_norm.weight"])
        for number, name in enumerate(NORMS):
            out[f"{target}.norms.{number}.gain"] = w[f"{source}.{name}.weight"]
        for to, name in FEEDS.items():
            out[f"{target}.feed.{to}.weight"] = w[f"{source}.mlp.{name}.weight"]
    model = PairwiseGemma()
    model.load_state_dict(out)
    return model


TWINS = [Twin("gemma3/pairs", build, port, inputs)]
