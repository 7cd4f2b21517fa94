"""Layers that a port applies in another order, or leaves out, and that are judged in the Cell around them."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from cellbridge import parity
from cellbridge.parity.report.report import Report

pytestmark = pytest.mark.causes

X = torch.randn(3, 6, generator=torch.Generator().manual_seed(0))


class Layer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm, self.up, self.down = nn.LayerNorm(6), nn.Linear(6, 10), nn.Linear(10, 6)

    def forward(self, x: Tensor) -> Tensor:
        return x + self.down(torch.sigmoid(self.up(self.norm(x))))


class Network(nn.Module):
    """Three layers whose weights the network uses itself."""

    def __init__(self, order: Sequence[int] = (0, 1, 2), scale: float = 1.0) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.layers = nn.ModuleList(Layer() for _ in range(3))
        self._order, self._scale = order, scale

    def forward(self, x: Tensor) -> Tensor:
        for number in self._order:
            layer = self.layers[number]
            inner = torch.sigmoid(functional.linear(x, layer.up.weight, layer.up.bias))
            x = x + self._scale * functional.linear(inner, layer.down.weight, layer.down.bias)
        return x


class Called(nn.Module):
    """Layers that are called, and a product after them."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.layers, self.head = nn.ModuleList(Layer() for _ in range(3)), nn.Linear(6, 2)

    def forward(self, x: Tensor) -> Tensor:
        for layer in self.layers:
            x = layer(x)
        return self.head(x)


class Stacked(nn.Module):
    """The same with the layers in stacked tensors, of which some are applied."""

    def __init__(self, network: Called, count: int) -> None:
        super().__init__()
        for name in ("norm", "up", "down"):
            for kind in ("weight", "bias"):
                stacked = torch.stack([layer.get_parameter(f"{name}.{kind}").detach() for layer in network.layers])
                self.register_parameter(f"{name}_{kind}", nn.Parameter(stacked))
        self.matrix = nn.Parameter(network.head.weight.detach().T.clone())
        self.shift = nn.Parameter(network.head.bias.detach().clone())
        self.count = count

    def forward(self, x: Tensor) -> Tensor:
        for number in range(self.count):
            normed = functional.layer_norm(x, (6,), self.norm_weight[number], self.norm_bias[number])
            inner = torch.sigmoid(normed @ self.up_weight[number].T + self.up_bias[number])
            x = x + inner @ self.down_weight[number].T + self.down_bias[number]
        return x @ self.matrix + self.shift


def compared(order: Sequence[int] = (0, 1, 2), scale: float = 1.0) -> Report:
    return parity.compare(Network(), Network(order, scale), (X,), probe=False)


ORDERS = {
    (2, 1, 0): "layers.0 to layers.2 are applied in reversed order in the candidate",
    (1, 0, 2): "layers.0 and layers.1 are in each other's place in the candidate",
}


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.usefixtures("opaque_candidates")
def test_the_order_of_layers_is_told(order: tuple[int, ...]) -> None:
    (cause,) = compared(order).cells[""].causes
    assert cause.summary == ORDERS[order]
    assert cause.gradients
    assert cause.error < 1e-11


@pytest.mark.usefixtures("opaque_candidates")
def test_layers_that_are_scaled_are_in_their_order() -> None:
    report = compared(scale=0.5)
    assert not report.ok
    assert not any("order" in c.summary or "place" in c.summary for c in report.cells[""].causes)


def test_a_layer_that_is_left_out_is_told() -> None:
    network = Called()
    report = parity.compare(network, Stacked(network, 2), (X,), probe=False)
    summaries = [cause.summary for path in report.failing for cause in report.cells[path].causes]
    assert summaries == ["layers.2 is left out of the candidate"]


def test_stacked_layers_are_the_same() -> None:
    network = Called()
    assert parity.compare(network, Stacked(network, 3), (X,), probe=False).ok
