"""A program that is made a Cell is traced to the same program: nodes, Cells, boundaries, sources, stored tensors."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn as torch_nn

import cellbridge.runtime as ms
from cellbridge.converter import from_torch
from cellbridge.runtime import Tensor, nn
from cellbridge.runtime.graph import trace
from cellbridge.runtime.ir.dims import symbol
from cellbridge.runtime.ir.program import Program
from cellbridge.runtime.ir.types import Value
from tests.parity.models import MODELS, X


def described(program: Program) -> list[Any]:
    """All of a program but the names of its values, and names of parameters by Cells that are never called."""
    numbers: dict[Value, int] = {}
    stored: dict[Value, Any] = {c.value: (c.data.tobytes(), str(c.data.dtype), c.value.type) for c in program.constants}
    stored |= {p.value: name for name, p in program.parameters.items()}
    stored |= {b.value: name for name, b in program.buffers.items()}
    called = {call.path for call in program.calls}

    def shown(value: Value | None) -> Any:
        return None if value is None else stored.get(value) or (numbers.setdefault(value, len(numbers)), value.type)

    return [
        list(map(shown, program.inputs)),
        *[
            (n.op, list(map(shown, n.inputs)), dict(n.attributes), list(map(shown, n.outputs)), n.cell, n.source)
            for n in program.nodes
        ],
        list(map(shown, program.outputs)),
        [
            (name, p.value.type, p.trainable, [a for a in p.aliases if a.rpartition(".")[0] in called])
            for name, p in program.parameters.items()
        ],
        [(name, b.value.type, shown(b.update)) for name, b in program.buffers.items()],
        [program.calls, program.arguments, program.train],
    ]


def retraced(program: Program, *args: torch.Tensor, **settings: Any) -> Program:
    return trace(nn.GraphCell(program), tuple(Tensor(x.numpy()) for x in args), **settings).program


@pytest.mark.parametrize("train", [False, True])
@pytest.mark.parametrize("name", MODELS)
@pytest.mark.every(12)
def test_it_is_the_same_program(name: str, train: bool) -> None:
    module, args = MODELS[name]()
    program = from_torch(module, args, train=train)
    assert described(retraced(program, *args)) == described(program)


def test_sizes_stay_symbolic() -> None:
    class Head(torch_nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.norm = torch_nn.BatchNorm1d(6)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.norm(x).repeat(2, 1)[: x.shape[0] + 1]

    program = from_torch(Head(), (X,), dynamic_shapes=({0: "batch"},), train=True)
    retraced_program = retraced(program, X, dynamic_shapes=({0: "n"},))
    assert retraced_program.outputs[0].shape == (symbol("n") + 1, 6)
    assert len(retraced_program.nodes) == len(program.nodes)
    np.testing.assert_array_equal(retraced_program(X.numpy()[:2]), program(X.numpy()[:2]))


def test_sizes_that_values_decide_stay_so() -> None:
    class Found(torch_nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x[x > 0] * 2 + torch.nonzero(x[0]).sum()

    program = from_torch(Found(), (X,))
    retraced_program = retraced(program, X)
    assert described(retraced_program)[1:-1] == described(program)[1:-1]
    for x in (X, -X):
        np.testing.assert_array_equal(retraced_program(x), program(x))


def test_a_cell_in_its_place_becomes_part_of_the_program() -> None:
    class Net(torch_nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.head = torch_nn.Sequential(torch_nn.Linear(6, 3), torch_nn.ReLU())

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.head(x) + 1

    class Twice(nn.Cell):
        def construct(self, x: Any) -> Any:
            return x * 2

    cell = nn.GraphCell(from_torch(Net(), (X,)))
    cell.head._cells["1"] = Twice()
    program = trace(cell, (Tensor(X.numpy()),)).program
    assert [(call.path, call.class_name) for call in program.calls] == [
        ("", "Net"), ("head", "Sequential"), ("head.0", "Linear"), ("head.1", "Twice"),
    ]  # fmt: skip
    np.testing.assert_array_equal(program(X.numpy()), cell(Tensor(X.numpy())).asnumpy())


def test_a_step_of_training_of_a_captured_network() -> None:
    module = torch_nn.Sequential(torch_nn.Linear(6, 5), torch_nn.BatchNorm1d(5), torch_nn.Linear(5, 2))
    cell = nn.GraphCell(from_torch(module, (X,), train=True))
    loss = nn.SoftmaxCrossEntropyWithLogits(sparse=True, reduction="mean")
    step = nn.TrainOneStepCell(nn.WithLossCell(cell, loss), nn.Momentum(cell.trainable_params(), 0.1, 0.9)).set_train()
    labels = Tensor(np.array([0, 1, 1, 0], np.int32))
    program = trace(step, (Tensor(X.numpy()), labels)).program
    assert "network._backbone.1.running_mean" in program.updates
    assert ("network._backbone.0", "Linear") in [(call.path, call.class_name) for call in program.calls]
    arrays = ms.execute(program, [X.numpy(), labels.asnumpy()], wanted=list(program.updates.values()))
    step(Tensor(X.numpy()), labels)
    live = {name: parameter.asnumpy() for name, parameter in step.parameters_and_names()}
    for name, array in zip(program.updates, arrays, strict=True):
        if name in live:
            np.testing.assert_allclose(array, live[name], rtol=1e-5, atol=1e-7)


def test_a_program_that_differs_is_noticed() -> None:
    program = from_torch(torch_nn.Sequential(torch_nn.Linear(6, 5), torch_nn.GELU()), (X,))
    nodes = list(program.nodes)
    place = next(i for i, node in enumerate(nodes) if node.op == "gelu")
    for change in ({"cell": 0}, {"attributes": {"approximate": "tanh"}}, {"source": None}):
        changed = program.replace(nodes=(*nodes[:place], replace(nodes[place], **change), *nodes[place + 1 :]))
        assert described(changed) != described(program)
