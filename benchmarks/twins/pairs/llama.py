"""Llama of transformers, against Meta's kind with complex numbers, and against one with a fused q/k/v and gate/up."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ..twin import Twin

WIDTH, DEPTH, HEADS, KV_HEADS, WORDS, INNER, LENGTH = 32, 2, 4, 2, 40, 48, 16
SIZE = WIDTH // HEADS
EPS = 1e-5


def build() -> nn.Module:
    from transformers import LlamaConfig, LlamaForCausalLM

    return LlamaForCausalLM(
        LlamaConfig(
            vocab_size=WORDS, hidden_size=WIDTH, intermediate_size=INNER, num_hidden_layers=DEPTH,
            num_attention_heads=HEADS, num_key_value_heads=KV_HEADS, max_position_embeddings=LENGTH,
            rms_norm_eps=EPS, use_cache=False,
        )
    )  # fmt: skip


def inputs() -> tuple[Tensor, ...]:
    return (torch.randint(0, WORDS, (2, 8)),)


def interleaved(weight: Tensor, heads: int) -> Tensor:
    """Bring the rows of each head from two halves into pairs, as Meta's checkpoints have them."""
    return weight.view(heads, 2, SIZE // 2, -1).transpose(1, 2).reshape(weight.shape)


class RMSNorm(nn.Module):
    def __init__(self, dim: int, eps: float = 1e-6) -> None:
        super().__init__()
        self.eps = eps
        self.weight = nn.Parameter(torch.ones(dim))

    def _norm(self, x: Tensor) -> Tensor:
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.eps)

    def forward(self, x: Tensor) -> Tensor:
        return self._norm(x.float()).type_as(x) * self.weight


def precompute_freqs_cis(dim: int, end: int, theta: float = 10000.0) -> Tensor:
    freqs = 1.0 / (theta ** (torch.arange(0, dim, 2)[: (dim // 2)].float() / dim))
    freqs = torch.outer(torch.arange(end), freqs)
    return torch.polar(torch.ones_like(freqs), freqs)


def apply_rotary_emb(xq: Tensor, xk: Tensor, freqs_cis: Tensor) -> tuple[Tensor, Tensor]:
    xq_ = torch.view_as_complex(xq.float().reshape(*xq.shape[:-1], -1, 2))
    xk_ = torch.view_as_complex(xk.float().reshape(*xk.shape[:-1], -1, 2))
    freqs_cis = freqs_cis[None, : xq.shape[1], None]
    xq_out = torch.view_as_real(xq_ * freqs_cis).flatten(3)
    xk_out = torch.view_as_real(xk_ * freqs_cis).flatten(3)
    return xq_out.type_as(xq), xk_out.type_as(xk)


class Attention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.wq = nn.Linear(WIDTH, HEADS * SIZE, bias=False)
        self.wk = nn.Linear(WIDTH, KV_HEADS * SIZE, bias=False)
        self.wv = nn.Linear(WIDTH, KV_HEADS * SIZE, bias=False)
        self.wo = nn.Linear(HEADS * SIZE, WIDTH, bias=False)

    def forward(self, x: Tensor, freqs_cis: Tensor, mask: Tensor) -> Tensor:
        bsz, seqlen, _ = x.shape
        xq, xk, xv = self.wq(x), self.wk(x), self.wv(x)
        xq = xq.view(bsz, seqlen, HEADS, SIZE)
        xk = xk.view(bsz, seqlen, KV_HEADS, SIZE)
        xv = xv.view(bsz, seqlen, KV_HEADS, SIZE)
        xq, xk = apply_rotary_emb(xq, xk, freqs_cis)
        xk = torch.repeat_interleave(xk, HEADS // KV_HEADS, dim=2)
        xv = torch.repeat_interleave(xv, HEADS // KV_HEADS, dim=2)
        xq, xk, xv = xq.transpose(1, 2), xk.transpose(1, 2), xv.transpose(1, 2)
        scores = torch.matmul(xq, xk.transpose(2, 3)) / SIZE**0.5
        scores = F.softmax((scores + mask).float(), dim=-1).type_as(xq)
        output = torch.matmul(scores, xv).transpose(1, 2).contiguous().view(bsz, seqlen, -1)
        return self.wo(output)


class FeedForward(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.w1 = nn.Linear(WIDTH, INNER, bias=False)
        self.w2 = nn.Linear(INNER, WIDTH, bias=False)
        self.w3 = nn.Linear(WIDTH, INNER, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        return self.w2(F.silu(self.w1(x)) * self.w3(x))


class TransformerBlock(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.attention = Attention()
        self.feed_forward = FeedForward()
        self.attention_norm = RMSNorm(WIDTH, EPS)
        self.ffn_norm = RMSNorm(WIDTH, EPS)

    def forward(self, x: Tensor, freqs_cis: Tensor, mask: Tensor) -> Tensor:
        h = x + self.attention(self.attention_norm(x), freqs_cis, mask)
        return h + self.feed_forward(self.ffn_norm(h))


class Transformer(nn.Module):
    """As in Meta's repository."""

    def __init__(self) -> None:
        super().__init__()
        self.tok_embeddings = nn.Embedding(WORDS, WIDTH)
        self.layers = nn.ModuleList(TransformerBlock() for _ in range(DEPTH))
        self.norm = RMSNorm(WIDTH, EPS)
        self.output = nn.Linear(WIDTH, WORDS, bias=False)
        self.freqs_cis = precompute_freqs_cis(SIZE, LENGTH)

    def forward(self, tokens: Tensor) -> Tensor:
        seqlen = tokens.shape[1]
        h = self.tok_embeddings(tokens)
        mask = torch.triu(torch.full((seqlen, seqlen), float("-inf"), dtype=h.dtype), diagonal=1)
        for layer in self.layers:
            h = layer(h, self.freqs_cis, mask)
        return self.output(self.norm(h)).float() if h.dtype == torch.bfloat16 else self.output(self.norm(h))


META = {
    "attention.wv": "self_attn.v_proj",
    "attention.wo": "self_attn.o_proj",
    "feed_forward.w1": "mlp.gate_proj",
    "feed_forward.w2": "mlp.down_proj",
    "feed_forward.w3": "mlp.up_proj",
    "attention_norm": "input_layernorm",
    "ffn_norm": "post_attention_layernorm",
}


def port_meta(reference: nn.Module) -> nn.Module:
    w = reference.state_dict()
    state = {
        "tok_embeddings.weight": w["model.embed_tokens.weight"],
        "norm.weight": w["model.norm.weight"],
        "output.weight": w["lm_head.weight"],
    }
    for i in range(DEPTH):
        source = f"model.layers.{i}"
        for target, name in META.items():
            state[f"layers.{i}.{target}.weight"] = w[f"{source}.{name}.weight"]
        state[f"layers.{i}.attention.wq.weight"] = interleaved(w[f"{source}.self_attn.q_proj.weight"], HEADS)
        state[f"layers.{i}.attention.wk.weight"] = interleaved(w[f"{source}.self_attn.k_proj.weight"], KV_HEADS)
    module = Transformer()
    module.load_state_dict(state)
    return module


class FusedLayer(nn.Module):
    """As in inference engines: one product for q, k and v, one for gate and up, and rotations of pairs."""

    def __init__(self) -> None:
        super().__init__()
        self.rms_att = nn.RMSNorm(WIDTH, eps=EPS)
        self.qkv = nn.Linear(WIDTH, (HEADS + 2 * KV_HEADS) * SIZE, bias=False)
        self.out = nn.Linear(WIDTH, WIDTH, bias=False)
        self.rms_ffn = nn.RMSNorm(WIDTH, eps=EPS)
        self.gate_up = nn.Linear(WIDTH, 2 * INNER, bias=False)
        self.down = nn.Linear(INNER, WIDTH, bias=False)

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        q, k, v = self.qkv(self.rms_att(x)).split([HEADS * SIZE, KV_HEADS * SIZE, KV_HEADS * SIZE], dim=-1)
        q, k = self.rotate(q, cos, sin), self.rotate(k, cos, sin)
        v = v.unflatten(-1, (KV_HEADS, SIZE)).transpose(1, 2)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
        x = x + self.out(y.transpose(1, 2).flatten(2))
        gate, up = self.gate_up(self.rms_ffn(x)).chunk(2, dim=-1)
        return x + self.down(F.silu(gate) * up)

    @staticmethod
    def rotate(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        x = x.unflatten(-1, (-1, SIZE // 2, 2)).transpose(1, 2)
        even, odd = x[..., 0], x[..., 1]
        return torch.stack((even * cos - odd * sin, even * sin + odd * cos), dim=-1).flatten(-2)


class FusedLlama(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.wte = nn.Embedding(WORDS, WIDTH)
        self.h = nn.ModuleList(FusedLayer() for _ in range(DEPTH))
        self.ln = nn.RMSNorm(WIDTH, eps=EPS)
        self.head = nn.Linear(WIDTH, WORDS, bias=False)
        angles = torch.outer(torch.arange(LENGTH), 10000.0 ** (-torch.arange(0, SIZE, 2) / SIZE))
        self.register_buffer("cos", angles.cos(), persistent=False)
        self.register_buffer("sin", angles.sin(), persistent=False)

    def forward(self, ids: Tensor) -> Tensor:
        x = self.wte(ids)
        cos, sin = self.cos[: ids.shape[1]], self.sin[: ids.shape[1]]
        for layer in self.h:
            x = layer(x, cos, sin)
        return self.head(self.ln(x))


def port_fused(reference: nn.Module) -> nn.Module:
    w = reference.state_dict()
    state = {"wte.weight": w["model.embed_tokens.weight"], "ln.weight": w["model.norm.weight"]}
    state["head.weight"] = w["lm_head.weight"]
    for i in range(DEPTH):
        q, k, v, o = (w[f"model.layers.{i}.self_attn.{letter}_proj.weight"] for letter in "qkvo")
        gate, up, down = (w[f"model.layers.{i}.mlp.{name}_proj.weight"] for name in ("gate", "up", "down"))
        state |= {
            f"h.{i}.rms_att.weight": w[f"model.layers.{i}.input_layernorm.weight"],
            f"h.{i}.rms_ffn.weight": w[f"model.layers.{i}.post_attention_layernorm.weight"],
            f"h.{i}.qkv.weight": torch.cat([interleaved(q, HEADS), interleaved(k, KV_HEADS), v]),
            f"h.{i}.out.weight": o,
            f"h.{i}.gate_up.weight": torch.cat([gate, up]),
            f"h.{i}.down.weight": down,
        }
    module = FusedLlama()
    module.load_state_dict(state)
    return module


TWINS = [
    Twin("llama/complex rotary", build, port_meta, inputs),
    Twin("llama/fused", build, port_fused, inputs),
]
