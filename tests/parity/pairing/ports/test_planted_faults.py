"""Faults planted in right ports: each is found in the wrong Cell and in no other."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import nn as tnn

from cellbridge import parity
from cellbridge.parity.report.report import Report
from cellbridge.runtime import Parameter, Tensor, nn, ops
from cellbridge.runtime.errors import ParityError
from tests.parity.pairing.ports.faults import BACKWARD, FAULTS
from tests.parity.pairing.ports.ports import made


def compared(name: str) -> Report:
    fault = FAULTS[name]
    module, cell, args = made(fault.port)
    fault.change(cell)
    return parity.compare(module, cell, args, grads=True, train=fault.train)


@pytest.mark.parametrize("name", FAULTS)
@pytest.mark.every(30)
def test_fault_is_found_in_its_cell(name: str) -> None:
    report = compared(name)
    assert tuple(report.failing) == FAULTS[name].at
    assert not report.ok


@pytest.mark.parametrize("name", BACKWARD)
@pytest.mark.every(2)
def test_wrong_backward_by_hand_fails_in_gradients_only(name: str) -> None:
    report = compared(name)
    (path,) = report.failing
    assert {c.kind for c in report.cells[path].failures} == {"input gradient"}
    module, cell, args = made(FAULTS[name].port)
    FAULTS[name].change(cell)
    assert parity.compare(module, cell, args, grads=False).ok


@pytest.mark.parametrize("name", ["momentum from the other end", "keep_prob for p", "use_batch_statistics off"])
@pytest.mark.every(3)
def test_faults_of_train_mode_show_there_only(name: str) -> None:
    fault = FAULTS[name]
    module, cell, args = made(fault.port)
    fault.change(cell)
    assert parity.compare(module, cell, args, train=False).ok


class TorchDeep(tnn.Module):
    def __init__(self, depth: int) -> None:
        super().__init__()
        self.layers = tnn.ModuleList(tnn.Sequential(tnn.Linear(6, 6), tnn.LayerNorm(6)) for _ in range(depth))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            x = torch.tanh(layer(x)) + x
        return x


class Deep(nn.Cell):
    def __init__(self, depth: int, wrong: dict[int, float]) -> None:
        super().__init__()
        self.layers = nn.CellList(
            [nn.SequentialCell(nn.Dense(6, 6), nn.LayerNorm((6,), epsilon=wrong.get(i, 1e-5))) for i in range(depth)]
        )

    def construct(self, x: Tensor) -> Tensor:
        for layer in self.layers:
            x = ops.tanh(layer(x)) + x
        return x


@pytest.mark.slow
@pytest.mark.parametrize("wrong", [(0,), (2, 9, 10), (7,), (15,)])
@pytest.mark.every(4)
def test_in_a_deep_network_the_cells_at_fault_alone_fail_isolated(wrong: tuple[int, ...]) -> None:
    torch.manual_seed(0)
    report = parity.compare(TorchDeep(16), Deep(16, dict.fromkeys(wrong, 1e-4)), torch.randn(3, 6))
    assert report.failing == [f"layers.{i}.1" for i in wrong]
    isolated = {path for path, cell in report.cells.items() if any(c.feeding == "isolated" for c in cell.failures)}
    assert isolated == set(report.failing)
    assert any(c.feeding == "end to end" for c in report.cells[""].failures)


class TorchSquare(tnn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = tnn.Parameter(torch.randn(4, 4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x @ self.weight


class Square(nn.Cell):
    """`transposed`: the weight is used as if it were stored the other way."""

    def __init__(self, transposed: bool) -> None:
        super().__init__()
        self.weight = Parameter(Tensor(np.zeros((4, 4), np.float32)))
        self.transposed = transposed

    def construct(self, x: Tensor) -> Tensor:
        return ops.matmul(x, self.weight.T if self.transposed else self.weight)


def test_a_square_weight_is_not_turned_round_to_make_it_fit() -> None:
    torch.manual_seed(0)
    module, x = TorchSquare(), torch.randn(3, 4)
    assert parity.compare(module, Square(False), x).ok
    report = parity.compare(module, Square(True), x)
    assert report.failing == [""]
    assert any("square" in line and "'transpose'" in line for line in report.cells[""].explanations)
    assert parity.compare(module, Square(True), x, weights={"weight": ("weight", "transpose")}).ok


class TorchTied(tnn.Module):
    def __init__(self, tied: bool) -> None:
        super().__init__()
        self.embedding, self.head = tnn.Embedding(7, 4), tnn.Linear(4, 7, bias=False)
        if tied:
            self.head.weight = self.embedding.weight

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        return self.head(torch.tanh(self.embedding(ids)))


class Tied(nn.Cell):
    def __init__(self, tied: bool) -> None:
        super().__init__()
        self.embedding, self.head = nn.Embedding(7, 4), nn.Dense(4, 7, has_bias=False)
        if tied:
            self.head.weight = self.embedding.embedding_table

    def construct(self, ids: Tensor) -> Tensor:
        return self.head(ops.tanh(self.embedding(ids)))


@pytest.mark.parametrize("reference_tied", [True, False])
@pytest.mark.parametrize("port_tied", [True, False])
def test_weights_tied_on_one_side_only(reference_tied: bool, port_tied: bool) -> None:
    torch.manual_seed(0)
    report = parity.compare(TorchTied(reference_tied), Tied(port_tied), torch.tensor([[1, 5, 2]]))
    assert report.ok == (reference_tied == port_tied)
    if reference_tied and not port_tied:
        reasons = [c.reason for cell in report.cells.values() for c in cell.failures if c.kind == "parameter"]
        assert any("shared" in reason and "separate" in reason for reason in reasons)


@pytest.mark.causes
def test_the_error_of_assert_parity_names_the_cell_and_the_cause() -> None:
    module, cell, args = made("convnext")
    cell.act = nn.GELU()
    with pytest.raises(ParityError) as raised:
        parity.assert_parity(module, cell, args, grads=True)
    text = str(raised.value)
    assert "Parity fails in 1 Cell: act" in text
    assert "in the APIs: GELU: approximate" in text
    too_long = [line for line in text.splitlines() if len(line) > 80]
    assert all(
        "test_planted_faults.py::" in line and len(line.split()) == 1 for line in too_long
    )  # of the command line


def put_into(cell: Any, path: str) -> Any:
    return dict(cell.cells_and_names())[path]


def test_one_element_of_a_weight_used_wrongly() -> None:
    module, cell, args = made("encoder")
    inner = put_into(cell, "output")
    construct = inner.construct
    mask = np.ones((8, 16), np.float32)
    mask[3, 5] = 1.001
    inner.construct = lambda x: construct(x) + ops.matmul(x, ((Tensor(mask) - 1) * inner.weight).T)
    report = parity.compare(module, cell, args)
    assert report.failing == ["output"]


class TorchGate(tnn.Module):
    """A branch that is closed at first."""

    def __init__(self) -> None:
        super().__init__()
        self.fc, self.norm = tnn.Linear(3, 3), tnn.LayerNorm(3)
        self.gate = tnn.Parameter(torch.zeros(1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.gate * self.norm(self.fc(x))


class Gate(nn.Cell):
    def __init__(self, epsilon: float) -> None:
        super().__init__()
        self.fc, self.norm = nn.Dense(3, 3), nn.LayerNorm((3,), epsilon=epsilon)
        self.gate = Parameter(Tensor(np.ones(1, np.float32)))

    def construct(self, x: Tensor) -> Tensor:
        return x + self.gate * self.norm(self.fc(x))


def test_a_fault_that_does_not_reach_the_output_is_found() -> None:
    x = torch.randn(4, 3)
    assert parity.compare(TorchGate(), Gate(1e-5), x).ok
    assert parity.compare(TorchGate(), Gate(1e-3), x).failing == ["norm"]


LAYERS: dict[str, tuple[tnn.Module, nn.Cell, nn.Cell, torch.Tensor]] = {
    "ceil_mode": (
        tnn.MaxPool2d(2, 2, ceil_mode=True),
        nn.MaxPool2d(2, 2, pad_mode="pad", ceil_mode=True),
        nn.MaxPool2d(2, 2),
        torch.randn(1, 2, 5, 5),
    ),
    "axes of LayerNorm": (
        tnn.LayerNorm([4, 5], elementwise_affine=False),
        nn.LayerNorm((4, 5), begin_norm_axis=1, begin_params_axis=1, epsilon=1e-5),
        nn.LayerNorm((5,), epsilon=1e-5),
        torch.randn(3, 4, 5),
    ),
    "count_include_pad": (
        tnn.AvgPool2d(3, 1, padding=1),
        nn.AvgPool2d(3, 1, pad_mode="pad", padding=1),
        nn.AvgPool2d(3, 1, pad_mode="same"),
        torch.randn(1, 2, 5, 5),
    ),
    "direction of a GRU": (
        tnn.GRU(3, 4, bidirectional=True),
        nn.GRU(3, 4, bidirectional=True),
        nn.GRU(3, 4),
        torch.randn(2, 3, 3),
    ),
}


@pytest.mark.parametrize("name", LAYERS)
def test_layers_alone(name: str) -> None:
    module, right, wrong, x = LAYERS[name]
    frozen = [p for cell in (right, wrong) for p in cell.get_parameters()] if "LayerNorm" in name else []
    for parameter in frozen:
        parameter.requires_grad = False  # the module has none
    assert parity.compare(module, right, x).ok
    assert parity.compare(module, wrong, x).failing == [""]


class TorchLoss(tnn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.fc, self.loss = tnn.Linear(3, 4), tnn.CrossEntropyLoss()

    def forward(self, x: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        return self.loss(self.fc(x), labels)


class Loss(nn.Cell):
    def __init__(self, loss: nn.Cell) -> None:
        super().__init__()
        self.fc, self.loss = nn.Dense(3, 4), loss

    def construct(self, x: Tensor, labels: Tensor) -> Tensor:
        return self.loss(self.fc(x), labels)


@pytest.mark.parametrize(
    ("loss", "failing"),
    [
        (nn.CrossEntropyLoss(), []),
        (nn.SoftmaxCrossEntropyWithLogits(sparse=True, reduction="mean"), []),
        (nn.CrossEntropyLoss(reduction="sum"), ["loss"]),
        (nn.SoftmaxCrossEntropyWithLogits(sparse=True), ["loss"]),
    ],
)
def test_reduction_of_a_loss(loss: nn.Cell, failing: list[str]) -> None:
    args = torch.randn(5, 3), torch.tensor([0, 1, 3, 2, 0])
    assert parity.compare(TorchLoss(), Loss(loss), args).failing == failing


class TorchRecurrent(tnn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.rnn, self.fc = tnn.LSTM(4, 5, batch_first=True), tnn.Linear(5, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.fc(self.rnn(x)[1][0][-1])


class Recurrent(nn.Cell):
    def __init__(self, memory: bool) -> None:
        super().__init__()
        self.rnn, self.fc = nn.LSTM(4, 5, batch_first=True), nn.Dense(5, 3)
        self.memory = memory

    def construct(self, x: Tensor) -> Tensor:
        _, (h, c) = self.rnn(x)
        return self.fc((c if self.memory else h)[-1])


def test_a_layer_is_innocent_of_which_of_its_outputs_is_read() -> None:
    args = (torch.randn(2, 3, 4),)
    assert parity.compare(TorchRecurrent(), Recurrent(memory=False), args).ok
    assert parity.compare(TorchRecurrent(), Recurrent(memory=True), args).failing == [""]
