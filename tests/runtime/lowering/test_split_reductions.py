"""Sums over the first and the last axes take two steps on a GPU; the same result."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from cellbridge.converter import from_torch
from cellbridge.runtime.compiled.executable import lower_values
from cellbridge.runtime.compiled.session import run_model
from cellbridge.runtime.lowering.writing import add_references


class Reduce(torch.nn.Module):
    def __init__(self, name: str, axes: tuple[int, ...], keepdim: bool) -> None:
        super().__init__()
        self.name, self.axes, self.keepdim = name, axes, keepdim

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        reduce: Any = {"sum": torch.sum, "mean": torch.mean}[self.name]
        y: torch.Tensor = reduce(x, self.axes, keepdim=self.keepdim)
        return y


@pytest.mark.parametrize("keepdim", [True, False])
@pytest.mark.parametrize("name", ["sum", "mean"])
@pytest.mark.parametrize(
    ("axes", "steps"),
    [((0, 2, 3), 2), ((0, -1), 2), ((2, 3), 1), ((0, 1), 1), ((0, 2), 1), ((0, 1, 2, 3), 1)],
)
def test_first_and_last_axes_are_reduced_in_turn(name: str, axes: tuple[int, ...], steps: int, keepdim: bool) -> None:
    x = torch.randn(2, 3, 4, 5, generator=torch.Generator().manual_seed(0))
    network = Reduce(name, axes, keepdim)
    program = from_torch(network, (x,))
    on_cpu, lowering = (lower_values(program, program.outputs, [], provider) for provider in ("cpu", "cuda"))
    count = sum(node.op_type.startswith("Reduce") for node in lowering.graph.nodes)
    assert count == steps
    assert sum(node.op_type.startswith("Reduce") for node in on_cpu.graph.nodes) == 1
    model = lowering.model()
    tensors = add_references(model, lowering.initializers())
    (result,) = run_model(model, {model.graph.input[0].name: x.numpy()}, tensors=tensors).values()
    np.testing.assert_allclose(result, network(x).numpy(), rtol=1e-5, atol=1e-6)
