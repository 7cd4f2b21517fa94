"""Modules whose ops form a known layer are written as that layer."""

from __future__ import annotations

import re
from typing import Any

import pytest
import torch
from torch import nn

from cellbridge.converter import from_torch, to_cell_source
from tests.converter.capturing import Each
from tests.converter.cell_source.writing import assert_port


class Holder(nn.Module):
    """One layer in a network."""

    def __init__(self, layer: nn.Module) -> None:
        super().__init__()
        self.layer = layer

    def forward(self, *args: Any) -> Any:
        return self.layer(*args)


def randn(*shape: int) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(0))


IMAGE, SIGNAL, ROWS = randn(2, 4, 5, 6), randn(2, 4, 5), randn(3, 4)
EVAL = {
    "linear": (nn.Linear(4, 3), ROWS, "nn.Dense(4, 3)"),
    "linear without bias": (nn.Linear(4, 3, bias=False), ROWS, "nn.Dense(4, 3, has_bias=False)"),
    "conv1d": (
        nn.Conv1d(4, 6, 3, padding=1),
        SIGNAL,
        'nn.Conv1d(4, 6, 3, stride=1, pad_mode="pad", padding=1, has_bias=True)',
    ),
    "conv2d": (
        nn.Conv2d(4, 6, (3, 2), stride=(2, 1), padding=(1, 0), groups=2, bias=False),
        IMAGE,
        'nn.Conv2d(4, 6, (3, 2), stride=(2, 1), pad_mode="pad", padding=(1, 1, 0, 0), group=2)',
    ),
    "conv2d that pads more after": (
        nn.Conv2d(4, 2, 2, padding="same"),
        IMAGE,
        'nn.Conv2d(4, 2, 2, stride=1, pad_mode="pad", padding=(0, 1, 0, 1), has_bias=True)',
    ),
    "conv2d dilated": (
        nn.Conv2d(4, 2, 3, dilation=2, bias=False),
        IMAGE,
        'nn.Conv2d(4, 2, 3, stride=1, pad_mode="valid", dilation=2)',
    ),
    "conv3d": (
        nn.Conv3d(2, 3, 2),
        randn(1, 2, 4, 5, 3),
        'nn.Conv3d(2, 3, 2, stride=1, pad_mode="valid", has_bias=True)',
    ),
    "conv transpose": (
        nn.ConvTranspose2d(4, 2, 3, stride=2, padding=1, output_padding=1),
        IMAGE,
        'nn.Conv2dTranspose(4, 2, 3, stride=2, pad_mode="pad", padding=1, output_padding=1, has_bias=True)',
    ),
    "conv transpose 1d": (
        nn.ConvTranspose1d(4, 2, 3),
        SIGNAL,
        'nn.Conv1dTranspose(4, 2, 3, stride=1, pad_mode="pad", ',
    ),
    "batch norm": (nn.BatchNorm2d(4, eps=1e-3), IMAGE, "nn.BatchNorm2d(4, eps=0.001)"),
    "batch norm 1d": (nn.BatchNorm1d(4), ROWS, "nn.BatchNorm1d(4)"),
    "layer norm": (
        nn.LayerNorm((5, 6)),
        IMAGE,
        "nn.LayerNorm((5, 6), begin_norm_axis=2, begin_params_axis=2, epsilon=1e-05)",
    ),
    "group norm": (nn.GroupNorm(2, 4), IMAGE, "nn.GroupNorm(2, 4)"),
    "embedding": (nn.Embedding(7, 3), torch.tensor([[1, 6], [0, 1]]), "nn.Embedding(7, 3)"),
    "max pool": (nn.MaxPool2d(3, 2, 1), IMAGE, 'nn.MaxPool2d(kernel_size=3, stride=2, pad_mode="pad", padding=1)'),
    "max pool up": (
        nn.MaxPool2d(2, ceil_mode=True),
        IMAGE,
        'nn.MaxPool2d(kernel_size=2, stride=2, pad_mode="pad", padding=0, ceil_mode=True)',
    ),
    "max pool 1d": (nn.MaxPool1d(2), SIGNAL, "nn.MaxPool1d(kernel_size=2, stride=2)"),
    "avg pool": (
        nn.AvgPool2d(3, 2, 1, count_include_pad=False),
        IMAGE,
        'nn.AvgPool2d(kernel_size=3, stride=2, pad_mode="pad", padding=1, count_include_pad=False)',
    ),
    "avg pool 1d": (nn.AvgPool1d(2), SIGNAL, "nn.AvgPool1d(kernel_size=2, stride=2)"),
    "adaptive avg pool": (nn.AdaptiveAvgPool2d((3, 2)), IMAGE, "nn.AdaptiveAvgPool2d((3, 2))"),
    "flatten": (nn.Flatten(), IMAGE, "nn.Flatten()"),
    "identity": (nn.Identity(), ROWS, "nn.Identity()"),
    "relu": (nn.ReLU(), ROWS, "nn.ReLU()"),
    "relu6": (nn.ReLU6(), ROWS, "nn.ReLU6()"),
    "gelu": (nn.GELU(), ROWS, "nn.GELU(approximate=False)"),
    "gelu by tanh": (nn.GELU("tanh"), ROWS, "nn.GELU()"),
    "silu": (nn.SiLU(), ROWS, "nn.SiLU()"),
    "leaky relu": (nn.LeakyReLU(0.02), ROWS, "nn.LeakyReLU(alpha=0.02)"),
    "elu": (nn.ELU(), ROWS, "nn.ELU()"),
    "selu": (nn.SELU(), ROWS, "nn.SeLU()"),
    "hardswish": (nn.Hardswish(), ROWS, "nn.HSwish()"),
    "hardtanh": (nn.Hardtanh(-0.5, 2), ROWS, "nn.Hardtanh(min_val=-0.5, max_val=2.0)"),
    "prelu": (nn.PReLU(4), ROWS, "nn.PReLU(4)"),
    "softmax": (nn.Softmax(1), ROWS, "nn.Softmax(axis=-1)"),
    "log softmax": (nn.LogSoftmax(0), ROWS, "nn.LogSoftmax(axis=0)"),
    "lstm": (nn.LSTM(4, 3), randn(5, 2, 4), "nn.LSTM(4, 3)"),
    "lstm of all kinds": (
        nn.LSTM(4, 3, num_layers=2, bias=False, batch_first=True, bidirectional=True),
        randn(2, 5, 4),
        "nn.LSTM(4, 3, num_layers=2, has_bias=False, batch_first=True, bidirectional=True)",
    ),
    "gru": (nn.GRU(4, 3, 2), randn(5, 2, 4), "nn.GRU(4, 3, num_layers=2)"),
    "rnn": (nn.RNN(4, 3), randn(5, 2, 4), "nn.RNN(4, 3)"),
}
TRAIN = {
    "batch norm": (nn.BatchNorm2d(4), IMAGE, "nn.BatchNorm2d(4)"),
    "batch norm with momentum": (nn.BatchNorm1d(4, momentum=0.25), SIGNAL, "nn.BatchNorm1d(4, momentum=0.75)"),
    "dropout": (nn.Dropout(0.25), ROWS, "nn.Dropout(p=0.25)"),
    "dropout of channels": (nn.Dropout2d(0.25), IMAGE, "nn.Dropout2d(p=0.25)"),
    "lstm": (nn.LSTM(4, 3, 2, dropout=0.25), randn(5, 2, 4), "nn.LSTM(4, 3, num_layers=2, dropout=0.25)"),
}


@pytest.mark.parametrize(("cases", "train"), [(EVAL, False), (TRAIN, True)], ids=["eval", "train"])
@pytest.mark.every(2)
def test_layers(cases: dict[str, tuple[nn.Module, torch.Tensor, str]], train: bool) -> None:
    """All in one network, each under its name."""
    network = Each({name: layer for name, (layer, _, _) in cases.items()})
    inputs = {name: (x.clone(),) for name, (_, x, _) in cases.items()}
    source = squeezed(to_cell_source(from_torch(network, (inputs,), train=train)))
    for name, (_, _, written) in cases.items():
        attribute = f"self.{name}=" if name.isidentifier() else f'setattr(self,"{squeezed(name)}",'
        assert attribute + squeezed(written) in source
    assert_port(network, inputs, train=train)


def squeezed(text: str) -> str:
    """Text that doesn't depend on where lines are broken."""
    return re.sub(r"\s", "", text).replace(",)", ")")


def test_states_are_passed_as_the_layer_takes_them() -> None:
    x, h, c = randn(5, 2, 4), randn(1, 2, 3), randn(1, 2, 3)

    class Stateful(Holder):
        def forward(self, x: torch.Tensor, h: torch.Tensor, c: torch.Tensor) -> Any:
            y, (h, c) = self.layer(x, (h, c))
            return y, h + c

    assert "y, (h, c) = self.layer(x, (h, c))" in to_cell_source(from_torch(Stateful(nn.LSTM(4, 3)), (x, h, c)))
    assert_port(Stateful(nn.LSTM(4, 3)), x, h, c)


def test_what_a_layer_does_otherwise_is_written_out() -> None:
    """A padding row without gradient, a kind of padding that the layer lacks, a projection."""
    cases = [
        (nn.Embedding(7, 3, padding_idx=2), torch.tensor([[1, 2], [0, 2]])),
        (nn.ELU(0.5), ROWS),
        (nn.Conv1d(4, 2, 2, padding="same"), SIGNAL),
        (nn.Conv2d(4, 2, 3, padding=1, padding_mode="reflect"), IMAGE),
        (nn.LSTM(4, 3, proj_size=2), randn(5, 2, 4)),
        (nn.RNN(4, 3, nonlinearity="relu"), randn(5, 2, 4)),
        (nn.LSTMCell(4, 3), ROWS),
        (nn.MaxPool2d(2, return_indices=True), IMAGE),
        (nn.LayerNorm(6, bias=False), IMAGE),
        (nn.InstanceNorm1d(4, affine=True), SIGNAL),
    ]
    network = Each({type(layer).__name__: layer for layer, _ in cases})
    inputs = {type(layer).__name__: (x.clone(),) for layer, x in cases}
    source = to_cell_source(from_torch(network, (inputs,)))
    for layer, _ in cases:
        assert f"class {type(layer).__name__}(nn.Cell):" in source
    assert_port(network, inputs)


def test_a_network_that_is_a_layer_or_a_sequence_has_a_class() -> None:
    assert_port(nn.Linear(4, 3), ROWS)
    assert_port(nn.Sequential(nn.Linear(4, 3), nn.ReLU()), ROWS)
