"""Ports that drop the axes of pooled features before the module does, and add them again for a convolution."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from cellbridge import parity
from cellbridge.parity.report.report import Report
from cellbridge.runtime import Tensor, ops
from cellbridge.runtime import nn as cells


class Gated(nn.Module):
    def __init__(self, channels: int, results: int) -> None:
        super().__init__()
        self.conv, self.pool = nn.Conv2d(channels, results, 3, padding=1), nn.AdaptiveAvgPool2d(1)
        self.narrow, self.wide, self.gate = nn.Conv2d(results, 3, 1), nn.Conv2d(3, results, 1), nn.Hardsigmoid()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.conv(x).relu()
        return x * self.gate(self.wide(self.narrow(self.pool(x)).relu()))  # type: ignore[no-any-return]


class Network(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.blocks, self.pool = nn.Sequential(Gated(4, 5), Gated(5, 8)), nn.AdaptiveAvgPool2d(1)
        self.hidden, self.out = nn.Linear(8, 6), nn.Linear(6, 7)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.out(self.hidden(self.pool(self.blocks(x)).flatten(1)).relu())  # type: ignore[no-any-return]


class GatedCell(cells.Cell):
    def __init__(self, channels: int, results: int, gate: cells.Cell) -> None:
        super().__init__()
        self.kernel = cells.Conv2d(channels, results, 3, pad_mode="pad", padding=1, has_bias=True)
        self.first, self.second, self.gate = cells.Dense(results, 3), cells.Dense(3, results), gate

    def construct(self, x: Tensor) -> Tensor:
        x = ops.relu(self.kernel(x))
        shares = self.gate(self.second(ops.relu(self.first(ops.mean(x, (2, 3))))))
        return x * shares.reshape(shares.shape[0], -1, 1, 1)


class NetworkCell(cells.Cell):
    """The hidden layer is a convolution."""

    def __init__(self, fault: bool) -> None:
        super().__init__()
        gates = [cells.Sigmoid() if fault else cells.HSigmoid() for _ in range(2)]
        self.units = cells.SequentialCell([GatedCell(4, 5, gates[0]), GatedCell(5, 8, gates[1])])
        self.head, self.classes = cells.Conv2d(8, 6, 1, has_bias=True), cells.Dense(6, 7)

    def construct(self, x: Tensor) -> Tensor:
        x = ops.mean(self.units(x), (2, 3))
        x = ops.relu(self.head(x.reshape(x.shape[0], -1, 1, 1)))
        return self.classes(x.reshape(x.shape[0], -1))


def compare(*, fault: bool) -> Report:
    """Compare the network with its port, which may have another activation in both gates."""
    torch.manual_seed(0)
    module = Network().eval()
    port = NetworkCell(fault)
    names = [("units.{}.kernel", "blocks.{}.conv"), ("units.{}.first", "blocks.{}.narrow"),
             ("units.{}.second", "blocks.{}.wide")]  # fmt: skip
    pairs = [(own.format(i), source.format(i)) for i in range(2) for own, source in names]
    parameters, state = port.parameters_dict(), module.state_dict()
    for own, source in [*pairs, ("head", "hidden"), ("classes", "out")]:
        for part in ("weight", "bias"):
            parameter = parameters[f"{own}.{part}"]
            parameter.set_data(Tensor(state[f"{source}.{part}"].numpy().reshape(parameter.shape)))
    return parity.compare(module, port, (2 * torch.randn(2, 4, 5, 6),))


def test_pooled_features_are_a_cells_results_before_their_axes_are_dropped() -> None:
    report = compare(fault=False)
    assert report.ok, str(report)
    assert any(c.kind == "output" for c in report.cells["pool"].comparisons)


@pytest.mark.causes
def test_a_fault_in_two_gates_is_placed_in_both() -> None:
    report = compare(fault=True)
    assert set(report.failing) == {"blocks.0.gate", "blocks.1.gate"}, str(report)
    causes = [report.cells[path].causes[0].summary for path in report.failing]
    assert causes == ["sigmoid is computed in the candidate, hardsigmoid in the reference"] * 2
