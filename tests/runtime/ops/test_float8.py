"""Conversions to 8-bit floats, and the gradients that pass through them, with torch as the judge."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
import torch

from cellbridge.converter import from_torch, to_onnx
from cellbridge.converter.dtypes import as_tensor, torch_dtype
from cellbridge.runtime.compiled.session import Session
from cellbridge.runtime.errors import ConversionError
from cellbridge.runtime.ir.types import as_dtype
from cellbridge.runtime.ops.elementwise import cast
from cellbridge.runtime.programs.call import as_array

FLOAT8 = ["float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz", "float8_e8m0fnu"]
CODES = np.arange(65536, dtype=np.uint16)
EVERY_HALF = CODES.view(np.float16)
BEYOND = np.array([0.0, -0.0, 448, 464, 464.1, 465, -1e4, 6e4, 1e9, np.inf, -np.inf, np.nan, 1e-7, -1e-9], np.float32)


class Converts(torch.nn.Module):
    def __init__(self, dtype: torch.dtype) -> None:
        super().__init__()
        self.dtype = dtype

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return (x * 1.5).to(self.dtype).reshape(-1).to(x.dtype) * 2


@pytest.mark.parametrize("dtype", FLOAT8)
@pytest.mark.parametrize("source", ["float16", "bfloat16", "float32", "float64"])
def test_a_conversion_is_that_of_torch_for_every_half(source: str, dtype: str) -> None:
    with np.errstate(invalid="ignore"):
        x = EVERY_HALF.astype(as_dtype(source))
    converted = np.asarray(cast(x, dtype=as_dtype(dtype)))
    expected = as_array(as_tensor(x).to(torch_dtype(as_dtype(dtype))))
    assert converted.dtype == expected.dtype == as_dtype(dtype)
    np.testing.assert_array_equal(converted.astype(np.float32), expected.astype(np.float32))


@pytest.mark.parametrize("dtype", FLOAT8)
@pytest.mark.parametrize("source", [np.int64, np.int8, np.uint8, np.bool_])
def test_a_conversion_of_integers_is_that_of_torch(source: type, dtype: str) -> None:
    x = np.array([0, 1, 3, 17, 100, -100, 127, 1000, 100_000]).astype(source)
    converted = np.asarray(cast(x, dtype=as_dtype(dtype)))
    expected = torch.from_numpy(x).to(torch_dtype(as_dtype(dtype)))
    np.testing.assert_array_equal(converted.astype(np.float32), expected.float().numpy())


@pytest.mark.parametrize("dtype", FLOAT8[:4])
def test_onnx_runtime_converts_as_torch_does(dtype: str) -> None:
    module = Converts(torch_dtype(as_dtype(dtype)))
    x = torch.from_numpy(BEYOND)
    model = to_onnx(from_torch(module, (x,)))
    (converted,) = Session(model, "cpu").run({model.graph.input[0].name: BEYOND}).values()
    np.testing.assert_array_equal(converted, module(x).numpy())


@pytest.mark.parametrize("dtype", FLOAT8[:4])
def test_a_gradient_is_rounded_to_8_bits_as_in_torch(dtype: str) -> None:
    module = Converts(torch_dtype(as_dtype(dtype)))
    x = torch.linspace(-3, 3, 12).reshape(3, 4).requires_grad_()
    cotangent = torch.linspace(0.01, 2, 12) ** 3
    program = from_torch(module, (x,))
    _, gradients = program.value_and_grad(x, cotangents=[cotangent])
    (expected,) = torch.autograd.grad(module(x), x, cotangent)
    np.testing.assert_array_equal(gradients.inputs[0], expected.numpy())
    assert not np.allclose(expected.numpy(), 3 * cotangent.reshape(3, 4).numpy(), rtol=1e-3)


@pytest.mark.parametrize("dtype", FLOAT8)
def test_arrays_and_tensors_hold_the_same_codes(dtype: str) -> None:
    codes = np.arange(256, dtype=np.uint8).view(as_dtype(dtype))
    tensor = as_tensor(codes)
    assert tensor.view(torch.uint8).tolist() == list(range(256))
    finite = np.isfinite(codes.astype(np.float32))
    np.testing.assert_array_equal(as_array(tensor)[finite].view(np.uint8), codes[finite].view(np.uint8))


def test_dtypes_of_ml_dtypes_that_torch_lacks_are_refused() -> None:
    with pytest.raises(ConversionError, match="torch has no dtype float8_e3m4"):
        as_tensor(np.zeros(2, ml_dtypes.float8_e3m4))
