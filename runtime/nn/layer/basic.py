"""Fully connected layers, the identity, and dropout. See also `rearranging`."""

from __future__ import annotations

import math
from typing import Any

from ... import checks
from ...common.dtype import float32
from ...common.initializer import HeUniform, Uniform, initialize_argument
from ...common.parameter import Parameter
from ...functional import dropout
from ...functional.linear_algebra import dense
from ...functional.public_op import OperatorObject
from ..cell import Cell
from .activation import get_activation


class Dense(Cell):
    """x @ weight.T + bias, then the activation.

    Args:
        in_channels: size of the last axis of x.
        out_channels: size of the last axis of the output.
        weight_init: an initializer; see `common.initializer.initializer`. None: uniform in +-1 / sqrt(in_channels).
        bias_init: likewise.
        has_bias: whether there is a bias.
        activation: a Cell, an operator object or the name of an activation Cell (see `get_activation`).
        dtype: dtype of the Parameters.

    Attributes:
        weight: Parameter (out_channels, in_channels).
        bias: Parameter (out_channels,), or None.

    Raises:
        TypeError: an argument has the wrong type; in a call, the dtype of x isn't that of the weight.
        ValueError: a size isn't above 0, or a tensor given as initial value has another shape.
        KeyError: no activation has that name.
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        weight_init: Any = None,
        bias_init: Any = None,
        has_bias: bool = True,
        activation: Any = None,
        dtype: Any = float32,
    ) -> None:
        super().__init__()
        self.in_channels = checks.positive_int(in_channels, "in_channels", of="Dense")
        self.out_channels = checks.positive_int(out_channels, "out_channels", of="Dense")
        self.has_bias = checks.of_type(has_bias, "has_bias", bool, of="Dense")
        self.weight = _dense_weight(in_channels, out_channels, weight_init, dtype, "Dense")
        self.bias = _dense_bias(in_channels, out_channels, bias_init, dtype, "Dense") if has_bias else None
        if activation is not None:
            checks.of_type(activation, "activation", (str, Cell, OperatorObject), of="Dense")
        self.activation = get_activation(activation, "Dense") if isinstance(activation, str) else activation

    def construct(self, x: Any) -> Any:
        """(..., in_channels), of the dtype of the weight; returns (..., out_channels)."""
        y = dense(x, self.weight, self.bias)
        return y if self.activation is None else self.activation(y)

    def extend_repr(self) -> str:
        """Sizes, bias and activation."""
        shown = f"input_channels={self.in_channels}, output_channels={self.out_channels}"
        if self.has_bias:
            shown += f", has_bias={self.has_bias}"
        return shown if self.activation is None else f"{shown}, activation={self.activation}"


class Linear(Cell):
    """x @ weight.T + bias: `Dense` with the argument names that other frameworks use, and no activation.

    Args:
        in_features: size of the last axis of x.
        out_features: size of the last axis of the output.
        bias: whether there is a bias.
        weight_init: as for `Dense`.
        bias_init: as for `Dense`.
        dtype: dtype of the Parameters; None is float32.

    Attributes and errors are those of `Dense`.
    """

    def __init__(
        self,
        in_features: int,
        out_features: int,
        bias: bool = True,
        weight_init: Any = None,
        bias_init: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        self.in_features = checks.positive_int(in_features, "in_features", of="Linear")
        self.out_features = checks.positive_int(out_features, "out_features", of="Linear")
        self.has_bias = checks.of_type(bias, "bias", bool, of="Linear")
        dtype = float32 if dtype is None else dtype
        self.weight = _dense_weight(in_features, out_features, weight_init, dtype, "Linear")
        self.bias = _dense_bias(in_features, out_features, bias_init, dtype, "Linear") if bias else None

    def construct(self, x: Any) -> Any:
        """(..., in_features), of the dtype of the weight; returns (..., out_features)."""
        return dense(x, self.weight, self.bias)

    def extend_repr(self) -> str:
        """Sizes and bias."""
        shown = f"input_features={self.in_features}, output_features={self.out_features}"
        return f"{shown}, has_bias={self.has_bias}" if self.has_bias else shown


def _dense_weight(inputs: int, outputs: int, init: Any, dtype: Any, of: str) -> Parameter:
    init = HeUniform(math.sqrt(5)) if init is None else init
    return Parameter(initialize_argument(init, (outputs, inputs), dtype, "weight_init", of=of), name="weight")


def _dense_bias(inputs: int, outputs: int, init: Any, dtype: Any, of: str) -> Parameter:
    init = Uniform(1 / math.sqrt(inputs)) if init is None else init
    return Parameter(initialize_argument(init, (outputs,), dtype, "bias_init", of=of), name="bias")


class Identity(Cell):
    """Returns its argument. The constructor accepts and ignores any arguments."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__()

    def construct(self, input: Any) -> Any:
        """Return the argument."""
        return input


# ---- dropout ----


class Dropout(Cell):
    """In training, drops random elements and divides the others by the keep probability (Srivastava et al. 2014).

    Args:
        keep_prob: the probability of keeping an element, in (0, 1]; torch's first argument is the opposite, `p`.
        p: the probability of dropping an element, in [0, 1); overrides `keep_prob`.
        dtype: without effect.

    Raises:
        TypeError: a probability isn't a number.
        ValueError: a probability is out of range.
    """

    def __init__(self, keep_prob: float = 0.5, p: float | None = None, dtype: Any = float32) -> None:
        super().__init__()
        if p is None:
            checks.in_range(keep_prob, "keep_prob", "(0, 1]", of="Dropout")
        else:
            checks.in_range(p, "p", "[0, 1)", of="Dropout")
        self.keep_prob = keep_prob
        self.p = p

    def construct(self, x: Any) -> Any:
        """Any shape, floating-point; returns the same shape."""
        dropped = 1.0 - self.keep_prob if self.p is None else self.p
        return dropout.dropout(x, dropped) if self.training and dropped else x

    def extend_repr(self) -> str:
        """The given probability."""
        return f"keep_prob={self.keep_prob}" if self.p is None else f"p={self.p}"


class _ChannelDropout(Cell):
    def __init__(self, p: float = 0.5) -> None:
        super().__init__()
        self.p = checks.in_range(p, "p", "[0, 1]", of=self.cls_name)

    def extend_repr(self) -> str:
        """The probability."""
        return f"p={self.p}"


class Dropout1d(_ChannelDropout):
    """In training, each channel is 0 with probability `p`, otherwise divided by 1 - p.

    Args:
        p: in [0, 1], else `ValueError`.
    """

    def construct(self, x: Any) -> Any:
        """(N, C, L) or (C, L), floating-point; returns the same shape."""
        return dropout.dropout1d(x, self.p) if self.training and self.p else x


class Dropout2d(_ChannelDropout):
    """In training, each channel is 0 with probability `p`, otherwise divided by 1 - p (Tompson et al. 2014).

    Args:
        p: in [0, 1], else `ValueError`.
    """

    def construct(self, x: Any) -> Any:
        """(N, C, H, W), floating-point; returns the same shape."""
        return dropout.dropout2d(x, self.p) if self.training and self.p else x


class Dropout3d(_ChannelDropout):
    """In training, each channel is 0 with probability `p`, otherwise divided by 1 - p.

    Args:
        p: in [0, 1], else `ValueError`.
    """

    def construct(self, x: Any) -> Any:
        """(N, C, D, H, W), floating-point; returns the same shape."""
        return dropout.dropout3d(x, self.p) if self.training and self.p else x
