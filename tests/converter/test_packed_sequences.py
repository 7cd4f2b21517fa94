"""Packed sequences, with and without recurrent layers, at lengths other than those of the capture."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence, pack_sequence, pad_packed_sequence

from cellbridge import converter
from cellbridge.parity import check
from cellbridge.runtime.errors import ConversionError

STEPS = 5
SORTED = ([5, 4, 2], [5, 5, 5], [4, 4, 1], [1, 1, 1])
ANY = ([2, 5, 3], [1, 4, 2], [5, 5, 5])


class Packed(nn.Module):
    """A recurrent layer on a packed sequence: padded outputs, their lengths, and the last states."""

    def __init__(
        self, kind: type[nn.RNNBase], enforce_sorted: bool = True, total: bool = False, **settings: Any
    ) -> None:
        super().__init__()
        self.rnn = kind(4, 3, **settings)
        self.sorted, self.total, self.batch_first = enforce_sorted, total, settings.get("batch_first", False)

    def forward(self, x: torch.Tensor, lengths: Any) -> Any:
        packed = pack_padded_sequence(x, lengths, self.batch_first, enforce_sorted=self.sorted)
        y, last = self.rnn(packed)
        total = x.shape[1 if self.batch_first else 0] if self.total else None
        return pad_packed_sequence(y, self.batch_first, padding_value=0.5, total_length=total), last


CASES = {
    "LSTM": (Packed(nn.LSTM, batch_first=True), SORTED),
    "GRU": (Packed(nn.GRU, batch_first=True), SORTED),
    "RNN, time first": (Packed(nn.RNN, nonlinearity="relu"), SORTED),
    "LSTM, projected, any order": (Packed(nn.LSTM, False, batch_first=True, proj_size=2), ANY),
    "GRU, layers in both directions": (Packed(nn.GRU, False, num_layers=2, bidirectional=True), ANY),
    "LSTM, layers in both directions": (Packed(nn.LSTM, False, num_layers=2, bidirectional=True, bias=False), ANY),
    "RNN, total length": (Packed(nn.RNN, False, total=True, batch_first=True, dropout=0.5, num_layers=2), ANY),
}


def assert_matches(module: nn.Module, program: Any, x: torch.Tensor, lengths: list[int]) -> None:
    args = x, torch.tensor(lengths)
    expected = torch.utils._pytree.tree_leaves(module(*args))
    actual = torch.utils._pytree.tree_leaves(program(*(a.numpy() for a in args)))
    for a, b in zip(actual, expected, strict=True):
        np.testing.assert_allclose(a, b.detach().numpy(), atol=1e-12)


@pytest.mark.parametrize(("module", "lengths"), CASES.values(), ids=CASES)
@pytest.mark.every(6)
def test_any_lengths_give_what_torch_gives(module: Packed, lengths: tuple[list[int], ...]) -> None:
    module = module.double().eval()
    x = torch.randn((3, STEPS, 4) if module.batch_first else (STEPS, 3, 4), dtype=torch.float64)
    program = converter.from_torch(module, (x, torch.tensor(lengths[0])))
    for each in lengths:
        assert_matches(module, program, x, each)


@pytest.mark.parametrize("case", ["LSTM", "GRU, layers in both directions"])
@pytest.mark.every(2)
def test_gradients_and_the_onnx_model_agree_at_several_lengths(case: str) -> None:
    module, lengths = CASES[case]
    x = torch.randn((3, STEPS, 4) if module.batch_first else (STEPS, 3, 4))
    calls = [((x, torch.tensor(each)), {}) for each in lengths]
    report = check(module.float(), *calls[0], more_inputs=calls[1:], probe=False)
    assert report.ok, str(report)


def test_the_onnx_model_runs_the_layer_with_its_lengths() -> None:
    module, lengths = CASES["LSTM"]
    model = converter.to_onnx(
        converter.from_torch(module.float(), (torch.randn(3, STEPS, 4), torch.tensor(lengths[0])))
    )
    (layer,) = [node for node in model.graph.node if node.op_type == "LSTM"]
    assert layer.input[4], "sequence_lens"


class Rows(nn.Module):
    """Computes with the rows of a packed sequence, which torch has without padding."""

    def __init__(self) -> None:
        super().__init__()
        self.rnn, self.fc = nn.GRU(4, 3, batch_first=True), nn.Linear(4, 4)

    def forward(self, x: torch.Tensor, lengths: torch.Tensor) -> Any:
        packed = pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False)
        rows = self.fc(packed.data)
        y, last = self.rnn(PackedSequence(rows, *packed[1:]), x[:, 0, :3][None].contiguous())
        return pad_packed_sequence(y, batch_first=True), last, rows.mean(0)


class Constant(nn.Module):
    """Lengths that are written in forward, and no recurrent layer."""

    def forward(self, x: torch.Tensor, lengths: torch.Tensor) -> Any:
        packed = pack_padded_sequence(x, [5, 4, 2], batch_first=True)
        listed = pack_sequence([x[0], x[1, :3]])
        return pad_packed_sequence(packed), pad_packed_sequence(listed), lengths


@pytest.mark.parametrize("module", [Rows(), Constant()], ids=["rows", "constant"])
@pytest.mark.every(2)
def test_what_else_is_done_with_packed_sequences(module: nn.Module) -> None:
    module, x = module.double(), torch.randn(3, STEPS, 4, dtype=torch.float64)
    program = converter.from_torch(module, (x, torch.tensor(ANY[0])))
    for each in ANY:
        assert_matches(module, program, x, each)


def test_batches_of_open_size() -> None:
    module, lengths = CASES["LSTM, projected, any order"]
    module, x = module.double(), torch.randn(3, STEPS, 4, dtype=torch.float64)
    shapes = {"x": {0: "batch", 1: "steps"}, "lengths": {0: "batch"}}
    program = converter.from_torch(module, (x, torch.tensor(lengths[0])), dynamic_shapes=shapes)
    assert_matches(module, program, x, lengths[1])
    assert_matches(module, program, torch.randn(4, 7, 4, dtype=torch.float64), [1, 7, 2, 2])


class Masked(nn.Module):
    """Multiplies outputs, which are as long as the longest sequence, by a mask that is as long as the inputs."""

    def forward(self, x: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
        y, _ = pad_packed_sequence(pack_padded_sequence(x, lengths, batch_first=True), batch_first=True)
        return y * (torch.arange(x.shape[1])[None, :, None] < lengths[:, None, None])


def test_a_mask_of_the_padded_inputs_fits_where_the_longest_sequence_fills_them() -> None:
    module, x = Masked().double(), torch.randn(3, STEPS, 4, dtype=torch.float64)
    program = converter.from_torch(module, (x, torch.tensor(SORTED[0])))
    for lengths in SORTED[:2]:
        assert_matches(module, program, x, lengths)


def test_dropout_between_layers_is_refused_in_train_mode() -> None:
    module, lengths = CASES["RNN, total length"]
    with pytest.raises(ConversionError, match="dropout between layers"):
        converter.from_torch(module.float(), (torch.randn(3, STEPS, 4), torch.tensor(lengths[0])), train=True)
