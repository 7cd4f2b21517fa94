"""Loss scales that users apply themselves, in the function that they differentiate.

Small gradients vanish in float16. A loss that is multiplied by a scale makes every gradient in the chain larger by that
factor, which is divided out before the update:

    def forward(data, label):
        loss = loss_fn(network(data), label)
        return scaler.scale(loss), loss

    (_, loss), gradients = value_and_grad(forward, None, optimizer.parameters, has_aux=True)(data, label)
    gradients = scaler.unscale(gradients)
    finite = all_finite(gradients)
    if finite:
        optimizer(gradients)
    scaler.adjust(finite)
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import numpy as np

from ... import checks
from ...common.dtype import bool_, float32, float64, int32
from ...common.parameter import Parameter
from ...common.tensor import Tensor, from_array
from ...functional.operands import as_tensor
from ...ir.types import is_floating, is_half
from ...ops import comparison, elementwise, reduction, shaping
from ...tree import rebuild

FLOAT32_MAX = float(np.finfo(np.float32).max)
"""The largest loss scale."""


def all_finite(inputs: Any) -> Tensor:
    """Return whether all elements of the tensors are finite, as a 0-d bool tensor; True if there are no tensors.

    Args:
        inputs: a tuple or list of tensors, which may be nested; integers and bools count as finite.

    Raises:
        TypeError: `inputs` is a single tensor, or contains other values than tensors.
    """
    if not isinstance(inputs, (tuple, list)):
        raise TypeError(f"For 'all_finite', 'inputs' must be a tuple or list of Tensors, but got {type(inputs)}")
    finite: Any = from_array(np.asarray(True))
    for item in inputs:
        if isinstance(item, (tuple, list)):
            each = all_finite(item)
        elif not isinstance(item, Tensor):
            raise TypeError(f"For 'all_finite', 'inputs' must hold Tensors, but got {type(item).__name__}: {item!r}")
        elif is_floating(item.dtype):
            each = reduction.reduce_all(comparison.isfinite(item))
        else:
            continue
        finite = comparison.logical_and(finite, each)
    result: Tensor = finite
    return result


class LossScaler(ABC):
    """The base class of loss scalers, which scale a loss and unscale gradients."""

    scale_value: Parameter

    @abstractmethod
    def scale(self, inputs: Any) -> Any:
        """Multiply a tensor, or each tensor in a tuple or list, by the scale."""

    @abstractmethod
    def unscale(self, inputs: Any) -> Any:
        """Divide a tensor, or each tensor in a tuple or list, by the scale."""

    @abstractmethod
    def adjust(self, grads_finite: Any) -> bool:
        """Adjust the scale after a step with or without finite gradients; return whether the scale can change."""


class StaticLossScaler(LossScaler):
    """A constant loss scale.

    Args:
        scale_value: the scale, >= 1.

    Attributes:
        scale_value: the scale, a 0-d float32 Parameter.

    Raises:
        TypeError: `scale_value` isn't a number.
        ValueError: it is below 1.
    """

    def __init__(self, scale_value: float) -> None:
        self.scale_value = _as_scale(scale_value, of=type(self).__name__)

    def scale(self, inputs: Any) -> Any:
        """Multiply a tensor, or each tensor in a tuple or list, by the scale, keeping dtypes."""
        return scale_tensors(inputs, self.scale_value)

    def unscale(self, inputs: Any) -> Any:
        """Divide a tensor, or each tensor in a tuple or list, by the scale, keeping dtypes."""
        return scale_tensors(inputs, inverse(self.scale_value))

    def adjust(self, grads_finite: Any) -> bool:
        """Do nothing; return False."""
        return False


class DynamicLossScaler(StaticLossScaler):
    """A loss scale that falls after an overflow, and rises after a number of steps without one.

    Args:
        scale_value: the initial scale, >= 1.
        scale_factor: an int > 0; the scale is divided by it after an overflow, down to 1, and multiplied by it
            otherwise.
        scale_window: the number of steps without overflow after which the scale rises.

    Attributes:
        scale_value: the scale, a 0-d float32 Parameter.
        counter: steps without overflow since the scale was last changed, a 0-d int32 Parameter.

    Raises:
        TypeError: an argument has a wrong type.
        ValueError: `scale_value`, `scale_factor` or `scale_window` is below 1.
    """

    def __init__(self, scale_value: float, scale_factor: int, scale_window: int) -> None:
        super().__init__(scale_value)
        self.scale_window = checks.positive_int(scale_window, "scale_window", of=type(self).__name__)
        self.scale_factor = checks.positive_int(scale_factor, "scale_factor", of=type(self).__name__)
        self.counter = Parameter(np.asarray(0, int32), name="counter")

    def adjust(self, grads_finite: Any) -> bool:
        """Lower the scale after an overflow, raise it after `scale_window` steps without one; return True.

        Args:
            grads_finite: a bool, or a bool tensor of one element.

        Raises:
            TypeError: `grads_finite` is neither.
        """
        finite, counter = _as_bool(grads_finite), as_tensor(self.counter)
        due = counter == self.scale_window - 1
        self.scale_value.set_data(adjust_scale(self.scale_value, ~finite, due, self.scale_factor))
        self.counter.set_data(((counter + 1) % self.scale_window).masked_fill(~finite, 0))
        return True


def _as_scale(scale_value: float, *, of: str) -> Parameter:
    checks.in_range(scale_value, "scale_value", "[1, inf)", of=of)
    if scale_value > FLOAT32_MAX:
        raise ValueError(f"For '{of}', 'scale_value' must be within the range of float32, but got {scale_value}")
    return Parameter(np.asarray(scale_value, float32), name="scale_value")


def _as_bool(value: Any) -> Any:
    if isinstance(value, (bool, np.bool_)):
        return Tensor(bool(value))
    if isinstance(value, Tensor) and value.dtype == bool_:
        return shaping.reshape(value, shape=())
    raise TypeError(f"For 'adjust', 'grads_finite' must be a bool or a bool Tensor, but got {value!r}")


def adjust_scale(scale: Any, overflow: Any, due: Any, factor: float) -> Any:
    """Return the loss scale after a step: lower after an overflow, down to 1, higher if due and within float32's range.

    Args:
        scale: tensor of one element.
        overflow: 0-d bool tensor: whether a gradient of the step wasn't finite.
        due: 0-d bool tensor: whether there was no overflow for enough steps.
        factor: the number to divide or multiply the scale by.

    Returns:
        The scale, float64 with the shape of `scale`.
    """
    now = elementwise.cast(scale, dtype=float64)
    larger = now * factor
    larger = elementwise.where(due.logical_and(larger <= FLOAT32_MAX), larger, now)
    return elementwise.where(overflow, elementwise.maximum(now / factor, 1.0), larger)


def inverse(scale: Any) -> Any:
    """Return 1 / scale, in float64."""
    return 1 / elementwise.cast(scale, dtype=float64)


def scale_tensors(inputs: Any, factor: Any) -> Any:
    """Multiply a tensor, or each tensor in a tuple or list, by a number, keeping dtypes; large results may overflow.

    `factor` is a number or a tensor of one element.

    Raises:
        TypeError: `inputs` has other values than tensors.
    """
    if isinstance(inputs, (tuple, list)):
        return rebuild(inputs, [scale_tensors(item, factor) for item in inputs])
    if not isinstance(inputs, Tensor):
        raise TypeError(f"a loss scale applies to a Tensor or a tuple of Tensors, but got {type(inputs).__name__}")
    number = shaping.reshape(factor, shape=()) if isinstance(factor, Tensor) else from_array(np.asarray(factor))
    if not is_half(inputs.dtype):
        return elementwise.mul(inputs, elementwise.cast(number, dtype=inputs.dtype))
    # a scale, or its inverse, may be out of range in half precision
    product = elementwise.mul(elementwise.cast(inputs, dtype=float32), elementwise.cast(number, dtype=float32))
    return elementwise.cast(product, dtype=inputs.dtype)
