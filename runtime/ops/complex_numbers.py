"""Complex numbers as pairs of reals: `Complex` with its arithmetic, and the op `magnitude`.

The IR has no complex dtypes. A complex tensor of shape S is a real one of shape (*S, 2) with the real parts first, the
layout of `torch.view_as_real` and ONNX DFT-17. A gradient has the same layout: the derivatives with respect to the real
and the imaginary part, which is torch's convention for the gradient of a real number with respect to a complex one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..ir.dims import Dim
from ..ir.types import FLOAT64
from ..tensor_like import Compound
from ..traits import Traits
from . import comparison, creation, elementwise, linear, shaping, slicing
from .common import in_float32, unbroadcast
from .declarations import infer_floating, zero
from .registry import Array, OnnxGraph, Tensor, operator


class Complex(Compound):
    """A complex tensor as two real ones of the same dtype and shape, which are symbolic tensors or arrays."""

    __array_ufunc__ = None  # NumPy leaves `array * complex` to us

    def __init__(self, real: Any, imaginary: Any) -> None:
        self._parts: Any = real, imaginary
        self._pair: Any = None

    @classmethod
    def from_pair(cls, pair: Any) -> Complex:
        """Return the complex numbers in a tensor of shape (..., 2), which is split when a part is first used."""
        result = cls(None, None)
        result._parts, result._pair = None, pair
        return result

    @property
    def real(self) -> Any:
        """The real parts."""
        return self._split()[0]

    @property
    def imaginary(self) -> Any:
        """The imaginary parts."""
        return self._split()[1]

    def _split(self) -> Any:
        if self._parts is None:
            shape, axis = tuple(self._pair.shape[:-1]), len(self._pair.shape) - 1

            def part(i: int) -> Any:
                component = slicing.slice(self._pair, starts=(i,), stops=(i + 1,), steps=(1,), axes=(axis,))
                return shaping.reshape(component, shape=shape)

            self._parts = part(0), part(1)
        return self._parts

    @classmethod
    def from_real(cls, x: Any) -> Complex:
        """Return real numbers as complex ones."""
        return x if isinstance(x, Complex) else cls(x, creation.full_like(x, 0))

    def pair(self) -> Any:
        """Return the same numbers as a tensor of shape (..., 2), which is built once."""
        if self._pair is None:
            shape = (*self.shape, 1)
            parts = (shaping.reshape(part, shape=shape) for part in (self.real, self.imaginary))
            self._pair = slicing.concat(*parts, axis=len(shape) - 1)
        return self._pair

    @property
    def dtype(self) -> np.dtype[Any]:
        """Dtype of the parts."""
        dtype: np.dtype[Any] = self.real.dtype
        return dtype

    @property
    def shape(self) -> tuple[Dim, ...]:
        """Shape of the parts."""
        return tuple(self.real.shape)

    @property
    def ndim(self) -> int:
        """Number of dimensions of the parts."""
        return len(self.real.shape)

    def each(self, function: Callable[[Any], Any]) -> Complex:
        """Apply `function` to both parts."""
        return Complex(function(self.real), function(self.imaginary))

    def conjugate(self) -> Complex:
        """Return the complex conjugate."""
        return Complex(self.real, -self.imaginary)

    def times_i(self) -> Complex:
        """Return the product with the imaginary unit."""
        return Complex(-self.imaginary, self.real)

    def squared_magnitude(self) -> Any:
        """Return the squares of the absolute values, a real tensor."""
        return self.real * self.real + self.imaginary * self.imaginary

    def __neg__(self) -> Complex:
        return Complex(-self.real, -self.imaginary)

    def __add__(self, other: Any) -> Complex:
        if isinstance(other, Complex):
            return Complex(self.real + other.real, self.imaginary + other.imaginary)
        return Complex(self.real + other, elementwise.add(self.imaginary, _zeros(other)))

    __radd__ = __add__

    def __sub__(self, other: Any) -> Complex:
        return self.__add__(-other)

    def __rsub__(self, other: Any) -> Complex:
        return (-self).__add__(other)

    def __mul__(self, other: Any) -> Complex:
        if not isinstance(other, Complex):
            return Complex(self.real * other, self.imaginary * other)
        a, b, c, d = self.real, self.imaginary, other.real, other.imaginary
        return Complex(a * c - b * d, a * d + b * c)

    __rmul__ = __mul__

    def __truediv__(self, other: Any) -> Complex:
        if not isinstance(other, Complex):
            return Complex(self.real / other, self.imaginary / other)
        # divide by the larger part first, so that no square overflows or underflows
        size = elementwise.maximum(elementwise.abs(other.real), elementwise.abs(other.imaginary))
        scaled: Complex = other / elementwise.where(comparison.equal(size, zero(size)), np.ones((), size.dtype), size)
        product: Complex = self * scaled.conjugate()
        return product.__truediv__(scaled.squared_magnitude() * size)

    def __rtruediv__(self, other: Any) -> Complex:
        real = creation.full_like(self.real, other) if isinstance(other, (int, float)) else other
        return Complex.from_real(real).__truediv__(self)

    def __matmul__(self, other: Any) -> Complex:
        if not isinstance(other, Complex):
            return Complex(linear.matmul(self.real, other), linear.matmul(self.imaginary, other))
        a, b, c, d = self.real, self.imaginary, other.real, other.imaginary
        return Complex(linear.matmul(a, c) - linear.matmul(b, d), linear.matmul(a, d) + linear.matmul(b, c))

    def __rmatmul__(self, other: Any) -> Complex:
        return Complex(linear.matmul(other, self.real), linear.matmul(other, self.imaginary))


def _zeros(x: Any) -> Any:
    """Return zeros that broadcast like `x` in a sum."""
    return creation.full_like(x, 0) if getattr(x, "shape", ()) else 0.0


def as_complex(x: Array) -> Array:
    """Return a NumPy array of complex numbers, in the same precision, from pairs (..., 2) or real numbers (..., 1)."""
    dtype = np.complex128 if x.dtype == FLOAT64 else np.complex64
    return x[..., 0].astype(dtype) if x.shape[-1] == 1 else np.ascontiguousarray(x).view(dtype)[..., 0]


def as_pairs(x: Array, dtype: np.dtype[Any]) -> Array:
    """Return complex numbers as pairs (..., 2) of `dtype`."""
    return np.stack([x.real, x.imag], axis=-1).astype(dtype, copy=False)


@operator
def magnitude(real: Tensor, imaginary: Tensor) -> Tensor:
    """Absolute values of complex numbers, with the gradient 0 at 0: ATen `abs` of complex tensors.

    Args:
        real: real parts, floating-point.
        imaginary: imaginary parts; the two broadcast.
    """


magnitude.traits = Traits(elementwise=True)


magnitude.infer(infer_floating)
magnitude.kernel(np.hypot)


@magnitude.vjp
@in_float32
def _(g: Tensor, y: Tensor, real: Tensor, imaginary: Tensor) -> Any:
    share = g / elementwise.where(comparison.equal(y, zero(y)), np.ones((), y.dtype), y)
    return unbroadcast(share * real, real), unbroadcast(share * imaginary, imaginary)


@magnitude.onnx
def _(graph: OnnxGraph, real: str, imaginary: str) -> Any:
    # in float64, so that squares of float32 numbers neither overflow nor underflow
    parts = [graph.cast(part, FLOAT64) for part in (real, imaginary)]
    squares = graph.op("Add", *(graph.op("Mul", part, part) for part in parts))
    return graph.op("Cast", graph.op("Sqrt", squares), to=graph.type(real).dtype)
