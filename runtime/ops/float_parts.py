"""Parts of floating-point numbers (sign, mantissa, exponent), and neighbouring numbers."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..ir.types import BFLOAT16, FLOAT16, FLOAT32, FLOAT64, INT32, is_floating
from ..traits import Traits
from . import comparison, creation, elementwise, float64_forms
from .common import unbroadcast
from .declarations import infer_broadcast, zero
from .float64_forms import Writer
from .registry import Array, OnnxGraph, Tensor, Type, operator, require

_SIGN = "a sign is a step function"


@operator
def signbit(x: Tensor) -> Tensor:
    """Whether the sign is minus, also for zeros; bool. ATen signbit. (In ONNX, NaN counts as plus.)"""


signbit.traits = Traits(elementwise=True, in_torch="torch")


@signbit.infer
def _(x: Type) -> Type:
    return x.with_dtype(np.dtype(np.bool_))


@signbit.kernel
def _(x: Array) -> Any:
    return np.signbit(x) if is_floating(x.dtype) else x < 0


signbit.no_vjp(_SIGN)


@signbit.onnx
def _(graph: OnnxGraph, x: str) -> str:
    w = Writer(graph, graph.type(x).dtype)
    return float64_forms.signbit(w, x) if is_floating(w.dtype) else w("Less", x, 0.0)


# by dtype: half a unit in the last place of 1, and the smallest positive number
_PRECISION = {
    FLOAT64: (2.0**-53, 5e-324),
    FLOAT32: (2.0**-24, 2.0**-149),
    FLOAT16: (2.0**-11, 2.0**-24),
    BFLOAT16: (2.0**-8, 2.0**-133),
}


@operator
def nextafter(x: Tensor, towards: Tensor) -> Tensor:
    """The number next to `x` in the direction of `towards`; NaN if either is. ATen nextafter."""


nextafter.traits = Traits(elementwise=True, in_torch="torch")


nextafter.infer(infer_broadcast)


@nextafter.vjp
def _(g: Tensor, y: Tensor, x: Tensor, towards: Tensor) -> tuple[Any, None]:
    differs = comparison.not_equal(x, towards)  # as in ATen, no gradient flows where the two are equal
    return unbroadcast(elementwise.where(differs, g, zero(g)), x), None


@nextafter.native_kernel
def _(x: Array, towards: Array) -> Any:
    if x.dtype == FLOAT64 or x.dtype == FLOAT32 or x.dtype == FLOAT16:
        return np.nextafter(x, towards)
    # bfloat16 is the upper half of float32: neighbouring numbers have neighbouring bit patterns
    x, towards = np.broadcast_arrays(x, towards)
    bits = np.ascontiguousarray(x).view(np.int16)
    away = np.where((towards > x) == (bits >= 0), 1, -1).astype(np.int16)
    from_zero = np.where(towards > x, 1, np.int16(-32767)).astype(np.int16)
    neighbour = np.where(x == 0, from_zero, bits + away).astype(np.int16).view(BFLOAT16).reshape(x.shape)
    return np.where((x != x) | (towards != towards), x + towards, np.where(x == towards, towards, neighbour))


@nextafter.onnx
def _(graph: OnnxGraph, x: str, towards: str) -> str:
    # S. Rump et al., "Computing predecessor and successor in rounding to nearest", BIT 49 (2009), algorithm 1
    w = Writer(graph, graph.type(x).dtype)
    unit, smallest = _PRECISION[w.dtype]
    step = w("Max", w("Mul", w("Abs", x), unit * (1 + 2 * unit)), smallest)
    neighbour = w("Add", x, w("Mul", w("Sign", w("Sub", towards, x)), step))
    neighbour = w("Where", w("Equal", x, towards), towards, neighbour)
    return w("Where", w("IsNaN", w("Add", x, towards)), w("Add", x, towards), neighbour)


@operator
def frexp(x: Tensor) -> tuple[Tensor, Tensor]:
    """Mantissa in [0.5, 1) (or 0), and exponent to base 2 (int32). ATen frexp."""


frexp.traits = Traits(elementwise=True, exact=True)


@frexp.infer
def _(x: Type) -> tuple[Type, Type]:
    require(is_floating(x.dtype), f"needed a floating-point operand, given {x}")
    return x, x.with_dtype(INT32)


@frexp.kernel
def _(x: Array) -> tuple[Array, Array]:
    mantissa, exponent = np.frexp(x)
    return np.asarray(mantissa), np.asarray(exponent).astype(np.int32)


@frexp.vjp
def _(g: tuple[Tensor | None, None], y: tuple[Tensor, Tensor], x: Tensor) -> Any:
    if g[0] is None:
        return None
    exponent = elementwise.cast(y[1], dtype=x.dtype)
    return g[0] / elementwise.pow(creation.full_like(x, 2.0), exponent)


@frexp.onnx
def _(graph: OnnxGraph, x: str) -> tuple[str, str]:
    dtype = graph.type(x).dtype
    w = Writer(graph, FLOAT64)
    wide = graph.cast(x, FLOAT64)
    size = w("Abs", wide)
    exponent = w("Floor", w("Add", w("Div", w("Log", size), float(np.log(2.0))), 1.0))
    # rounding may make the logarithm too large or too small by one
    for comparison_name, change in (("GreaterOrEqual", 1.0), ("Less", -1.0)):
        bound = 1.0 if change > 0 else 0.5
        off = w(comparison_name, w("Div", size, w("Pow", 2.0, exponent)), bound)
        exponent = w("Add", exponent, w("Where", off, change, 0.0))
    ordinary = w("And", w("Greater", size, 0.0), w("Less", size, float("inf")))
    exponent = w("Where", ordinary, exponent, 0.0)
    return graph.cast(w("Div", wide, w("Pow", 2.0, exponent)), dtype), graph.cast(exponent, INT32)
