"""Channels that are much larger than the others, in weights and in values with one scale."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from onnxruntime.quantization import CalibrationDataReader, QuantFormat, quantize_static
from torch import nn

from cellbridge.converter import from_torch, to_onnx
from cellbridge.parity.checking.onnx_files.compare import compare_onnx
from cellbridge.parity.checking.quantized.outliers import channel_sizes, outlier


class Few(nn.Module):
    """x [8, 16] to [8, 4], with values between of which one channel is 1,000 times as large."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.first, self.last = nn.Linear(16, 12), nn.Linear(12, 4)
        self.register_buffer("sizes", torch.ones(12).index_fill(0, torch.tensor([7]), 1000.0))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.last(self.first(x) * self.sizes)


class Wide(nn.Module):
    """x [8, 16] to [8, 12] by a weight of which one row is 1,000 times as large."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.fc = nn.Linear(16, 12)
        with torch.no_grad():
            self.fc.weight[5] *= 1000.0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.sigmoid(self.fc(x))


class Samples(CalibrationDataReader):  # type: ignore[misc]
    def __init__(self) -> None:
        rng = np.random.default_rng(0)
        self.rest = [{"x": rng.standard_normal((8, 16)).astype(np.float32)} for _ in range(4)]

    def get_next(self) -> dict[str, Any] | None:
        return self.rest.pop() if self.rest else None


def notes(module: nn.Module, folder: Path, *, per_channel: bool) -> list[str]:
    to_onnx(from_torch(module, (torch.randn(8, 16),)), folder / "float.onnx", opset=20)
    quantize_static(
        folder / "float.onnx", folder / "int8.onnx", Samples(), quant_format=QuantFormat.QDQ, per_channel=per_channel
    )
    report = compare_onnx(str(folder / "float.onnx"), str(folder / "int8.onnx"))
    return [note for note in report.notes if "times as large as most" in note]


def test_a_channel_of_a_weight(tmp_path: Path) -> None:
    note = next(note for note in notes(Wide(), tmp_path, per_channel=False) if note.startswith("fc: fc.weight"))
    assert "channel 5" in note
    assert "quantize it per channel" in note


def test_scales_for_each_channel_have_no_outlier(tmp_path: Path) -> None:
    (note,) = notes(Wide(), tmp_path, per_channel=True)  # of the values that the weight computes, which have one
    assert note.startswith("fc: linear has one scale")


def test_a_channel_of_values(tmp_path: Path) -> None:
    outlier_notes = notes(Few(), tmp_path, per_channel=True)
    assert any("channel 7 of axis 1" in note for note in outlier_notes), outlier_notes


def test_ordinary_networks_have_none(tmp_path: Path) -> None:
    ordinary = nn.Sequential(nn.Linear(16, 12), nn.ReLU(), nn.Linear(12, 4))

    class Named(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.body = ordinary

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.body(x)

    assert notes(Named(), tmp_path, per_channel=False) == []


@pytest.mark.parametrize(
    ("numbers", "scale", "is_outlier"),
    [
        (np.array([[1.0, 1.0], [1.0, 1.0]]), 0.01, False),  # two channels have no median to differ from
        (np.array([[1.0], [1.0], [1.0], [99.0]]), 0.5, True),
        (np.array([[1.0], [1.0], [1.0], [99.0]]), 0.01, False),  # 100 steps are enough
        (np.array([[1.0], [1.0], [1.0], [20.0]]), 0.5, False),  # not that much larger
        (np.array([[0.0], [0.0], [0.0], [9.0]]), 0.5, False),  # channels without values
        (np.ones((0, 4)), 0.5, False),
        (np.ones(4), 0.5, False),
    ],
)
def test_what_is_an_outlier(numbers: np.ndarray, scale: float, is_outlier: bool) -> None:
    assert (outlier(channel_sizes(numbers), scale) is not None) == is_outlier
