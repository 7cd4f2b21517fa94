"""The Llama, ported by hand."""

from __future__ import annotations

import numpy as np

from cellbridge.runtime import Parameter, Tensor, nn, ops


class RMSNorm(nn.Cell):
    def __init__(self, width: int, eps: float = 1e-5) -> None:
        super().__init__()
        self.weight = Parameter(Tensor(np.ones(width, np.float32)))
        self.eps = eps

    def construct(self, x: Tensor) -> Tensor:
        variance = (x * x).mean(-1, keep_dims=True)
        return self.weight * (x * ops.rsqrt(variance + self.eps))


class Rotary(nn.Cell):
    def __init__(self, size: int, base: float = 10000.0) -> None:
        super().__init__()
        self.base = base
        self.size = size

    def construct(self, x: Tensor) -> Tensor:
        frequencies = self.base ** (-np.arange(0, self.size, 2) / self.size)
        angles = np.arange(x.shape[-2])[:, None] * frequencies
        cos, sin = Tensor(np.cos(angles)).astype(x.dtype), Tensor(np.sin(angles)).astype(x.dtype)
        half = self.size // 2
        first, second = x[..., :half], x[..., half:]
        return ops.concat((first * cos - second * sin, second * cos + first * sin), axis=-1)


class Attention(nn.Cell):
    def __init__(self, width: int, heads: int, kv_heads: int) -> None:
        super().__init__()
        self.heads, self.kv_heads, self.head_size = heads, kv_heads, width // heads
        self.q_proj = nn.Dense(width, heads * self.head_size, has_bias=False)
        self.k_proj = nn.Dense(width, kv_heads * self.head_size, has_bias=False)
        self.v_proj = nn.Dense(width, kv_heads * self.head_size, has_bias=False)
        self.o_proj = nn.Dense(width, width, has_bias=False)
        self.rotary = Rotary(self.head_size)

    def construct(self, x: Tensor) -> Tensor:
        batch, length, _ = x.shape
        q = self.q_proj(x).reshape(batch, length, self.heads, self.head_size).swapaxes(1, 2)
        k = self.k_proj(x).reshape(batch, length, self.kv_heads, self.head_size).swapaxes(1, 2)
        v = self.v_proj(x).reshape(batch, length, self.kv_heads, self.head_size).swapaxes(1, 2)
        q, k = self.rotary(q), self.rotary(k)
        k = ops.repeat_interleave(k, self.heads // self.kv_heads, 1)
        v = ops.repeat_interleave(v, self.heads // self.kv_heads, 1)
        scores = ops.matmul(q, k.swapaxes(-2, -1)) * self.head_size**-0.5
        later = Tensor(np.triu(np.ones((length, length), bool), 1))
        weights = ops.softmax(ops.masked_fill(scores, later, float("-inf")), -1)
        return self.o_proj(ops.matmul(weights, v).swapaxes(1, 2).reshape(batch, length, -1))


class GatedMlp(nn.Cell):
    def __init__(self, width: int, inner: int) -> None:
        super().__init__()
        self.gate_proj = nn.Dense(width, inner, has_bias=False)
        self.up_proj = nn.Dense(width, inner, has_bias=False)
        self.down_proj = nn.Dense(inner, width, has_bias=False)

    def construct(self, x: Tensor) -> Tensor:
        return self.down_proj(ops.silu(self.gate_proj(x)) * self.up_proj(x))


class Layer(nn.Cell):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.input_norm = RMSNorm(width)
        self.self_attn = Attention(width, heads=4, kv_heads=2)
        self.post_norm = RMSNorm(width)
        self.mlp = GatedMlp(width, 2 * width)

    def construct(self, x: Tensor) -> Tensor:
        x = x + self.self_attn(self.input_norm(x))
        return x + self.mlp(self.post_norm(x))


class Llama(nn.Cell):
    def __init__(self, width: int = 16, depth: int = 2) -> None:
        super().__init__()
        self.embed_tokens = nn.Embedding(30, width)
        self.layers = nn.CellList([Layer(width) for _ in range(depth)])
        self.norm = RMSNorm(width)
        self.lm_head = nn.Dense(width, 30, has_bias=False)

    def construct(self, ids: Tensor) -> Tensor:
        x = self.embed_tokens(ids)
        for layer in self.layers:
            x = layer(x)
        return self.lm_head(self.norm(x))


def build() -> nn.Cell:
    return Llama()
