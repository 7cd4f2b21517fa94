"""SegFormer of transformers (tokens, keys from a strided convolution) against maps that keep channels first."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ..twin import Twin

SIZES, HEADS, REDUCE, CLASSES = (8, 16), (1, 2), (2, 1), 5


def build() -> nn.Module:
    from transformers import SegformerConfig, SegformerForImageClassification

    return SegformerForImageClassification(
        SegformerConfig(
            num_encoder_blocks=2,
            depths=[1, 2],
            sr_ratios=list(REDUCE),
            hidden_sizes=list(SIZES),
            patch_sizes=[7, 3],
            strides=[4, 2],
            num_attention_heads=list(HEADS),
            mlp_ratios=[2, 2],
            num_labels=CLASSES,
        )
    )


def inputs() -> tuple[Tensor, ...]:
    return (torch.randn(2, 3, 32, 24),)


class ChannelNorm(nn.Module):
    def __init__(self, size: int) -> None:
        super().__init__()
        self.gamma, self.beta = nn.Parameter(torch.ones(size)), nn.Parameter(torch.zeros(size))

    def forward(self, x: Tensor) -> Tensor:
        mean = x.mean(1, keepdim=True)
        var = (x - mean).square().mean(1, keepdim=True)
        return (x - mean) * torch.rsqrt(var + 1e-5) * self.gamma.view(-1, 1, 1) + self.beta.view(-1, 1, 1)


class Efficient(nn.Module):
    def __init__(self, size: int, heads: int, reduce: int) -> None:
        super().__init__()
        self.heads = heads
        self.to_q = nn.Conv2d(size, size, 1)
        self.to_kv = nn.Conv2d(size, 2 * size, 1)
        self.shrink = (
            nn.Sequential(nn.Conv2d(size, size, reduce, reduce), ChannelNorm(size)) if reduce > 1 else nn.Identity()
        )
        self.to_out = nn.Conv2d(size, size, 1)

    def forward(self, x: Tensor) -> Tensor:
        h, w = x.shape[-2:]
        q = self.to_q(x)
        k, v = self.to_kv(self.shrink(x)).chunk(2, 1)
        q, k, v = (y.flatten(2).unflatten(1, (self.heads, -1)).transpose(2, 3) for y in (q, k, v))
        y = F.scaled_dot_product_attention(q, k, v)
        return self.to_out(y.transpose(2, 3).flatten(1, 2).unflatten(2, (h, w)))


class Layer(nn.Module):
    def __init__(self, size: int, heads: int, reduce: int) -> None:
        super().__init__()
        self.norm_a, self.norm_f = ChannelNorm(size), ChannelNorm(size)
        self.attention = Efficient(size, heads, reduce)
        self.mix = nn.Sequential(
            nn.Conv2d(size, 2 * size, 1),
            nn.Conv2d(2 * size, 2 * size, 3, padding=1, groups=2 * size),
            nn.GELU(),
            nn.Conv2d(2 * size, size, 1),
        )

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.attention(self.norm_a(x))
        return x + self.mix(self.norm_f(x))


class MiT(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.stems = nn.ModuleList([nn.Conv2d(3, 8, 7, 4, 3), nn.Conv2d(8, 16, 3, 2, 1)])
        self.stem_norms = nn.ModuleList(ChannelNorm(n) for n in SIZES)
        self.stage1 = nn.Sequential(Layer(8, 1, 2))
        self.stage2 = nn.Sequential(Layer(16, 2, 1), Layer(16, 2, 1))
        self.ends = nn.ModuleList(ChannelNorm(n) for n in SIZES)
        self.fc = nn.Linear(16, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        stages = self.stage1, self.stage2
        for stem, norm, stage, end in zip(self.stems, self.stem_norms, stages, self.ends, strict=True):
            x = end(stage(norm(stem(x))))
        return self.fc(x.mean((2, 3)))


def port(reference: nn.Module) -> nn.Module:
    w = reference.state_dict()
    out = {}

    def norm(target: str, source: str) -> None:
        out[f"{target}.gamma"], out[f"{target}.beta"] = w[f"{source}.weight"], w[f"{source}.bias"]

    def conv(target: str, *sources: str) -> None:
        weight = torch.cat([w[f"{s}.weight"] for s in sources])
        out[f"{target}.weight"] = weight if weight.dim() == 4 else weight[:, :, None, None]
        out[f"{target}.bias"] = torch.cat([w[f"{s}.bias"] for s in sources])

    for s, depth in enumerate((1, 2)):
        stage = f"segformer.stages.{s}"
        conv(f"stems.{s}", f"{stage}.patch_embeddings.proj")
        norm(f"stem_norms.{s}", f"{stage}.patch_embeddings.layer_norm")
        norm(f"ends.{s}", f"{stage}.layer_norm")
        for i in range(depth):
            source, target = f"{stage}.blocks.{i}", f"stage{s + 1}.{i}"
            norm(f"{target}.norm_a", f"{source}.layernorm_before")
            norm(f"{target}.norm_f", f"{source}.layernorm_after")
            conv(f"{target}.attention.to_q", f"{source}.attention.q_proj")
            conv(f"{target}.attention.to_kv", f"{source}.attention.k_proj", f"{source}.attention.v_proj")
            conv(f"{target}.attention.to_out", f"{source}.attention.o_proj")
            if REDUCE[s] > 1:
                conv(f"{target}.attention.shrink.0", f"{source}.attention.sequence_reduction.sequence_reduction")
                norm(f"{target}.attention.shrink.1", f"{source}.attention.sequence_reduction.layer_norm")
            conv(f"{target}.mix.0", f"{source}.mlp.fc1")
            conv(f"{target}.mix.1", f"{source}.mlp.dwconv.dwconv")
            conv(f"{target}.mix.3", f"{source}.mlp.fc2")
    out["fc.weight"], out["fc.bias"] = w["classifier.weight"], w["classifier.bias"]
    model = MiT()
    model.load_state_dict(out)
    return model


TWINS = [Twin("segformer/maps", build, port, inputs)]
