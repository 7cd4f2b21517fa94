"""SegFormer of transformers, against one on maps: 1x1 convolutions, norms over channels, features joined in order."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ..twin import Twin

WIDTHS, HEADS, RATIOS, DEPTHS, KERNELS, STRIDES = (8, 12), (1, 2), (2, 1), (1, 2), (7, 3), (4, 2)
EXPANSIONS, HEAD, CLASSES = (2, 3), 10, 3


def build() -> nn.Module:
    from transformers import SegformerConfig, SegformerForSemanticSegmentation

    return SegformerForSemanticSegmentation(
        SegformerConfig(
            num_encoder_blocks=2,
            depths=list(DEPTHS),
            sr_ratios=list(RATIOS),
            hidden_sizes=list(WIDTHS),
            patch_sizes=list(KERNELS),
            strides=list(STRIDES),
            num_attention_heads=list(HEADS),
            mlp_ratios=list(EXPANSIONS),
            decoder_hidden_size=HEAD,
            num_labels=CLASSES,
        )
    )


def inputs() -> tuple[Tensor, ...]:
    return (torch.randn(2, 3, 32, 40),)


class ChannelNorm(nn.Module):
    def __init__(self, channels: int) -> None:
        super().__init__()
        self.g, self.b = nn.Parameter(torch.ones(1, channels, 1, 1)), nn.Parameter(torch.zeros(1, channels, 1, 1))

    def forward(self, x: Tensor) -> Tensor:
        mean = x.mean(1, keepdim=True)
        var = x.var(1, unbiased=False, keepdim=True)
        return (x - mean) / (var + 1e-5).sqrt() * self.g + self.b


class EfficientAttention(nn.Module):
    def __init__(self, dim: int, heads: int, ratio: int) -> None:
        super().__init__()
        self.heads, self.scale = heads, (dim // heads) ** -0.5
        self.reduce = nn.Sequential(nn.Conv2d(dim, dim, ratio, ratio), ChannelNorm(dim)) if ratio > 1 else nn.Identity()
        self.to_q, self.to_kv, self.to_out = nn.Conv2d(dim, dim, 1), nn.Conv2d(dim, 2 * dim, 1), nn.Conv2d(dim, dim, 1)

    def forward(self, x: Tensor) -> Tensor:
        b, c, h, w = x.shape
        q = self.to_q(x)
        k, v = self.to_kv(self.reduce(x)).chunk(2, dim=1)
        q, k, v = (t.reshape(b * self.heads, c // self.heads, -1).transpose(1, 2) for t in (q, k, v))
        sim = torch.einsum("bid,bjd->bij", q, k) * self.scale
        out = torch.einsum("bij,bjd->bid", sim.softmax(dim=-1), v)
        return self.to_out(out.transpose(1, 2).reshape(b, c, h, w))


class MixFeedForward(nn.Module):
    def __init__(self, dim: int, hidden: int) -> None:
        super().__init__()
        self.net = nn.Sequential(
            nn.Conv2d(dim, hidden, 1),
            nn.Conv2d(hidden, hidden, 3, padding=1, groups=hidden),
            nn.GELU(),
            nn.Conv2d(hidden, dim, 1),
        )

    def forward(self, x: Tensor) -> Tensor:
        return self.net(x)


class Stage(nn.Module):
    def __init__(
        self, size_in: int, dim: int, kernel: int, stride: int, depth: int, heads: int, ratio: int, expansion: int
    ) -> None:
        super().__init__()
        self.embed, self.embed_norm = nn.Conv2d(size_in, dim, kernel, stride, kernel // 2), ChannelNorm(dim)
        self.layers = nn.ModuleList(
            nn.ModuleList(
                [
                    ChannelNorm(dim),
                    EfficientAttention(dim, heads, ratio),
                    ChannelNorm(dim),
                    MixFeedForward(dim, dim * expansion),
                ]
            )
            for _ in range(depth)
        )
        self.norm = ChannelNorm(dim)

    def forward(self, x: Tensor) -> Tensor:
        x = self.embed_norm(self.embed(x))
        for norm1, attn, norm2, ff in self.layers:
            x = attn(norm1(x)) + x
            x = ff(norm2(x)) + x
        return self.norm(x)


class Segmenter(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        sizes_in = (3, *WIDTHS)
        self.stages = nn.ModuleList(
            Stage(sizes_in[i], WIDTHS[i], KERNELS[i], STRIDES[i], DEPTHS[i], HEADS[i], RATIOS[i], EXPANSIONS[i])
            for i in (0, 1)
        )
        self.to_fused = nn.ModuleList(nn.Conv2d(n, HEAD, 1) for n in WIDTHS)
        self.fuse = nn.Sequential(nn.Conv2d(2 * HEAD, HEAD, 1, bias=False), nn.BatchNorm2d(HEAD), nn.ReLU())
        self.predict = nn.Conv2d(HEAD, CLASSES, 1)

    def forward(self, x: Tensor) -> Tensor:
        features = []
        for stage in self.stages:
            x = stage(x)
            features.append(x)
        size = features[0].shape[2:]
        fused = [
            F.interpolate(layer(y), size=size, mode="bilinear", align_corners=False)
            for layer, y in zip(self.to_fused, features, strict=True)
        ]
        return self.predict(self.fuse(torch.cat(fused, dim=1)))


def port(reference: nn.Module) -> nn.Module:
    w = reference.state_dict()
    state: dict[str, Tensor] = {}

    def conv(to: str, of: str) -> None:
        state[f"{to}.weight"], state[f"{to}.bias"] = w[f"{of}.weight"], w[f"{of}.bias"]
        if state[f"{to}.weight"].dim() == 2:
            state[f"{to}.weight"] = state[f"{to}.weight"][:, :, None, None]

    def norm(to: str, of: str) -> None:
        state[f"{to}.g"], state[f"{to}.b"] = w[f"{of}.weight"].view(1, -1, 1, 1), w[f"{of}.bias"].view(1, -1, 1, 1)

    for i in (0, 1):
        to, of = f"stages.{i}", f"segformer.stages.{i}"
        conv(f"{to}.embed", f"{of}.patch_embeddings.proj")
        norm(f"{to}.embed_norm", f"{of}.patch_embeddings.layer_norm")
        norm(f"{to}.norm", f"{of}.layer_norm")
        for j in range(DEPTHS[i]):
            a, b = f"{to}.layers.{j}", f"{of}.blocks.{j}"
            norm(f"{a}.0", f"{b}.layernorm_before")
            conv(f"{a}.1.to_q", f"{b}.attention.q_proj")
            for part in ("weight", "bias"):
                state[f"{a}.1.to_kv.{part}"] = torch.cat([w[f"{b}.attention.{letter}_proj.{part}"] for letter in "kv"])
            state[f"{a}.1.to_kv.weight"] = state[f"{a}.1.to_kv.weight"][:, :, None, None]
            if RATIOS[i] > 1:
                conv(f"{a}.1.reduce.0", f"{b}.attention.sequence_reduction.sequence_reduction")
                norm(f"{a}.1.reduce.1", f"{b}.attention.sequence_reduction.layer_norm")
            conv(f"{a}.1.to_out", f"{b}.attention.o_proj")
            norm(f"{a}.2", f"{b}.layernorm_after")
            conv(f"{a}.3.net.0", f"{b}.mlp.fc1")
            conv(f"{a}.3.net.1", f"{b}.mlp.dwconv.dwconv")
            conv(f"{a}.3.net.3", f"{b}.mlp.fc2")
        conv(f"to_fused.{i}", f"decode_head.linear_projections.{i}.proj")
    state["fuse.0.weight"] = torch.cat(w["decode_head.linear_fuse.weight"].chunk(2, 1)[::-1], 1)
    for name in ("weight", "bias", "running_mean", "running_var", "num_batches_tracked"):
        state[f"fuse.1.{name}"] = w[f"decode_head.batch_norm.{name}"]
    conv("predict", "decode_head.classifier")
    module = Segmenter()
    module.load_state_dict(state)
    return module


TWINS = [Twin("segment/maps", build, port, inputs)]
