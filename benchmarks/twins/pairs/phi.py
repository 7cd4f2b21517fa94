"""Phi of transformers (partial rotation, attention and MLP in parallel) against one product for q, k and v."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from ..twin import Twin

WIDTH, HEADS, DEPTH, WORDS = 32, 4, 2, 31
SIZE, TURNED = WIDTH // HEADS, 4


def build() -> nn.Module:
    from transformers import PhiConfig, PhiForCausalLM

    return PhiForCausalLM(
        PhiConfig(
            vocab_size=WORDS,
            hidden_size=WIDTH,
            intermediate_size=64,
            num_hidden_layers=DEPTH,
            num_attention_heads=HEADS,
            partial_rotary_factor=0.5,
            max_position_embeddings=16,
            use_cache=False,
            pad_token_id=None,
            bos_token_id=1,
            eos_token_id=2,
        )
    )


def inputs() -> tuple[Tensor, ...]:
    return (torch.randint(3, WORDS, (2, 6)),)


def new_gelu(x: Tensor) -> Tensor:
    return 0.5 * x * (1.0 + torch.tanh((2.0 / torch.pi) ** 0.5 * (x + 0.044715 * x**3)))


def turn(x: Tensor) -> Tensor:
    """x: (batch, time, 2, heads, size)."""
    angle = torch.outer(
        torch.arange(x.shape[1], dtype=x.dtype), 10000 ** (-torch.arange(0, TURNED, 2, dtype=x.dtype) / TURNED)
    )
    cos, sin = angle.cos()[None, :, None, None], angle.sin()[None, :, None, None]
    a, b, rest = x.split([TURNED // 2, TURNED // 2, SIZE - TURNED], -1)
    return torch.cat([a * cos - b * sin, a * sin + b * cos, rest], -1)


class MHA(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.Wqkv = nn.Linear(WIDTH, 3 * WIDTH)
        self.out_proj = nn.Linear(WIDTH, WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        qkv = self.Wqkv(x).view(*x.shape[:2], 3, HEADS, SIZE)
        q, k = turn(qkv[:, :, :2]).unbind(2)
        v = qkv[:, :, 2]
        scores = torch.einsum("bthd,bshd->bhts", q, k * SIZE**-0.5)
        future = torch.full((x.shape[1], x.shape[1]), -10000.0).triu(1)
        weights = torch.softmax(scores + future, -1)
        return self.out_proj(torch.einsum("bhts,bshd->bthd", weights, v).reshape(x.shape))


class MLP(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.fc1, self.fc2 = nn.Linear(WIDTH, 64), nn.Linear(64, WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        return self.fc2(new_gelu(self.fc1(x)))


class ParallelBlock(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.ln = nn.LayerNorm(WIDTH)
        self.mixer, self.mlp = MHA(), MLP()

    def forward(self, x: Tensor) -> Tensor:
        y = self.ln(x)
        return self.mixer(y) + self.mlp(y) + x


class Phi(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embd = nn.Embedding(WORDS, WIDTH)
        self.h = nn.Sequential(*(ParallelBlock() for _ in range(DEPTH)))
        self.head = nn.Sequential(nn.LayerNorm(WIDTH), nn.Linear(WIDTH, WORDS))

    def forward(self, ids: Tensor) -> Tensor:
        return self.head(self.h(self.embd(ids)))


def port(reference: nn.Module) -> nn.Module:
    w = reference.state_dict()
    out = {"embd.weight": w["model.embed_tokens.weight"]}
    for kind in ("weight", "bias"):
        out[f"head.0.{kind}"] = w[f"model.final_layernorm.{kind}"]
        out[f"head.1.{kind}"] = w[f"lm_head.{kind}"]
        for i in range(DEPTH):
            source, target = f"model.layers.{i}", f"h.{i}"
            out[f"{target}.mixer.Wqkv.{kind}"] = torch.cat([w[f"{source}.self_attn.{n}_proj.{kind}"] for n in "qkv"])
            out[f"{target}.mixer.out_proj.{kind}"] = w[f"{source}.self_attn.dense.{kind}"]
            out[f"{target}.ln.{kind}"] = w[f"{source}.input_layernorm.{kind}"]
            for n in (1, 2):
                out[f"{target}.mlp.fc{n}.{kind}"] = w[f"{source}.mlp.fc{n}.{kind}"]
    model = Phi()
    model.load_state_dict(out)
    return model


TWINS = [Twin("phi/fused", build, port, inputs)]
