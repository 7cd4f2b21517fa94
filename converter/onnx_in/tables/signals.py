"""ONNX signal processing: DFT and STFT of real or complex numbers."""

from __future__ import annotations

from typing import Any

from ....runtime.tracing import SymbolicTensor
from ..model.values import known_tensor
from .context import Context
from .shaping import unknown_shape
from .table import onnx


@onnx("DFT", values=("dft_length", "axis"))
def dft(
    context: Context,
    input: SymbolicTensor,
    dft_length: Any = None,
    axis: Any = None,
    *,
    inverse: int = 0,
    onesided: int = 0,
) -> Any:
    """DFT-17..20(input, dft_length?, axis?) -> output"""
    if axis is None:
        axis = known_tensor(1 if context.opset < 20 else -2)
    types = () if context.declared()[0] else unknown_shape(context, input, input.ndim)
    return context.runtime_shaped("DFT", input, dft_length, axis, types=types, inverse=inverse, onesided=onesided)


@onnx("STFT", values=("frame_step", "frame_length"))
def stft(
    context: Context, signal: SymbolicTensor, frame_step: Any, window: SymbolicTensor | None = None,
    frame_length: Any = None, *,
    onesided: int = 1,
) -> Any:  # fmt: skip
    """STFT-17(signal, frame_step, window?, frame_length?) -> output"""
    types = () if context.declared()[0] else unknown_shape(context, signal, signal.ndim + 1)
    return context.runtime_shaped("STFT", signal, frame_step, window, frame_length, types=types, onesided=onesided)
