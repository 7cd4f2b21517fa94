"""A single wrong parameter among many: all arrangements of a Cell's parameters together are too many to be tried."""

from __future__ import annotations

import pytest
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
    """Layers applied to the features of a step, those of the next one, and some of both."""

    def __init__(self, depth: int) -> None:
        super().__init__()
        self.first = nn.Linear(3, WIDTH)
        self.messages = nn.ModuleList(nn.Linear(2 * WIDTH + 2, WIDTH) for _ in range(depth))
        self.last = nn.Linear(WIDTH, 4)

    def forward(self, x: torch.Tensor, pairs: torch.Tensor) -> torch.Tensor:
        x = self.first(x)
        for message in self.messages:
            x = torch.tanh(message(torch.cat((x, x.roll(1, 1), pairs), -1)))
        result: torch.Tensor = self.last(x)
        return result


class SplitMessages(nn.Module):
    """The same with a product for each part, of which the first two are exchanged."""

    def __init__(self, network: Messages) -> None:
        super().__init__()
        self.lift, self.out = network.first, network.last
        parts = [layer.weight.detach().split((WIDTH, WIDTH, 2), 1) for layer in network.messages]
        there, here, pair = zip(*parts, strict=True)
        self.here, self.there, self.pair = (nn.ParameterList(x.clone() for x in part) for part in (here, there, pair))
        self.shift = nn.ParameterList(layer.bias.detach().clone() for layer in network.messages)

    def forward(self, x: torch.Tensor, pairs: torch.Tensor) -> torch.Tensor:
        x, linear = self.lift(x), nn.functional.linear
        for here, there, pair, shift in zip(self.here, self.there, self.pair, self.shift, strict=True):
            x = torch.tanh(linear(x, here, shift) + linear(x, there).roll(1, 1) + linear(pairs, pair))
        result: torch.Tensor = self.out(x)
        return result


@pytest.mark.parametrize("depth", [1, 2])
def test_parts_of_a_weight_that_are_exchanged_are_its_parts(depth: int) -> None:
    torch.manual_seed(0)
    network = Messages(depth).eval()
    inputs = (torch.randn(2, STEPS, 3), torch.randn(2, STEPS, 2))
    report = parity.compare(network, SplitMessages(network).eval(), inputs, probe=False)
    wrong = {c.tensor for cell in report.cells.values() for c in cell.failures if c.kind == "parameter"}
    assert wrong == {f"messages.{number}.weight" for number in range(depth)}, str(report)
