"""Qwen3 of transformers, with norms of q and k, against one module with lists of parameters and a loop over heads."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ..twin import Twin

WIDTH, DEPTH, HEADS, KV_HEADS, SIZE, INNER, WORDS = 16, 2, 4, 2, 6, 24, 30
EPS = 1e-6


def build() -> nn.Module:
    from transformers import Qwen3Config, Qwen3ForCausalLM

    return Qwen3ForCausalLM(
        Qwen3Config(
            vocab_size=WORDS, hidden_size=WIDTH, intermediate_size=INNER, num_hidden_layers=DEPTH,
            num_attention_heads=HEADS, num_key_value_heads=KV_HEADS, head_dim=SIZE, max_position_embeddings=12,
            rms_norm_eps=EPS, use_cache=False,
        )
    )  # fmt: skip


def inputs() -> tuple[Tensor, ...]:
    return (torch.randint(0, WORDS, (2, 6)),)


def rms(x: Tensor, gain: Tensor) -> Tensor:
    return x / (x.square().mean(-1, keepdim=True) + EPS).sqrt() * gain


def rotate(x: Tensor, theta: float = 10000.0) -> Tensor:
    """Rotate [batch, length, size] by position."""
    turn = torch.arange(x.shape[1])[:, None] * theta ** (-torch.arange(0, SIZE, 2) / SIZE)
    cos, sin = turn.cos().repeat(1, 2), turn.sin().repeat(1, 2)
    a, b = x.split(SIZE // 2, dim=-1)
    return x * cos + torch.cat((-b, a), dim=-1) * sin


class ListQwen(nn.Module):
    """One module; each kind of parameter is a list with an entry for each layer."""

    KINDS = ("norm_in", "wq", "wk", "wv", "q_gain", "k_gain", "wo", "norm_mid", "gate", "up", "down")

    def __init__(self, parameters: dict[str, list[Tensor]], table: Tensor, last: Tensor, head: Tensor) -> None:
        super().__init__()
        for kind in self.KINDS:
            setattr(self, kind, nn.ParameterList(parameters[kind]))
        self.table, self.last, self.head = nn.Parameter(table), nn.Parameter(last), nn.Parameter(head)

    def attention(self, x: Tensor, layer: int) -> Tensor:
        """Head by head."""
        q, k, v = x @ self.wq[layer].T, x @ self.wk[layer].T, x @ self.wv[layer].T
        keys = [rotate(rms(part, self.k_gain[layer])) for part in k.split(SIZE, dim=-1)]
        values = v.split(SIZE, dim=-1)
        later = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool).triu(1)
        results = []
        for head, part in enumerate(q.split(SIZE, dim=-1)):
            group = head // (HEADS // KV_HEADS)
            scores = rotate(rms(part, self.q_gain[layer])) @ keys[group].mT / SIZE**0.5
            results.append(scores.masked_fill(later, float("-inf")).softmax(-1) @ values[group])
        return torch.cat(results, dim=-1) @ self.wo[layer].T

    def forward(self, ids: Tensor) -> Tensor:
        x = self.table[ids]
        for layer in range(DEPTH):
            x = x + self.attention(rms(x, self.norm_in[layer]), layer)
            y = rms(x, self.norm_mid[layer])
            x = x + (F.silu(y @ self.gate[layer].T) * (y @ self.up[layer].T)) @ self.down[layer].T
        return rms(x, self.last) @ self.head.T


NAMES = {
    "norm_in": "input_layernorm", "wq": "self_attn.q_proj", "wk": "self_attn.k_proj", "wv": "self_attn.v_proj",
    "q_gain": "self_attn.q_norm", "k_gain": "self_attn.k_norm", "wo": "self_attn.o_proj",
    "norm_mid": "post_attention_layernorm", "gate": "mlp.gate_proj", "up": "mlp.up_proj", "down": "mlp.down_proj",
}  # fmt: skip


def port(reference: nn.Module) -> nn.Module:
    w = {name: value.clone() for name, value in reference.state_dict().items()}
    lists = {kind: [w[f"model.layers.{i}.{name}.weight"] for i in range(DEPTH)] for kind, name in NAMES.items()}
    return ListQwen(lists, w["model.embed_tokens.weight"], w["model.norm.weight"], w["lm_head.weight"])


TWINS = [Twin("qwen/lists", build, port, inputs)]
