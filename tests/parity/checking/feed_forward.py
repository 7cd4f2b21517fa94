"""A small network of torch, and the same numbers under names of another hand, matrices with their outputs last."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

WIDTH, INNER = 6, 6
EPS = 1e-5


class FeedForward(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(WIDTH, eps=EPS)
        self.up, self.activation, self.down = nn.Linear(WIDTH, INNER), nn.GELU(), nn.Linear(INNER, WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        return x + self.down(self.activation(self.up(self.norm(x))))  # type: ignore[no-any-return]


class Network(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.words, self.block, self.head = nn.Embedding(7, WIDTH), FeedForward(), nn.Linear(WIDTH, 3)

    def forward(self, ids: Tensor) -> dict[str, Tensor]:
        return {"logits": self.head(self.block(self.words(ids)))}


class Talkative(Network):
    """Returns hidden states, too, as libraries do."""

    def forward(self, ids: Tensor) -> dict[str, Any]:
        words = self.words(ids)
        mixed = self.block(words)
        return {"logits": self.head(mixed), "states": (words, mixed)}


CELLS = {"words", "block", "block.norm", "block.up", "block.activation", "block.down", "head"}


def make(kind: type[Network] = Network) -> tuple[Network, tuple[Tensor, ...]]:
    """Return the network with weights of which no two are equal, and its inputs."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        module = kind()
        with torch.no_grad():
            for parameter in module.parameters():
                parameter += 0.3 * torch.randn_like(parameter)
        return module, (torch.randint(0, 7, (2, 5)),)


def arrays(module: Network, fault: str = "") -> dict[str, Any]:
    """Return the weights under other names; with the fault "transposed", a square matrix is left as torch has it."""
    w = {name: parameter.detach().numpy() for name, parameter in module.named_parameters()}
    return {
        "table": w["words.weight"],
        "gain": w["block.norm.weight"], "shift": w["block.norm.bias"],
        "wide": w["block.up.weight"] if fault == "transposed" else w["block.up.weight"].T,
        "wide_bias": w["block.up.bias"],
        "narrow": w["block.down.weight"].T, "narrow_bias": w["block.down.bias"],
        "out": np.ascontiguousarray(w["head.weight"].T), "out_bias": w["head.bias"],
    }  # fmt: skip
