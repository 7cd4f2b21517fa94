"""Networks quantized by onnxruntime.quantization, and faults in their files."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import torch
from onnx import numpy_helper
from onnxruntime.quantization import (
    CalibrationDataReader,
    QuantFormat,
    QuantType,
    quantize_dynamic,
    quantize_static,
)
from torch import Tensor, nn

from cellbridge.converter import from_torch, to_onnx

Array = np.ndarray[Any, Any]
STATIC = {
    "qdq": (QuantFormat.QDQ, False),
    "qdq per channel": (QuantFormat.QDQ, True),
    "qoperator": (QuantFormat.QOperator, False),
    "qoperator per channel": (QuantFormat.QOperator, True),
}
DYNAMIC = {"dynamic": False, "dynamic per channel": True}
KINDS = (*STATIC, *DYNAMIC)


class Network(nn.Module):
    """A convolution whose ReLU a quantizer may replace, one with ReLU6, and a head of two layers of one shape."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 8, 3, padding=1)
        self.act = nn.ReLU6()
        self.head = nn.Sequential(nn.Linear(8, 8), nn.GELU(), nn.LayerNorm(8), nn.Linear(8, 8), nn.Linear(8, 4))

    def forward(self, x: Tensor) -> Tensor:
        h = torch.relu(self.conv(x))
        h = h + self.act(h * 1.5)
        return self.head(h.mean((2, 3)))


class Calibration(CalibrationDataReader):  # type: ignore[misc]
    def __init__(self, samples: Iterator[Array]) -> None:
        self.samples = samples

    def get_next(self) -> dict[str, Array] | None:
        sample = next(self.samples, None)
        return None if sample is None else {"x": sample}


def float_file(path: Path) -> str:
    torch.manual_seed(0)
    to_onnx(from_torch(Network().eval(), (torch.randn(2, 3, 6, 6),), dynamic_shapes=({0: "batch"},)), path)
    return str(path)


def quantized_file(source: str, path: Path, kind: str) -> str:
    """Quantize to 7 bits: without VNNI, a CPU adds two products of uint8 and int8 in int16, which 8 bits overflow."""
    rng = np.random.default_rng(0)
    samples = (rng.standard_normal((4, 3, 6, 6)).astype(np.float32) for _ in range(8))
    if kind in STATIC:
        layout, per_channel = STATIC[kind]
        quantize_static(
            source, path, Calibration(samples), quant_format=layout, per_channel=per_channel, reduce_range=True
        )
    else:
        quantize_dynamic(source, path, per_channel=DYNAMIC[kind], weight_type=QuantType.QInt8, reduce_range=True)
    return str(path)


def changed(path: str, target: Path, **changes: Callable[[Array], Any]) -> str:
    """A copy of a file whose stored tensors are changed; names are given with `__` for dots."""
    model = onnx.load(path)
    for key, change in changes.items():
        name = key.replace("__", ".")
        (tensor,) = (each for each in model.graph.initializer if each.name == name)
        array = numpy_helper.to_array(tensor)
        tensor.CopyFrom(numpy_helper.from_array(np.asarray(change(array), array.dtype), name))
    onnx.save(model, target)
    return str(target)


def stored(path: str) -> dict[str, Array]:
    return {tensor.name: numpy_helper.to_array(tensor) for tensor in onnx.load(path).graph.initializer}
