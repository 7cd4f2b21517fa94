"""Cells that return what an inner Cell returned twice, and the values before it."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from cellbridge import parity


class Layer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(6, 6)

    def forward(self, x: Tensor) -> Tensor:
        return x + torch.tanh(self.linear(x))


class Encoder(nn.Module):
    """As in transformers: the last state is the last of all states, too."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(Layer() for _ in range(2))

    def forward(self, x: Tensor) -> dict[str, Tensor | list[Tensor]]:
        states = [x]
        for layer in self.layers:
            states.append(layer(states[-1]))
        return {"last": states[-1], "states": states}


class Network(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.encoder = Encoder()
        self.head = nn.Linear(6, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.encoder(2 * x)["last"])  # type: ignore[no-any-return]


class Port(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weights = nn.ParameterList(torch.empty(6, 6) for _ in range(2))
        self.biases = nn.ParameterList(torch.empty(6) for _ in range(2))
        self.out = nn.Linear(6, 3)
        self.scale = 1.0

    def forward(self, inputs: Tensor) -> Tensor:
        x = inputs * 2
        for weight, bias in zip(self.weights, self.biases, strict=True):
            x = x + self.scale * torch.tanh(x @ weight + bias)
        return self.out(x)  # type: ignore[no-any-return]


def _pair() -> tuple[Network, Port]:
    torch.manual_seed(0)
    network, port = Network(), Port()
    with torch.no_grad():
        for layer, weight, bias in zip(network.encoder.layers, port.weights, port.biases, strict=True):
            weight.copy_(layer.linear.weight.T)
            bias.copy_(layer.linear.bias)
        port.out.load_state_dict(network.head.state_dict())
    return network, port


def test_names_pair_results_of_which_the_port_has_a_part() -> None:
    network, port = _pair()
    report = parity.compare(network, port, (torch.randn(4, 6),), probe=False)
    assert report.ok
    assert {c.tensor for c in report.cells["encoder"].comparisons if c.kind == "output"} >= {
        "['last']",
        "['states'][1]",
    }


def test_a_fault_inside_is_placed_in_the_layers() -> None:
    network, port = _pair()
    port.scale = 0.5
    report = parity.compare(network, port, (torch.randn(4, 6),), probe=False)
    assert report.failing == ["encoder.layers.0", "encoder.layers.1"]
