"""Gemma 2 of transformers against the way of Google's own code: fused projections, complex rotary, a mask per layer."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ..twin import Twin

WIDTH, HEADS, KV, SIZE, FEED, DEPTH, WORDS, WINDOW = 20, 4, 2, 6, 28, 2, 31, 3
CAP, LAST_CAP, QUERY_SCALAR = 5.0, 8.0, 5


def build() -> nn.Module:
    from transformers import Gemma2Config, Gemma2ForCausalLM

    return Gemma2ForCausalLM(
        Gemma2Config(
            vocab_size=WORDS,
            hidden_size=WIDTH,
            intermediate_size=FEED,
            num_hidden_layers=DEPTH,
            num_attention_heads=HEADS,
            num_key_value_heads=KV,
            head_dim=SIZE,
            sliding_window=WINDOW,
            query_pre_attn_scalar=QUERY_SCALAR,
            attn_logit_softcapping=CAP,
            final_logit_softcapping=LAST_CAP,
            max_position_embeddings=16,
            use_cache=False,
            pad_token_id=None,
            attn_implementation="eager",
        )
    )


def inputs() -> tuple[Tensor, ...]:
    return (torch.randint(1, WORDS, (2, 8)),)


class RMSNorm(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(WIDTH))

    def _norm(self, x: Tensor) -> Tensor:
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6)

    def forward(self, x: Tensor) -> Tensor:
        return self._norm(x) * (1 + self.weight)


def precompute_freqs_cis(dim: int, end: int, theta: float = 10000.0) -> Tensor:
    freqs = 1.0 / (theta ** (torch.arange(0, dim, 2)[: (dim // 2)].float() / dim))
    t = torch.arange(end).to(freqs.dtype)
    freqs = torch.outer(t, freqs)
    return torch.polar(torch.ones_like(freqs), freqs)


def apply_rotary_emb(x: Tensor, freqs_cis: Tensor) -> Tensor:
    """x: (batch, length, heads, size)"""
    x_ = torch.view_as_complex(torch.stack(torch.chunk(x.transpose(1, 2), 2, dim=-1), dim=-1).contiguous())
    x_out = torch.view_as_real(x_ * freqs_cis)
    x_out = torch.cat(torch.chunk(x_out, 2, dim=-1), dim=-2)
    return x_out.reshape(x_out.shape[0], x_out.shape[1], x_out.shape[2], -1).transpose(1, 2)


class GemmaAttention(nn.Module):
    def __init__(self, local: bool) -> None:
        super().__init__()
        self.qkv_proj = nn.Linear(WIDTH, (HEADS + 2 * KV) * SIZE, bias=False)
        self.o_proj = nn.Linear(HEADS * SIZE, WIDTH, bias=False)
        self.local = local

    def forward(self, x: Tensor, freqs_cis: Tensor) -> Tensor:
        b, n, _ = x.shape
        xq, xk, xv = self.qkv_proj(x).split([HEADS * SIZE, KV * SIZE, KV * SIZE], dim=-1)
        xq = apply_rotary_emb(xq.view(b, n, HEADS, SIZE), freqs_cis)
        xk = apply_rotary_emb(xk.view(b, n, KV, SIZE), freqs_cis)
        xv = xv.view(b, n, KV, SIZE)
        xk = torch.repeat_interleave(xk, HEADS // KV, dim=2)
        xv = torch.repeat_interleave(xv, HEADS // KV, dim=2)
        q, k, v = (y.transpose(1, 2) for y in (xq * QUERY_SCALAR**-0.5, xk, xv))
        scores = q @ k.transpose(2, 3)
        scores = torch.tanh(scores / CAP) * CAP
        mask = torch.full((n, n), -2.3819763e38).triu(1)
        if self.local:
            mask = mask + torch.full((n, n), -2.3819763e38).tril(-WINDOW)
        scores = F.softmax(scores + mask, dim=-1)
        return self.o_proj((scores @ v).transpose(1, 2).contiguous().view(b, n, -1))


class GemmaMLP(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.gate_up = nn.Linear(WIDTH, 2 * FEED, bias=False)
        self.down = nn.Linear(FEED, WIDTH, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        gate, up = self.gate_up(x).chunk(2, dim=-1)
        return self.down(F.gelu(gate, approximate="tanh") * up)


class Gemma2Block(nn.Module):
    def __init__(self, index: int) -> None:
        super().__init__()
        self.attn = GemmaAttention(local=index % 2 == 0)
        self.mlp = GemmaMLP()
        self.pre_attn, self.post_attn, self.pre_ffw, self.post_ffw = (RMSNorm() for _ in range(4))

    def forward(self, x: Tensor, freqs_cis: Tensor) -> Tensor:
        x = x + self.post_attn(self.attn(self.pre_attn(x), freqs_cis))
        return x + self.post_ffw(self.mlp(self.pre_ffw(x)))


class Gemma(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embedder = nn.Parameter(torch.empty(WORDS, WIDTH))
        self.layers = nn.ModuleList(Gemma2Block(i) for i in range(DEPTH))
        self.norm = RMSNorm()
        self.register_buffer("freqs_cis", precompute_freqs_cis(SIZE, 32), persistent=False)

    def forward(self, token_ids: Tensor) -> Tensor:
        x = F.embedding(token_ids, self.embedder) * WIDTH**0.5
        freqs_cis = self.freqs_cis[: token_ids.shape[1]]
        for layer in self.layers:
            x = layer(x, freqs_cis)
        logits = self.norm(x) @ self.embedder.t()
        return torch.tanh(logits / LAST_CAP) * LAST_CAP


def port(reference: nn.Module) -> nn.Module:
    w = reference.state_dict()
    model = Gemma()
    out = {"embedder": w["model.embed_tokens.weight"], "norm.weight": w["model.norm.weight"]}
    for i in range(DEPTH):
        source, target = f"model.layers.{i}", f"layers.{i}"
        out[f"{target}.attn.qkv_proj.weight"] = torch.cat([w[f"{source}.self_attn.{n}_proj.weight"] for n in "qkv"])
        out[f"{target}.attn.o_proj.weight"] = w[f"{source}.self_attn.o_proj.weight"]
        out[f"{target}.mlp.gate_up.weight"] = torch.cat(
            [w[f"{source}.mlp.gate_proj.weight"], w[f"{source}.mlp.up_proj.weight"]]
        )
        out[f"{target}.mlp.down.weight"] = w[f"{source}.mlp.down_proj.weight"]
        out[f"{target}.pre_attn.weight"] = w[f"{source}.input_layernorm.weight"]
        post, pre = "post_attention_layernorm", "pre_feedforward_layernorm"
        out[f"{target}.post_attn.weight"] = w[f"{source}.{post}.weight"]
        out[f"{target}.pre_ffw.weight"] = w[f"{source}.{pre}.weight"]
        out[f"{target}.post_ffw.weight"] = w[f"{source}.post_feedforward_layernorm.weight"]
    model.load_state_dict(out)
    return model


TWINS = [Twin("gemma2/google", build, port, inputs)]
