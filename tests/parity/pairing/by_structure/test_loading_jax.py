"""Weights of a torch module brought into networks in JAX, which have other names and layouts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from cellbridge import parity
from tests.parity.pairing.by_structure.networks import QUICKLY, drawn

jax = pytest.importorskip("jax")
SIZE = 5


class Reference(nn.Module):
    """A convolution with its norm, and a linear layer."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.norm, self.fc = nn.Conv2d(3, SIZE, 3, padding=1), nn.BatchNorm2d(SIZE), nn.Linear(SIZE, 4)

    def forward(self, x: Tensor) -> Tensor:
        result: Tensor = self.fc(torch.relu(self.norm(self.conv(x))).mean((2, 3)))
        return result


def functional() -> Any:
    """Return a function of a dict, with its numbers."""
    generator = np.random.default_rng(1)
    shapes = {
        "kernel": (3, 3, 3, SIZE),
        "b": (SIZE,),
        "w": (SIZE, 4),
        "mean": (SIZE,),
        "var": (SIZE,),
        "scale": (SIZE,),
    }
    params = {name: generator.uniform(0.2, 0.7, shape).astype(np.float32) for name, shape in shapes.items()}
    params |= {"shift": params["mean"] + 1, "out": np.ones(4, np.float32)}

    def network(p: Any, x: Any) -> Any:
        dims = ("NHWC", "HWIO", "NHWC")
        y = jax.lax.conv_general_dilated(x, p["kernel"], (1, 1), "SAME", dimension_numbers=dims) + p["b"]
        y = (y - p["mean"]) * jax.lax.rsqrt(p["var"] + 1e-5) * p["scale"] + p["shift"]
        return jax.nn.relu(y).mean((1, 2)) @ p["w"] + p["out"]

    return parity.jax_side(network, params, inputs=lambda x: (x.transpose(0, 2, 3, 1),))


def modules() -> Any:
    """Return a module of NNX."""
    nnx = pytest.importorskip("flax.nnx")

    class Network(nnx.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            rngs = nnx.Rngs(0)
            self.first = nnx.Conv(3, SIZE, (3, 3), rngs=rngs)
            self.second = nnx.BatchNorm(SIZE, use_running_average=True, epsilon=1e-5, rngs=rngs)
            self.last = nnx.Linear(SIZE, 4, rngs=rngs)

        def __call__(self, x: Any) -> Any:
            return self.last(nnx.relu(self.second(self.first(x))).mean((1, 2)))

    return parity.jax_side(Network(), inputs=lambda x: (x.transpose(0, 2, 3, 1),))


@pytest.mark.every(2)
@pytest.mark.parametrize("network", [functional, modules])
def test_a_network_in_jax_gets_the_weights_for_the_comparison(network: Any, tmp_path: Path) -> None:
    reference, side = drawn(Reference(), 0), network()
    x = (torch.randn(2, 3, 6, 5, generator=torch.Generator().manual_seed(2)),)
    path = tmp_path / "map.toml"
    assert not parity.compare(reference, side, x, **QUICKLY).ok
    report = parity.compare(reference, side, x, load_weights=True, write_map=path, **QUICKLY)
    assert report.ok, report
    assert any("parameters were loaded by structure" in note for note in report.notes)
    assert not any("not loaded" in note for note in report.notes)
    assert parity.compare(reference, side, x, load_weights=path, **QUICKLY).ok
    assert not parity.compare(reference, side, x, **QUICKLY).ok  # it has its own numbers again


class Layers(nn.Module):
    """Layers that a function has stacked."""

    def __init__(self) -> None:
        super().__init__()
        self.layers, self.fc = nn.ModuleList(nn.Linear(SIZE, SIZE) for _ in range(3)), nn.Linear(SIZE, 4)

    def forward(self, x: Tensor) -> Tensor:
        for layer in self.layers:
            x = x + layer(x).tanh()
        result: Tensor = self.fc(x)
        return result


def test_layers_that_a_network_has_stacked_are_loaded() -> None:
    random = np.random.default_rng(1)
    shapes = {"w": (SIZE, 3, SIZE), "b": (3, SIZE), "last": (SIZE, 4), "c": (4,)}
    params = {name: random.uniform(0.2, 0.7, shape).astype(np.float32) for name, shape in shapes.items()}

    def layer(x: Any, p: Any) -> Any:
        weight, bias = p
        return x + jax.numpy.tanh(x @ weight + bias), None

    def network(p: Any, x: Any) -> Any:
        x, _ = jax.lax.scan(layer, x, (p["w"].swapaxes(0, 1), p["b"]))
        return x @ p["last"] + p["c"]

    x = (torch.randn(6, SIZE, generator=torch.Generator().manual_seed(2)),)
    report = parity.compare(drawn(Layers(), 0), parity.jax_side(network, params), x, load_weights=True, **QUICKLY)
    assert report.ok, report
    assert any(note.startswith("4 of 4 parameters were loaded by structure") for note in report.notes)
