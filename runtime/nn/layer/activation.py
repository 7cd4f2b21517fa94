"""Activation functions as Cells, and `get_activation`, which creates one by name. See also `rectifier`."""

from __future__ import annotations

from typing import Any

from ... import checks
from ...functional import activations, rectifiers
from ...functional.normalization import lrn
from ..cell import Cell
from .rectifier import (
    CELU,
    ELU,
    Hardtanh,
    HShrink,
    LeakyReLU,
    PReLU,
    ReLU,
    ReLU6,
    RReLU,
    SeLU,
    SoftShrink,
    Threshold,
)

# ---- elementwise ----


class Sigmoid(Cell):
    """1 / (1 + exp(-x)), elementwise."""

    def construct(self, x: Any) -> Any:
        """Any shape; returns the same shape, floating-point."""
        return activations.sigmoid(x)


class Tanh(Cell):
    """Hyperbolic tangent, elementwise."""

    def construct(self, x: Any) -> Any:
        """Any shape; returns the same shape, floating-point."""
        return activations.tanh(x)


class Tanhshrink(Cell):
    """x - tanh(x), elementwise."""

    def construct(self, x: Any) -> Any:
        """Any shape, floating-point; returns the same shape."""
        return activations.tanhshrink(x)


class LogSigmoid(Cell):
    """log(sigmoid(x)), elementwise."""

    def construct(self, input_x: Any) -> Any:
        """Any shape, floating-point; returns the same shape."""
        return activations.logsigmoid(input_x)


class Softsign(Cell):
    """x / (1 + |x|), elementwise."""

    def construct(self, x: Any) -> Any:
        """Any shape, floating-point; returns the same shape."""
        return activations.softsign(x)


class HSigmoid(Cell):
    """min(max(x + 3, 0), 6) / 6, elementwise."""

    def construct(self, input: Any) -> Any:
        """Any shape, floating-point; returns the same shape."""
        return activations.hardsigmoid(input)


class HSwish(Cell):
    """x times `HSigmoid` of x, elementwise (Howard et al. 2019)."""

    def construct(self, input: Any) -> Any:
        """Any shape, floating-point; returns the same shape."""
        return activations.hardswish(input)


class SiLU(Cell):
    """x * sigmoid(x), elementwise (Elfwing et al. 2017)."""

    def construct(self, x: Any) -> Any:
        """Any shape, floating-point; returns the same shape."""
        return activations.silu(x)


class Mish(Cell):
    """x * tanh(log(1 + exp(x))), elementwise (Misra 2019)."""

    def construct(self, input_x: Any) -> Any:
        """Any shape, floating-point; returns the same shape."""
        return activations.mish(input_x)


class GELU(Cell):
    """x times the normal distribution function at x, elementwise (Hendrycks and Gimpel 2016).

    Args:
        approximate: whether tanh approximates the distribution function; torch's default doesn't.
    """

    def __init__(self, approximate: bool = True) -> None:
        super().__init__()
        self.approximate = "tanh" if checks.of_type(approximate, "approximate", bool, of="GELU") else "none"

    def construct(self, x: Any) -> Any:
        """Any shape, floating-point; returns the same shape."""
        return activations.gelu(x, self.approximate)

    def extend_repr(self) -> str:
        """The kind of approximation."""
        return f"approximate={self.approximate == 'tanh'}"


class FastGelu(Cell):
    """x * sigmoid(1.702 * x), elementwise: an approximation of `GELU`."""

    def construct(self, x: Any) -> Any:
        """Any shape, floating-point; returns the same shape."""
        return activations.fast_gelu(x)


# ---- along an axis ----


class _AlongAxis(Cell):
    def __init__(self, axis: Any = -1) -> None:
        super().__init__()
        for item in axis if isinstance(axis, tuple) else (axis,):
            checks.of_type(item, "axis", int, of=self.cls_name)
        self.axis = axis

    def extend_repr(self) -> str:
        """The axis."""
        return f"axis={self.axis}"


class Softmax(_AlongAxis):
    """exp(x) over its sum along an axis.

    Args:
        axis: an int, or a tuple of one.
    """

    def construct(self, input: Any) -> Any:
        """Any shape with that axis (else `ValueError`), floating-point; returns the same shape."""
        return activations.softmax(input, self.axis)


class Softmin(_AlongAxis):
    """`Softmax` of -x.

    Args:
        axis: an int, or a tuple of one.
    """

    def construct(self, x: Any) -> Any:
        """Any shape with that axis (else `ValueError`), floating-point; returns the same shape."""
        return activations.softmin(x, self.axis)


class LogSoftmax(_AlongAxis):
    """The logarithm of `Softmax`.

    Args:
        axis: an int, or a tuple of one.
    """

    def construct(self, x: Any) -> Any:
        """Any shape with that axis (else `ValueError`), floating-point; returns the same shape."""
        return activations.log_softmax(x, self.axis)


class GLU(_AlongAxis):
    """The first half of x along an axis times sigmoid of the second half (Dauphin et al. 2016).

    Args:
        axis: the axis.
    """

    def construct(self, x: Any) -> Any:
        """Any shape with an even size along the axis (else `ValueError`); returns half that size."""
        return activations.glu(x, self.axis)


class Softmax2d(Cell):
    """`Softmax` over the channels of images."""

    def construct(self, x: Any) -> Any:
        """(N, C, H, W) or (C, H, W), else `ValueError`; returns the same shape."""
        if x.ndim not in (3, 4):
            raise ValueError(f"For 'Softmax2d', 'x' must have 3 or 4 dimensions, but got shape {tuple(x.shape)}")
        return activations.softmax(x, -3)


class LRN(Cell):
    """x / (bias + alpha * s)**beta, where s sums the squares of nearby channels (Krizhevsky et al. 2012).

    Args:
        depth_radius: the largest distance of a nearby channel.
        bias: keeps the quotient finite.
        alpha: factor of the sum.
        beta: exponent.
        norm_region: "ACROSS_CHANNELS".

    Raises:
        TypeError: `depth_radius` isn't an int.
        ValueError: `depth_radius` is negative, or `norm_region` is unknown.
    """

    def __init__(
        self,
        depth_radius: int = 5,
        bias: float = 1.0,
        alpha: float = 1.0,
        beta: float = 0.5,
        norm_region: str = "ACROSS_CHANNELS",
    ) -> None:
        super().__init__()
        checks.one_of(norm_region, "norm_region", ("ACROSS_CHANNELS",), of="LRN")
        checks.of_type(depth_radius, "depth_radius", int, of="LRN")
        self.depth_radius = checks.in_range(depth_radius, "depth_radius", "[0, inf)", of="LRN")
        self.bias = bias
        self.alpha = alpha
        self.beta = beta

    def construct(self, input_x: Any) -> Any:
        """(N, C, H, W), floating-point; returns the same shape."""
        return lrn(input_x, self.depth_radius, self.bias, self.alpha, self.beta)

    def extend_repr(self) -> str:
        """The arguments."""
        return f"depth_radius={self.depth_radius}, bias={self.bias}, alpha={self.alpha}, beta={self.beta}"


_BY_NAME: dict[str, type[Cell]] = {
    "softmin": Softmin, "softmax": Softmax, "softmax2d": Softmax2d, "logsoftmax": LogSoftmax, "relu": ReLU,
    "relu6": ReLU6, "rrelu": RReLU, "silu": SiLU, "tanh": Tanh, "tanhshrink": Tanhshrink, "hardtanh": Hardtanh,
    "gelu": GELU, "fast_gelu": FastGelu, "elu": ELU, "selu": SeLU, "celu": CELU, "sigmoid": Sigmoid,
    "softsign": Softsign, "prelu": PReLU, "leakyrelu": LeakyReLU, "hswish": HSwish, "hsigmoid": HSigmoid,
    "logsigmoid": LogSigmoid, "softshrink": SoftShrink, "hshrink": HShrink, "mish": Mish, "glu": GLU,
}  # fmt: skip
FUNCTIONS = {"relu": rectifiers.relu, "gelu": activations.gelu}
"""Those that a transformer takes by name: functions, whose GELU is exact, unlike that of the Cell."""


def get_activation(name: str | None, prim_name: str | None = None) -> Cell | None:
    """Return a new activation Cell with its default arguments.

    Args:
        name: "relu", "gelu", "leakyrelu" and so on; None gives None.
        prim_name: the name of the caller, for the error message.

    Raises:
        KeyError: no activation has that name.
    """
    if name is None:
        return None
    if name not in _BY_NAME:
        argument = f"For '{prim_name}', 'activation'" if prim_name else "'name'"
        raise KeyError(f"{argument} must be one of {sorted(_BY_NAME)}, but got {name!r}")
    return _BY_NAME[name]()


__all__ = [
    "CELU",
    "ELU",
    "GELU",
    "GLU",
    "LRN",
    "FastGelu",
    "HShrink",
    "HSigmoid",
    "HSwish",
    "Hardtanh",
    "LeakyReLU",
    "LogSigmoid",
    "LogSoftmax",
    "Mish",
    "PReLU",
    "RReLU",
    "ReLU",
    "ReLU6",
    "SeLU",
    "SiLU",
    "Sigmoid",
    "SoftShrink",
    "Softmax",
    "Softmax2d",
    "Softmin",
    "Softsign",
    "Tanh",
    "Tanhshrink",
    "Threshold",
    "get_activation",
]
