"""GPT-2 of transformers (Conv1D, a fused q/k/v), against minGPT's kind with nn.Linear, and three projections."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ..twin import Twin

WIDTH, DEPTH, HEADS, WORDS, LENGTH = 24, 2, 3, 40, 12


def build(**options: Any) -> nn.Module:
    from transformers import GPT2Config, GPT2LMHeadModel

    sizes = {"n_embd": WIDTH, "n_layer": DEPTH, "n_head": HEADS, "vocab_size": WORDS, "n_positions": LENGTH}
    return GPT2LMHeadModel(GPT2Config(**sizes, bos_token_id=0, eos_token_id=0, **options))


def build_without_cache() -> nn.Module:
    return build(use_cache=False, attn_implementation="eager")


def inputs() -> tuple[Tensor, ...]:
    return (torch.randint(0, WORDS, (2, 9)),)


class CausalSelfAttention(nn.Module):
    """As in minGPT: one projection for q, k and v, and a mask in a buffer."""

    def __init__(self) -> None:
        super().__init__()
        self.to_qkv = nn.Linear(WIDTH, 3 * WIDTH)
        self.proj = nn.Linear(WIDTH, WIDTH)
        self.register_buffer("mask", torch.tril(torch.ones(LENGTH, LENGTH)).view(1, 1, LENGTH, LENGTH))

    def forward(self, x: Tensor) -> Tensor:
        b, t, c = x.size()
        q, k, v = self.to_qkv(x).split(c, dim=2)
        q, k, v = (y.view(b, t, HEADS, c // HEADS).transpose(1, 2) for y in (q, k, v))
        att = (q @ k.transpose(-2, -1)) * (1.0 / math.sqrt(k.size(-1)))
        att = att.masked_fill(self.mask[:, :, :t, :t] == 0, float("-inf"))
        att = F.softmax(att, dim=-1)
        y = (att @ v).transpose(1, 2).contiguous().view(b, t, c)
        return self.proj(y)


class MiniBlock(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm_a = nn.LayerNorm(WIDTH)
        self.attention = CausalSelfAttention()
        self.norm_b = nn.LayerNorm(WIDTH)
        self.up = nn.Linear(WIDTH, 4 * WIDTH)
        self.down = nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.attention(self.norm_a(x))
        return x + self.down(F.gelu(self.up(self.norm_b(x)), approximate="tanh"))


class MiniGPT(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.token = nn.Embedding(WORDS, WIDTH)
        self.position = nn.Embedding(LENGTH, WIDTH)
        self.blocks = nn.ModuleList(MiniBlock() for _ in range(DEPTH))
        self.last = nn.LayerNorm(WIDTH)

    def forward(self, idx: Tensor) -> Tensor:
        x = self.token(idx) + self.position(torch.arange(idx.shape[1], device=idx.device))
        for block in self.blocks:
            x = block(x)
        return F.linear(self.last(x), self.token.weight)


def port_mini(reference: nn.Module) -> nn.Module:
    w = reference.state_dict()
    module = MiniGPT()
    state = {
        "token.weight": w["transformer.wte.weight"],
        "position.weight": w["transformer.wpe.weight"],
        "last.weight": w["transformer.ln_f.weight"],
        "last.bias": w["transformer.ln_f.bias"],
    }
    names = {"attention.to_qkv": "attn.c_attn", "attention.proj": "attn.c_proj", "up": "mlp.c_fc", "down": "mlp.c_proj"}
    for i in range(DEPTH):
        for target, source in names.items():
            state[f"blocks.{i}.{target}.weight"] = w[f"transformer.h.{i}.{source}.weight"].T
            state[f"blocks.{i}.{target}.bias"] = w[f"transformer.h.{i}.{source}.bias"]
        for target, source in (("norm_a", "ln_1"), ("norm_b", "ln_2")):
            for part in ("weight", "bias"):
                state[f"blocks.{i}.{target}.{part}"] = w[f"transformer.h.{i}.{source}.{part}"]
    module.load_state_dict(state | {name: b for name, b in module.state_dict().items() if name.endswith("mask")})
    return module


class Heads(nn.Module):
    """Three projections, and torch's own attention."""

    def __init__(self) -> None:
        super().__init__()
        self.wq, self.wk, self.wv, self.wo = (nn.Linear(WIDTH, WIDTH) for _ in range(4))

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = (w(x).unflatten(-1, (HEADS, -1)).transpose(1, 2) for w in (self.wq, self.wk, self.wv))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.wo(y.transpose(1, 2).flatten(2))


class NewGELU(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return 0.5 * x * (1.0 + torch.tanh(math.sqrt(2.0 / math.pi) * (x + 0.044715 * torch.pow(x, 3.0))))


class FeedForward(nn.Sequential):
    def __init__(self) -> None:
        super().__init__(nn.Linear(WIDTH, 4 * WIDTH), NewGELU(), nn.Linear(4 * WIDTH, WIDTH))


class Residual(nn.Module):
    """Adds what a module makes of the normalized input."""

    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(WIDTH, eps=1e-5)
        self.inner = inner

    def forward(self, x: Tensor) -> Tensor:
        return x + self.inner(self.norm(x))


class SplitGPT(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.emb = nn.Parameter(torch.empty(WORDS, WIDTH))
        self.pos = nn.Parameter(torch.empty(LENGTH, WIDTH))
        self.layers = nn.Sequential(*(Residual(kind()) for _ in range(DEPTH) for kind in (Heads, FeedForward)))
        self.norm = nn.LayerNorm(WIDTH)
        self.unembed = nn.Linear(WIDTH, WORDS, bias=False)
        self.unembed.weight = self.emb

    def forward(self, ids: Tensor) -> dict[str, Tensor]:
        x = F.embedding(ids, self.emb) + self.pos[: ids.shape[1]]
        return {"scores": self.unembed(self.norm(self.layers(x)))}


def port_split(reference: nn.Module) -> nn.Module:
    module = SplitGPT()
    w = {name.removeprefix("transformer."): value for name, value in reference.state_dict().items()}
    with torch.no_grad():
        module.emb.copy_(w["wte.weight"])
        module.pos.copy_(w["wpe.weight"])
        for i in range(DEPTH):
            attention, feed = module.layers[2 * i], module.layers[2 * i + 1]
            q, k, v = w[f"h.{i}.attn.c_attn.weight"].chunk(3, dim=1)
            for linear, matrix, bias in zip(
                (attention.inner.wq, attention.inner.wk, attention.inner.wv),
                (q, k, v),
                w[f"h.{i}.attn.c_attn.bias"].chunk(3),
                strict=True,
            ):
                linear.weight.copy_(matrix.T)
                linear.bias.copy_(bias)
            attention.inner.wo.weight.copy_(w[f"h.{i}.attn.c_proj.weight"].T)
            attention.inner.wo.bias.copy_(w[f"h.{i}.attn.c_proj.bias"])
            for linear, name in ((feed.inner[0], "c_fc"), (feed.inner[2], "c_proj")):
                linear.weight.copy_(w[f"h.{i}.mlp.{name}.weight"].T)
                linear.bias.copy_(w[f"h.{i}.mlp.{name}.bias"])
            for block, name in ((attention, "ln_1"), (feed, "ln_2")):
                block.norm.weight.copy_(w[f"h.{i}.{name}.weight"])
                block.norm.bias.copy_(w[f"h.{i}.{name}.bias"])
        module.norm.weight.copy_(w["ln_f.weight"])
        module.norm.bias.copy_(w["ln_f.bias"])
    return module


TWINS = [
    Twin("gpt2/linear", build, port_mini, inputs),
    Twin("gpt2/split", build_without_cache, port_split, inputs),
]
