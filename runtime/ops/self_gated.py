"""Activation functions that are `x` times a gate of `x`: silu, mish, gelu.

The gradients recompute the gate, as in ATen, except for mish, whose gate is expensive and therefore kept.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..ir.types import FLOAT64
from ..traits import Traits
from . import elementwise, float64_forms, trigonometry
from .common import add_cotangents, in_float32
from .declarations import from_writer, infer_floating, unary
from .error_function import erf
from .float64_forms import Writer
from .registry import Array, OnnxGraph, Tensor, Type, operator, require


def _silu_kernel(x: Array) -> Array:
    result: Array = np.asarray(np.negative(x))
    np.exp(result, out=result)
    result += 1
    np.divide(x, result, out=result)
    return result


@in_float32
def _silu_vjp(g: Tensor, y: Tensor, x: Tensor) -> Any:
    gate = elementwise.sigmoid(x)
    return g * (gate + y * (1.0 - gate))


@unary(
    infer_floating,
    _silu_kernel,
    vjp=_silu_vjp,
    onnx=from_writer(lambda w, x: w("Mul", x, w("Sigmoid", x))),
)
def silu(x: Tensor) -> Tensor:
    """x * sigmoid(x), also called swish. ATen silu."""


silu.traits = Traits(elementwise=True, smooth_gate=True, family="activation", in_torch="nn.functional", in_cells=True)


# ---- mish ----


@operator
def mish(x: Tensor) -> Tensor:
    """x * tanh(softplus(x)) (Misra 2019). ATen mish, ONNX Mish-22."""


mish.traits = Traits(elementwise=True, smooth_gate=True, family="activation", in_torch="nn.functional", in_cells=True)


@operator
def mish_with_gate(x: Tensor) -> tuple[Tensor, Tensor]:
    """`mish` that also returns what its gradient needs.

    Args:
        x: see `mish`.

    Returns:
        The result of `mish`, and tanh(softplus(x)).
    """


mish_with_gate.traits = Traits(elementwise=True)


mish_with_gate.extends(mish)
mish.infer(infer_floating)


@mish_with_gate.infer
def _(x: Type) -> tuple[Type, Type]:
    return infer_floating(x), x


@mish.kernel
def _(x: Array) -> Array:
    return x * _mish_gate(x)


@mish_with_gate.kernel
def _(x: Array) -> tuple[Array, Array]:
    gate = _mish_gate(x)
    return x * gate, gate


def _mish_gate(x: Array) -> Array:
    return np.asarray(np.tanh(np.logaddexp(x, x.dtype.type(0))))


@mish.vjp
@in_float32
def _(g: Tensor, y: Tensor, x: Tensor) -> Any:
    _, gate = mish_with_gate(x)
    return g * (gate + x * _mish_gate_slope(x, gate))


@mish_with_gate.vjp
@in_float32
def _(g: tuple[Any, Any], y: tuple[Any, Any], x: Tensor) -> Any:
    (g_y, g_gate), (_, gate) = g, y
    slope = _mish_gate_slope(x, gate)
    return add_cotangents(None if g_y is None else g_y * (gate + x * slope), None if g_gate is None else g_gate * slope)


def _mish_gate_slope(x: Any, gate: Any) -> Any:
    return elementwise.sigmoid(x) * (1.0 - gate * gate)


@mish.onnx
def _(graph: OnnxGraph, x: str) -> str:
    if graph.type(x).dtype != FLOAT64 and graph.has("Mish", 18):
        return str(graph.op("Mish", x))
    return str(_mish_onnx(graph, x)[0])


@mish_with_gate.onnx
def _mish_onnx(graph: OnnxGraph, x: str) -> tuple[str, str]:
    w = Writer(graph, graph.type(x).dtype)
    gate = w("Tanh", float64_forms.softplus(w, x) if w.dtype == FLOAT64 else w("Softplus", x))
    return w("Mul", x, gate), gate


# ---- gelu ----


@operator
def gelu(x: Tensor, *, approximate: str = "none") -> Tensor:
    """x times the normal distribution function at x (Hendrycks and Gimpel 2016). ATen gelu, ONNX Gelu-20.

    `approximate` is "none", for 0.5 * x * (1 + erf(x / sqrt(2))), or "tanh", for
    0.5 * x * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 * x**3))).
    """


gelu.traits = Traits(elementwise=True, smooth_gate=True, family="activation", in_torch="nn.functional", in_cells=True)


TANH_SCALE = math.sqrt(2.0 / math.pi)
TANH_CUBIC = 0.044715


@gelu.infer
def _(x: Type, *, approximate: str) -> Type:
    require(approximate in ("none", "tanh"), f"needed approximate 'none' or 'tanh', given {approximate!r}")
    return infer_floating(x)


@gelu.kernel
def _(x: Array, *, approximate: str) -> Array:
    if approximate == "none":
        result = erf(x * math.sqrt(0.5))
    else:
        result = np.asarray(x * x)
        result *= TANH_SCALE * TANH_CUBIC
        result += TANH_SCALE
        result *= x
        np.tanh(result, out=result)
    result += 1
    result *= x
    result *= 0.5
    return result


@gelu.vjp
@in_float32
def _(g: Tensor, y: Tensor, x: Tensor, *, approximate: str) -> Any:
    if approximate == "none":
        density = elementwise.exp(x * x * -0.5) * (1.0 / math.sqrt(2.0 * math.pi))
        slope = (elementwise.erf(x * math.sqrt(0.5)) + 1.0) * 0.5 + x * density
    else:
        square = x * x
        gate = trigonometry.tanh(x * (square * (TANH_SCALE * TANH_CUBIC) + TANH_SCALE))
        inner = square * (3.0 * TANH_SCALE * TANH_CUBIC) + TANH_SCALE
        slope = (gate + 1.0) * 0.5 + x * ((1.0 - gate * gate) * inner) * 0.5
    return g * slope


@gelu.onnx
def _(graph: OnnxGraph, x: str, *, approximate: str) -> str:
    w = Writer(graph, graph.type(x).dtype)
    if w.dtype != FLOAT64 and graph.has("Gelu", 20):
        return str(graph.op("Gelu", x, approximate=approximate))
    if approximate == "none":
        scaled = w("Mul", x, math.sqrt(0.5))
        gate = float64_forms.erf(w, scaled) if w.dtype == FLOAT64 else w("Erf", scaled)
    else:
        gate = w("Tanh", w("Mul", x, w("Add", w("Mul", w("Mul", x, x), TANH_SCALE * TANH_CUBIC), TANH_SCALE)))
    return w("Mul", w("Mul", x, 0.5), w("Add", gate, 1.0))
