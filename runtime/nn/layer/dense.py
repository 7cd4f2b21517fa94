"""A fully connected layer with two inputs. See `basic` for layers with one."""

from __future__ import annotations

import math
from typing import Any

from ... import checks
from ...common.dtype import float32
from ...common.initializer import Uniform, initialize_argument
from ...common.parameter import Parameter
from ...functional.bilinear import bidense
from ..cell import Cell


class BiDense(Cell):
    """y[..., o] = sum over i, j of input1[..., i] * weight[o, i, j] * input2[..., j], plus bias[o].

    Args:
        in1_channels: size of the last axis of the first input.
        in2_channels: size of the last axis of the second input.
        out_channels: size of the last axis of the output.
        weight_init: an initializer; see `common.initializer.initializer`. None: uniform in +-1 / sqrt(in1_channels).
        bias_init: likewise.
        has_bias: whether there is a bias.
        dtype: dtype of the Parameters.

    Attributes:
        weight: Parameter (out_channels, in1_channels, in2_channels).
        bias: Parameter (out_channels,), or None.

    Raises:
        TypeError: an argument has the wrong type; in a call, the dtype of an input isn't that of the weight.
        ValueError: a size isn't above 0, or a tensor given as initial value has another shape; in a call, the shapes
            don't fit.
    """

    def __init__(
        self, in1_channels: int, in2_channels: int, out_channels: int, weight_init: Any = None, bias_init: Any = None,
        has_bias: bool = True, dtype: Any = float32,
    ) -> None:  # fmt: skip
        super().__init__()
        self.in1_channels = checks.positive_int(in1_channels, "in1_channels", of="BiDense")
        self.in2_channels = checks.positive_int(in2_channels, "in2_channels", of="BiDense")
        self.out_channels = checks.positive_int(out_channels, "out_channels", of="BiDense")
        self.has_bias = checks.of_type(has_bias, "has_bias", bool, of="BiDense")
        default = Uniform(1 / math.sqrt(in1_channels))
        shape = (out_channels, in1_channels, in2_channels)
        init = default if weight_init is None else weight_init
        self.weight = Parameter(initialize_argument(init, shape, dtype, "weight_init", of="BiDense"), name="weight")
        self.bias = None
        if has_bias:
            init = default if bias_init is None else bias_init
            self.bias = Parameter(
                initialize_argument(init, (out_channels,), dtype, "bias_init", of="BiDense"), name="bias"
            )

    def construct(self, input1: Any, input2: Any) -> Any:
        """(..., in1_channels) and (..., in2_channels) of the dtype of the weight; returns (..., out_channels)."""
        return bidense(input1, input2, self.weight, self.bias)

    def extend_repr(self) -> str:
        """Sizes and bias."""
        shown = (
            f"in1_channels={self.in1_channels}, in2_channels={self.in2_channels}, output_channels={self.out_channels}"
        )
        return f"{shown}, has_bias={self.has_bias}" if self.has_bias else shown
