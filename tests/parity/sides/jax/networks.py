"""A transformer block in torch, and the same in Flax (NNX and Linen), Equinox and plain JAX, with its weights."""

from __future__ import annotations

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import torch
from flax import linen, nnx
from torch import nn

SIZE, HEADS = 16, 4


class Attention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.query, self.key, self.value, self.out = (nn.Linear(SIZE, SIZE) for _ in range(4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        q, k, v = (f(x).unflatten(-1, (HEADS, -1)).transpose(1, 2) for f in (self.query, self.key, self.value))
        mixed = (q @ k.mT / (SIZE // HEADS) ** 0.5).softmax(-1) @ v
        return self.out(mixed.transpose(1, 2).flatten(2))


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm, self.attention, self.fc = nn.LayerNorm(SIZE, eps=1e-6), Attention(), nn.Linear(SIZE, SIZE)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.fc(nn.functional.gelu(self.attention(self.norm(x)), approximate="tanh"))


class Network(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(Block() for _ in range(2))
        self.head = nn.Linear(SIZE, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for block in self.blocks:
            x = block(x)
        return self.head(x)


def make() -> tuple[Network, torch.Tensor]:
    torch.manual_seed(0)
    return Network().eval(), torch.randn(2, 5, SIZE)


def array(tensor: torch.Tensor) -> Any:
    return jnp.asarray(tensor.detach().numpy())


def attend(q: Any, k: Any, v: Any) -> Any:
    q, k, v = (x.reshape(*x.shape[:2], HEADS, -1).swapaxes(1, 2) for x in (q, k, v))
    mixed = jax.nn.softmax(q @ k.swapaxes(-1, -2) / np.sqrt(SIZE // HEADS)) @ v
    return mixed.swapaxes(1, 2).reshape(*mixed.shape[:1], mixed.shape[2], -1)


class NnxAttention(nnx.Module):
    def __init__(self, rngs: nnx.Rngs) -> None:
        self.query, self.key, self.value, self.out = (nnx.Linear(SIZE, SIZE, rngs=rngs) for _ in range(4))

    def __call__(self, x: Any) -> Any:
        return self.out(attend(self.query(x), self.key(x), self.value(x)))


class NnxBlock(nnx.Module):
    def __init__(self, rngs: nnx.Rngs, epsilon: float) -> None:
        self.norm = nnx.LayerNorm(SIZE, epsilon=epsilon, rngs=rngs)
        self.attention, self.fc = NnxAttention(rngs), nnx.Linear(SIZE, SIZE, rngs=rngs)

    def __call__(self, x: Any) -> Any:
        return x + self.fc(jax.nn.gelu(self.attention(self.norm(x))))


class NnxNetwork(nnx.Module):
    def __init__(self, epsilon: float = 1e-6) -> None:
        rngs = nnx.Rngs(0)
        self.blocks = nnx.List([NnxBlock(rngs, epsilon) for _ in range(2)])
        self.head = nnx.Linear(SIZE, 3, rngs=rngs)

    def __call__(self, x: Any) -> Any:
        for block in self.blocks:
            x = block(x)
        return self.head(x)


def nnx_port(module: Network, epsilon: float = 1e-6) -> NnxNetwork:
    port = NnxNetwork(epsilon)
    for i, block in enumerate(module.blocks):
        port_block = port.blocks[i]
        port_block.norm.scale[...], port_block.norm.bias[...] = array(block.norm.weight), array(block.norm.bias)
        layers = [(block.fc, port_block.fc)]
        layers += [
            (getattr(block.attention, n), getattr(port_block.attention, n)) for n in ("query", "key", "value", "out")
        ]
        for torch_layer, flax_layer in layers:
            flax_layer.kernel[...], flax_layer.bias[...] = array(torch_layer.weight.T), array(torch_layer.bias)
    port.head.kernel[...], port.head.bias[...] = array(module.head.weight.T), array(module.head.bias)
    return port


class LinenAttention(linen.Module):
    @linen.compact
    def __call__(self, x: Any) -> Any:
        q, k, v = (linen.Dense(SIZE, name=name)(x) for name in ("query", "key", "value"))
        return linen.Dense(SIZE, name="out")(attend(q, k, v))


class LinenBlock(linen.Module):
    @linen.compact
    def __call__(self, x: Any) -> Any:
        y = LinenAttention(name="attention")(linen.LayerNorm(name="norm")(x))
        return x + linen.Dense(SIZE, name="fc")(jax.nn.gelu(y))


class LinenNetwork(linen.Module):
    @linen.compact
    def __call__(self, x: Any) -> Any:
        for i in range(2):
            x = LinenBlock(name=f"blocks_{i}")(x)
        return linen.Dense(3, name="head")(x)


def linen_variables(module: Network) -> Any:
    def dense(layer: nn.Linear) -> Any:
        return {"kernel": array(layer.weight.T), "bias": array(layer.bias)}

    params: dict[str, Any] = {"head": dense(module.head)}
    for i, block in enumerate(module.blocks):
        attention = {name: dense(getattr(block.attention, name)) for name in ("query", "key", "value", "out")}
        norm = {"scale": array(block.norm.weight), "bias": array(block.norm.bias)}
        params[f"blocks_{i}"] = {"attention": attention, "norm": norm, "fc": dense(block.fc)}
    return {"params": params}


class EqxDense(eqx.Module):
    weight: Any
    bias: Any

    def __call__(self, x: Any) -> Any:
        return x @ self.weight.T + self.bias


class EqxNetwork(eqx.Module):
    layers: list[EqxDense]

    def __call__(self, x: Any) -> Any:
        return self.layers[1](jax.nn.relu(self.layers[0](x)))
