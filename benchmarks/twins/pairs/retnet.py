"""A retentive network in its parallel form, against the recurrence that decoding uses.

Where queries and keys are exchanged, the port's one product of both may have exchanged rows, or be unbound in the wrong
order. Both are the same function, so that `retention` holds the fault as much as the projections in it.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ..twin import Twin

WIDTH, HEADS, FEED, DEPTH, WORDS = 16, 2, 28, 2, 27
KEY, VALUE = WIDTH // HEADS, 2 * WIDTH // HEADS


class MultiScaleRetention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.q_proj = nn.Linear(WIDTH, WIDTH, bias=False)
        self.k_proj = nn.Linear(WIDTH, WIDTH, bias=False)
        self.v_proj = nn.Linear(WIDTH, 2 * WIDTH, bias=False)
        self.g_proj = nn.Linear(WIDTH, 2 * WIDTH, bias=False)
        self.out_proj = nn.Linear(2 * WIDTH, WIDTH, bias=False)
        self.group_norm = nn.LayerNorm(VALUE, eps=1e-6, elementwise_affine=False)
        self.register_buffer("decay", torch.log(1 - 2 ** (-1.0 - torch.arange(HEADS))), persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        b, n, _ = x.shape
        q = self.q_proj(x).view(b, n, HEADS, KEY).transpose(1, 2)
        k = self.k_proj(x).view(b, n, HEADS, KEY).transpose(1, 2) * KEY**-0.5
        v = self.v_proj(x).view(b, n, HEADS, VALUE).transpose(1, 2)
        index = torch.arange(n).to(x)
        apart = index[:, None] - index[None, :]
        mask = torch.exp(apart * self.decay[:, None, None]).masked_fill(apart < 0, 0.0)
        out = (q @ k.transpose(-1, -2) * mask) @ v
        out = self.group_norm(out.transpose(1, 2)).reshape(b, n, 2 * WIDTH)
        return self.out_proj(F.silu(self.g_proj(x)) * out)


class FeedForward(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.fc1 = nn.Linear(WIDTH, FEED)
        self.fc2 = nn.Linear(FEED, WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        return self.fc2(F.gelu(self.fc1(x)))


class DecoderLayer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.retention_layer_norm = nn.LayerNorm(WIDTH)
        self.retention = MultiScaleRetention()
        self.final_layer_norm = nn.LayerNorm(WIDTH)
        self.ffn = FeedForward()

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.retention(self.retention_layer_norm(x))
        return x + self.ffn(self.final_layer_norm(x))


class RetNet(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed_tokens = nn.Embedding(WORDS, WIDTH)
        self.layers = nn.ModuleList(DecoderLayer() for _ in range(DEPTH))
        self.layer_norm = nn.LayerNorm(WIDTH)
        self.output_projection = nn.Linear(WIDTH, WORDS, bias=False)

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.embed_tokens(tokens)
        for layer in self.layers:
            x = layer(x)
        return self.output_projection(self.layer_norm(x))


def inputs() -> tuple[Tensor, ...]:
    return (torch.randint(0, WORDS, (2, 6)),)


class RecurrentRetention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.qk = nn.Linear(WIDTH, 2 * WIDTH, bias=False)
        self.v = nn.Linear(WIDTH, 2 * WIDTH, bias=False)
        self.gate = nn.Linear(WIDTH, 2 * WIDTH, bias=False)
        self.out = nn.Linear(2 * WIDTH, WIDTH, bias=False)
        self.gammas = [1 - 0.5 ** (1 + head) for head in range(HEADS)]

    def step(self, x: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        q, k = self.qk(x).view(-1, 2, HEADS, KEY).unbind(1)
        v = self.v(x).view(-1, HEADS, VALUE)
        gamma = torch.tensor(self.gammas, dtype=x.dtype).view(HEADS, 1, 1)
        state = gamma * state + torch.einsum("bhk,bhv->bhkv", k * KEY**-0.5, v)
        y = torch.einsum("bhk,bhkv->bhv", q, state)
        y = (y - y.mean(-1, keepdim=True)) / torch.sqrt(y.var(-1, keepdim=True, unbiased=False) + 1e-6)
        return self.out(F.silu(self.gate(x)) * y.flatten(1)), state

    def forward(self, x: Tensor) -> Tensor:
        state = x.new_zeros(x.shape[0], HEADS, KEY, VALUE)
        outputs = []
        for t in range(x.shape[1]):
            y, state = self.step(x[:, t], state)
            outputs.append(y)
        return torch.stack(outputs, dim=1)


class RecurrentBlock(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.ln1, self.ln2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.mix = RecurrentRetention()
        self.mlp = nn.Sequential(nn.Linear(WIDTH, FEED), nn.GELU(), nn.Linear(FEED, WIDTH))

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.mix(self.ln1(x))
        return x + self.mlp(self.ln2(x))


class Recurrent(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(WORDS, WIDTH)
        self.blocks = nn.ModuleList(RecurrentBlock() for _ in range(DEPTH))
        self.norm = nn.LayerNorm(WIDTH)
        self.head = nn.Linear(WIDTH, WORDS, bias=False)

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.embed(tokens)
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))


def port(reference: Any) -> nn.Module:
    model = Recurrent()
    with torch.no_grad():
        model.embed.weight.copy_(reference.embed_tokens.weight)
        model.norm.load_state_dict(reference.layer_norm.state_dict())
        model.head.weight.copy_(reference.output_projection.weight)
        for block, layer in zip(model.blocks, reference.layers, strict=True):
            source = layer.retention
            block.ln1.load_state_dict(layer.retention_layer_norm.state_dict())
            block.ln2.load_state_dict(layer.final_layer_norm.state_dict())
            block.mlp[0].load_state_dict(layer.ffn.fc1.state_dict())
            block.mlp[2].load_state_dict(layer.ffn.fc2.state_dict())
            block.mix.qk.weight.copy_(torch.cat([source.q_proj.weight, source.k_proj.weight]))
            block.mix.v.weight.copy_(source.v_proj.weight)
            block.mix.gate.weight.copy_(source.g_proj.weight)
            block.mix.out.weight.copy_(source.out_proj.weight)
    return model


TWINS = [Twin("retnet/recurrent", RetNet, port, inputs)]
