"""An MLP-Mixer in torch, against one in Flax's NNX."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from ..twin import Twin

WIDTH, DEPTH, PATCH, SIDE, CLASSES = 12, 2, 4, 12, 4
TOKENS = (SIDE // PATCH) ** 2


class Mlp(nn.Module):
    def __init__(self, size: int, inner: int) -> None:
        super().__init__()
        self.fc1 = nn.Linear(size, inner)
        self.act = nn.GELU()
        self.fc2 = nn.Linear(inner, size)

    def forward(self, x: Tensor) -> Tensor:
        return self.fc2(self.act(self.fc1(x)))


class MixerBlock(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm1 = nn.LayerNorm(WIDTH, eps=1e-6)
        self.mlp_tokens = Mlp(TOKENS, 10)
        self.norm2 = nn.LayerNorm(WIDTH, eps=1e-6)
        self.mlp_channels = Mlp(WIDTH, 20)

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.mlp_tokens(self.norm1(x).transpose(1, 2)).transpose(1, 2)
        return x + self.mlp_channels(self.norm2(x))


class Mixer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, WIDTH, PATCH, PATCH)
        self.blocks = nn.Sequential(*(MixerBlock() for _ in range(DEPTH)))
        self.norm = nn.LayerNorm(WIDTH, eps=1e-6)
        self.head = nn.Linear(WIDTH, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        x = self.stem(x).flatten(2).transpose(1, 2)
        return self.head(self.norm(self.blocks(x)).mean(dim=1))


def inputs() -> tuple[Tensor, ...]:
    return (torch.randn(2, 3, SIDE, SIDE),)


def port(reference: nn.Module) -> Any:
    """Make the network in NNX; its products are einsums, and its patches are cut out by reshapes."""
    import jax.numpy as jnp
    from flax import nnx

    from cellbridge.parity import jax_side

    w = {name: value.numpy() for name, value in reference.state_dict().items()}
    rngs = nnx.Rngs(0)

    def matrix(source: str) -> Any:
        return nnx.Param(jnp.asarray(w[f"{source}.weight"].T)), nnx.Param(jnp.asarray(w[f"{source}.bias"]))

    def norm(source: str) -> nnx.LayerNorm:
        layer = nnx.LayerNorm(WIDTH, epsilon=1e-6, rngs=rngs)
        layer.scale.set_value(jnp.asarray(w[f"{source}.weight"]))
        layer.bias.set_value(jnp.asarray(w[f"{source}.bias"]))
        return layer

    class Mixing(nnx.Module):
        def __init__(self, source: str) -> None:
            self.before, self.after = norm(f"{source}.norm1"), norm(f"{source}.norm2")
            self.token_in, self.token_in_bias = matrix(f"{source}.mlp_tokens.fc1")
            self.token_out, self.token_out_bias = matrix(f"{source}.mlp_tokens.fc2")
            self.wide, self.wide_bias = matrix(f"{source}.mlp_channels.fc1")
            self.narrow, self.narrow_bias = matrix(f"{source}.mlp_channels.fc2")

        def __call__(self, x: Any) -> Any:
            y = jnp.einsum("btc,ts->bsc", self.before(x), self.token_in[...]) + self.token_in_bias[...][:, None]
            y = nnx.gelu(y, approximate=False)
            x = x + jnp.einsum("bsc,st->btc", y, self.token_out[...]) + self.token_out_bias[...][:, None]
            y = nnx.gelu(self.after(x) @ self.wide[...] + self.wide_bias[...], approximate=False)
            return x + y @ self.narrow[...] + self.narrow_bias[...]

    class Network(nnx.Module):
        def __init__(self) -> None:
            kernel = w["stem.weight"].transpose(2, 3, 1, 0).reshape(-1, WIDTH)
            self.patches, self.patch_bias = nnx.Param(jnp.asarray(kernel)), nnx.Param(jnp.asarray(w["stem.bias"]))
            self.mixings = nnx.List([Mixing(f"blocks.{i}") for i in range(DEPTH)])
            self.final = norm("norm")
            self.classes, self.classes_bias = matrix("head")

        def __call__(self, images: Any) -> Any:
            batch, grid = images.shape[0], SIDE // PATCH
            x = images.reshape(batch, grid, PATCH, grid, PATCH, 3).transpose(0, 1, 3, 2, 4, 5)
            x = x.reshape(batch, TOKENS, -1) @ self.patches[...] + self.patch_bias[...]
            for mixing in self.mixings:
                x = mixing(x)
            return self.final(x).mean(axis=1) @ self.classes[...] + self.classes_bias[...]

    return jax_side(Network(), inputs=lambda images: (images.transpose(0, 2, 3, 1),))


TWINS = [Twin("mixer/flax", Mixer, port, inputs, rounding=1e-6)]
