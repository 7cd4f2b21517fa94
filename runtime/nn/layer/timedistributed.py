"""A layer applied to every step of a sequence."""

from __future__ import annotations

from typing import Any

from ... import checks
from ...functional.joining import stack, unstack
from ...functional.operands import as_tensor
from ...functional.public_op import OperatorObject
from ...ops import shaping
from ...ops.common import normalize_axis
from ...tensor_like import TensorLike
from ..cell import Cell


class TimeDistributed(Cell):
    """A layer applied to every step of a sequence.

    Args:
        layer: a Cell or operator object.
        time_axis: the axis of the steps.
        reshape_with_axis: None: the layer is called for each step. An axis next to `time_axis` (the batch): the two are
            merged and the layer is called once, which is faster, but wrong for layers that mix samples of a batch.

    Raises:
        TypeError: `layer` isn't a layer, or an axis isn't an int; in a call, the layer doesn't return a tensor.
        ValueError: at a call, the input has fewer than 3 dimensions, there is no such axis, the two axes aren't
            neighbours, or the layer changes them.
    """

    def __init__(self, layer: Any, time_axis: int, reshape_with_axis: int | None = None) -> None:
        super().__init__()
        self.layer = checks.of_type(layer, "layer", (Cell, OperatorObject), of="TimeDistributed")
        self.time_axis = checks.of_type(time_axis, "time_axis", int, of="TimeDistributed")
        if reshape_with_axis is not None:
            checks.of_type(reshape_with_axis, "reshape_with_axis", int, of="TimeDistributed")
        self.reshape_with_axis = reshape_with_axis

    def construct(self, inputs: Any) -> Any:
        """Any shape with at least 3 dimensions; returns the results of the layer, stacked along `time_axis`."""
        x = as_tensor(inputs, "inputs", of="TimeDistributed")
        if x.ndim < 3:
            raise ValueError(
                f"For 'TimeDistributed', the input must have at least 3 dimensions, but got shape {tuple(x.shape)}"
            )
        axis = normalize_axis(self.time_axis, x.ndim)
        if self.reshape_with_axis is None:
            return stack([self._apply(step) for step in unstack(x, axis)], axis)
        first, second = sorted((axis, normalize_axis(self.reshape_with_axis, x.ndim)))
        if second - first != 1:
            raise ValueError(
                f"For 'TimeDistributed', 'reshape_with_axis' must be next to 'time_axis', but got "
                f"{self.reshape_with_axis} and {self.time_axis}"
            )
        both = x.shape[first] * x.shape[second]
        y = self._apply(shaping.reshape(x, shape=(*x.shape[:first], both, *x.shape[second + 1 :])))
        if y.ndim <= first or y.shape[first] != both:
            raise ValueError(
                f"For 'TimeDistributed', the layer must keep the axis of {both} steps, but returned {tuple(y.shape)}: "
                "leave out 'reshape_with_axis'"
            )
        return shaping.reshape(y, shape=(*y.shape[:first], *x.shape[first : second + 1], *y.shape[first + 1 :]))

    def _apply(self, x: Any) -> Any:
        y = self.layer(x)
        if not isinstance(y, TensorLike):
            raise TypeError(f"For 'TimeDistributed', the layer must return a Tensor, but got {type(y).__name__}")
        return y

    def extend_repr(self) -> str:
        """The axes."""
        return f"time_axis={self.time_axis}, reshape_with_axis={self.reshape_with_axis}"
