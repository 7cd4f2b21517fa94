"""The bounds of Cells, their gradients, and a network end to end, beside the errors that are measured."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from cellbridge.parity.judging.networks import network_of
from cellbridge.parity.judging.noise import Noise
from cellbridge.parity.judging.rounding_bounds.cell_bounds import CellBounds
from cellbridge.parity.sides.records import INPUT_GRADIENT, OUTPUT, Key
from cellbridge.parity.sides.run import FORWARD, ReferenceRun, Run
from cellbridge.parity.sides.torch_side import TorchSide


class Encoder(nn.Module):
    """Four layers of a transformer."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.layers = nn.ModuleList(nn.TransformerEncoderLayer(32, 4, 64, 0.0, batch_first=True) for _ in range(4))
        self.head = nn.Linear(32, 8)

    def forward(self, x: Tensor) -> Tensor:
        for layer in self.layers:
            x = layer(x)
        return self.head(x).mean(1)


@pytest.fixture(scope="module")
def sampled() -> tuple[TorchSide, Noise, Noise, CellBounds]:
    side = TorchSide(
        "torch", Encoder().eval(), (torch.randn(2, 50, 32, generator=torch.Generator().manual_seed(0)),), {}
    )
    truth = side.run(Run("float64"))
    run = Run("float32", reference=ReferenceRun.of(truth, truth.gradients.cotangents))
    fed = replace(run, feed=truth)
    noises = Noise(side, truth, run), Noise(side, truth, fed)
    return side, *noises, CellBounds(network_of(side, fed), "float32")


@pytest.mark.slow
def test_end_to_end_bounds_are_a_few_times_the_noise_and_far_below_half_precision(
    sampled: tuple[TorchSide, Noise, Noise, CellBounds],
) -> None:
    side, noise, _, cells = sampled
    bounds = cells.of_network()
    names = {name for name, info in side.parameters().items() if info.trainable}
    assert names == {key[1] for key in bounds if not isinstance(key, Key)}
    assert {key.kind for key in bounds if isinstance(key, Key)} == {OUTPUT, INPUT_GRADIENT}
    for key, bound in bounds.items():
        if noise.error(key) > 1e-12:  # not for the keys' bias, whose gradient is zero
            assert noise.error(key) / 5 < bound.proved.max() < 50 * noise.error(key)
    root = Key("", 0, OUTPUT, "result")
    narrow = side.module.double()(side.args[0].half().double()).detach().numpy()
    assert np.abs(narrow - noise.truth.values[root]).max() > 20 * bounds[root].proved.max()
    side.module.float()


def test_the_bounds_of_cells_are_a_few_times_the_noise(sampled: tuple[TorchSide, Noise, Noise, CellBounds]) -> None:
    _, _, noise, cells = sampled
    for path, parameter in (("layers.1.linear2", "layers.1.linear2.weight"), ("layers.2.norm1", "layers.2.norm1.bias")):
        bounds = cells.of_cell(path)
        assert {key.kind for key in bounds if isinstance(key, Key)} == {OUTPUT, INPUT_GRADIENT}
        assert ("parameter", parameter) in bounds
        for key, bound in bounds.items():
            assert noise.error(key) / 5 < bound.proved.max() < 50 * noise.error(key)


def test_a_cell_whose_program_differs_from_what_was_recorded_has_no_bounds(
    sampled: tuple[TorchSide, Noise, Noise, CellBounds],
) -> None:
    _, _, noise, cells = sampled
    key = Key("layers.1.linear2", 0, OUTPUT, "result")
    assert key in cells.of_cell(key.path)
    recorded = noise.truth.values[key]
    noise.truth.values[key] = recorded * (1 + 1e-6)
    try:
        assert key not in cells.of_cell(key.path)
    finally:
        noise.truth.values[key] = recorded


def test_a_cell_that_does_not_exist_has_no_bounds(sampled: tuple[TorchSide, Noise, Noise, CellBounds]) -> None:
    assert sampled[3].of_cell("nowhere") == {}


@pytest.mark.parametrize(
    ("x", "proved", "possible"),
    [
        (0.1, (1e-8, 1e-6), (1e-8, 1e-6)),
        (-1.2, (1e-4, 1e-2), (1e-4, 1e-2)),
        (-1.8, (0.001, 0.01), (0.01, 1.0)),
        (2.05, (0.0, 0.01), (np.inf, np.inf)),
    ],
)
@pytest.mark.every(2)
def test_a_bound_is_proved_up_to_half_of_the_digits(
    x: float, proved: tuple[float, float], possible: tuple[float, float]
) -> None:
    class Logit(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return torch.logit(torch.sigmoid(8 * x))

    side = TorchSide("torch", Logit(), (torch.tensor([x]),), {})
    truth = side.run(Run("float64"))
    run = Run("float32", FORWARD, ReferenceRun.of(truth, truth.gradients.cotangents), truth)
    bound = CellBounds(network_of(side, run), "float32").of_cell("")[Key("", 0, OUTPUT, "result")]
    assert proved[0] <= bound.proved[0] <= proved[1]
    assert possible[0] <= bound.possible[0] <= possible[1]
