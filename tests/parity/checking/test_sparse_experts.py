"""Experts that only run on the tokens sent to them: faults are placed, though sizes are known when the code runs."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

from cellbridge import parity

WIDTH, EXPERTS, DEPTH = 6, 3, 2


class Expert(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.up, self.down = nn.Linear(WIDTH, 9), nn.Linear(9, WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        result: Tensor = self.down(self.up(x).relu())
        return result


class Layer(nn.Module):
    """Weighs what all experts compute."""

    def __init__(self) -> None:
        super().__init__()
        self.norm, self.router = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, EXPERTS)
        self.experts = nn.ModuleList(Expert() for _ in range(EXPERTS))

    def forward(self, x: Tensor) -> Tensor:
        y = self.norm(x)
        scores = self.router(y).softmax(-1)
        weights = scores * (scores == scores.amax(-1, keepdim=True))
        return x + sum(weights[:, i, None] * expert(y) for i, expert in enumerate(self.experts))


class Network(nn.Module):
    def __init__(self, layer: type[nn.Module] = Layer) -> None:
        super().__init__()
        self.layers = nn.ModuleList(layer() for _ in range(DEPTH))
        self.head = nn.Linear(WIDTH, 4)

    def forward(self, x: Tensor) -> Tensor:
        for layer in self.layers:
            x = layer(x)
        result: Tensor = self.head(x)
        return result


class SparseLayer(nn.Module):
    """Sends each token to the best expert alone."""

    activation: Callable[[Tensor], Tensor] = staticmethod(torch.relu)

    def __init__(self) -> None:
        super().__init__()
        self.gain, self.shift = nn.Parameter(torch.ones(WIDTH)), nn.Parameter(torch.zeros(WIDTH))
        self.gate = nn.Linear(WIDTH, EXPERTS)
        self.ups = nn.ModuleList(nn.Linear(WIDTH, 9) for _ in range(EXPERTS))
        self.downs = nn.ModuleList(nn.Linear(9, WIDTH) for _ in range(EXPERTS))

    def forward(self, x: Tensor) -> Tensor:
        y = nn.functional.layer_norm(x, (WIDTH,), self.gain, self.shift)
        weight, index = self.gate(y).softmax(-1).max(-1)
        total = torch.zeros_like(y)
        for number, (up, down) in enumerate(zip(self.ups, self.downs, strict=True)):
            (tokens,) = torch.where(index == number)
            total[tokens] += down(self.activation(up(y[tokens]))) * weight[tokens, None]
        return x + total


class WrongActivation(SparseLayer):
    activation = staticmethod(torch.tanh)


def networks(layer: type[nn.Module]) -> tuple[nn.Module, nn.Module]:
    torch.manual_seed(0)
    reference, port = Network(), Network(layer)
    for name, value in reference.state_dict().items():
        for source, target in (("norm.weight", "gain"), ("norm.bias", "shift"), ("router", "gate")):
            name = name.replace(source, target)
        if ".experts." in name:
            front, _, end = name.partition(".experts.")
            number, unit, part = end.split(".")
            name = f"{front}.{unit}s.{number}.{part}"
        port.get_parameter(name).data = value
    return reference.eval(), port.eval()


@pytest.mark.every(2)
@pytest.mark.parametrize("layer", [SparseLayer, WrongActivation])
def test_a_wrong_activation_in_each_layer_is_placed(layer: type[nn.Module]) -> None:
    report = parity.compare(*networks(layer), (torch.randn(8, WIDTH),), probe=False)
    assert sorted(report.failing) == [f"layers.{i}" for i in range(DEPTH) if layer is WrongActivation]
