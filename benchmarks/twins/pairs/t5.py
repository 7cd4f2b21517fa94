"""T5 of transformers, against an encoder-decoder with fused projections and positions made outside of its layers."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ..twin import Twin

WIDTH, HEADS, SIZE, INNER, DEPTH, WORDS, BUCKETS, FAR = 20, 2, 8, 32, 2, 30, 8, 12


def build() -> nn.Module:
    from transformers import T5Config, T5ForConditionalGeneration

    return T5ForConditionalGeneration(
        T5Config(
            vocab_size=WORDS, d_model=WIDTH, d_kv=SIZE, d_ff=INNER, num_layers=DEPTH, num_heads=HEADS,
            relative_attention_num_buckets=BUCKETS, relative_attention_max_distance=FAR,
            feed_forward_proj="gated-gelu", use_cache=False,
        )
    )  # fmt: skip


def inputs() -> tuple[Tensor, ...]:
    mask = (torch.arange(8) < torch.tensor([[8], [6]])).long()
    return torch.randint(1, WORDS, (2, 8)), mask, torch.randint(1, WORDS, (2, 6))


def buckets(queries: int, keys: int, both_ways: bool) -> Tensor:
    """The bucket of each distance: exact ones for near, logarithmic ones for far."""
    distance = torch.arange(keys)[None, :] - torch.arange(queries)[:, None]
    number = BUCKETS // 2 if both_ways else BUCKETS
    first = (distance > 0).long() * number if both_ways else torch.zeros_like(distance)
    away = distance.abs() if both_ways else (-distance).clamp(min=0)
    exact = number // 2
    far = exact + (torch.log(away.clamp(min=1).float() / exact) / math.log(FAR / exact) * (number - exact)).long()
    return first + torch.where(away < exact, away, far.clamp(max=number - 1))


class RMS(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.g = nn.Parameter(torch.ones(WIDTH))

    def forward(self, x: Tensor) -> Tensor:
        return F.rms_norm(x, (WIDTH,), self.g, 1e-6)


def attend(q: Tensor, k: Tensor, v: Tensor, bias: Tensor) -> Tensor:
    q, k, v = (y.unflatten(-1, (HEADS, SIZE)).transpose(1, 2) for y in (q, k, v))
    return F.scaled_dot_product_attention(q, k, v, attn_mask=bias, scale=1.0).transpose(1, 2).flatten(2)


class SelfAttention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm = RMS()
        self.qkv = nn.Linear(WIDTH, 3 * HEADS * SIZE, bias=False)
        self.out = nn.Linear(HEADS * SIZE, WIDTH, bias=False)

    def forward(self, x: Tensor, bias: Tensor) -> Tensor:
        return x + self.out(attend(*self.qkv(self.norm(x)).chunk(3, -1), bias))


class CrossAttention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm = RMS()
        self.q = nn.Linear(WIDTH, HEADS * SIZE, bias=False)
        self.kv = nn.Linear(WIDTH, 2 * HEADS * SIZE, bias=False)
        self.out = nn.Linear(HEADS * SIZE, WIDTH, bias=False)

    def forward(self, x: Tensor, memory: Tensor, bias: Tensor) -> Tensor:
        return x + self.out(attend(self.q(self.norm(x)), *self.kv(memory).chunk(2, -1), bias))


class GatedFeed(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm = RMS()
        self.wide = nn.Linear(WIDTH, 2 * INNER, bias=False)
        self.narrow = nn.Linear(INNER, WIDTH, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        gate, y = self.wide(self.norm(x)).chunk(2, -1)
        return x + self.narrow(F.gelu(gate, approximate="tanh") * y)


class OwnT5(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(WORDS, WIDTH)
        self.near = nn.Embedding(BUCKETS, HEADS)
        self.near_decoder = nn.Embedding(BUCKETS, HEADS)
        self.encoder = nn.ModuleList(nn.ModuleList([SelfAttention(), GatedFeed()]) for _ in range(DEPTH))
        self.encoder_norm = RMS()
        self.decoder = nn.ModuleList(
            nn.ModuleList([SelfAttention(), CrossAttention(), GatedFeed()]) for _ in range(DEPTH)
        )
        self.decoder_norm = RMS()

    def forward(self, source: Tensor, mask: Tensor, target: Tensor) -> Tensor:
        hidden = torch.zeros_like(mask, dtype=self.near.weight.dtype).masked_fill(mask == 0, -1e9)[:, None, None, :]
        length = source.shape[1]
        bias = self.near(buckets(length, length, both_ways=True)).permute(2, 0, 1)[None] + hidden
        memory = self.table(source)
        for attention, feed in self.encoder:
            memory = feed(attention(memory, bias))
        memory = self.encoder_norm(memory)
        length = target.shape[1]
        later = torch.ones(length, length, dtype=torch.bool).triu(1)
        bias = self.near_decoder(buckets(length, length, both_ways=False)).permute(2, 0, 1)[None]
        bias = bias.masked_fill(later, -1e9)
        x = self.table(target)
        for attention, cross, feed in self.decoder:
            x = feed(cross(attention(x, bias), memory, hidden))
        return F.linear(self.decoder_norm(x) * WIDTH**-0.5, self.table.weight)


def port(reference: nn.Module) -> nn.Module:
    w = reference.state_dict()
    state = {
        "table.weight": w["shared.weight"],
        "near.weight": w["encoder.block.0.layer.0.SelfAttention.relative_attention_bias.weight"],
        "near_decoder.weight": w["decoder.block.0.layer.0.SelfAttention.relative_attention_bias.weight"],
    }
    for side, parts in (("encoder", ("SelfAttention", "")), ("decoder", ("SelfAttention", "EncDecAttention", ""))):
        state[f"{side}_norm.g"] = w[f"{side}.final_layer_norm.weight"]
        for i in range(DEPTH):
            for number, part in enumerate(parts):
                target, source = f"{side}.{i}.{number}", f"{side}.block.{i}.layer.{number}"
                state[f"{target}.norm.g"] = w[f"{source}.layer_norm.weight"]
                if not part:
                    gate, wide = (w[f"{source}.DenseReluDense.wi_{n}.weight"] for n in (0, 1))
                    state[f"{target}.wide.weight"] = torch.cat((gate, wide))
                    state[f"{target}.narrow.weight"] = w[f"{source}.DenseReluDense.wo.weight"]
                    continue
                q, k, v, o = (w[f"{source}.{part}.{letter}.weight"] for letter in "qkvo")
                if part == "SelfAttention":
                    state[f"{target}.qkv.weight"] = torch.cat((q, k, v))
                else:
                    state[f"{target}.q.weight"], state[f"{target}.kv.weight"] = q, torch.cat((k, v))
                state[f"{target}.out.weight"] = o
    module = OwnT5()
    module.load_state_dict(state)
    return module


TWINS = [Twin("t5/fused", build, port, inputs)]
