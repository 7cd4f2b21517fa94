"""Fourier transforms: values and gradients as torch's, in every norm, of every size; the same in ONNX Runtime."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from cellbridge.converter.capture.export import from_torch
from cellbridge.converter.onnx_out.export import to_onnx
from cellbridge.runtime.compiled.session import run_model
from cellbridge.runtime.programs.call import as_array
from tests.converter.capturing import Function

Check = Callable[..., Any]

NUMBERS = torch.randn(3, 6, 5, dtype=torch.complex128, generator=torch.Generator().manual_seed(0))
REALS = NUMBERS.real.clone()
HANN = torch.hann_window(16, dtype=torch.float64)
FUNCTIONS: dict[str, tuple[Callable[[Tensor], Tensor], Tensor]] = {
    "fft": (lambda x: torch.fft.fft(x), NUMBERS),
    "fft of reals": (lambda x: torch.fft.fft(x, dim=1), REALS),
    "fft, longer": (lambda x: torch.fft.fft(x, n=8, dim=1, norm="ortho"), NUMBERS),
    "ifft, shorter": (lambda x: torch.fft.ifft(x, n=3), NUMBERS),
    "fft2": (lambda x: torch.fft.fft2(x, norm="forward"), REALS),
    "ifftn": (lambda x: torch.fft.ifftn(x, norm="forward"), NUMBERS),
    "rfft": (lambda x: torch.fft.rfft(x, dim=1), REALS),
    "rfft, odd": (lambda x: torch.fft.rfft(x, norm="ortho"), REALS),
    "irfft": (lambda x: torch.fft.irfft(x, n=8), NUMBERS),
    "irfft, odd": (lambda x: torch.fft.irfft(x, n=9, norm="forward"), NUMBERS),
    "irfft of one": (lambda x: torch.fft.irfft(x, n=1), NUMBERS),
    "irfft of two": (lambda x: torch.fft.irfft(x, n=2, dim=0), NUMBERS),
    "rfftn": (lambda x: torch.fft.rfftn(x, dim=(0, 1)), REALS),
    "irfft2": (lambda x: torch.fft.irfft2(x, norm="ortho"), NUMBERS),
    "hfft": (lambda x: torch.fft.hfft(x), NUMBERS),
    "ihfft": (lambda x: torch.fft.ihfft(x, dim=1), REALS),
    "fftshift": (lambda x: torch.fft.fftshift(x, dim=1), NUMBERS),
    "stft": (
        lambda x: torch.stft(
            x[:, :, 0].repeat(1, 4), 8, window=torch.hann_window(8, dtype=torch.float64), return_complex=True
        ),
        REALS,
    ),
    "istft": (lambda x: torch.istft(x, 10, window=HANN[:10] + 0.5), NUMBERS),
}


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.every(18)
def test_values_and_gradients(check: Check, name: str) -> None:
    function, x = FUNCTIONS[name]
    check(function, x)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("name", ["fft", "fft of reals", "ifftn", "rfft, odd", "irfft, odd", "stft"])
@pytest.mark.every(3)
def test_onnx_runtime_agrees(name: str, dtype: torch.dtype) -> None:
    function, wide = FUNCTIONS[name]
    x = wide.to(dtype.to_complex() if wide.is_complex() else dtype)
    module = Function(function)
    if name == "stft" and dtype == torch.float32:
        module = Function(lambda x: torch.stft(x[:, :, 0].repeat(1, 4), 8, return_complex=True))
    model = to_onnx(from_torch(module, (x,)))
    (result,) = run_model(model, {model.graph.input[0].name: as_array(x)}).values()
    expected = as_array(module(x))
    limit = 1e-5 if dtype == torch.float32 else 1e-12
    np.testing.assert_allclose(result, expected, rtol=limit, atol=limit * np.abs(expected).max())


def test_long_transforms_are_exact_in_onnx_runtime() -> None:
    # in float32, ONNX Runtime's DFT of a size that is no power of two loses digits
    x = torch.randn(2, 1000, generator=torch.Generator().manual_seed(1))
    model = to_onnx(from_torch(Function(torch.fft.rfft), (x,)))
    (result,) = run_model(model, {model.graph.input[0].name: x.numpy()}).values()
    expected = as_array(torch.fft.rfft(x.double()))
    assert np.abs(result - expected).max() < 1e-6 * np.abs(expected).max()


@pytest.mark.parametrize("size", [2, 6, 9])
@pytest.mark.every(3)
def test_symbolic_sizes(check: Check, size: int) -> None:
    n = torch.export.Dim("n", min=2)
    check(
        lambda x: torch.fft.rfft(x, norm="ortho"),
        REALS[0],
        dynamic_shapes=({1: n},),
        others=(torch.randn(6, size),),
    )
    check(
        lambda x: torch.fft.ifft(torch.fft.fft(x, dim=1) * 2, dim=1),
        NUMBERS,
        dynamic_shapes=({1: n},),
        others=(torch.randn(3, size, 5, dtype=torch.complex128),),
    )


@pytest.mark.parametrize("size", [2, 5])
@pytest.mark.every(2)
def test_a_symbolic_size_back(check: Check, size: int) -> None:
    check(
        lambda x: torch.fft.irfft(x, dim=1),
        NUMBERS,
        dynamic_shapes=({1: torch.export.Dim("n", min=2)},),
        others=(torch.randn(3, size, 5, dtype=torch.complex128),),
    )
