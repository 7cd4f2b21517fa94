"""A model in bfloat16 is written in an opset whose operators take it."""

from __future__ import annotations

import onnx
import pytest
import torch
from torch import nn

from cellbridge.converter import from_torch, to_onnx
from cellbridge.runtime.errors import ConversionError

IMAGES, ROWS = (1, 4, 6, 6), (3, 4)
MODULES: dict[str, tuple[nn.Module, tuple[int, ...]]] = {
    "linear": (nn.Linear(4, 2), ROWS),
    "convolution": (nn.Conv2d(4, 2, 3), IMAGES),
    "transposed convolution": (nn.ConvTranspose2d(4, 2, 3), IMAGES),
    "average pooling": (nn.AvgPool2d(2), IMAGES),
    "largest": (nn.MaxPool2d(2), IMAGES),
    "batch norm": (nn.BatchNorm2d(4).eval(), IMAGES),
    "layer norm": (nn.LayerNorm(4), ROWS),
    "ELU": (nn.ELU(), ROWS),
    "GELU": (nn.GELU(), ROWS),
    "hard swish": (nn.Hardswish(), ROWS),
    "resize": (nn.Upsample(scale_factor=2), IMAGES),
}


@pytest.mark.parametrize("name", MODULES)
def test_the_checker_accepts_it(name: str) -> None:
    module, shape = MODULES[name]
    model = to_onnx(from_torch(module.bfloat16(), (torch.ones(shape, dtype=torch.bfloat16),)))
    assert model.graph.input[0].type.tensor_type.elem_type == onnx.TensorProto.BFLOAT16
    onnx.checker.check_model(model, full_check=True)


def test_an_opset_without_it_is_refused() -> None:
    program = from_torch(nn.Conv2d(4, 2, 3).bfloat16(), (torch.ones(IMAGES, dtype=torch.bfloat16),))
    with pytest.raises(ConversionError, match="ONNX has Conv in bfloat16 from opset 22 on: export with opset 22"):
        to_onnx(program, opset=21)
