"""Networks, their recordings, and faults planted in the recorded network."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import nn

from cellbridge import parity
from cellbridge.recorder import Recorder


class Attention(nn.Module):
    def __init__(self, size: int) -> None:
        super().__init__()
        self.query, self.key, self.value, self.out = (nn.Linear(size, size) for _ in range(4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        scores = self.query(x) @ self.key(x).mT / x.shape[-1] ** 0.5
        return self.out(scores.softmax(-1) @ self.value(x))


class Block(nn.Module):
    def __init__(self, size: int) -> None:
        super().__init__()
        self.norm, self.attention, self.act = nn.LayerNorm(size), Attention(size), nn.GELU()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.act(self.attention(self.norm(x)))


class Network(nn.Module):
    def __init__(self, blocks: int = 3, size: int = 16) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(Block(size) for _ in range(blocks))
        self.head = nn.Linear(size, 5)

    def forward(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        for block in self.blocks:
            x = block(x)
        return {"hidden": x, "scores": self.head(x)}


def make(seed: int = 0) -> tuple[Network, torch.Tensor]:
    torch.manual_seed(seed)
    return Network().eval(), torch.randn(2, 7, 16)


def loss(outputs: dict[str, torch.Tensor]) -> torch.Tensor:
    return outputs["scores"].square().mean() + outputs["hidden"].sum()


def record_reference(path: Path, **options: Any) -> None:
    module, x = make()
    parity.record(module, (x,), path, loss=loss, model="network", **options)


Fault = Callable[[Network], Any]


def record_elsewhere(path: Path, fault: Fault | None = None, dtype: torch.dtype = torch.float32, **more: Any) -> None:
    """Record the network by the recorder's hooks, as another project would."""
    module, x = make()
    module.to(dtype)
    if fault is not None:
        fault(module)
    with Recorder(path, framework="elsewhere", dtype=str(dtype)[6:], **more) as recorder, recorder.torch(module):
        loss(module(x.to(dtype).requires_grad_())).backward()


def after(module: nn.Module, function: Callable[[torch.Tensor], torch.Tensor]) -> None:
    """Apply a function to the result of a module."""
    module.register_forward_hook(lambda _, args, output: function(output))


class _GradientTimes(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, factor: float) -> torch.Tensor:
        ctx.factor = factor
        return x.clone()

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> Any:
        return gradient * ctx.factor, None


def _scale_weight(layer: nn.Linear) -> None:
    layer.weight.data *= 1.001


def _set_eps(norm: nn.LayerNorm) -> None:
    norm.eps = 1e-3


FAULTS: dict[str, tuple[Fault, str]] = {
    "eps of a norm": (lambda net: _set_eps(net.blocks[1].norm), "blocks.1.norm"),
    "a weight": (lambda net: _scale_weight(net.blocks[2].attention.key), "blocks.2.attention.key"),
    "the first layer": (lambda net: after(net.blocks[0].norm, lambda y: y * 1.0001), "blocks.0.norm"),
    "the last layer": (lambda net: after(net.head, lambda y: y + 1e-3), "head"),
    "an activation": (lambda net: after(net.blocks[1].act, lambda y: y.clamp(min=-0.1)), "blocks.1.act"),
    "a gradient": (
        lambda net: after(net.blocks[1].attention.value, lambda y: _GradientTimes.apply(y, 1.01)),
        "blocks.1.attention.value",
    ),
    "no gradient": (lambda net: after(net.blocks[2].norm, lambda y: y.detach()), "blocks.2.norm"),
    "code around Cells": (lambda net: after(net.blocks[1], lambda y: y * 1.01), "blocks.1"),
}
"""Faults, and the Cell that each is in."""
