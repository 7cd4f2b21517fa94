"""Cells in JAX that take a tensor once, or several times, where torch's Cell takes it another number of times."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

pytest.importorskip("flax")

import jax.numpy as jnp
import torch
from flax import nnx
from torch import nn

from cellbridge import parity
from cellbridge.parity import jax_side
from cellbridge.parity.report.terminal import failure_text
from tests.parity.sides.jax.networks import array

Call = Callable[[Any, Any], Any]
CALLS: dict[str, Call] = {
    "once": lambda block, x: block(x),
    "twice": lambda block, x: block(x, x),
    "computed": lambda block, x: block(x, x * 1.0),
    "a view": lambda block, x: block(x, x.reshape(-1)),
}


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(4, 4)

    def forward(self, x: torch.Tensor, memory: torch.Tensor | None = None) -> torch.Tensor:
        return torch.tanh(self.fc(x)) + 2 * (x if memory is None else memory.reshape(x.shape))


class Network(nn.Module):
    def __init__(self, call: Call) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.head, self.block, self.call = nn.Linear(4, 4), Block(), call

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.call(self.block, self.head(x))


def dense(layer: nn.Linear) -> nnx.Linear:
    port = nnx.Linear(layer.in_features, layer.out_features, rngs=nnx.Rngs(0))
    port.kernel[...], port.bias[...] = array(layer.weight.T), array(layer.bias)
    return port


class NnxBlock(nnx.Module):
    def __init__(self, block: Block, factor: float) -> None:
        self.fc, self.factor = dense(block.fc), factor

    def __call__(self, x: Any, memory: Any = None) -> Any:
        return jnp.tanh(self.fc(x)) + self.factor * (x if memory is None else memory.reshape(x.shape))


class NnxNetwork(nnx.Module):
    def __init__(self, module: Network, call: Call, factor: float) -> None:
        self.head, self.block, self.call = dense(module.head), NnxBlock(module.block, factor), call

    def __call__(self, x: Any) -> Any:
        return self.call(self.block, self.head(x))


PAIRS = [("twice", "once"), ("once", "twice"), ("computed", "once"), ("a view", "once")]


@pytest.mark.every(2)
@pytest.mark.parametrize(("reference", "candidate"), PAIRS)
@pytest.mark.every(2)
def test_how_often_a_tensor_is_taken_is_no_difference(reference: str, candidate: str) -> None:
    module, x = Network(CALLS[reference]), torch.linspace(-1, 1, 12).sin().reshape(3, 4)
    for factor, is_right in ((2.0, True), (2.5, False))[: 2 if reference == "twice" else 1]:
        port = jax_side(NnxNetwork(module, CALLS[candidate], factor))
        report = parity.compare(module, port, (x,), diagnose_seconds=0)
        assert report.ok == is_right, failure_text(report)
        is_said = any("the gradients of the inputs of block count in the Cell around" in note for note in report.notes)
        assert is_said == (reference in ("computed", "a view"))


def test_a_network_that_takes_once_what_is_given_twice() -> None:
    module, x = Block(), torch.linspace(-1, 1, 12).sin().reshape(3, 4)
    port = jax_side(NnxBlock(module, 2.0), inputs=lambda x, memory: (x,))
    report = parity.compare(module, port, (x, x), diagnose_seconds=0)
    assert report.ok, failure_text(report)
