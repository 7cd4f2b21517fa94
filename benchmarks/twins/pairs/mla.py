"""DeepSeek-V3's attention of transformers against that of DeepSeek's own inference code, with absorbed matrices."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ..twin import Twin

WIDTH, HEADS, DEPTH, WORDS, FEED = 24, 3, 2, 37, 40
Q_RANK, KV_RANK, NOPE, ROPE, VALUE = 14, 10, 6, 4, 5


def build() -> nn.Module:
    from transformers import DeepseekV3Config, DeepseekV3ForCausalLM

    return DeepseekV3ForCausalLM(
        DeepseekV3Config(
            vocab_size=WORDS,
            hidden_size=WIDTH,
            intermediate_size=FEED,
            num_hidden_layers=DEPTH,
            num_attention_heads=HEADS,
            num_key_value_heads=HEADS,
            first_k_dense_replace=DEPTH,
            q_lora_rank=Q_RANK,
            kv_lora_rank=KV_RANK,
            qk_nope_head_dim=NOPE,
            qk_rope_head_dim=ROPE,
            v_head_dim=VALUE,
            max_position_embeddings=32,
            use_cache=False,
        )
    )


def inputs() -> tuple[Tensor, ...]:
    return (torch.randint(0, WORDS, (2, 8)),)


class Norm(nn.Module):
    def __init__(self, size: int) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.ones(size))

    def forward(self, x: Tensor) -> Tensor:
        return F.rms_norm(x, (x.shape[-1],), self.scale, 1e-6)


def rotary(x: Tensor, angles: Tensor) -> Tensor:
    """Turn pairs of neighbours: x [batch, words, heads, ROPE], angles [words, ROPE / 2]."""
    pairs = x.unflatten(-1, (-1, 2))
    turn = torch.stack([angles.cos(), angles.sin()], -1)[:, None]
    real = pairs[..., 0] * turn[..., 0] - pairs[..., 1] * turn[..., 1]
    imaginary = pairs[..., 0] * turn[..., 1] + pairs[..., 1] * turn[..., 0]
    return torch.stack([real, imaginary], -1).flatten(-2)


class MLA(nn.Module):
    """Scores and values are taken in the space of the latents."""

    def __init__(self) -> None:
        super().__init__()
        self.wq_a = nn.Linear(WIDTH, Q_RANK, bias=False)
        self.q_norm = Norm(Q_RANK)
        self.wq_b = nn.Linear(Q_RANK, HEADS * (NOPE + ROPE), bias=False)
        self.wkv_a = nn.Linear(WIDTH, KV_RANK, bias=False)
        self.wk_pe = nn.Linear(WIDTH, ROPE, bias=False)
        self.kv_norm = Norm(KV_RANK)
        self.wk_b = nn.Parameter(torch.zeros(HEADS, NOPE, KV_RANK))
        self.wv_b = nn.Parameter(torch.zeros(HEADS, VALUE, KV_RANK))
        self.wo = nn.Linear(HEADS * VALUE, WIDTH, bias=False)
        self.softmax_scale = (NOPE + ROPE) ** -0.5

    def forward(self, x: Tensor, angles: Tensor) -> Tensor:
        words = x.shape[1]
        q = self.wq_b(self.q_norm(self.wq_a(x))).unflatten(-1, (HEADS, -1))
        q_nope, q_pe = q.split([NOPE, ROPE], -1)
        q_pe = rotary(q_pe, angles)
        latent = self.kv_norm(self.wkv_a(x))
        k_pe = rotary(self.wk_pe(x)[:, :, None], angles).squeeze(2)
        q_nope = torch.einsum("bshd,hdc->bshc", q_nope, self.wk_b)
        scores = torch.einsum("bshc,btc->bsht", q_nope, latent) + torch.einsum("bshr,btr->bsht", q_pe, k_pe)
        future = torch.ones(words, words, dtype=torch.bool).triu(1)
        scores = (scores * self.softmax_scale).masked_fill(future[:, None], float("-inf")).softmax(-1)
        y = torch.einsum("bsht,btc->bshc", scores, latent)
        return self.wo(torch.einsum("bshc,hdc->bshd", y, self.wv_b).flatten(2))


class Gated(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.w13 = nn.Linear(WIDTH, 2 * FEED, bias=False)
        self.w2 = nn.Linear(FEED, WIDTH, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        gate, up = self.w13(x).chunk(2, -1)
        return self.w2(F.silu(gate) * up)


class Layer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.attn_norm, self.attn = Norm(WIDTH), MLA()
        self.ffn_norm, self.ffn = Norm(WIDTH), Gated()

    def forward(self, x: Tensor, angles: Tensor) -> Tensor:
        x = x + self.attn(self.attn_norm(x), angles)
        return x + self.ffn(self.ffn_norm(x))


class Transformer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(WORDS, WIDTH)
        self.layers = nn.ModuleList(Layer() for _ in range(DEPTH))
        self.norm = Norm(WIDTH)
        self.head = nn.Linear(WIDTH, WORDS, bias=False)

    def forward(self, tokens: Tensor) -> Tensor:
        rates = 1.0 / (10000.0 ** (torch.arange(0, ROPE, 2, dtype=torch.float32) / ROPE))
        angles = torch.outer(torch.arange(tokens.shape[1], dtype=torch.float32), rates)
        x = self.embed(tokens)
        for layer in self.layers:
            x = layer(x, angles)
        return self.head(self.norm(x))


def port(reference: nn.Module) -> nn.Module:
    w = reference.state_dict()
    state = {
        "embed.weight": w["model.embed_tokens.weight"],
        "norm.scale": w["model.norm.weight"],
        "head.weight": w["lm_head.weight"],
    }
    for i in range(DEPTH):
        source, target = f"model.layers.{i}", f"layers.{i}"
        down = w[f"{source}.self_attn.kv_a_proj_with_mqa.weight"]
        up = w[f"{source}.self_attn.kv_b_proj.weight"].unflatten(0, (HEADS, NOPE + VALUE))
        state |= {
            f"{target}.attn_norm.scale": w[f"{source}.input_layernorm.weight"],
            f"{target}.ffn_norm.scale": w[f"{source}.post_attention_layernorm.weight"],
            f"{target}.attn.wq_a.weight": w[f"{source}.self_attn.q_a_proj.weight"],
            f"{target}.attn.q_norm.scale": w[f"{source}.self_attn.q_a_layernorm.weight"],
            f"{target}.attn.wq_b.weight": w[f"{source}.self_attn.q_b_proj.weight"],
            f"{target}.attn.wkv_a.weight": down[:KV_RANK],
            f"{target}.attn.wk_pe.weight": down[KV_RANK:],
            f"{target}.attn.kv_norm.scale": w[f"{source}.self_attn.kv_a_layernorm.weight"],
            f"{target}.attn.wk_b": up[:, :NOPE],
            f"{target}.attn.wv_b": up[:, NOPE:],
            f"{target}.attn.wo.weight": w[f"{source}.self_attn.o_proj.weight"],
            f"{target}.ffn.w13.weight": torch.cat([w[f"{source}.mlp.{n}_proj.weight"] for n in ("gate", "up")]),
            f"{target}.ffn.w2.weight": w[f"{source}.mlp.down_proj.weight"],
        }
    module = Transformer()
    module.load_state_dict(state)
    return module


TWINS = [Twin("mla/absorbed", build, port, inputs)]
