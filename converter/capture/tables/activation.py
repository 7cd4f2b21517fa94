"""ATen activation functions and softmax."""

from __future__ import annotations

from typing import Any

from ....runtime.ops import activation as ops
from ....runtime.ops import comparison, elementwise, random, rectifier, reduction, shaping, slicing
from ....runtime.ops.common import normalize_axis
from ....runtime.tracing import SymbolicTensor
from ...rows import Row
from .table import Context, aten, cast, operands, pass_on


@aten("aten.log_sigmoid_forward.default")
def log_sigmoid_forward(context: Context, self: SymbolicTensor) -> tuple[SymbolicTensor, None]:
    """log_sigmoid_forward(Tensor self) -> (Tensor output, Tensor buffer)"""
    return ops.log_sigmoid(self), None


@aten("aten.elu.default")
def elu(context: Context, self: SymbolicTensor, alpha: float = 1, scale: float = 1, input_scale: float = 1) -> Any:
    """elu(Tensor self, Scalar alpha=1, Scalar scale=1, Scalar input_scale=1) -> Tensor"""
    return rectifier.elu(self, alpha=float(alpha), scale=float(scale), input_scale=float(input_scale))


@aten("aten.celu.default")
def celu(context: Context, self: SymbolicTensor, alpha: float = 1.0) -> Any:
    """celu(Tensor self, Scalar alpha=1.) -> Tensor"""
    return rectifier.elu(self, alpha=float(alpha), scale=1.0, input_scale=1.0 / alpha)


@aten("aten.prelu.default")
def prelu(context: Context, self: SymbolicTensor, weight: SymbolicTensor) -> Any:
    """prelu(Tensor self, Tensor weight) -> Tensor"""
    x = self if self.ndim else shaping.reshape(self, shape=(1,))
    y = rectifier.prelu(x, weight if weight.ndim else shaping.reshape(weight, shape=(1,)))
    return y if self.ndim else shaping.reshape(y, shape=())


@aten("aten.rrelu.default")
def rrelu(
    context: Context, self: SymbolicTensor, lower: float = 0.125, upper: float = 1 / 3, training: bool = False
) -> Any:
    """rrelu(Tensor self, Scalar lower=0.125, Scalar upper=0.3333333333333333, bool training=False, Generator?
    generator=None) -> Tensor
    """
    if training:  # eager torch draws a slope for each element that is negative or 0, and takes 1 for the others
        sampled = context.builder.create(
            random.uniform, shape=self.shape, low=float(lower), high=float(upper), dtype=self.dtype
        )
        return elementwise.where(comparison.less_equal(self, 0.0), self * sampled, self)
    return rectifier.leaky_relu(self, negative_slope=(lower + upper) / 2)


@aten("aten.rrelu_with_noise_functional.default")
def rrelu_with_noise(
    context: Context,
    self: SymbolicTensor,
    noise: SymbolicTensor,
    lower: float = 0.125,
    upper: float = 1 / 3,
    training: bool = False,
) -> tuple[Any, SymbolicTensor]:
    """rrelu_with_noise_functional(Tensor self, Tensor noise, Scalar lower=0.125, Scalar upper=0.3333333333333333, bool
    training=False, Generator? generator=None) -> (Tensor, Tensor noise_out)
    """
    return rrelu(context, self, lower, upper, training), noise


@aten("aten.threshold.default")
def threshold(context: Context, self: SymbolicTensor, threshold: float, value: float) -> Any:
    """threshold(Tensor self, Scalar threshold, Scalar value) -> Tensor"""
    below = comparison.less_equal(self, threshold)
    return elementwise.where(below, context.builder.constant(value, self.dtype), self)


@aten("aten.glu.default")
def glu(context: Context, self: SymbolicTensor, dim: int = -1) -> Any:
    """glu(Tensor self, int dim=-1) -> Tensor"""
    axis = normalize_axis(dim, self.ndim)
    half, whole = self.shape[axis] // 2, self.shape[axis]
    values = slicing.slice(self, starts=(0,), stops=(half,), steps=(1,), axes=(axis,))
    gates = slicing.slice(self, starts=(half,), stops=(whole,), steps=(1,), axes=(axis,))
    return values * elementwise.sigmoid(gates)


@aten("aten.softmax.int", "aten._softmax.default")
def softmax(context: Context, self: SymbolicTensor, dim: int, dtype: Any = None) -> Any:
    """softmax.int(Tensor self, int dim, ScalarType? dtype=None) -> Tensor"""
    return _apply_along(context, ops.softmax, self, dim)


@aten("aten.log_softmax.int", "aten._log_softmax.default")
def log_softmax(context: Context, self: SymbolicTensor, dim: int, dtype: Any = None) -> Any:
    """log_softmax.int(Tensor self, int dim, ScalarType? dtype=None) -> Tensor"""
    return _apply_along(context, ops.log_softmax, self, dim)


@aten("aten._safe_softmax.default")
def safe_softmax(context: Context, self: SymbolicTensor, dim: int, dtype: Any = None) -> Any:
    """_safe_softmax(Tensor self, int dim, ScalarType? dtype=None) -> Tensor: 0 where all along the axis is -infinite"""
    x = cast(self, context.dtype)
    axis = normalize_axis(dim, x.ndim)
    zero, lowest = operands(context, x.dtype, 0.0, float("-inf"))
    some = reduction.reduce_any(comparison.not_equal(x, lowest), axes=(axis,) if x.ndim else None, keepdims=True)
    return elementwise.where(some, ops.softmax(elementwise.where(some, x, zero), axis=axis), zero)


def _apply_along(context: Context, op: Any, x: SymbolicTensor, dim: int) -> Any:
    return op(cast(x, context.dtype), axis=normalize_axis(dim, x.ndim))


ROWS: dict[str, Row] = {
    "aten.log_sigmoid.default": (ops.log_sigmoid, "self"),
    "aten.hardtanh.default": (rectifier.hardtanh, "self, minimum=min_val, maximum=max_val"),
    "aten.relu6.default": (rectifier.hardtanh, "self, minimum=0.0, maximum=6.0"),
}
pass_on(ROWS)
