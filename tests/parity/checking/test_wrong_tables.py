"""A single wrong parameter among many: all arrangements of a Cell's parameters together are too many to be tried."""

from __future__ import annotations

import torch
from torch import nn

from cellbridge import parity

WIDTH, STEPS, DEPTH = 6, 5, 4


class Block(nn.Module):
    """Adds a table, of which the rows are steps, and applies square weights of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Parameter(torch.randn(STEPS, WIDTH))
        self.weights = nn.ParameterList(torch.randn(WIDTH, WIDTH) for _ in range(DEPTH))
        self.biases = nn.ParameterList(torch.randn(WIDTH) for _ in range(DEPTH))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x + self.table
        for weight, bias in zip(self.weights, self.biases, strict=True):
            x = torch.tanh(nn.functional.linear(x, weight, bias))
        return x


class Network(nn.Module):
    """A block between two layers."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(3, WIDTH)
        self.block = Block()
        self.last = nn.Linear(WIDTH, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = self.last(self.block(self.first(x)))
        return result


class Port(nn.Module):
    """The same with transposed weights, of which the last comes first, and the table's rows in reverse."""

    def __init__(self, network: Network) -> None:
        super().__init__()
        block = network.block
        kernels = [network.first.weight, *block.weights, network.last.weight]
        biases = [network.first.bias, *block.biases, network.last.bias]
        self.kernels = nn.ParameterList(weight.detach().T.contiguous() for weight in kernels[::-1])
        self.biases = nn.ParameterList(bias.detach().clone() for bias in biases[::-1])
        self.positions = nn.Parameter(network.block.table.detach().flip(0))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        layers = list(zip(self.kernels, self.biases, strict=True))[::-1]
        x = x @ layers[0][0] + layers[0][1] + self.positions
        for kernel, bias in layers[1:-1]:
            x = torch.tanh(x @ kernel + bias)
        return x @ layers[-1][0] + layers[-1][1]


def test_a_single_wrong_parameter_is_found_among_many() -> None:
    torch.manual_seed(0)
    network = Network().eval()
    report = parity.compare(network, Port(network).eval(), torch.randn(2, STEPS, 3), probe=False)
    assert report.failing == ["block"], str(report)
    wrong = {c.tensor for c in report.cells["block"].failures if c.kind == "parameter"}
    assert wrong == {"block.table"}, str(report)


class Messages(nn.Module):
    """A layer applied to the features of a step, those of the next one, and some of both."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(3, WIDTH)
        self.message = nn.Sequential(nn.Linear(2 * WIDTH + 2, WIDTH), nn.Tanh(), nn.Linear(WIDTH, 4))

    def forward(self, x: torch.Tensor, pairs: torch.Tensor) -> torch.Tensor:
        x = self.first(x)
        result: torch.Tensor = self.message(torch.cat((x, x.roll(1, 1), pairs), -1))
        return result


class SplitMessages(nn.Module):
    """The same with a layer for each part, of which the first two are exchanged."""

    def __init__(self, network: Messages) -> None:
        super().__init__()
        self.lift, self.out = network.first, network.message[2]
        there, here, pair = network.message[0].weight.detach().split((WIDTH, WIDTH, 2), 1)
        self.here, self.there, self.pair = (nn.Parameter(part.clone()) for part in (here, there, pair))
        self.shift = nn.Parameter(network.message[0].bias.detach().clone())

    def forward(self, x: torch.Tensor, pairs: torch.Tensor) -> torch.Tensor:
        x = self.lift(x)
        linear = nn.functional.linear
        message = linear(x, self.here, self.shift) + linear(x, self.there).roll(1, 1) + linear(pairs, self.pair)
        result: torch.Tensor = self.out(torch.tanh(message))
        return result


def test_parts_of_a_weight_that_are_exchanged_are_its_parts() -> None:
    torch.manual_seed(0)
    network = Messages().eval()
    inputs = (torch.randn(2, STEPS, 3), torch.randn(2, STEPS, 2))
    report = parity.compare(network, SplitMessages(network).eval(), inputs, probe=False)
    wrong = {c.tensor for cell in report.cells.values() for c in cell.failures if c.kind == "parameter"}
    assert wrong == {"message.0.weight"}, str(report)
