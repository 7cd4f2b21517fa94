"""Any Cell of a captured program runs alone on what was recorded at its boundary, and gives what was recorded."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from cellbridge.converter import from_torch
from cellbridge.runtime import Program, execute, verify

X = torch.tensor([[0.5, -1.0, 2.0], [3.0, 0.25, -0.5]])


class Model(nn.Module):
    """A module called twice, shared parameters, batch norm, two outputs, an identity."""

    def __init__(self) -> None:
        super().__init__()
        self.block = nn.Sequential(nn.Linear(3, 3), nn.BatchNorm1d(3), nn.Identity())
        self.tied = nn.Linear(3, 3, bias=False)
        self.tied.weight = self.block[0].weight
        self.split = Split()

    def forward(self, x: Tensor) -> Any:
        a, b = self.split(self.block(self.block(x) + 1), scale=x)
        return self.tied(a) * b


class Split(nn.Module):
    def forward(self, x: Tensor, scale: Tensor) -> Any:
        return x[:, :1].exp() * scale, {"b": x * 2}["b"]


@pytest.fixture(scope="module", params=[False, True], ids=["eval", "train"])
def program(request: pytest.FixtureRequest) -> Program:
    torch.manual_seed(0)
    return from_torch(Model(), (X,), train=request.param)


@pytest.mark.every(2)
def test_each_cell_alone_gives_what_was_recorded(program: Program) -> None:
    everything = [value for node in program.nodes for value in node.outputs]
    arrays = execute(program, [X.numpy()], wanted=[*program.inputs, *everything])
    recorded = dict(zip([*program.inputs, *everything], arrays, strict=True))
    for cell in program.cells():
        alone = cell.program
        verify(alone)
        results = execute(alone, [recorded[value] for value in alone.inputs])
        assert results, cell.path
        for value, result in zip(alone.outputs, results, strict=True):
            np.testing.assert_array_equal(result, recorded[value], err_msg=f"{cell.call}: {value}")


@pytest.mark.every(2)
def test_the_tree(program: Program) -> None:
    names = ["(root)", "block", "block.0", "block.1", "block.2"]
    names += ["block@1", "block.0@1", "block.1@1", "block.2@1", "split", "tied"]
    cells = program.cells()
    assert [str(cell.call) for cell in cells] == names
    assert (cells[5].path, cells[5].class_name, cells[5].index) == ("block", "Sequential", 1)
    assert cells[0].nodes == program.nodes
    assert set(cells[5].nodes) >= set(cells[6].nodes)
    assert not set(cells[1].nodes) & set(cells[5].nodes)


def test_parameters_belong_to_the_cells_that_use_them(program: Program) -> None:
    of = {str(cell.call): list(cell.parameters) for cell in program.cells()}
    assert of["block.0"] == of["block.0@1"] == ["block.0.weight", "block.0.bias"]
    assert of["tied"] == ["block.0.weight"], "shared"
    assert of["split"] == []
    assert of["(root)"] == list(program.parameters)


def test_a_cell_takes_and_gives_what_is_marked_at_its_boundary(program: Program) -> None:
    split = next(cell for cell in program.cells() if cell.path == "split").program
    assert (len(split.inputs), len(split.outputs)) == (2, 2)
    result, gradients = split.value_and_grad(X.numpy(), X.numpy())
    np.testing.assert_allclose(result[0], X[:, :1].exp() * X, rtol=1e-6)
    np.testing.assert_allclose(gradients.inputs[1], X[:, :1].exp().expand(2, 3), rtol=1e-6)
