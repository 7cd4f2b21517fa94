"""Integer arithmetic in ONNX that is exact in all 64 bits: division, shifts, powers.

ONNX Runtime computes Pow, and before 1.32 Mod with fmod=1, in float64, which has 53 bits; and it crashes in Div, before
1.32 also in Mod, of the smallest integer by -1.
"""

from __future__ import annotations

import numpy as np

from ..ir.types import INT64
from .float64_forms import Writer
from .registry import OnnxGraph

WIDTH = 64
_UINT64 = np.dtype(np.uint64)


def _divisor(w: Writer, b: str) -> str:
    """Return the divisor, with 1 instead of -1."""
    return w("Where", w("Equal", b, -1), 1, b) if w.dtype.kind == "i" else b


def _truncated_quotient(w: Writer, a: str, b: str) -> str:
    """Return the quotient truncated towards 0."""
    if w.dtype.kind != "i":
        return w("Div", a, b)
    minus_one = w("Equal", b, -1)
    return w("Div", w("Where", minus_one, w("Neg", a), a), w("Where", minus_one, 1, b))


def truncated_remainder(graph: OnnxGraph, a: str, b: str) -> str:
    """Return the remainder of truncated division, with the sign of `a`."""
    w = Writer(graph, graph.type(a).dtype)
    return w("Sub", a, w("Mul", _truncated_quotient(w, a, b), b))


def remainder(graph: OnnxGraph, a: str, b: str) -> str:
    """Return the remainder of floor division, with the sign of `b`."""
    w = Writer(graph, graph.type(a).dtype)
    return w("Mod", a, _divisor(w, b))


def floor_quotient(graph: OnnxGraph, a: str, b: str) -> str:
    """Return the quotient rounded down: the truncated quotient, minus 1 where the remainders differ."""
    w = Writer(graph, graph.type(a).dtype)
    quotient = _truncated_quotient(w, a, b)
    same = w("Equal", w("Sub", a, w("Mul", quotient, b)), w("Mod", a, _divisor(w, b)))
    return w("Where", same, quotient, w("Sub", quotient, 1))


def left_shift(graph: OnnxGraph, a: str, b: str) -> str:
    """Return a * 2**b without bits beyond the width; 0 if b isn't from 0 to 63."""
    w, dtype, a, b, fits = _shift_operands(graph, a, b)
    shifted = graph.op(
        "BitShift", graph.cast(a, _UINT64), _to_unsigned(graph, w("Where", fits, b, 0)), direction="LEFT"
    )
    return graph.cast(w("Where", fits, _to_signed(graph, shifted), 0), dtype)


def right_shift(graph: OnnxGraph, a: str, b: str) -> str:
    """Return a / 2**b rounded down; 0 or -1 by the sign of a if b isn't from 0 to 63."""
    w, dtype, a, b, fits = _shift_operands(graph, a, b)
    negative = w("Less", a, 0)
    bits = _to_unsigned(graph, w("Where", negative, w("Sub", -1, a), a))  # without the sign
    shifted = graph.op("BitShift", bits, _to_unsigned(graph, w("Where", fits, b, WIDTH - 1)), direction="RIGHT")
    result = _to_signed(graph, shifted)
    return graph.cast(w("Where", negative, w("Sub", -1, result), result), dtype)


def _shift_operands(graph: OnnxGraph, a: str, b: str) -> tuple[Writer, np.dtype[np.generic], str, str, str]:
    """Return a writer for int64, the dtype of `a`, both operands in int64, and whether `b` is from 0 to 63."""
    w, dtype = Writer(graph, INT64), graph.type(a).dtype
    a, b = graph.cast(a, INT64), graph.cast(b, INT64)
    return w, dtype, a, b, w("And", w("GreaterOrEqual", b, 0), w("Less", b, WIDTH))


def _to_unsigned(graph: OnnxGraph, x: str) -> str:
    return str(graph.op("Cast", x, to=_UINT64))


def _to_signed(graph: OnnxGraph, x: str) -> str:
    return str(graph.op("Cast", x, to=INT64))


def power(graph: OnnxGraph, a: str, b: str) -> str:
    """Return a ** b by squaring: 1 / a ** -b truncated for negative b; 0 for b of at least 64 unless a is 1 or -1."""
    dtype, constant = graph.type(a).dtype, graph.constant_value(b)
    w, a = Writer(graph, INT64), graph.cast(a, INT64)
    if constant is not None and constant.ndim == 0 and 0 < constant < WIDTH:
        return str(graph.op("Cast", _constant_power(w, a, int(constant)), to=dtype))
    b = graph.cast(b, INT64)
    odd = w("Equal", w("Mod", b, 2), 1)
    result, square, exponent = w("Where", odd, a, 1), a, b
    for _ in range(1, (WIDTH - 1).bit_length()):
        square, exponent = w("Mul", square, square), w("Div", exponent, 2)
        result = w("Mul", result, w("Where", w("Equal", w("Mod", exponent, 2), 1), square, 1))
    small = w("Less", w("Abs", w("Where", w("Equal", a, int(np.iinfo(INT64).min)), 2, a)), 2)  # 0, 1 or -1
    unit_power = w("Where", odd, a, w("Mul", a, a))
    outside = w("Or", w("Less", b, 0), w("GreaterOrEqual", b, WIDTH))
    result = w("Where", outside, w("Where", small, unit_power, 0), result)
    return str(graph.op("Cast", result, to=dtype))


def _constant_power(w: Writer, a: str, exponent: int) -> str:
    if exponent == 1:
        return w("Mul", a, 1)
    half = _constant_power(w, a, exponent // 2) if exponent > 3 else a
    square = w("Mul", half, half)
    return w("Mul", square, a) if exponent % 2 else square
