"""A small chat model that turns q and k backwards and norms them afterwards, against Llama's order of the two.

Where rows are brought into pairs as if they were turned forwards, the port turns the other way. Both are the same
function, so that the attention holds the fault as much as the projections in it.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ..twin import Twin

WIDTH, HEADS, KV, DEPTH, WORDS, LENGTH, CAP = 24, 4, 2, 2, 29, 16, 5.0
SIZE = WIDTH // HEADS


def norm(x: Tensor) -> Tensor:
    return F.rms_norm(x, (x.size(-1),), eps=1e-6)


def apply_rotary_emb(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    half = x.shape[3] // 2
    x1, x2 = x[..., :half], x[..., half:]
    return torch.cat([x1 * cos + x2 * sin, x1 * (-sin) + x2 * cos], 3)


class CausalSelfAttention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.c_q = nn.Linear(WIDTH, HEADS * SIZE, bias=False)
        self.c_k = nn.Linear(WIDTH, KV * SIZE, bias=False)
        self.c_v = nn.Linear(WIDTH, KV * SIZE, bias=False)
        self.c_proj = nn.Linear(WIDTH, WIDTH, bias=False)

    def forward(self, x: Tensor, cos_sin: tuple[Tensor, Tensor]) -> Tensor:
        b, t, _ = x.size()
        q = self.c_q(x).view(b, t, HEADS, SIZE)
        k = self.c_k(x).view(b, t, KV, SIZE)
        v = self.c_v(x).view(b, t, KV, SIZE)
        cos, sin = cos_sin
        q, k = apply_rotary_emb(q, cos, sin), apply_rotary_emb(k, cos, sin)
        q, k = norm(q), norm(k)
        q, k, v = q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
        return self.c_proj(y.transpose(1, 2).contiguous().view(b, t, -1))


class MLP(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.c_fc = nn.Linear(WIDTH, 4 * WIDTH, bias=False)
        self.c_proj = nn.Linear(4 * WIDTH, WIDTH, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        return self.c_proj(F.relu(self.c_fc(x)).square())


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.attn, self.mlp = CausalSelfAttention(), MLP()

    def forward(self, x: Tensor, cos_sin: tuple[Tensor, Tensor]) -> Tensor:
        x = x + self.attn(norm(x), cos_sin)
        return x + self.mlp(norm(x))


class GPT(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.wte = nn.Embedding(WORDS, WIDTH)
        self.h = nn.ModuleList(Block() for _ in range(DEPTH))
        self.lm_head = nn.Linear(WIDTH, WORDS, bias=False)
        inv_freq = 1.0 / (10000 ** (torch.arange(0, SIZE, 2).float() / SIZE))
        freqs = torch.outer(torch.arange(LENGTH).float(), inv_freq)
        self.register_buffer("cos", freqs.cos()[None, :, None], persistent=False)
        self.register_buffer("sin", freqs.sin()[None, :, None], persistent=False)

    def forward(self, idx: Tensor) -> Tensor:
        t = idx.shape[1]
        cos_sin = self.cos[:, :t], self.sin[:, :t]
        x = norm(self.wte(idx))
        for block in self.h:
            x = block(x, cos_sin)
        return CAP * torch.tanh(self.lm_head(norm(x)) / CAP)


def inputs() -> tuple[Tensor, ...]:
    return (torch.randint(0, WORDS, (2, 7)),)


class Scale(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6)


class TurningAttention(nn.Module):
    """Norms first, then turns pairs of neighbours forwards; q and k are one product."""

    def __init__(self) -> None:
        super().__init__()
        self.qk = nn.Linear(WIDTH, (HEADS + KV) * SIZE, bias=False)
        self.value = nn.Linear(WIDTH, KV * SIZE, bias=False)
        self.out = nn.Linear(WIDTH, WIDTH, bias=False)
        self.scale = Scale()

    def forward(self, x: Tensor, turns: Tensor) -> Tensor:
        q, k = self.scale(self.qk(x).unflatten(-1, (-1, SIZE))).split((HEADS, KV), dim=2)
        v = self.value(x).unflatten(-1, (KV, SIZE))
        q, k = (torch.view_as_real(torch.view_as_complex(y.unflatten(-1, (-1, 2))) * turns).flatten(3) for y in (q, k))
        k, v = k.repeat_interleave(HEADS // KV, 2), v.repeat_interleave(HEADS // KV, 2)
        scores = torch.einsum("bqhc,bkhc->bhqk", q, k) / SIZE**0.5
        later = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool).triu(1)
        weights = scores.masked_fill(later, float("-inf")).softmax(-1)
        return self.out(torch.einsum("bhqk,bkhc->bqhc", weights, v).flatten(2))


class TurningBlock(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.before, self.attention, self.between = Scale(), TurningAttention(), Scale()
        self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH, bias=False), nn.Linear(4 * WIDTH, WIDTH, bias=False)

    def forward(self, x: Tensor, turns: Tensor) -> Tensor:
        x = x + self.attention(self.before(x), turns)
        return x + self.down(self.up(self.between(x)).clamp(min=0).pow(2))


class TurningChat(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(WORDS, WIDTH)
        self.first, self.last = Scale(), Scale()
        self.blocks = nn.ModuleList(TurningBlock() for _ in range(DEPTH))
        self.head = nn.Linear(WIDTH, WORDS, bias=False)

    def forward(self, ids: Tensor) -> Tensor:
        angles = torch.arange(ids.shape[1])[:, None, None] * 10000.0 ** (-torch.arange(0, SIZE, 2).float() / SIZE)
        turns = torch.polar(torch.ones_like(angles), angles)
        x = self.first(self.words(ids))
        for block in self.blocks:
            x = block(x, turns)
        return CAP * torch.tanh(self.head(self.last(x)) / CAP)


def turned(weight: Tensor) -> Tensor:
    """Bring the rows of each head from halves that are turned backwards into pairs that are turned forwards."""
    first, second = weight.unflatten(0, (-1, 2, SIZE // 2)).unbind(1)
    return torch.stack((second, first), dim=2).reshape(weight.shape)


def port(reference: nn.Module) -> nn.Module:
    w = reference.state_dict()
    out = {"words.weight": w["wte.weight"], "head.weight": w["lm_head.weight"]}
    for i in range(DEPTH):
        source, target = f"h.{i}", f"blocks.{i}"
        q, k = w[f"{source}.attn.c_q.weight"], w[f"{source}.attn.c_k.weight"]
        out[f"{target}.attention.qk.weight"] = torch.cat((turned(q), turned(k)))
        out[f"{target}.attention.value.weight"] = w[f"{source}.attn.c_v.weight"]
        out[f"{target}.attention.out.weight"] = w[f"{source}.attn.c_proj.weight"]
        out[f"{target}.up.weight"] = w[f"{source}.mlp.c_fc.weight"]
        out[f"{target}.down.weight"] = w[f"{source}.mlp.c_proj.weight"]
    model = TurningChat()
    model.load_state_dict(out)
    return model


TWINS = [Twin("nanochat/norm first", GPT, port, inputs)]
