"""Layers that a network in JAX has stacked, and goes through by `lax.scan`."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("jax")

import jax
import jax.numpy as jnp
import numpy as np
import torch
from torch import Tensor, nn

from cellbridge.converter import from_jax
from cellbridge.parity import jax_side
from cellbridge.parity.checking.onnx_files.module_and_file import ModuleAndFile
from cellbridge.parity.options import Options
from cellbridge.parity.pairing.by_values.written_scans import with_scans_written_out
from cellbridge.parity.report.report import Report
from cellbridge.parity.sides.jax_side import JaxSide
from cellbridge.parity.support.progress import NoProgress

WIDTH, INNER, DEPTH = 6, 10, 3


class Layer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm, self.up, self.down = (
            nn.LayerNorm(WIDTH),
            nn.Linear(WIDTH, INNER),
            nn.Linear(INNER, WIDTH, bias=False),
        )

    def forward(self, x: Tensor) -> Tensor:
        return x + self.down(torch.tanh(self.up(self.norm(x))))  # type: ignore[no-any-return]


class Network(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers, self.head = nn.Sequential(*(Layer() for _ in range(DEPTH))), nn.Linear(WIDTH, 2)
        for parameter in self.parameters():
            parameter.data.normal_()

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.layers(x))  # type: ignore[no-any-return]


def port(module: Network, axis: int = 0, fault: str = "") -> JaxSide:
    """Return a function with the layers' parameters stacked along an axis."""

    def layer(x: Any, p: Any) -> Any:
        y = x - x.mean(-1, keepdims=True)
        y = y * jax.lax.rsqrt((y * y).mean(-1, keepdims=True) + 1e-5) * p["gain"] + p["shift"]
        y = (jax.nn.sigmoid if fault == "sigmoid" else jnp.tanh)(y @ p["up"] + p["up_bias"]) @ p["down"]
        return x + y, y.mean()

    def network(params: Any, x: Any) -> Any:
        layers = params["layers"]
        stacked = {name: jnp.moveaxis(layers[name], axis if layers[name].ndim == 3 else 0, 0) for name in layers}
        x, means = jax.lax.scan(layer, x, stacked)
        return x @ params["out"] + params["out_bias"] + 0 * means[-1]

    names = {
        "gain": "norm.weight",
        "shift": "norm.bias",
        "up": "up.weight",
        "up_bias": "up.bias",
        "down": "down.weight",
    }
    w = {name: value.numpy() for name, value in module.state_dict().items()}
    layers = {}
    for name, source in names.items():
        each = [w[f"layers.{n}.{source}"].T for n in range(DEPTH)]
        if fault == "order" and name == "down":
            each = each[::-1]
        layers[name] = jnp.asarray(np.stack(each, axis if each[0].ndim == 2 else 0))
    return jax_side(network, {"layers": layers, "out": w["head.weight"].T, "out_bias": w["head.bias"]})


def make() -> tuple[Network, tuple[Tensor]]:
    torch.manual_seed(0)
    return Network().eval(), (torch.randn(4, 3, WIDTH),)


def compared(axis: int = 0, fault: str = "") -> Report:
    """Return the report on the program of a port: JAX takes long to compile a network."""
    module, inputs = make()
    side = port(module, axis, fault)
    with jax.enable_x64(True):
        program = from_jax(side.network, inputs[0].numpy(), params=side.params)
    return ModuleAndFile(module, program.astype("float32"), Options(probe=False), NoProgress()).judge_inputs(inputs, {})


@pytest.mark.parametrize("axis", [0, 1])
def test_stacked_layers_are_compared_one_by_one(axis: int) -> None:
    report = compared(axis)
    assert report.ok, str(report)
    judged = {path for path, cell in report.cells.items() if any(c.kind == "output" for c in cell.comparisons)}
    assert judged == {path for path, _ in Network().named_modules()}, str(report)
    gradients = {c.tensor for cell in report.cells.values() for c in cell.comparisons if c.kind == "parameter gradient"}
    assert gradients == dict(Network().named_parameters()).keys()


@pytest.mark.parametrize(
    ("fault", "failing"),
    [
        ("sigmoid", ["layers.0", "layers.1", "layers.2"]),
        ("order", ["layers.0.down", "layers.2.down"]),
    ],
)
def test_a_fault_is_placed_in_its_layers(fault: str, failing: list[str]) -> None:
    report = compared(fault=fault)
    assert report.failing == failing, str(report)


@pytest.mark.parametrize("reverse", [False, True])
def test_turns_compute_what_the_loop_does(reverse: bool) -> None:
    def network(params: Any, x: Any) -> Any:
        def inner(state: Any, row: Any) -> Any:
            state = jnp.tanh(state * row + params["scale"][0])
            return state, state * 2

        def outer(state: Any, part: Any) -> Any:
            weights, number = part
            return jax.lax.scan(inner, state @ weights + number, x, reverse=reverse)

        return jax.lax.scan(outer, x[0], (params["weights"], jnp.arange(3.0)))

    random = np.random.default_rng(0)
    x = random.standard_normal((4, 2, 5))
    params = {"weights": random.standard_normal((3, 5, 5)), "scale": random.standard_normal(3)}
    with jax.enable_x64(True):
        program = from_jax(network, x, params=params)
        expected = jax.tree.leaves(network(params, x))
    written = with_scans_written_out(program, divide=True)
    assert not any(node.op == "scan" for node in written.nodes)
    assert sorted(written.parameters) == ["scale", "weights part 0", "weights part 1", "weights part 2"]
    for array, truth in zip(written(x), expected, strict=True):
        np.testing.assert_allclose(array, truth, rtol=1e-12)
