"""Recurrent layers and cells: stacked, in both directions, with projections, with dropout between the layers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

from tests.converter.capturing import Each, assert_matches_torch
from tests.converter.test_tables_neural import data

X, H, C = data(6, 2, 4), data(4, 2, 5), data(4, 2, 5) * 2

Case = tuple[Callable[[], nn.Module], tuple[Any, ...]]
LAYERS: dict[str, Case] = {
    "lstm": (lambda: nn.LSTM(4, 5), (X,)),
    "lstm, stacked both ways": (lambda: nn.LSTM(4, 5, num_layers=2, bidirectional=True), (X, (H, C))),
    "lstm, batch first": (lambda: nn.LSTM(4, 5, num_layers=2, batch_first=True, bias=False), (X,)),
    "lstm, projected": (lambda: nn.LSTM(4, 5, num_layers=2, proj_size=3, bidirectional=True), (X,)),
    "lstm, projected without bias": (
        lambda: nn.LSTM(4, 5, proj_size=3, bias=False), (X, (data(1, 2, 3), data(1, 2, 5)))
    ),
    "lstm, no batch": (lambda: nn.LSTM(4, 5), (X[:, 0],)),
    "gru": (lambda: nn.GRU(4, 5), (X, H[:1])),
    "gru, stacked both ways": (lambda: nn.GRU(4, 5, num_layers=2, bidirectional=True, batch_first=True), (X,)),
    "gru without bias": (lambda: nn.GRU(4, 5, bias=False), (X,)),
    "tanh": (lambda: nn.RNN(4, 5, num_layers=2), (X,)),
    "relu": (lambda: nn.RNN(4, 5, nonlinearity="relu", bidirectional=True, num_layers=2), (X, H)),
    "lstm cell": (lambda: nn.LSTMCell(4, 5), (X[0], (H[0], C[0]))),
    "lstm cell without bias": (lambda: nn.LSTMCell(4, 5, bias=False), (X[0],)),
    "gru cell": (lambda: nn.GRUCell(4, 5), (X[0], H[0])),
    "tanh cell": (lambda: nn.RNNCell(4, 5), (X[0], H[0])),
    "relu cell, no batch": (lambda: nn.RNNCell(4, 5, nonlinearity="relu"), (X[0, 0],)),
}  # fmt: skip

DROPPED: dict[str, Case] = {
    "lstm": (lambda: nn.LSTM(4, 5, num_layers=3, dropout=0.3), (X,)),
    "lstm both ways, batch first": (
        lambda: nn.LSTM(4, 5, num_layers=3, dropout=0.3, bidirectional=True, batch_first=True), (X,)
    ),
    "lstm, projected": (lambda: nn.LSTM(4, 5, num_layers=2, dropout=0.3, proj_size=3), (X,)),
    "gru both ways, batch first": (
        lambda: nn.GRU(4, 5, num_layers=2, dropout=0.3, bidirectional=True, batch_first=True), (X,)
    ),
    "tanh": (lambda: nn.RNN(4, 5, num_layers=3, dropout=0.3), (X,)),
    "nothing kept": (lambda: nn.GRU(4, 5, num_layers=2, dropout=1.0), (X,)),
    "nothing dropped": (lambda: nn.GRU(4, 5, num_layers=2, dropout=0.0), (X,)),
}  # fmt: skip


@pytest.mark.parametrize(
    "dtype", [torch.float64, pytest.param(torch.float32, marks=pytest.mark.slow)], ids=["float64", "float32"]
)
def test_agrees_with_torch(dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    modules = {name: make() for name, (make, _) in LAYERS.items()}
    assert_matches_torch(Each(modules), {name: args for name, (_, args) in LAYERS.items()}, dtype=dtype)


# float32 goes by another path in torch (oneDNN) than float64: both must draw as the program does
@pytest.mark.parametrize(
    "dtype", [torch.float64, pytest.param(torch.float32, marks=pytest.mark.slow)], ids=["float64", "float32"]
)
def test_drops_between_layers_as_torch_does(dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    modules = {name: make() for name, (make, _) in DROPPED.items()}
    inputs = {name: args for name, (_, args) in DROPPED.items()}
    program = assert_matches_torch(Each(modules), inputs, train=True, dtype=dtype)
    assert sum(node.op == "bernoulli" for node in program.nodes) == 2 + 2 + 1 + 1 + 2


@pytest.mark.parametrize("sizes", [(6, 3), (1, 1), (9, 2)])
@pytest.mark.parametrize("settings", [{"bidirectional": True, "dropout": 0.3}, {"batch_first": True}], ids=str)
@pytest.mark.parametrize("layer", [nn.LSTM, nn.GRU, nn.RNN])
@pytest.mark.every(18)
def test_length_and_batch_may_vary(layer: type[nn.Module], settings: dict[str, Any], sizes: tuple[int, int]) -> None:
    torch.manual_seed(0)
    module = layer(4, 5, num_layers=2, **settings)
    program = assert_matches_torch(
        module, X, train=True, dynamic_shapes=({0: "first", 1: "second"},), other_args=(data(*sizes, 4),)
    )
    assert all(any(not isinstance(size, int) for size in y.shape[:2]) for y in program.outputs)


@pytest.mark.parametrize("layer", [nn.LSTM, nn.GRU, nn.RNN])
@pytest.mark.every(3)
def test_no_sequences(layer: type[nn.Module]) -> None:
    module = layer(3, 4, num_layers=2, bidirectional=True, batch_first=True)
    empty = (torch.zeros(0, 5, 3),)
    assert_matches_torch(module, torch.randn(2, 5, 3), dynamic_shapes=({0: "batch"},), other_args=empty)
