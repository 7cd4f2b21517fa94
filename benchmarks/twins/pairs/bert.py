"""BERT of transformers, against nn.TransformerEncoderLayer and against functions on a flat dict of parameters."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ..twin import Twin

WIDTH, DEPTH, HEADS, WORDS, LENGTH, INNER = 24, 2, 4, 50, 16, 48
EPS = 1e-12


def build() -> nn.Module:
    from transformers import BertConfig, BertModel

    return BertModel(
        BertConfig(
            vocab_size=WORDS, hidden_size=WIDTH, num_hidden_layers=DEPTH, num_attention_heads=HEADS,
            intermediate_size=INNER, max_position_embeddings=LENGTH, layer_norm_eps=EPS,
        )
    )  # fmt: skip


def inputs() -> tuple[Tensor, ...]:
    mask = (torch.arange(7) < torch.tensor([[7], [5]])).long()
    return (torch.randint(1, WORDS, (2, 7)) * mask, mask)


class TorchBert(nn.Module):
    """An encoder from torch's own layers."""

    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(WORDS, WIDTH, padding_idx=0)
        self.places = nn.Embedding(LENGTH, WIDTH)
        self.kinds = nn.Embedding(2, WIDTH)
        self.first = nn.LayerNorm(WIDTH, eps=EPS)
        self.stack = nn.ModuleList(
            nn.TransformerEncoderLayer(
                WIDTH, HEADS, INNER, dropout=0.1, activation=F.gelu, layer_norm_eps=EPS, batch_first=True
            )
            for _ in range(DEPTH)
        )
        self.pool = nn.Linear(WIDTH, WIDTH)

    def forward(self, ids: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
        places = torch.arange(ids.shape[1], device=ids.device)
        x = self.first(self.words(ids) + self.kinds(torch.zeros_like(ids)) + self.places(places))
        for layer in self.stack:
            x = layer(x, src_key_padding_mask=mask == 0)
        return x, torch.tanh(self.pool(x[:, 0]))


LAYER = {
    "self_attn.out_proj": "attention.output.dense",
    "linear1": "intermediate.dense",
    "linear2": "output.dense",
    "norm1": "attention.output.LayerNorm",
    "norm2": "output.LayerNorm",
}


def port_torch(reference: nn.Module) -> nn.Module:
    w = reference.state_dict()
    state = {
        "words.weight": w["embeddings.word_embeddings.weight"],
        "places.weight": w["embeddings.position_embeddings.weight"],
        "kinds.weight": w["embeddings.token_type_embeddings.weight"],
    }
    for part in ("weight", "bias"):
        state[f"first.{part}"] = w[f"embeddings.LayerNorm.{part}"]
        state[f"pool.{part}"] = w[f"pooler.dense.{part}"]
        for i in range(DEPTH):
            source = f"encoder.layer.{i}"
            for target, name in LAYER.items():
                state[f"stack.{i}.{target}.{part}"] = w[f"{source}.{name}.{part}"]
            state[f"stack.{i}.self_attn.in_proj_{part}"] = torch.cat(
                [w[f"{source}.attention.self.{name}.{part}"] for name in ("query", "key", "value")]
            )
    module = TorchBert()
    module.load_state_dict(state)
    return module


def attention(p: nn.ParameterDict, prefix: str, x: Tensor, bias: Tensor) -> Tensor:
    def heads(name: str) -> Tensor:
        y = x @ p[f"{prefix}_{name}_kernel"] + p[f"{prefix}_{name}_bias"]
        return y.reshape(*y.shape[:2], HEADS, WIDTH // HEADS)

    q, k, v = heads("q"), heads("k"), heads("v")
    weights = torch.softmax(torch.einsum("bqhd,bkhd->bhqk", q, k) / (WIDTH // HEADS) ** 0.5 + bias, dim=-1)
    y = torch.einsum("bhqk,bkhd->bqhd", weights, v).flatten(2)
    return y @ p[f"{prefix}_o_kernel"] + p[f"{prefix}_o_bias"]


def layer_norm(p: nn.ParameterDict, name: str, x: Tensor) -> Tensor:
    centred = x - x.mean(-1, keepdim=True)
    scale = torch.rsqrt(centred.square().mean(-1, keepdim=True) + EPS)
    return centred * scale * p[f"{name}_gamma"] + p[f"{name}_beta"]


class FlatBert(nn.Module):
    """No modules inside: functions that read one flat dict, with matrices as JAX has them."""

    def __init__(self, parameters: dict[str, Tensor]) -> None:
        super().__init__()
        self.p = nn.ParameterDict(parameters)

    def forward(self, ids: Tensor, mask: Tensor) -> dict[str, Tensor]:
        p = self.p
        bias = (1.0 - mask[:, None, None, :].to(p["words"].dtype)) * -1e9
        words = F.embedding(ids, p["words"], padding_idx=0)
        x = layer_norm(p, "embed", words + p["places"][: ids.shape[1]] + p["kinds"][0])
        for i in range(DEPTH):
            x = layer_norm(p, f"l{i}_a", x + attention(p, f"l{i}", x, bias))
            y = F.gelu(x @ p[f"l{i}_in_kernel"] + p[f"l{i}_in_bias"])
            x = layer_norm(p, f"l{i}_b", x + (y @ p[f"l{i}_out_kernel"] + p[f"l{i}_out_bias"]))
        return {"tokens": x, "pooled": torch.tanh(x[:, 0] @ p["pool_kernel"] + p["pool_bias"])}


def port_flat(reference: nn.Module) -> nn.Module:
    w = reference.state_dict()
    p = {name: w[f"embeddings.{source}_embeddings.weight"] for name, source in
         (("words", "word"), ("places", "position"), ("kinds", "token_type"))}  # fmt: skip

    def dense(target: str, source: str) -> None:
        p[f"{target}_kernel"], p[f"{target}_bias"] = w[f"{source}.weight"].T.contiguous(), w[f"{source}.bias"]

    def norm(target: str, source: str) -> None:
        p[f"{target}_gamma"], p[f"{target}_beta"] = w[f"{source}.weight"], w[f"{source}.bias"]

    norm("embed", "embeddings.LayerNorm")
    dense("pool", "pooler.dense")
    for i in range(DEPTH):
        source = f"encoder.layer.{i}"
        for letter, name in (("q", "query"), ("k", "key"), ("v", "value")):
            dense(f"l{i}_{letter}", f"{source}.attention.self.{name}")
        dense(f"l{i}_o", f"{source}.attention.output.dense")
        dense(f"l{i}_in", f"{source}.intermediate.dense")
        dense(f"l{i}_out", f"{source}.output.dense")
        a, b = (f"l{i}_a", f"l{i}_b")
        norm(a, f"{source}.attention.output.LayerNorm")
        norm(b, f"{source}.output.LayerNorm")
    return FlatBert({name: value.clone() for name, value in p.items()})


TWINS = [
    Twin("bert/torch layers", build, port_torch, inputs),
    Twin("bert/flat functions", build, port_flat, inputs),
]
