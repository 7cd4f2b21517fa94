"""Mixtral of transformers, with the experts in tensors of three axes, against dense dispatch over a list of experts."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ..twin import Twin

WIDTH, HEADS, KV, FEED, EXPERTS, TOP, DEPTH, WORDS = 16, 4, 2, 22, 3, 2, 2, 30
SIZE = WIDTH // HEADS


def build() -> nn.Module:
    from transformers import MixtralConfig, MixtralForCausalLM

    return MixtralForCausalLM(
        MixtralConfig(
            vocab_size=WORDS,
            hidden_size=WIDTH,
            intermediate_size=FEED,
            num_hidden_layers=DEPTH,
            num_attention_heads=HEADS,
            num_key_value_heads=KV,
            num_local_experts=EXPERTS,
            num_experts_per_tok=TOP,
            max_position_embeddings=16,
            use_cache=False,
            sliding_window=None,
            experts_implementation="eager",
        )
    )


def inputs() -> tuple[Tensor, ...]:
    return (torch.randint(3, WORDS, (2, 7)),)


class RMSNorm(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.ones(WIDTH))

    def forward(self, x: Tensor) -> Tensor:
        return F.rms_norm(x, (WIDTH,), self.scale, eps=1e-5)


class Expert(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.w1 = nn.Linear(WIDTH, FEED, bias=False)
        self.w2 = nn.Linear(FEED, WIDTH, bias=False)
        self.w3 = nn.Linear(WIDTH, FEED, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        return self.w2(F.silu(self.w1(x)) * self.w3(x))


class DenseMoE(nn.Module):
    """Every expert sees every token; the weights of those not chosen are zero."""

    def __init__(self) -> None:
        super().__init__()
        self.router = nn.Linear(WIDTH, EXPERTS, bias=False)
        self.experts = nn.ModuleList(Expert() for _ in range(EXPERTS))

    def forward(self, x: Tensor) -> Tensor:
        scores, chosen = self.router(x).topk(TOP, dim=-1)
        scores = scores.softmax(-1)
        weights = torch.zeros(*x.shape[:-1], EXPERTS, dtype=x.dtype).scatter(-1, chosen, scores)
        everything = torch.stack([expert(x) for expert in self.experts], dim=-1)
        return torch.einsum("bnde,bne->bnd", everything, weights)


class Attention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.wqkv = nn.Linear(WIDTH, (HEADS + 2 * KV) * SIZE, bias=False)
        self.wo = nn.Linear(WIDTH, WIDTH, bias=False)

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        b, n, _ = x.shape
        q, k, v = self.wqkv(x).view(b, n, HEADS + 2 * KV, SIZE).transpose(1, 2).split([HEADS, KV, KV], dim=1)

        def rotate(y: Tensor) -> Tensor:
            a, c = y.chunk(2, dim=-1)
            return y * cos + torch.cat([-c, a], dim=-1) * sin

        y = F.scaled_dot_product_attention(rotate(q), rotate(k), v, is_causal=True, enable_gqa=True)
        return self.wo(y.transpose(1, 2).reshape(b, n, WIDTH))


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.attention_norm, self.attention = RMSNorm(), Attention()
        self.ffn_norm, self.feed_forward = RMSNorm(), DenseMoE()

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        h = x + self.attention(self.attention_norm(x), cos, sin)
        return h + self.feed_forward(self.ffn_norm(h))


class MoE(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.tok_embeddings = nn.Embedding(WORDS, WIDTH)
        self.layers = nn.ModuleList(Block() for _ in range(DEPTH))
        self.norm = RMSNorm()
        self.output = nn.Linear(WIDTH, WORDS, bias=False)

    def forward(self, ids: Tensor) -> Tensor:
        angles = torch.arange(ids.shape[1])[:, None] * 1e6 ** (-torch.arange(0, SIZE, 2).float() / SIZE)
        angles = torch.cat([angles, angles], dim=-1)
        x = self.tok_embeddings(ids)
        cos, sin = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
        for layer in self.layers:
            x = layer(x, cos, sin)
        return self.output(self.norm(x))


def port(reference: nn.Module) -> nn.Module:
    w = reference.state_dict()
    model = MoE()
    out = {
        "tok_embeddings.weight": w["model.embed_tokens.weight"],
        "norm.scale": w["model.norm.weight"],
        "output.weight": w["lm_head.weight"],
    }
    for i in range(DEPTH):
        source, target = f"model.layers.{i}", f"layers.{i}"
        out[f"{target}.attention.wqkv.weight"] = torch.cat([w[f"{source}.self_attn.{n}_proj.weight"] for n in "qkv"])
        out[f"{target}.attention.wo.weight"] = w[f"{source}.self_attn.o_proj.weight"]
        out[f"{target}.attention_norm.scale"] = w[f"{source}.input_layernorm.weight"]
        out[f"{target}.ffn_norm.scale"] = w[f"{source}.post_attention_layernorm.weight"]
        out[f"{target}.feed_forward.router.weight"] = w[f"{source}.mlp.gate.weight"]
        for e in range(EXPERTS):
            w1, w3 = w[f"{source}.mlp.experts.gate_up_proj"][e].chunk(2)
            out[f"{target}.feed_forward.experts.{e}.w1.weight"] = w1
            out[f"{target}.feed_forward.experts.{e}.w3.weight"] = w3
            out[f"{target}.feed_forward.experts.{e}.w2.weight"] = w[f"{source}.mlp.experts.down_proj"][e]
    model.load_state_dict(out)
    return model


TWINS = [Twin("mixtral/dense", build, port, inputs)]
