"""Patterns that ONNX Runtime's graph optimizer gets wrong, which exported models avoid."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from cellbridge.converter import from_torch, to_onnx
from cellbridge.runtime.compiled.session import run_model
from tests.converter.capturing import Function

IMAGE = torch.randn(2, 3, 8, 6, generator=torch.Generator().manual_seed(0)) - 5


def padded_and_pooled(x: Tensor) -> tuple[Tensor, ...]:
    padded = F.pad(x, (1, 1, 1, 1))
    averaged = F.avg_pool2d(F.pad(x, (1, 0, 1, 0)), 2, count_include_pad=False)
    return F.max_pool2d(padded, 3, 2), averaged


def transposed_and_resized(x: Tensor) -> Tensor:
    batch, height, width, channels = x.shape
    images = x.reshape(batch, height * width, channels).transpose(1, 2).reshape(batch, channels, height, width)
    return F.interpolate(images, size=(11, 7), mode="bilinear").permute(0, 2, 3, 1) + 1


@pytest.mark.parametrize(
    ("function", "x"), [(padded_and_pooled, IMAGE), (transposed_and_resized, IMAGE.permute(0, 2, 3, 1).contiguous())]
)
def test_optimized_models_agree(function: object, x: Tensor) -> None:
    module = Function(function)
    model = to_onnx(from_torch(module, (x,)))
    results = run_model(model, {model.graph.input[0].name: x.numpy()})
    expected = module(x)
    for actual, expected_tensor in zip(
        results.values(), expected if isinstance(expected, tuple) else (expected,), strict=True
    ):
        np.testing.assert_allclose(actual, expected_tensor.numpy(), rtol=1e-5, atol=1e-5)
