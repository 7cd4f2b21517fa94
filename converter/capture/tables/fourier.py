"""ATen Fourier transforms: torch decomposes the functions of `torch.fft`, `stft` and `istft` into these."""

from __future__ import annotations

from typing import Any

from ....runtime.ir.dims import Dim
from ....runtime.ir.types import INT64
from ....runtime.ops import comparison, creation, elementwise, fourier, shaping, slicing
from ....runtime.ops.common import normalize_axis
from ....runtime.ops.complex_numbers import Complex
from ....runtime.tracing import SymbolicTensor
from .complex_table import aten_complex
from .slicing import part
from .table import Context, operands, scalar

NORMS = ("none", "root", "size")  # fft_norm_mode of ATen


@aten_complex("aten._fft_c2c.default")
def fft_c2c(context: Context, self: Complex, dim: list[int], normalization: int, forward: bool) -> Any:
    """_fft_c2c(Tensor self, SymInt[] dim, int normalization, bool forward) -> Tensor"""
    return _transform(self, _axes(self, dim), inverse=not forward, norm=NORMS[normalization])


@aten_complex("aten._fft_r2c.default")
def fft_r2c(context: Context, self: SymbolicTensor, dim: list[int], normalization: int, onesided: bool) -> Any:
    """_fft_r2c(Tensor self, int[] dim, int normalization, bool onesided) -> Tensor"""
    numbers = shaping.reshape(self, shape=(*self.shape, 1))
    axes = _axes(self, dim)
    y = Complex.from_pair(fourier.dft(numbers, axes=axes, norm=NORMS[normalization]))
    if not onesided:
        return y
    axis = axes[-1]  # the other half is the complex conjugate
    return y.each(lambda x: part(x, axis, 0, context.shape[axis]))


@aten_complex("aten._fft_c2r.default")
def fft_c2r(context: Context, self: Complex, dim: list[int], normalization: int, last_dim_size: Dim) -> Any:
    """_fft_c2r(Tensor self, int[] dim, int normalization, SymInt last_dim_size) -> Tensor"""
    norm, axes = NORMS[normalization], _axes(self, dim)
    x = _transform(self, axes[:-1], inverse=True, norm=norm) if len(axes) > 1 else self
    axis, size = axes[-1], self.shape[axes[-1]]
    # The terms of the missing half of the last axis are the complex conjugates of their mirror images. The first
    # element has no mirror image, nor has the one in the middle, if there is one.
    positions = context.builder.create(creation.arange, start=0, stop=size, step=1, dtype=INT64)
    alone = comparison.logical_or(
        comparison.equal(positions, 0), comparison.equal(positions + positions, scalar(context, last_dim_size, INT64))
    )
    weights = elementwise.where(alone, *operands(context, context.dtype, 1.0, 2.0))
    x = x * shaping.reshape(weights, shape=(size, *[1] * (self.ndim - 1 - axis)))
    after = tuple(last_dim_size - size if i == axis else 0 for i in range(self.ndim))
    whole = x.each(lambda half: slicing.pad(half, before=(0,) * self.ndim, after=after))
    return _transform(whole, (axis,), inverse=True, norm=norm).real


def _axes(x: Any, dim: list[int]) -> tuple[int, ...]:
    return tuple(normalize_axis(axis, x.ndim) for axis in dim)


def _transform(x: Complex, axes: tuple[int, ...], *, inverse: bool, norm: str) -> Complex:
    return Complex.from_pair(fourier.dft(x.pair(), axes=axes, inverse=inverse, norm=norm)) if axes else x
