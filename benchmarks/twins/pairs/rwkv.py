"""RWKV-4 as in its author's code, step by step, against a sum over all earlier steps."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ..twin import Twin

WIDTH, DEPTH, WORDS, TEXT = 16, 2, 31, 7


def wkv(w: Tensor, u: Tensor, k: Tensor, v: Tensor) -> Tensor:
    w = -torch.exp(w)
    aa = torch.zeros_like(k[:, 0])
    bb = torch.zeros_like(k[:, 0])
    pp = torch.full_like(k[:, 0], -1e38)
    out = []
    for t in range(k.shape[1]):
        kk, vv = k[:, t], v[:, t]
        ww = u + kk
        p = torch.maximum(pp, ww)
        e1, e2 = torch.exp(pp - p), torch.exp(ww - p)
        out.append((e1 * aa + e2 * vv) / (e1 * bb + e2))
        ww = w + pp
        p = torch.maximum(ww, kk)
        e1, e2 = torch.exp(ww - p), torch.exp(kk - p)
        aa = e1 * aa + e2 * vv
        bb = e1 * bb + e2
        pp = p
    return torch.stack(out, 1)


class TimeMix(nn.Module):
    def __init__(self, n_embd: int) -> None:
        super().__init__()
        self.time_decay = nn.Parameter(torch.linspace(-2, 1, n_embd))
        self.time_first = nn.Parameter(torch.ones(n_embd) * 0.3)
        self.time_shift = nn.ZeroPad2d((0, 0, 1, -1))
        self.time_mix_k = nn.Parameter(torch.ones(1, 1, n_embd) * 0.5)
        self.time_mix_v = nn.Parameter(torch.ones(1, 1, n_embd) * 0.4)
        self.time_mix_r = nn.Parameter(torch.ones(1, 1, n_embd) * 0.6)
        self.key = nn.Linear(n_embd, n_embd, bias=False)
        self.value = nn.Linear(n_embd, n_embd, bias=False)
        self.receptance = nn.Linear(n_embd, n_embd, bias=False)
        self.output = nn.Linear(n_embd, n_embd, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        xx = self.time_shift(x)
        xk = x * self.time_mix_k + xx * (1 - self.time_mix_k)
        xv = x * self.time_mix_v + xx * (1 - self.time_mix_v)
        xr = x * self.time_mix_r + xx * (1 - self.time_mix_r)
        k = self.key(xk)
        v = self.value(xv)
        r = self.receptance(xr)
        sr = torch.sigmoid(r)
        rwkv = sr * wkv(self.time_decay, self.time_first, k, v)
        return self.output(rwkv)


class ChannelMix(nn.Module):
    def __init__(self, n_embd: int) -> None:
        super().__init__()
        self.time_shift = nn.ZeroPad2d((0, 0, 1, -1))
        self.time_mix_k = nn.Parameter(torch.ones(1, 1, n_embd) * 0.3)
        self.time_mix_r = nn.Parameter(torch.ones(1, 1, n_embd) * 0.7)
        self.key = nn.Linear(n_embd, 4 * n_embd, bias=False)
        self.receptance = nn.Linear(n_embd, n_embd, bias=False)
        self.value = nn.Linear(4 * n_embd, n_embd, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        xx = self.time_shift(x)
        xk = x * self.time_mix_k + xx * (1 - self.time_mix_k)
        xr = x * self.time_mix_r + xx * (1 - self.time_mix_r)
        k = self.key(xk)
        k = torch.square(torch.relu(k))
        kv = self.value(k)
        return torch.sigmoid(self.receptance(xr)) * kv


class Block(nn.Module):
    def __init__(self, n_embd: int, layer_id: int) -> None:
        super().__init__()
        self.layer_id = layer_id
        self.ln1 = nn.LayerNorm(n_embd)
        self.ln2 = nn.LayerNorm(n_embd)
        if layer_id == 0:
            self.ln0 = nn.LayerNorm(n_embd)
        self.att = TimeMix(n_embd)
        self.ffn = ChannelMix(n_embd)

    def forward(self, x: Tensor) -> Tensor:
        if self.layer_id == 0:
            x = self.ln0(x)
        x = x + self.att(self.ln1(x))
        return x + self.ffn(self.ln2(x))


class GPT(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.emb = nn.Embedding(WORDS, WIDTH)
        self.blocks = nn.Sequential(*[Block(WIDTH, i) for i in range(DEPTH)])
        self.ln_out = nn.LayerNorm(WIDTH)
        self.head = nn.Linear(WIDTH, WORDS, bias=False)

    def forward(self, idx: Tensor) -> Tensor:
        return self.head(self.ln_out(self.blocks(self.emb(idx))))


def inputs() -> tuple[Tensor, ...]:
    return (torch.randint(0, WORDS, (2, TEXT)),)


def shifted(x: Tensor) -> Tensor:
    return torch.cat([torch.zeros_like(x[:, :1]), x[:, :-1]], 1)


class Mix(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.mix = nn.Parameter(torch.zeros(3, WIDTH))
        self.wk = nn.Linear(WIDTH, WIDTH, bias=False)
        self.wv = nn.Linear(WIDTH, WIDTH, bias=False)
        self.wr = nn.Linear(WIDTH, WIDTH, bias=False)
        self.wo = nn.Linear(WIDTH, WIDTH, bias=False)
        self.rate = nn.Parameter(torch.zeros(WIDTH))
        self.bonus = nn.Parameter(torch.zeros(WIDTH))

    def forward(self, x: Tensor) -> Tensor:
        xk, xv, xr = (torch.lerp(shifted(x), x, mix) for mix in self.mix)
        k, v, r = self.wk(xk), self.wv(xv), self.wr(xr)
        t = torch.arange(x.shape[1])
        age = (t[:, None] - t)[..., None]
        weight = -self.rate * (age - 1) + k[:, None]
        weight = torch.where(age == 0, self.bonus + k[:, None], weight)
        weight = weight.masked_fill(age < 0, float("-inf")).softmax(2)
        return self.wo(r.sigmoid() * torch.einsum("btsc,bsc->btc", weight, v))


class Feed(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.mix = nn.Parameter(torch.zeros(2, WIDTH))
        self.wk = nn.Linear(WIDTH, 4 * WIDTH, bias=False)
        self.wr = nn.Linear(WIDTH, WIDTH, bias=False)
        self.wv = nn.Linear(4 * WIDTH, WIDTH, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        xk, xr = (torch.lerp(shifted(x), x, mix) for mix in self.mix)
        hidden = F.relu(self.wk(xk)).pow(2)
        return self.wr(xr).sigmoid() * self.wv(hidden)


class Rwkv(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed, self.first = nn.Embedding(WORDS, WIDTH), nn.LayerNorm(WIDTH)
        self.norms = nn.ModuleList(nn.LayerNorm(WIDTH) for _ in range(2 * DEPTH))
        self.mixes = nn.ModuleList(Mix() for _ in range(DEPTH))
        self.feeds = nn.ModuleList(Feed() for _ in range(DEPTH))
        self.last, self.unembed = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, WORDS, bias=False)

    def forward(self, ids: Tensor) -> Tensor:
        x = self.first(self.embed(ids))
        for i in range(DEPTH):
            x = x + self.mixes[i](self.norms[2 * i](x))
            x = x + self.feeds[i](self.norms[2 * i + 1](x))
        return self.unembed(self.last(x))


def port(reference: nn.Module) -> nn.Module:
    w = reference.state_dict()
    state = {"embed.weight": w["emb.weight"], "unembed.weight": w["head.weight"]}
    names = {"first": "blocks.0.ln0", "last": "ln_out"}
    names |= {f"norms.{2 * i + n - 1}": f"blocks.{i}.ln{n}" for i in range(DEPTH) for n in (1, 2)}
    state |= {f"{to}.{part}": w[f"{of}.{part}"] for to, of in names.items() for part in ("weight", "bias")}
    for i in range(DEPTH):
        att, ffn = f"blocks.{i}.att", f"blocks.{i}.ffn"
        state |= {
            f"mixes.{i}.mix": torch.cat([w[f"{att}.time_mix_{n}"][0] for n in "kvr"]),
            f"mixes.{i}.wk.weight": w[f"{att}.key.weight"],
            f"mixes.{i}.wv.weight": w[f"{att}.value.weight"],
            f"mixes.{i}.wr.weight": w[f"{att}.receptance.weight"],
            f"mixes.{i}.wo.weight": w[f"{att}.output.weight"],
            f"mixes.{i}.rate": w[f"{att}.time_decay"].exp(),
            f"mixes.{i}.bonus": w[f"{att}.time_first"],
            f"feeds.{i}.mix": torch.cat([w[f"{ffn}.time_mix_{n}"][0] for n in "kr"]),
            f"feeds.{i}.wk.weight": w[f"{ffn}.key.weight"],
            f"feeds.{i}.wr.weight": w[f"{ffn}.receptance.weight"],
            f"feeds.{i}.wv.weight": w[f"{ffn}.value.weight"],
        }
    module = Rwkv()
    module.load_state_dict(state)
    return module


TWINS = [Twin("rwkv/sum over the past", GPT, port, inputs)]
