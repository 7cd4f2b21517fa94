"""Ports to Cells of other names, which keep their own weights if the module's can't be carried into them."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn as torch_nn

from cellbridge import parity
from cellbridge.parity.checking.cell_pairs import share_of_weights
from cellbridge.parity.sides.eager import Eager
from cellbridge.parity.weights.mapping import own_weights
from cellbridge.runtime import Parameter, Tensor, nn, ops
from cellbridge.runtime.errors import UsageError
from tests.parity.checking.feed_forward import CELLS, EPS, Network, Talkative, arrays, make


class Port(nn.Cell):
    """Has no layers, and adds a bias after the residual."""

    def __init__(self, weights: dict[str, Any], fault: str = "") -> None:
        super().__init__()
        self.fault = fault
        for name, array in weights.items():
            setattr(self, name, Parameter(Tensor(np.array(array)), name=name))

    def construct(self, ids: Tensor) -> Tensor:
        x = self.table[ids]
        y = x - x.mean(-1, keep_dims=True)
        y = y / ops.sqrt((y * y).mean(-1, keep_dims=True) + EPS) * self.gain + self.shift
        y = ops.gelu(ops.matmul(y, self.wide) + self.wide_bias, approximate="tanh" if self.fault == "gelu" else "none")
        x = x + ops.matmul(y, self.narrow) + self.narrow_bias
        return ops.matmul(x, self.out) + self.out_bias


def test_a_port_of_other_names_is_compared_cell_by_cell_with_its_own_weights() -> None:
    module, inputs = make()
    report = parity.compare(module, Port(arrays(module)), inputs)
    assert report.ok, str(report)
    assert {path for path, cell in report.cells.items() if any(c.kind == "output" for c in cell.comparisons)} >= CELLS
    compared = {c.tensor for cell in report.cells.values() for c in cell.comparisons if c.kind == "parameter gradient"}
    assert compared == dict(module.named_parameters()).keys()
    assert any("the Cell kept its own weights, since" in note for note in report.notes)


def test_results_that_only_the_module_returns_are_said() -> None:
    module, inputs = make(Talkative)
    report = parity.compare(module, Port(arrays(module)), inputs)
    assert report.ok, str(report)
    assert report.conditions.remarks == ["in 1 of 3 results"]
    assert [difference.kind for difference in report.structure] == ["other result"]
    assert not parity.compare(module, Port(arrays(module)), inputs, strict=True).ok


@pytest.mark.causes
@pytest.mark.parametrize(
    ("fault", "cell", "words"),
    [
        ("gelu", "block.activation", "approximate is 'tanh' in the candidate"),
        ("transposed", "block.up", r"block.up.weight is (read )?transposed in the candidate"),
    ],
)
def test_a_fault_is_placed_and_named(fault: str, cell: str, words: str) -> None:
    module, inputs = make()
    report = parity.compare(module, Port(arrays(module, fault), fault), inputs)
    assert report.failing == [cell], str(report)
    assert any(re.match(words, cause.summary) for cause in report.cells[cell].causes), str(report)


def test_other_weights_are_asked_for() -> None:
    module, inputs = make()
    with pytest.raises(UsageError, match="it isn't clear which Parameters of the Cell correspond"):
        parity.compare(module, Port(arrays(make_other())), inputs)


def make_other() -> Network:
    module, _ = make()
    with torch.no_grad():
        for parameter in module.parameters():
            parameter += 1
    return module


def test_what_can_not_be_captured_is_asked_for_with_the_reason() -> None:
    module, inputs = make()

    class Deciding(Port):
        def construct(self, ids: Tensor) -> Tensor:
            x = super().construct(ids)
            return x if float(x.sum().asnumpy()) > -1e9 else -x

    with pytest.raises(UsageError) as raised:
        parity.compare(module, Deciding(arrays(module)), inputs)
    assert "it isn't clear which Parameters" in str(raised.value)
    assert "Cells were paired by names, not by values: " in str(raised.value)


def test_gradients_that_the_program_lacks_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    module, inputs = make()
    run = Eager.run

    def halved(*args: Any) -> Any:
        outputs, of_inputs, of_parameters = run(*args)
        return outputs, of_inputs, [None if g is None else g / 2 for g in of_parameters]

    monkeypatch.setattr(Eager, "run", halved)
    with pytest.raises(UsageError, match=r"the gradient of \w+ in the cell isn't that"):
        parity.compare(module, Port(arrays(module)), inputs)


class Layers(nn.Cell):
    """Has torch's names; its weights are others."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Dense(4, 6), nn.Dense(6, 3)

    def construct(self, x: Tensor) -> Tensor:
        return self.second(ops.relu(self.first(x)))


class TorchLayers(torch_nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = torch_nn.Linear(4, 6), torch_nn.Linear(6, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.second(self.first(x).relu())  # type: ignore[no-any-return]


def test_weights_that_can_be_carried_are_carried() -> None:
    module = TorchLayers()
    report = parity.compare(module, Layers(), (torch.randn(2, 4),))
    assert report.ok
    assert {carried.source for carried in report.correspondence.parameters} == dict(module.named_parameters()).keys()


def test_the_share_of_weights() -> None:
    module, _ = make()
    assert share_of_weights(module, Port(arrays(module))) == 1
    assert share_of_weights(module, Port(arrays(module, "transposed"))) == 1
    assert share_of_weights(module, Port(arrays(make_other()))) == 0
    assert share_of_weights(module, Port(arrays(module) | {"table": np.zeros((7, 6), np.float32)})) == pytest.approx(
        8 / 9
    )
    norm = torch_nn.LayerNorm(4)  # numbers that any other norm has, too
    assert share_of_weights(norm, nn.LayerNorm((4,))) == 0


def test_own_weights_have_their_own_names_or_none() -> None:
    cell = Layers()
    named, unnamed = own_weights(cell, named=True), own_weights(cell, named=False)
    assert named.trainable.keys() == named.arrays.keys() == dict(cell.parameters_and_names()).keys()
    for entry, same in zip(named.unique(), unnamed.unique(), strict=True):
        np.testing.assert_array_equal(named.value(entry), entry.parameter.asnumpy())
        np.testing.assert_array_equal(unnamed.value(same), entry.parameter.asnumpy())
    gradients = {id(parameter): parameter.asnumpy() + 1 for parameter in cell.get_parameters()}
    assert named.to_module(gradients).keys() == named.arrays.keys()
    assert unnamed.to_module(gradients) == {}
