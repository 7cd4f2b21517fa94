"""Recurrent layers and cells: against torch's modules, names, lengths of sequences, states, dropout, errors."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

import cellbridge.runtime as ms
from cellbridge.runtime import Tensor, nn
from tests.runtime.against_torch import assert_as_torch, assert_cell_as_module, close, flat, normal

LAYERS: Any = {"LSTM": (nn.LSTM, torch.nn.LSTM), "GRU": (nn.GRU, torch.nn.GRU), "RNN": (nn.RNN, torch.nn.RNN)}
CELLS: Any = {
    "LSTM": (nn.LSTMCell, torch.nn.LSTMCell),
    "GRU": (nn.GRUCell, torch.nn.GRUCell),
    "RNN": (nn.RNNCell, torch.nn.RNNCell),
}
DOUBLE: dict[str, Any] = {"dtype": torch.float64}


def pair(name: str, *sizes: int, **options: Any) -> tuple[nn.Cell, torch.nn.Module]:
    """The layer and torch's, with the same values by name."""
    cell_type, module_type = LAYERS[name]
    names = {"has_bias": "bias"}
    module = module_type(*sizes, **{names.get(key, key): value for key, value in options.items()}, **DOUBLE)
    cell = cell_type(*sizes, dtype=ms.float64, **options)
    for parameter in cell.get_parameters():
        parameter.set_data(Tensor(getattr(module, parameter.name).detach().numpy()))
    return cell, module


@pytest.mark.parametrize("name", LAYERS)
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"num_layers": 2, "has_bias": False},
        {"bidirectional": True, "batch_first": True},
        {"num_layers": 3, "bidirectional": True},
    ],
    ids=str,
)
def test_layers_are_torch_s(name: str, options: dict[str, Any]) -> None:
    cell, module = pair(name, 3, 4, **options)
    x = normal(5, 2, 3)
    assert_as_torch(cell, module, x)
    rows = options.get("num_layers", 1) * (2 if options.get("bidirectional") else 1)
    batch = 5 if options.get("batch_first") else 2
    h, c = normal(rows, batch, 4, seed=1), normal(rows, batch, 4, seed=2)
    if name == "LSTM":
        assert_as_torch(lambda x, h, c: cell(x, (h, c)), lambda x, h, c: module(x, (h, c)), x, h, c)
    else:
        assert_as_torch(cell, module, x, h)


@pytest.mark.parametrize("name", LAYERS)
def test_gradients_of_the_weights(name: str) -> None:
    cell, module = pair(name, 3, 2, bidirectional=True)
    x = normal(4, 2, 3)
    total = sum(y.square().sum() for y in flat(module(torch.from_numpy(x))))
    parameters = cell.trainable_params()
    expected = torch.autograd.grad(total, [getattr(module, p.name) for p in parameters])
    actual = ms.grad(lambda x: sum((y * y).sum() for y in flat(cell(x))), None, parameters)(Tensor(x))
    for g, e in zip(actual, expected, strict=True):
        close(g, e)


def test_relu_instead_of_tanh() -> None:
    cell, module = pair("RNN", 3, 4, nonlinearity="relu")
    assert_as_torch(cell, module, normal(5, 2, 3))


def test_names_come_by_kind_and_then_by_layer_and_direction() -> None:
    cell = nn.LSTM(3, 4, num_layers=2, bidirectional=True)
    kinds = [p.name.rsplit("_l", 1)[0] for p in cell.get_parameters()]
    assert kinds == [kind for kind in ("weight_ih", "weight_hh", "bias_ih", "bias_hh") for _ in range(4)]
    weights = [(p.name, p.shape) for p in cell.get_parameters()][:4]
    assert weights == [
        ("weight_ih_l0", (16, 3)),
        ("weight_ih_l0_reverse", (16, 3)),
        ("weight_ih_l1", (16, 8)),
        ("weight_ih_l1_reverse", (16, 8)),
    ]
    net = nn.SequentialCell([cell])
    assert next(net.get_parameters()).name == "0.weight_ih_l0"
    assert np.abs(cell.weight_ih_l0.asnumpy()).max() <= 0.5
    assert repr(nn.GRU(3, 4)) == (
        "GRU(input_size=3, hidden_size=4, num_layers=1, has_bias=True, batch_first=False, dropout=0.0, "
        "bidirectional=False)"
    )


@pytest.mark.parametrize("name", LAYERS)
@pytest.mark.parametrize(("bidirectional", "dtype"), [(False, np.int32), (True, np.int64)])
def test_sequences_end_at_their_length(name: str, bidirectional: bool, dtype: Any) -> None:
    cell, module = pair(name, 3, 4, num_layers=2, bidirectional=bidirectional)
    lengths = torch.tensor([2, 5, 1])

    def packed(x: torch.Tensor) -> Any:
        sequences = torch.nn.utils.rnn.pack_padded_sequence(x, lengths, enforce_sorted=False)
        ys, last = module(sequences)
        return torch.nn.utils.rnn.pad_packed_sequence(ys)[0], last

    seq_length = Tensor(lengths.numpy().astype(dtype))
    assert_as_torch(lambda x: cell(x, None, seq_length), packed, normal(5, 3, 3))


def test_dropout_acts_between_layers_in_training_only() -> None:
    x = Tensor(np.ones((3, 2, 4), np.float32))
    cell = nn.GRU(4, 64, num_layers=2, dropout=0.5)
    np.testing.assert_array_equal(cell(x)[0].asnumpy(), cell(x)[0].asnumpy())
    cell.set_train()
    assert not np.array_equal(cell(x)[0].asnumpy(), cell(x)[0].asnumpy())
    with pytest.warns(UserWarning, match="dropout 0.5 acts between layers, but there is only one"):
        single = nn.GRU(4, 8, dropout=0.5)
    single.set_train()
    np.testing.assert_array_equal(single(x)[0].asnumpy(), single(x)[0].asnumpy())


@pytest.mark.parametrize("name", LAYERS)
def test_half_precision(name: str) -> None:
    cell = LAYERS[name][0](3, 4)
    x = Tensor(normal(5, 2, 3).astype(np.float32))
    exact = cell(x)[0].asnumpy()
    for y in (cell(x.astype(ms.float16))[0], cell.to_float(ms.float16)(x)[0]):
        np.testing.assert_allclose(y.asnumpy(), exact, atol=2e-3)
    assert cell(x)[0].dtype == ms.float32  # what comes out has the dtype of what goes in
    assert cell(x.astype(ms.float16))[0].dtype == ms.float16


@pytest.mark.parametrize("name", CELLS)
@pytest.mark.parametrize("has_bias", [True, False])
def test_cells_are_torch_s(name: str, has_bias: bool) -> None:
    cell_type, module_type = CELLS[name]
    cell, module = cell_type(3, 4, has_bias, dtype=ms.float64), module_type(3, 4, has_bias, **DOUBLE)
    assert [p.name for p in cell.get_parameters()] == [name for name, _ in module.named_parameters()]
    x, h, c = normal(2, 3), normal(2, 4, seed=1), normal(2, 4, seed=2)
    if name == "LSTM":
        for parameter, torch_parameter in zip(cell.get_parameters(), module.parameters(), strict=True):
            parameter.set_data(Tensor(torch_parameter.detach().numpy()))
        assert_as_torch(lambda x, h, c: cell(x, (h, c)), lambda x, h, c: module(x, (h, c)), x, h, c)
    else:
        assert_cell_as_module(cell, module, x, h)


def test_a_relu_cell() -> None:
    cell = nn.RNNCell(3, 4, nonlinearity="relu", dtype=ms.float64)
    assert_cell_as_module(cell, torch.nn.RNNCell(3, 4, nonlinearity="relu", **DOUBLE), normal(2, 3), normal(2, 4))


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: nn.LSTM(0, 2), ValueError, "For 'LSTM', 'input_size' must be an int > 0"),
        (lambda: nn.LSTM(3, 2.0), TypeError, "'hidden_size' must be int"),
        (lambda: nn.GRU(3, 2, 0), ValueError, "'num_layers' must be an int > 0"),
        (lambda: nn.GRU(3, 2, dropout=1.0), ValueError, r"'dropout' must be a number in range \[0, 1\)"),
        (lambda: nn.GRU(3, 2, has_bias=1), TypeError, "'has_bias' must be bool"),
        (lambda: nn.RNN(3, 2, nonlinearity="gelu"), ValueError, "'nonlinearity' must be one of"),
        (lambda: nn.RNNCell(3, 2, nonlinearity="gelu"), ValueError, "'nonlinearity' must be one of"),
        (lambda: nn.LSTMCell(3, 0), ValueError, "'hidden_size' must be an int > 0"),
    ],
)
def test_arguments_are_checked(make: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        make()


def ones(*shape: int, dtype: Any = np.float32) -> Tensor:
    return Tensor(np.ones(shape, dtype))


@pytest.mark.parametrize(
    ("run", "error", "message"),
    [
        (lambda: nn.LSTM(3, 2)(ones(2, 3)), ValueError, "'x' must have 3 dimensions"),
        (lambda: nn.LSTM(3, 2)(ones(4, 2, 5)), ValueError, "doesn't fit the features"),
        (lambda: nn.GRU(3, 2)(ones(4, 2, 3, dtype=np.int32)), TypeError, "'x' must have a floating-point dtype"),
        (lambda: nn.LSTM(3, 2)(ones(4, 2, 3), ones(1, 2, 2)), TypeError, "'hx' must be a tuple of two Tensors"),
        (lambda: nn.LSTM(3, 2)(ones(4, 2, 3), (ones(1, 2, 2),) * 3), TypeError, "'hx' must be a tuple of two Tensors"),
        (lambda: nn.GRU(3, 2)(ones(4, 2, 3), ones(1, 2, 2, dtype=np.float16)), TypeError, "the type of 'x'"),
        (lambda: nn.GRU(3, 2)(ones(4, 2, 3), ones(2, 2, 2)), ValueError, r"'hx' must have the shape \(1, 2, 2\)"),
        (lambda: nn.GRU(3, 2)(ones(4, 2, 3), None, ones(2)), TypeError, "'seq_length' must be a Tensor of integers"),
        (lambda: nn.GRU(3, 2)(ones(4, 2, 3), None, [2, 3]), TypeError, "'seq_length' must be a Tensor"),
        (
            lambda: nn.GRU(3, 2)(ones(4, 2, 3), None, Tensor([1, 2, 3])),
            ValueError,
            "one length for each of 2 sequences",
        ),
        (lambda: nn.LSTMCell(3, 2)(ones(2, 3), ones(2, 2)), TypeError, "'hx' must be a tuple of two Tensors"),
        (lambda: nn.GRUCell(3, 2)(ones(2, 3, dtype=np.float16), ones(2, 2)), TypeError, "must have one type"),
        (lambda: nn.GRUCell(3, 2)(ones(3), ones(2)), ValueError, "'x' must have 2 dimensions"),
        (lambda: nn.RNNCell(3, 2)(ones(2, 4), ones(2, 2)), ValueError, "doesn't fit the features"),
        (lambda: nn.RNNCell(3, 2)(ones(2, 3), ones(4, 2)), ValueError, "needed a state"),
    ],
)
def test_inputs_are_checked(run: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        run()
