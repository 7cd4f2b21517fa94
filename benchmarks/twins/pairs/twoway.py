"""The two-way transformer of SAM in transformers against that of Segment Anything, with einsum."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from ..twin import Twin

WIDTH, HEADS, FEED, DEPTH, SIDE, POINTS = 16, 2, 28, 2, 4, 3


def build() -> nn.Module:
    from transformers.models.sam.configuration_sam import SamMaskDecoderConfig
    from transformers.models.sam.modeling_sam import SamTwoWayTransformer

    config = SamMaskDecoderConfig(hidden_size=WIDTH, mlp_dim=FEED, num_attention_heads=HEADS, num_hidden_layers=DEPTH)
    config._attn_implementation = "eager"

    class Points(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.transformer = SamTwoWayTransformer(config)

        def forward(self, points: Tensor, image: Tensor, positions: Tensor) -> tuple[Tensor, Tensor]:
            return self.transformer(points, image, positions, None)

    return Points()


def inputs() -> tuple[Tensor, ...]:
    return torch.randn(2, 1, POINTS, WIDTH), torch.randn(2, WIDTH, SIDE, SIDE), torch.randn(2, WIDTH, SIDE, SIDE)


class Attention(nn.Module):
    def __init__(self, downsample: int = 2) -> None:
        super().__init__()
        inner = WIDTH // downsample
        self.q_proj, self.k_proj, self.v_proj = (nn.Linear(WIDTH, inner) for _ in range(3))
        self.out_proj = nn.Linear(inner, WIDTH)

    def forward(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        q, k, v = (
            proj(x).unflatten(-1, (HEADS, -1)) for proj, x in ((self.q_proj, q), (self.k_proj, k), (self.v_proj, v))
        )
        attn = torch.einsum("bnhc,bmhc->bhnm", q, k) / q.shape[-1] ** 0.5
        return self.out_proj(torch.einsum("bhnm,bmhc->bnhc", attn.softmax(-1), v).flatten(2))


class TwoWayBlock(nn.Module):
    def __init__(self, skip_first_layer_pe: bool) -> None:
        super().__init__()
        self.self_attn = Attention(1)
        self.cross_attn_token_to_image = Attention()
        self.cross_attn_image_to_token = Attention()
        self.norms = nn.ModuleList(nn.LayerNorm(WIDTH, eps=1e-6) for _ in range(4))
        self.mlp = nn.Sequential(nn.Linear(WIDTH, FEED), nn.ReLU(), nn.Linear(FEED, WIDTH))
        self.skip_first_layer_pe = skip_first_layer_pe

    def forward(self, queries: Tensor, keys: Tensor, query_pe: Tensor, key_pe: Tensor) -> tuple[Tensor, Tensor]:
        if self.skip_first_layer_pe:
            queries = self.self_attn(queries, queries, queries)
        else:
            q = queries + query_pe
            queries = queries + self.self_attn(q, q, queries)
        queries = self.norms[0](queries)
        k = keys + key_pe
        queries = self.norms[1](queries + self.cross_attn_token_to_image(queries + query_pe, k, keys))
        queries = self.norms[2](queries + self.mlp(queries))
        keys = self.norms[3](keys + self.cross_attn_image_to_token(k, queries + query_pe, queries))
        return queries, keys


class TwoWayTransformer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(TwoWayBlock(i == 0) for i in range(DEPTH))
        self.final_attn = Attention()
        self.norm_final = nn.LayerNorm(WIDTH)

    def forward(self, points: Tensor, image: Tensor, positions: Tensor) -> dict[str, Tensor]:
        points = points.squeeze(1)
        keys, key_pe = (x.flatten(2).permute(0, 2, 1) for x in (image, positions))
        queries = points
        for layer in self.layers:
            queries, keys = layer(queries, keys, points, key_pe)
        queries = self.norm_final(queries + self.final_attn(queries + points, keys + key_pe, keys))
        return {"points": queries.unsqueeze(1), "image": keys.unsqueeze(1)}


def port(reference: nn.Module) -> nn.Module:
    w = {name.removeprefix("transformer."): tensor for name, tensor in reference.state_dict().items()}
    names = {f"final_attn.{n}": f"final_attn_token_to_image.{n}" for n in ("q_proj", "k_proj", "v_proj", "out_proj")}
    names["norm_final"] = "layer_norm_final_attn"
    for i in range(DEPTH):
        names |= {f"layers.{i}.norms.{n}": f"layers.{i}.layer_norm{n + 1}" for n in range(4)}
        names |= {f"layers.{i}.mlp.0": f"layers.{i}.mlp.lin1", f"layers.{i}.mlp.2": f"layers.{i}.mlp.lin2"}
        for attention in ("self_attn", "cross_attn_token_to_image", "cross_attn_image_to_token"):
            for n in ("q_proj", "k_proj", "v_proj", "out_proj"):
                names[f"layers.{i}.{attention}.{n}"] = f"layers.{i}.{attention}.{n}"
    module = TwoWayTransformer()
    module.load_state_dict(
        {f"{to}.{part}": w[f"{of}.{part}"] for to, of in names.items() for part in ("weight", "bias")}
    )
    return module


TWINS = [Twin("twoway/segment anything", build, port, inputs)]
