"""A transposed convolution of stride 1 by a weight that isn't stored becomes a convolution where that is faster."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from cellbridge.converter import from_torch, to_onnx
from cellbridge.runtime.compiled.session import Session

FUNCTIONS: dict[int, Any] = {
    1: nn.functional.conv_transpose1d,
    2: nn.functional.conv_transpose2d,
    3: nn.functional.conv_transpose3d,
}


class Transposed(nn.Module):
    def __init__(self, axes: int, **options: Any) -> None:
        super().__init__()
        self.axes, self.options = axes, options

    def forward(self, x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = FUNCTIONS[self.axes](x, weight, **self.options)
        return result


@pytest.mark.parametrize(
    ("axes", "channels", "out_channels", "options", "is_flipped"),
    [
        (2, 4, 8, {"padding": 1}, False),
        (2, 4, 64, {"padding": 1}, True),
        (2, 4, 64, {"dilation": 2}, True),
        (2, 4, 64, {"stride": 2}, False),
        (2, 4, 64, {"padding": 3}, False),  # crops more than a kernel covers
        (2, 6, 1, {"groups": 6}, True),
        (2, 6, 2, {"groups": 3}, False),
        (1, 4, 8, {"padding": 1}, False),
        (3, 4, 8, {"padding": 1}, True),
        (3, 4, 8, {"padding": (0, 1, 2)}, True),
        (3, 4, 8, {"stride": (1, 2, 1)}, False),
    ],
)
def test_it_computes_the_same(
    axes: int, channels: int, out_channels: int, options: dict[str, Any], is_flipped: bool
) -> None:
    generator = torch.manual_seed(0)
    x = torch.randn(2, channels, *(5, 6, 7)[:axes], generator=generator)
    weight = torch.randn(channels, out_channels, *(3,) * axes, generator=generator)
    module = Transposed(axes, **options)
    model = to_onnx(from_torch(module, (x, weight)))
    types = {node.op_type for node in model.graph.node}
    assert ("Conv" in types, "ConvTranspose" in types) == (is_flipped, not is_flipped)
    (result,) = Session(model).run({"x": x.numpy(), "weight": weight.numpy()}).values()
    np.testing.assert_allclose(result, module(x, weight).numpy(), rtol=1e-4, atol=1e-4)


def test_a_stored_weight_stays() -> None:
    layer = nn.ConvTranspose3d(4, 8, 3)
    model = to_onnx(from_torch(layer, (torch.randn(2, 4, 5, 6, 7),)))
    assert [node.op_type for node in model.graph.node] == ["ConvTranspose"]
