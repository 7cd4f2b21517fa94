"""Tensors of which most values become 0, because a few set the range of their quantizer."""

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
from cellbridge.parity.checking.quantized.outliers import Coarse, coarse_notes, is_coarse, typical_size


class Masked(nn.Module):
    """x [4, 8, 16] to [4, 8, 16]: values to which a mask is added."""

    def __init__(self, lowest: float) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.first, self.last = nn.Linear(16, 16), nn.Linear(16, 16)
        self.register_buffer("mask", torch.zeros(16).index_fill(0, torch.tensor([3]), lowest))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.last(torch.sigmoid(self.first(x) + self.mask))


class Samples(CalibrationDataReader):  # type: ignore[misc]
    def __init__(self) -> None:
        self.rest = [np.random.default_rng(seed).standard_normal((4, 8, 16)).astype(np.float32) for seed in range(4)]

    def get_next(self) -> dict[str, Any] | None:
        return {"x": self.rest.pop()} if self.rest else None


@pytest.mark.parametrize(("lowest", "noted"), [(-1e30, True), (-1e5, True), (-4.0, False)])
@pytest.mark.every(3)
def test_a_mask_that_makes_a_quantizer_coarse(tmp_path: Path, lowest: float, noted: bool) -> None:
    source, target = tmp_path / "float.onnx", tmp_path / "int8.onnx"
    to_onnx(from_torch(Masked(lowest).eval(), (torch.randn(4, 8, 16),)), source, opset=20)
    quantize_static(source, target, Samples(), quant_format=QuantFormat.QDQ)
    report = compare_onnx(str(source), str(target), grads=False)
    notes = [note for note in report.notes if "become 0" in note]
    assert bool(notes) == noted, report.notes
    if noted:
        assert "most values of add become 0: they are about" in notes[0]
        assert f"reaches from {lowest:.1g}" in notes[0]


def test_zeros_and_infinities_are_no_values() -> None:
    assert typical_size(np.array([0.0, 0.0, 3.0, -1.0, 2.0, -np.inf, np.nan])) == 2.0
    assert typical_size(np.zeros(4)) == 0.0
    assert not is_coarse(0.0, 1.0)
    assert is_coarse(0.01, 1.0)
    assert not is_coarse(0.5, 1.0)


def test_the_coarsest_come_first() -> None:
    notes = coarse_notes(Coarse("a", f"t{i}", 1.0, 10.0**i, -1.0, 1.0) for i in range(8))
    assert "t7" in notes[0]
    assert notes[-1] == "3 more tensors have such a quantizer"
