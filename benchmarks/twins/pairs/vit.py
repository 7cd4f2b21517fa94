"""A vision transformer of transformers, against timm's kind with a fused q/k/v, and against one in Flax."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ..twin import Twin

WIDTH, DEPTH, HEADS, INNER, PATCH, SIDE, CLASSES = 24, 2, 3, 48, 4, 16, 5
EPS = 1e-12
PLACES = (SIDE // PATCH) ** 2 + 1


def build() -> nn.Module:
    from transformers import ViTConfig, ViTForImageClassification

    return ViTForImageClassification(
        ViTConfig(
            hidden_size=WIDTH, num_hidden_layers=DEPTH, num_attention_heads=HEADS, intermediate_size=INNER,
            image_size=SIDE, patch_size=PATCH, num_labels=CLASSES, layer_norm_eps=EPS,
        )
    )  # fmt: skip


def inputs() -> tuple[Tensor, ...]:
    return (torch.randn(2, 3, SIDE, SIDE),)


class Attention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.qkv = nn.Linear(WIDTH, 3 * WIDTH)
        self.proj = nn.Linear(WIDTH, WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        b, n, c = x.shape
        qkv = self.qkv(x).reshape(b, n, 3, HEADS, c // HEADS).permute(2, 0, 3, 1, 4)
        q, k, v = qkv.unbind(0)
        attn = ((q * (c // HEADS) ** -0.5) @ k.transpose(-2, -1)).softmax(dim=-1)
        return self.proj((attn @ v).transpose(1, 2).reshape(b, n, c))


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm1 = nn.LayerNorm(WIDTH, eps=EPS)
        self.attn = Attention()
        self.norm2 = nn.LayerNorm(WIDTH, eps=EPS)
        self.mlp = nn.Sequential(nn.Linear(WIDTH, INNER), nn.GELU(), nn.Linear(INNER, WIDTH))

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.attn(self.norm1(x))
        return x + self.mlp(self.norm2(x))


class VisionTransformer(nn.Module):
    """Patches are cut out by a reshape and projected by one matrix."""

    def __init__(self) -> None:
        super().__init__()
        self.patch = nn.Linear(3 * PATCH * PATCH, WIDTH)
        self.cls = nn.Parameter(torch.zeros(WIDTH))
        self.pos = nn.Parameter(torch.zeros(PLACES, WIDTH))
        self.blocks = nn.Sequential(*(Block() for _ in range(DEPTH)))
        self.norm = nn.LayerNorm(WIDTH, eps=EPS)
        self.head = nn.Linear(WIDTH, CLASSES)

    def forward(self, image: Tensor) -> Tensor:
        x = F.unfold(image, PATCH, stride=PATCH).transpose(1, 2)
        x = torch.cat([self.cls.expand(x.shape[0], 1, -1), self.patch(x)], dim=1) + self.pos
        return self.head(self.norm(self.blocks(x))[:, 0])


LAYER = {
    "norm1": "layernorm_before", "norm2": "layernorm_after", "attn.proj": "attention.o_proj", "mlp.0": "mlp.fc1",
    "mlp.2": "mlp.fc2",
}  # fmt: skip


def port_timm(reference: nn.Module) -> nn.Module:
    w = {name.removeprefix("vit."): value for name, value in reference.state_dict().items()}
    state = {
        "cls": w["embeddings.cls_token"].flatten(),
        "pos": w["embeddings.position_embeddings"][0],
        "patch.weight": w["embeddings.patch_embeddings.projection.weight"].flatten(1),
        "patch.bias": w["embeddings.patch_embeddings.projection.bias"],
    }
    for part in ("weight", "bias"):
        state |= {f"norm.{part}": w[f"layernorm.{part}"], f"head.{part}": w[f"classifier.{part}"]}
        for i in range(DEPTH):
            target, source = f"blocks.{i}", f"layers.{i}"
            state |= {
                f"{target}.{target_name}.{part}": w[f"{source}.{name}.{part}"] for target_name, name in LAYER.items()
            }
            q, k, v = (w[f"{source}.attention.{letter}_proj.{part}"] for letter in "qkv")
            state[f"{target}.attn.qkv.{part}"] = torch.cat([q, k, v])
    module = VisionTransformer()
    module.load_state_dict(state)
    return module


def port_flax(reference: nn.Module) -> Any:
    """A port to Linen: images have their channels last, kernels their outputs."""
    import flax.linen as linen
    import jax.numpy as jnp

    from cellbridge.parity import jax_side

    class Encoder(linen.Module):
        @linen.compact
        def __call__(self, x: Any) -> Any:
            y = linen.LayerNorm(epsilon=EPS, name="ln_1")(x)
            y = linen.MultiHeadDotProductAttention(HEADS, name="mha")(y, y)
            x = x + y
            y = linen.LayerNorm(epsilon=EPS, name="ln_2")(x)
            y = linen.gelu(linen.Dense(INNER, name="in")(y), approximate=False)
            return x + linen.Dense(WIDTH, name="out")(y)

    class ViT(linen.Module):
        @linen.compact
        def __call__(self, images: Any) -> Any:
            x = linen.Conv(WIDTH, (PATCH, PATCH), strides=PATCH, padding="VALID", name="stem")(images)
            x = x.reshape(x.shape[0], -1, WIDTH)
            first = self.param("class", linen.initializers.zeros, (1, 1, WIDTH))
            x = jnp.concatenate([jnp.tile(first, (x.shape[0], 1, 1)), x], axis=1)
            x = x + self.param("place", linen.initializers.zeros, (1, PLACES, WIDTH))
            for i in range(DEPTH):
                x = Encoder(name=f"encoder_{i}")(x)
            x = linen.LayerNorm(epsilon=EPS, name="final")(x)
            return linen.Dense(CLASSES, name="classes")(x[:, 0])

    w = {name.removeprefix("vit."): value.numpy() for name, value in reference.state_dict().items()}
    size = WIDTH // HEADS

    def dense(source: str) -> dict[str, Any]:
        return {"kernel": w[f"{source}.weight"].T, "bias": w[f"{source}.bias"]}

    def norm(source: str) -> dict[str, Any]:
        return {"scale": w[f"{source}.weight"], "bias": w[f"{source}.bias"]}

    def heads(source: str) -> dict[str, Any]:
        kernel, bias = dense(source).values()
        return {"kernel": kernel.reshape(WIDTH, HEADS, size), "bias": bias.reshape(HEADS, size)}

    def encoder(source: str) -> dict[str, Any]:
        attention = f"{source}.attention"
        out = dense(f"{attention}.o_proj")
        return {
            "ln_1": norm(f"{source}.layernorm_before"),
            "ln_2": norm(f"{source}.layernorm_after"),
            "in": dense(f"{source}.mlp.fc1"),
            "out": dense(f"{source}.mlp.fc2"),
            "mha": {
                **{name: heads(f"{attention}.{name[0]}_proj") for name in ("query", "key", "value")},
                "out": {"kernel": out["kernel"].reshape(HEADS, size, WIDTH), "bias": out["bias"]},
            },
        }

    stem = "embeddings.patch_embeddings.projection"
    params = {
        "stem": {"kernel": w[f"{stem}.weight"].transpose(2, 3, 1, 0), "bias": w[f"{stem}.bias"]},
        "class": w["embeddings.cls_token"],
        "place": w["embeddings.position_embeddings"],
        **{f"encoder_{i}": encoder(f"layers.{i}") for i in range(DEPTH)},
        "final": norm("layernorm"),
        "classes": dense("classifier"),
    }
    return jax_side(ViT(), {"params": params}, inputs=lambda images: (images.transpose(0, 2, 3, 1),))


TWINS = [
    Twin("vit/timm", build, port_timm, inputs),
    Twin("vit/flax", build, port_flax, inputs),
]
