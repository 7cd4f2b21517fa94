"""Falcon's newer kind of transformers (groups of q, k and v, two norms in parallel) against q, k and v apart."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ..twin import Twin

WIDTH, HEADS, KV, DEPTH, WORDS = 24, 6, 2, 2, 29
SIZE, GROUP = WIDTH // HEADS, HEADS // KV


def build() -> nn.Module:
    from transformers import FalconConfig, FalconForCausalLM

    return FalconForCausalLM(
        FalconConfig(
            vocab_size=WORDS,
            hidden_size=WIDTH,
            num_hidden_layers=DEPTH,
            num_attention_heads=HEADS,
            num_kv_heads=KV,
            new_decoder_architecture=True,
            parallel_attn=True,
            bias=False,
            alibi=False,
            use_cache=False,
            ffn_hidden_size=52,
            bos_token_id=1,
            eos_token_id=1,
        )
    )


def inputs() -> tuple[Tensor, ...]:
    return (torch.randint(0, WORDS, (2, 7)),)


class Rope(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        theta = 10000.0 ** (-torch.arange(0, SIZE, 2).float() / SIZE)
        angles = torch.arange(16).float()[:, None] * theta
        self.register_buffer("cos", angles.cos(), persistent=False)
        self.register_buffer("sin", angles.sin(), persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        n = x.shape[1]
        cos, sin = self.cos[:n, None], self.sin[:n, None]
        a, b = x.chunk(2, dim=-1)
        return torch.cat([a * cos - b * sin, b * cos + a * sin], dim=-1)


class GroupedAttention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.wq = nn.Linear(WIDTH, HEADS * SIZE, bias=False)
        self.wk = nn.Linear(WIDTH, KV * SIZE, bias=False)
        self.wv = nn.Linear(WIDTH, KV * SIZE, bias=False)
        self.wo = nn.Linear(HEADS * SIZE, WIDTH, bias=False)
        self.rope = Rope()

    def forward(self, x: Tensor) -> Tensor:
        q = self.rope(self.wq(x).unflatten(-1, (HEADS, SIZE))).transpose(1, 2)
        k = self.rope(self.wk(x).unflatten(-1, (KV, SIZE))).transpose(1, 2)
        v = self.wv(x).unflatten(-1, (KV, SIZE)).transpose(1, 2)
        k, v = (y.repeat_interleave(GROUP, 1) for y in (k, v))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.wo(y.transpose(1, 2).flatten(2))


class ParallelBlock(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm_a, self.norm_m = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.attention = GroupedAttention()
        self.fc_in = nn.Linear(WIDTH, 52, bias=False)
        self.fc_out = nn.Linear(52, WIDTH, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        return x + self.attention(self.norm_a(x)) + self.fc_out(F.gelu(self.fc_in(self.norm_m(x))))


class SmallFalcon(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.wte = nn.Embedding(WORDS, WIDTH)
        self.blocks = nn.Sequential(*(ParallelBlock() for _ in range(DEPTH)))
        self.norm = nn.LayerNorm(WIDTH)
        self.head = nn.Linear(WIDTH, WORDS, bias=False)

    def forward(self, ids: Tensor) -> Tensor:
        return self.head(self.norm(self.blocks(self.wte(ids))))


def port(reference: nn.Module) -> nn.Module:
    w = reference.state_dict()
    model = SmallFalcon()
    model.head.weight = model.wte.weight
    out = {
        "wte.weight": w["transformer.word_embeddings.weight"],
        "head.weight": w["lm_head.weight"],
        "norm.weight": w["transformer.ln_f.weight"],
        "norm.bias": w["transformer.ln_f.bias"],
    }
    for i in range(DEPTH):
        source, target = f"transformer.h.{i}", f"blocks.{i}"
        qkv = w[f"{source}.self_attention.query_key_value.weight"]
        grouped = qkv.view(KV, GROUP + 2, SIZE, WIDTH)
        parts = grouped[:, :-2], grouped[:, -2], grouped[:, -1]
        for name, part in zip(("wq", "wk", "wv"), parts, strict=True):
            out[f"{target}.attention.{name}.weight"] = part.reshape(-1, WIDTH)
        out[f"{target}.attention.wo.weight"] = w[f"{source}.self_attention.dense.weight"]
        out[f"{target}.fc_in.weight"] = w[f"{source}.mlp.dense_h_to_4h.weight"]
        out[f"{target}.fc_out.weight"] = w[f"{source}.mlp.dense_4h_to_h.weight"]
        for to, of in (("norm_a", "ln_attn"), ("norm_m", "ln_mlp")):
            for kind in ("weight", "bias"):
                out[f"{target}.{to}.{kind}"] = w[f"{source}.{of}.{kind}"]
    model.load_state_dict(out)
    return model


TWINS = [Twin("falcon/grouped", build, port, inputs)]
