"""A real case: a block of MiniLM with its own weights, ported to Flax, right and with the mistakes that people make."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("flax")

import jax
import jax.numpy as jnp
import torch
from flax import nnx

from cellbridge import parity
from cellbridge.parity import jax_side
from cellbridge.parity.inputs.model_file import load

SIZE, HEADS = 384, 12


def linear(layer: Any) -> nnx.Linear:
    flax_layer = nnx.Linear(layer.in_features, layer.out_features, rngs=nnx.Rngs(0))
    flax_layer.kernel[...] = jnp.asarray(layer.weight.detach().numpy().T)
    flax_layer.bias[...] = jnp.asarray(layer.bias.detach().numpy())
    return flax_layer


def norm(layer: Any, epsilon: float) -> nnx.LayerNorm:
    flax_norm = nnx.LayerNorm(SIZE, epsilon=epsilon, rngs=nnx.Rngs(0))
    flax_norm.scale[...] = jnp.asarray(layer.weight.detach().numpy())
    flax_norm.bias[...] = jnp.asarray(layer.bias.detach().numpy())
    return flax_norm


class SelfAttention(nnx.Module):
    def __init__(self, layer: Any) -> None:
        self.query, self.key, self.value = linear(layer.query), linear(layer.key), linear(layer.value)

    def __call__(self, x: Any) -> Any:
        q, k, v = (f(x).reshape(*x.shape[:2], HEADS, -1).swapaxes(1, 2) for f in (self.query, self.key, self.value))
        weights = jax.nn.softmax(q @ k.swapaxes(-1, -2) / (SIZE // HEADS) ** 0.5)
        return (weights @ v).swapaxes(1, 2).reshape(x.shape)


class Output(nnx.Module):
    def __init__(self, layer: Any, epsilon: float) -> None:
        self.dense, self.LayerNorm = linear(layer.dense), norm(layer.LayerNorm, epsilon)

    def __call__(self, hidden_states: Any, input_tensor: Any) -> Any:
        return self.LayerNorm(self.dense(hidden_states) + input_tensor)


class Block(nnx.Module):
    def __init__(self, layer: Any, *, epsilon: float = 1e-12, approximate: bool = False) -> None:
        self.attention = nnx.Dict(
            {"self": SelfAttention(layer.attention.self), "output": Output(layer.attention.output, epsilon)}
        )
        self.intermediate = nnx.Dict({"dense": linear(layer.intermediate.dense)})
        self.output = Output(layer.output, epsilon)
        self.approximate = approximate

    def __call__(self, x: Any) -> Any:
        attended = self.attention["output"](self.attention["self"](x), x)
        inner = jax.nn.gelu(self.intermediate["dense"](attended), approximate=self.approximate)
        return self.output(inner, attended)


@pytest.fixture(scope="module")
def layer() -> Any:
    return load("fixtures/minilm.py").module.eval().encoder.layer[0]


@pytest.fixture(scope="module")
def hidden() -> torch.Tensor:
    return torch.randn(2, 11, SIZE, generator=torch.Generator().manual_seed(0))


@pytest.mark.slow
def test_the_port_agrees_with_its_gradients(layer: Any, hidden: torch.Tensor) -> None:
    report = parity.compare(layer, jax_side(Block(layer)), (hidden,))
    assert report.ok, str(report)
    compared = {path for path, cell in report.cells.items() if cell.gradients}
    assert {"attention.self.query", "attention.output.LayerNorm", "intermediate.dense", "output"} <= compared


@pytest.mark.parametrize(
    ("mistake", "places"),
    [
        ({"epsilon": 1e-6}, {"attention.output.LayerNorm", "output.LayerNorm"}),
        ({"approximate": True}, {""}),  # the activation isn't a Cell of the port
    ],
)
@pytest.mark.slow
def test_the_mistakes_of_ports_are_placed(
    layer: Any, hidden: torch.Tensor, mistake: dict[str, Any], places: set[str]
) -> None:
    report = parity.compare(layer, jax_side(Block(layer, **mistake)), (hidden,), diagnose_seconds=0)
    assert set(report.failing) == places, str(report)
