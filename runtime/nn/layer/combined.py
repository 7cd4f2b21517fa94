"""A dense layer or convolution, a batch normalization and an activation in one Cell."""

from __future__ import annotations

from typing import Any

from ... import checks
from ...functional.public_op import OperatorObject
from ..cell import Cell
from .activation import LeakyReLU, get_activation
from .basic import Dense
from .batch_norm import BatchNorm1d, BatchNorm2d
from .conv import Conv2d


class _Combined(Cell):
    """The common part: optional normalization and activation after the product."""

    batchnorm: Cell

    def _add(self, batchnorm: Cell | None, activation: Any, alpha: float, after_fake: bool) -> None:
        of = self.cls_name
        self.has_bn = batchnorm is not None
        self.has_act = activation is not None
        self.after_fake = checks.of_type(after_fake, "after_fake", bool, of=of)
        if batchnorm is not None:
            self.batchnorm = batchnorm
        if activation is not None:
            checks.of_type(activation, "activation", (str, Cell, OperatorObject), of=of)
        if activation == "leakyrelu":
            self.activation: Any = LeakyReLU(alpha)
        else:
            self.activation = get_activation(activation, of) if isinstance(activation, str) else activation

    def _finish(self, y: Any) -> Any:
        y = self.batchnorm(y) if self.has_bn else y
        return self.activation(y) if self.has_act else y


class Conv2dBnAct(_Combined):
    """`Conv2d`, then optionally `BatchNorm2d` and an activation.

    Args:
        in_channels: see `Conv2d`, also for the arguments up to `bias_init`.
        out_channels: channels of the output.
        kernel_size: size of the window.
        stride: the step between windows.
        pad_mode: "same", "valid" or "pad".
        padding: for "pad".
        dilation: the step between the elements of a window.
        group: groups of channels.
        has_bias: whether the convolution has a bias.
        weight_init: an initializer; by default "normal", which is N(0, 0.01).
        bias_init: an initializer; see `common.initializer.initializer`.
        has_bn: whether to normalize.
        momentum: of the normalization.
        eps: of the normalization.
        activation: None, a Cell, an operator object or the name of an activation Cell (see `get_activation`).
        alpha: slope of "leakyrelu".
        after_fake: no effect, since there is no quantization.

    Errors are those of the layers; `TypeError` for a flag that isn't a bool.
    """

    def __init__(
        self, in_channels: int, out_channels: int, kernel_size: Any, stride: Any = 1, pad_mode: str = "same",
        padding: Any = 0, dilation: Any = 1, group: int = 1, has_bias: bool = False, weight_init: Any = "normal",
        bias_init: Any = "zeros", has_bn: bool = False, momentum: float = 0.997, eps: float = 1e-5,
        activation: Any = None, alpha: float = 0.2, after_fake: bool = True,
    ) -> None:  # fmt: skip
        super().__init__()
        self.conv = Conv2d(
            in_channels, out_channels, kernel_size, stride, pad_mode, padding, dilation, group, has_bias,
            weight_init, bias_init,
        )  # fmt: skip
        normalizes = checks.of_type(has_bn, "has_bn", bool, of=self.cls_name)
        self._add(BatchNorm2d(out_channels, eps, momentum) if normalizes else None, activation, alpha, after_fake)

    def construct(self, x: Any) -> Any:
        """(N, in_channels, H, W); returns (N, out_channels, H_out, W_out)."""
        return self._finish(self.conv(x))


class DenseBnAct(_Combined):
    """`Dense`, then optionally `BatchNorm1d` and an activation.

    Args:
        in_channels: size of the last axis of x.
        out_channels: size of the last axis of the output.
        weight_init: an initializer; by default "normal", which is N(0, 0.01).
        bias_init: an initializer; see `common.initializer.initializer`.
        has_bias: whether there is a bias.
        has_bn: whether to normalize.
        momentum: of the normalization.
        eps: of the normalization.
        activation: None, a Cell, an operator object or the name of an activation Cell (see `get_activation`).
        alpha: slope of "leakyrelu".
        after_fake: no effect, since there is no quantization.

    Errors are those of the layers; `TypeError` for a flag that isn't a bool.
    """

    def __init__(
        self, in_channels: int, out_channels: int, weight_init: Any = "normal", bias_init: Any = "zeros",
        has_bias: bool = True, has_bn: bool = False, momentum: float = 0.9, eps: float = 1e-5, activation: Any = None,
        alpha: float = 0.2, after_fake: bool = True,
    ) -> None:  # fmt: skip
        super().__init__()
        self.dense = Dense(in_channels, out_channels, weight_init, bias_init, has_bias)
        normalizes = checks.of_type(has_bn, "has_bn", bool, of=self.cls_name)
        self._add(BatchNorm1d(out_channels, eps, momentum) if normalizes else None, activation, alpha, after_fake)

    def construct(self, x: Any) -> Any:
        """(N, in_channels); returns (N, out_channels)."""
        return self._finish(self.dense(x))
