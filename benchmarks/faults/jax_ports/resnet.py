"""The ResNet in Flax's Linen. Images have their channels last."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from flax import linen as nn

from cellbridge.parity import jax_side

from .loading import Weights, filled

ONE = ((1, 1), (1, 1))


class BasicBlock(nn.Module):
    channels: int
    stride: int = 1
    projects: bool = False

    def setup(self) -> None:
        self.conv1 = nn.Conv(self.channels, (3, 3), self.stride, ONE, use_bias=False)
        self.bn1 = nn.BatchNorm(use_running_average=True, epsilon=1e-5)
        self.conv2 = nn.Conv(self.channels, (3, 3), 1, ONE, use_bias=False)
        self.bn2 = nn.BatchNorm(use_running_average=True, epsilon=1e-5)
        if self.projects:
            self.shortcut = [
                nn.Conv(self.channels, (1, 1), self.stride, use_bias=False), nn.BatchNorm(use_running_average=True)
            ]  # fmt: skip

    def __call__(self, x: Any) -> Any:
        y = nn.relu(self.bn1(self.conv1(x)))
        y = self.bn2(self.conv2(y))
        if self.projects:
            for layer in self.shortcut:
                x = layer(x)
        return nn.relu(y + x)


class AttentionPool(nn.Module):
    def setup(self) -> None:
        self.score = nn.Conv(1, (1, 1))

    def __call__(self, x: Any) -> Any:
        x = nn.avg_pool(x, (3, 3), (2, 2), ONE)
        batch, channels = x.shape[0], x.shape[-1]
        weights = nn.softmax(self.score(x).reshape(batch, -1, 1), axis=1)
        return (x.reshape(batch, -1, channels) * weights).sum(1)


class ResNet(nn.Module):
    def setup(self) -> None:
        self.conv1 = nn.Conv(8, (3, 3), 1, ONE, use_bias=False)
        self.bn1 = nn.BatchNorm(use_running_average=True, epsilon=1e-5)
        self.layer1 = [BasicBlock(8), BasicBlock(8)]
        self.layer2 = [BasicBlock(16, 2, projects=True), BasicBlock(16)]
        self.pool = AttentionPool()
        self.fc = nn.Dense(7)

    def __call__(self, images: Any) -> Any:
        x = nn.leaky_relu(self.bn1(self.conv1(images)), 0.1)
        x = nn.max_pool(x, (3, 3), (2, 2), ONE)
        for block in [*self.layer1, *self.layer2]:
            x = block(x)
        x = self.pool(x)
        x = x / jnp.maximum(jnp.sqrt((x * x).sum(1, keepdims=True)), 1e-12)
        return self.fc(x)


def build(weights: Weights) -> Any:
    network = ResNet()
    variables = network.init(jax.random.key(0), jnp.zeros((1, 24, 24, 3)))
    parts = {name: filled(part, weights) for name, part in variables.items()}
    return jax_side(network, parts, inputs=lambda images: (images.transpose(0, 2, 3, 1),))
