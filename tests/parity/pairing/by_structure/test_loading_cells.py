"""Weights of a torch module brought into a Cell of the runtime, which has other names, layouts and numbers."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn as torch_nn

from cellbridge import parity
from cellbridge.runtime import Parameter, Tensor, nn, ops
from cellbridge.runtime.errors import UsageError
from tests.parity.pairing.by_structure.networks import QUICKLY, drawn

SIZE = 6


class Reference(torch_nn.Module):
    """A convolution with its norm, and two linear layers."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = torch_nn.Sequential(torch_nn.Conv2d(3, SIZE, 3, padding=1), torch_nn.BatchNorm2d(SIZE))
        self.both, self.last = torch_nn.Linear(SIZE, 2 * SIZE), torch_nn.Linear(SIZE, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        a, b = self.both(torch.relu(self.stem(x)).mean((2, 3))).chunk(2, -1)
        result: torch.Tensor = self.last(a * b.sigmoid())
        return result


class Port(nn.Cell):
    """The halves of a product apart, and a matrix without a layer."""

    def __init__(self, scale: float = 1.0) -> None:
        super().__init__()
        self.scale = scale
        self.filters = nn.Conv2d(3, SIZE, 3, pad_mode="pad", padding=1, has_bias=True)
        self.normal = nn.BatchNorm2d(SIZE, eps=1e-5)
        self.gate, self.value = nn.Dense(SIZE, SIZE), nn.Dense(SIZE, SIZE)
        self.matrix = Parameter(Tensor(np.zeros((SIZE, 4), np.float32)), name="matrix")
        self.vector = Parameter(Tensor(np.zeros(4, np.float32)), name="vector")

    def construct(self, x: Tensor) -> Tensor:
        y = ops.relu(self.normal(self.filters(x))).mean((2, 3))
        return ops.matmul(self.value(y) * ops.sigmoid(self.scale * self.gate(y)), self.matrix) + self.vector


def with_other_numbers(cell: nn.Cell) -> nn.Cell:
    generator = np.random.default_rng(1)
    for _, parameter in cell.parameters_and_names():
        parameter.set_data(Tensor(generator.uniform(0.1, 0.6, parameter.shape).astype(np.float32)))
    cell.set_train(False)
    return cell


def numbers(cell: nn.Cell) -> dict[str, np.ndarray]:
    return {name: parameter.asnumpy().copy() for name, parameter in cell.parameters_and_names()}


def x() -> tuple[torch.Tensor, ...]:
    return (torch.randn(2, 3, 5, 5, generator=torch.Generator().manual_seed(2)),)


def test_a_cell_with_other_numbers_gets_the_weights_of_the_module_for_the_comparison(tmp_path: Path) -> None:
    reference, cell = drawn(Reference(), 0), with_other_numbers(Port())
    before = numbers(cell)
    path = tmp_path / "map.toml"
    report = parity.compare(reference, cell, x(), load_weights=True, write_map=path, **QUICKLY)
    assert report.ok, report
    assert any(note.startswith("10 of 10 parameters were loaded by structure") for note in report.notes)
    assert all(np.array_equal(array, before[name]) for name, array in numbers(cell).items())
    text = path.read_text()
    assert '"stem.1.running_var" = "normal.moving_variance"' in text
    assert '"gate.weight" = { from = ["both.weight"], rows = [[6, 12]] }' in text
    assert parity.compare(reference, cell, x(), load_weights=path, **QUICKLY).ok


def test_a_fault_in_the_code_of_a_cell_is_found_with_the_weights_loaded() -> None:
    report = parity.compare(drawn(Reference(), 0), with_other_numbers(Port(0.5)), x(), load_weights=True, **QUICKLY)
    assert report.failed


def test_a_file_of_another_framework_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="into a torch module, a Cell or a network in JAX, given Reference and str"):
        parity.compare(drawn(Reference(), 0), str(tmp_path / "port.onnx"), x(), load_weights=True)
