"""The Llama in Flax's NNX."""

from __future__ import annotations

from typing import Any

import jax  # noqa: F401  # a planted fault stops a gradient
import jax.numpy as jnp
from flax import nnx

from cellbridge.parity import jax_side

from .loading import Weights, fill

RNGS = nnx.Rngs(0)


class Rotary(nnx.Module):
    def __init__(self, size: int, base: float = 10000.0) -> None:
        self.base = base
        self.size = size

    def __call__(self, x: Any) -> Any:
        frequencies = self.base ** (-jnp.arange(0, self.size, 2, dtype=x.dtype) / self.size)
        angles = jnp.arange(x.shape[-2], dtype=x.dtype)[:, None] * frequencies
        cos, sin = jnp.cos(angles), jnp.sin(angles)
        first, second = jnp.split(x, 2, axis=-1)
        return jnp.concatenate([first * cos - second * sin, second * cos + first * sin], axis=-1)


class Attention(nnx.Module):
    def __init__(self, width: int, heads: int, kv_heads: int) -> None:
        self.heads, self.kv_heads, self.head_size = heads, kv_heads, width // heads
        self.q_proj = nnx.Linear(width, heads * self.head_size, use_bias=False, rngs=RNGS)
        self.k_proj = nnx.Linear(width, kv_heads * self.head_size, use_bias=False, rngs=RNGS)
        self.v_proj = nnx.Linear(width, kv_heads * self.head_size, use_bias=False, rngs=RNGS)
        self.o_proj = nnx.Linear(width, width, use_bias=False, rngs=RNGS)
        self.rotary = Rotary(self.head_size)

    def __call__(self, x: Any) -> Any:
        batch, length, _ = x.shape
        q = self.q_proj(x).reshape(batch, length, self.heads, self.head_size).swapaxes(1, 2)
        k = self.k_proj(x).reshape(batch, length, self.kv_heads, self.head_size).swapaxes(1, 2)
        v = self.v_proj(x).reshape(batch, length, self.kv_heads, self.head_size).swapaxes(1, 2)
        q, k = self.rotary(q), self.rotary(k)
        k = jnp.repeat(k, self.heads // self.kv_heads, axis=1)
        v = jnp.repeat(v, self.heads // self.kv_heads, axis=1)
        scores = q @ k.swapaxes(-2, -1) * self.head_size**-0.5
        seen = jnp.tril(jnp.ones((length, length), bool))
        weights = nnx.softmax(jnp.where(seen, scores, -jnp.inf), axis=-1)
        return self.o_proj((weights @ v).swapaxes(1, 2).reshape(batch, length, -1))


class GatedMlp(nnx.Module):
    def __init__(self, width: int, inner: int) -> None:
        self.gate_proj = nnx.Linear(width, inner, use_bias=False, rngs=RNGS)
        self.up_proj = nnx.Linear(width, inner, use_bias=False, rngs=RNGS)
        self.down_proj = nnx.Linear(inner, width, use_bias=False, rngs=RNGS)

    def __call__(self, x: Any) -> Any:
        return self.down_proj(nnx.silu(self.gate_proj(x)) * self.up_proj(x))


class Layer(nnx.Module):
    def __init__(self, width: int) -> None:
        self.input_norm = nnx.RMSNorm(width, epsilon=1e-5, rngs=RNGS)
        self.self_attn = Attention(width, heads=4, kv_heads=2)
        self.post_norm = nnx.RMSNorm(width, epsilon=1e-5, rngs=RNGS)
        self.mlp = GatedMlp(width, 2 * width)

    def __call__(self, x: Any) -> Any:
        x = x + self.self_attn(self.input_norm(x))
        return x + self.mlp(self.post_norm(x))


class Llama(nnx.Module):
    def __init__(self, width: int = 16, depth: int = 2) -> None:
        self.embed_tokens = nnx.Embed(30, width, rngs=RNGS)
        self.layers = nnx.List([Layer(width) for _ in range(depth)])
        self.norm = nnx.RMSNorm(width, epsilon=1e-5, rngs=RNGS)
        self.lm_head = nnx.Linear(width, 30, use_bias=False, rngs=RNGS)

    def __call__(self, ids: Any) -> Any:
        x = self.embed_tokens(ids)
        for layer in self.layers:
            x = layer(x)
        return self.lm_head(self.norm(x))


def build(weights: Weights) -> Any:
    network = fill(Llama(), weights)
    return jax_side(network)
