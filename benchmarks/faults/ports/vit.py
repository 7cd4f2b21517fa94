"""The vision transformer, ported by hand."""

from __future__ import annotations

import numpy as np

from cellbridge.runtime import Parameter, Tensor, nn, ops


class PatchEmbedding(nn.Cell):
    def __init__(self, width: int, patch: int) -> None:
        super().__init__()
        self.proj = nn.Conv2d(3, width, patch, stride=patch, pad_mode="valid", has_bias=True)

    def construct(self, images: Tensor) -> Tensor:
        x = self.proj(images)
        return x.reshape(x.shape[0], x.shape[1], -1).swapaxes(1, 2)


class Attention(nn.Cell):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.scale = (width // heads) ** -0.5
        self.qkv = nn.Dense(width, 3 * width)
        self.drop = nn.Dropout(p=0.1)
        self.proj = nn.Dense(width, width)

    def construct(self, x: Tensor) -> Tensor:
        batch, length, width = x.shape
        qkv = self.qkv(x).reshape(batch, length, 3, self.heads, width // self.heads).transpose(2, 0, 3, 1, 4)
        q, k, v = qkv[0], qkv[1], qkv[2]
        weights = ops.softmax(ops.matmul(q, k.swapaxes(-2, -1)) * self.scale, -1)
        weights = self.drop(weights)
        y = ops.matmul(weights, v).swapaxes(1, 2).reshape(batch, length, width)
        return self.proj(y)


class Mlp(nn.Cell):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.fc1 = nn.Dense(width, 2 * width)
        self.act = nn.GELU(approximate=False)
        self.fc2 = nn.Dense(2 * width, width)

    def construct(self, x: Tensor) -> Tensor:
        return self.fc2(self.act(self.fc1(x)))


class Block(nn.Cell):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.norm1 = nn.LayerNorm((width,), epsilon=1e-6)
        self.attn = Attention(width, heads)
        self.norm2 = nn.LayerNorm((width,), epsilon=1e-6)
        self.mlp = Mlp(width)
        self.gamma1 = Parameter(Tensor(np.zeros(width, np.float32)))
        self.gamma2 = Parameter(Tensor(np.zeros(width, np.float32)))

    def construct(self, x: Tensor) -> Tensor:
        x = x + self.gamma1 * self.attn(self.norm1(x))
        return x + self.gamma2 * self.mlp(self.norm2(x))


class VisionTransformer(nn.Cell):
    def __init__(self, width: int = 16, depth: int = 3, heads: int = 4) -> None:
        super().__init__()
        self.patch_embed = PatchEmbedding(width, 4)
        self.cls_token = Parameter(Tensor(np.zeros((1, 1, width), np.float32)))
        self.pos_embed = Parameter(Tensor(np.zeros((1, 17, width), np.float32)))
        self.blocks = nn.CellList([Block(width, heads) for _ in range(depth)])
        self.norm = nn.LayerNorm((width,), epsilon=1e-6)
        self.head = nn.Dense(width, 6)

    def construct(self, images: Tensor) -> Tensor:
        x = self.patch_embed(images)
        first = ops.broadcast_to(self.cls_token, (x.shape[0], 1, x.shape[2]))
        x = ops.concat((first, x), axis=1)
        x = x + self.pos_embed
        for block in self.blocks:
            x = block(x)
        x = self.norm(x)
        return self.head(x[:, 0])


def build() -> nn.Cell:
    return VisionTransformer()
