"""Wav2Vec2 of transformers against one product for q, k and v, and a kernel of positions without its weight norm."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ..twin import Twin

WIDTH, HEADS, DEPTH = 16, 2, 2
CONV, KERNELS, STRIDES = (8, 8, 8), (10, 3, 2), (5, 2, 2)


def build() -> nn.Module:
    from transformers import Wav2Vec2Config, Wav2Vec2Model

    return Wav2Vec2Model(
        Wav2Vec2Config(
            vocab_size=5,
            hidden_size=WIDTH,
            num_hidden_layers=DEPTH,
            num_attention_heads=HEADS,
            intermediate_size=32,
            conv_dim=list(CONV),
            conv_kernel=list(KERNELS),
            conv_stride=list(STRIDES),
            num_conv_pos_embeddings=4,
            num_conv_pos_embedding_groups=2,
            mask_time_prob=0.0,
            layerdrop=0.0,
            num_feat_extract_layers=3,
        )
    )


def inputs() -> tuple[Tensor, ...]:
    return (torch.randn(2, 400),)


class Encoder(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.qkv = nn.Linear(WIDTH, 3 * WIDTH)
        self.proj = nn.Linear(WIDTH, WIDTH)
        self.norm1, self.norm2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.ff = nn.Sequential(nn.Linear(WIDTH, 32), nn.GELU(), nn.Linear(32, WIDTH))

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = self.qkv(x).unflatten(-1, (3, HEADS, -1)).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2)
        x = self.norm1(x + self.proj(y))
        return self.norm2(x + self.ff(x))


class Speech(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.convs = nn.ModuleList(
            nn.Conv1d(a, b, k, s, bias=False)
            for a, b, k, s in zip((1, *CONV[:-1]), CONV, KERNELS, STRIDES, strict=True)
        )
        self.gn = nn.GroupNorm(CONV[0], CONV[0])
        self.ln = nn.LayerNorm(CONV[-1])
        self.up = nn.Linear(CONV[-1], WIDTH)
        self.pos = nn.Conv1d(WIDTH, WIDTH, 4, groups=2)
        self.ln_pos = nn.LayerNorm(WIDTH)
        self.layers = nn.ModuleList(Encoder() for _ in range(DEPTH))

    def forward(self, wave: Tensor) -> Tensor:
        x = wave.unsqueeze(1)
        for i, conv in enumerate(self.convs):
            x = conv(x)
            if i == 0:
                x = self.gn(x)
            x = F.gelu(x)
        x = self.up(self.ln(x.mT))
        places = self.pos(F.pad(x.mT, (2, 1)))
        x = self.ln_pos(x + F.gelu(places).mT)
        for layer in self.layers:
            x = layer(x)
        return x


def port(reference: nn.Module) -> nn.Module:
    w = reference.state_dict()
    out = {f"convs.{i}.weight": w[f"feature_extractor.conv_layers.{i}.conv.weight"] for i in range(3)}
    pos = "encoder.pos_conv_embed.conv"
    g, v = w[f"{pos}.parametrizations.weight.original0"], w[f"{pos}.parametrizations.weight.original1"]
    out["pos.weight"] = g * v / v.norm(dim=(0, 1), keepdim=True)
    for kind in ("weight", "bias"):
        out[f"gn.{kind}"] = w[f"feature_extractor.conv_layers.0.layer_norm.{kind}"]
        out[f"ln.{kind}"] = w[f"feature_projection.layer_norm.{kind}"]
        out[f"up.{kind}"] = w[f"feature_projection.projection.{kind}"]
        out[f"ln_pos.{kind}"] = w[f"encoder.layer_norm.{kind}"]
        for i in range(DEPTH):
            source, target = f"encoder.layers.{i}", f"layers.{i}"
            out[f"{target}.qkv.{kind}"] = torch.cat([w[f"{source}.attention.{n}_proj.{kind}"] for n in "qkv"])
            out[f"{target}.proj.{kind}"] = w[f"{source}.attention.out_proj.{kind}"]
            out[f"{target}.norm1.{kind}"] = w[f"{source}.layer_norm.{kind}"]
            out[f"{target}.norm2.{kind}"] = w[f"{source}.final_layer_norm.{kind}"]
            out[f"{target}.ff.0.{kind}"] = w[f"{source}.feed_forward.intermediate_dense.{kind}"]
            out[f"{target}.ff.2.{kind}"] = w[f"{source}.feed_forward.output_dense.{kind}"]
    out["pos.bias"] = w[f"{pos}.bias"]
    model = Speech()
    model.load_state_dict(out)
    return model


TWINS = [Twin("wav2vec2/fused", build, port, inputs)]
