"""The vision transformer in Flax's NNX. Images have their channels last."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
from flax import nnx

from cellbridge.parity import jax_side

from .loading import Weights, fill

RNGS = nnx.Rngs(0)


class PatchEmbedding(nnx.Module):
    def __init__(self, width: int, patch: int) -> None:
        self.proj = nnx.Conv(3, width, (patch, patch), strides=patch, padding="VALID", rngs=RNGS)

    def __call__(self, images: Any) -> Any:
        x = self.proj(images)
        return x.reshape(x.shape[0], -1, x.shape[-1])


class Attention(nnx.Module):
    def __init__(self, width: int, heads: int) -> None:
        self.heads = heads
        self.scale = (width // heads) ** -0.5
        self.qkv = nnx.Linear(width, 3 * width, rngs=RNGS)
        self.proj = nnx.Linear(width, width, rngs=RNGS)

    def __call__(self, x: Any) -> Any:
        batch, length, width = x.shape
        qkv = self.qkv(x).reshape(batch, length, 3, self.heads, width // self.heads).transpose(2, 0, 3, 1, 4)
        q, k, v = qkv[0], qkv[1], qkv[2]
        weights = nnx.softmax(q @ k.swapaxes(-2, -1) * self.scale, axis=-1)
        y = (weights @ v).swapaxes(1, 2).reshape(batch, length, width)
        return self.proj(y)


class Mlp(nnx.Module):
    def __init__(self, width: int) -> None:
        self.fc1 = nnx.Linear(width, 2 * width, rngs=RNGS)
        self.fc2 = nnx.Linear(2 * width, width, rngs=RNGS)

    def __call__(self, x: Any) -> Any:
        return self.fc2(nnx.gelu(self.fc1(x), approximate=False))


class Block(nnx.Module):
    def __init__(self, width: int, heads: int) -> None:
        self.norm1 = nnx.LayerNorm(width, epsilon=1e-6, rngs=RNGS)
        self.attn = Attention(width, heads)
        self.norm2 = nnx.LayerNorm(width, epsilon=1e-6, rngs=RNGS)
        self.mlp = Mlp(width)
        self.gamma1 = nnx.Param(jnp.zeros(width))
        self.gamma2 = nnx.Param(jnp.zeros(width))

    def __call__(self, x: Any) -> Any:
        x = x + self.gamma1 * self.attn(self.norm1(x))
        return x + self.gamma2 * self.mlp(self.norm2(x))


class VisionTransformer(nnx.Module):
    def __init__(self, width: int = 16, depth: int = 3, heads: int = 4) -> None:
        self.patch_embed = PatchEmbedding(width, 4)
        self.cls_token = nnx.Param(jnp.zeros((1, 1, width)))
        self.pos_embed = nnx.Param(jnp.zeros((1, 17, width)))
        self.blocks = nnx.List([Block(width, heads) for _ in range(depth)])
        self.norm = nnx.LayerNorm(width, epsilon=1e-6, rngs=RNGS)
        self.head = nnx.Linear(width, 6, rngs=RNGS)

    def __call__(self, images: Any) -> Any:
        x = self.patch_embed(images)
        first = jnp.broadcast_to(self.cls_token[...], (x.shape[0], 1, x.shape[2]))
        x = jnp.concatenate([first, x], axis=1)
        x = x + self.pos_embed
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x)[:, 0])


def build(weights: Weights) -> Any:
    network = fill(VisionTransformer(), weights)
    return jax_side(network, inputs=lambda images: (images.transpose(0, 2, 3, 1),))
