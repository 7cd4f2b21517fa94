"""The discrete Fourier transform of complex numbers, given as pairs of reals along the last axis."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..ir.types import FLOAT64, is_floating
from ..traits import Traits
from . import slicing
from .common import in_float32, normalize_axes
from .complex_numbers import as_complex, as_pairs
from .registry import Array, OnnxGraph, Tensor, Type, operator, require

_NUMPY_NORM: dict[str, Any] = {"none": "backward", "root": "ortho", "size": "forward"}
_NUMPY_INVERSE_NORM: dict[str, Any] = {"none": "forward", "root": "ortho", "size": "backward"}


@operator
def dft(x: Tensor, *, axes: tuple[int, ...], inverse: bool = False, norm: str = "none") -> Tensor:
    """Discrete Fourier transform: ATen `_fft_c2c`, ONNX DFT-17.

    Along one axis of n elements, y[k] is the sum of x[j] exp(-2 pi i j k / n) over j; with `inverse` the exponent is
    positive.

    Args:
        x: (*S, 2), complex numbers as pairs; or (*S, 1), real numbers.
        axes: axes of S to transform, one after the other; negative ones count from the end of (*S, 2).
        inverse: whether the exponent is positive.
        norm: the divisor of the result: "none" for 1, "size" for the number n of transformed elements, "root" for the
            square root of n. `inverse=True, norm="size"` inverts `inverse=False, norm="none"`.

    Returns:
        (*S, 2).
    """


dft.traits = Traits(costly=True)


@dft.infer
def _(x: Type, *, axes: tuple[int, ...], inverse: bool, norm: str) -> Type:
    require(is_floating(x.dtype), f"needed floating-point numbers, given {x}; cast first")
    require(x.rank > 0 and x.shape[-1] in (1, 2), f"needed a last axis of 2 (complex) or 1 (real), given {x.shape}")
    require(norm in _NUMPY_NORM, f"needed one of the norms {', '.join(_NUMPY_NORM)}, given {norm!r}")
    require(len(axes) > 0, "needed an axis to transform")
    require(
        x.rank - 1 not in normalize_axes(axes, x.rank),
        "the last axis holds real and imaginary parts and can't be transformed",
    )
    return x.with_shape((*x.shape[:-1], 2))


@dft.kernel
def _(x: Array, *, axes: tuple[int, ...], inverse: bool, norm: str) -> Array:
    numbers = as_complex(x)
    at = [axis % x.ndim for axis in axes]
    transform, norms = (np.fft.ifftn, _NUMPY_INVERSE_NORM) if inverse else (np.fft.fftn, _NUMPY_NORM)
    return as_pairs(transform(numbers, axes=at, norm=norms[norm]) if numbers.size else numbers, x.dtype)


@dft.vjp
@in_float32
def _(g: Tensor, y: Tensor, x: Tensor, *, axes: tuple[int, ...], inverse: bool, norm: str) -> Any:
    # the matrix of the transform is symmetric, so its conjugate transpose has the opposite exponent
    back = dft(g, axes=axes, inverse=not inverse, norm=norm)
    if x.shape[-1] == 2:
        return back
    return slicing.slice(back, starts=(0,), stops=(1,), steps=(1,), axes=(x.ndim - 1,))


@dft.onnx
def _(graph: OnnxGraph, x: str, *, axes: tuple[int, ...], inverse: bool, norm: str) -> Any:
    type = graph.type(x)
    at = [axis % type.rank for axis in axes]
    sizes = [type.shape[axis] for axis in at]
    # ONNX Runtime loses digits in float32 where the size isn't a power of two
    exact = all(isinstance(size, int) and size & (size - 1) == 0 for size in sizes)
    dtype = type.dtype if exact else FLOAT64
    y = x if exact else graph.cast(x, dtype)
    if type.shape[-1] == 1 and inverse:
        pads = [0] * (2 * type.rank - 1) + [1]
        y = graph.op("Pad", y, graph.constant(pads, np.int64))
    y = _swap_parts(graph, y) if inverse else y
    for axis in at:
        y = _transform(graph, y, axis)
    y = _swap_parts(graph, y) if inverse else y
    if norm != "none":
        count = graph.op("ReduceProd", graph.cast(graph.dims(tuple(sizes)), dtype), keepdims=0)
        y = graph.op("Div", y, graph.op("Sqrt", count) if norm == "root" else count)
    return y if exact else graph.op("Cast", y, to=type.dtype)


def _transform(graph: OnnxGraph, x: str, axis: int) -> str:
    if graph.opset < 20:
        return str(graph.op("DFT", x, axis=axis))
    return str(graph.op("DFT", x, "", graph.constant(axis, np.int64)))


def _swap_parts(graph: OnnxGraph, x: str) -> str:
    """Swap real and imaginary parts; a forward transform between two swaps is an inverse transform.

    ONNX Runtime divides by n in an inverse DFT, and uses 1 / n in float32 even in float64.
    """
    return str(graph.op("Gather", x, graph.constant([1, 0], np.int64), axis=-1))
