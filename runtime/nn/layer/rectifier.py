"""Rectifiers as Cells: layers that are the identity, or a multiple of it, where their input is positive."""

from __future__ import annotations

from numbers import Real
from typing import Any

import numpy as np

from ... import checks
from ...common.dtype import float16, float32
from ...common.parameter import Parameter
from ...common.tensor import Tensor
from ...functional import rectifiers
from ...ops import elementwise
from ..cell import Cell


class ReLU(Cell):
    """max(x, 0), elementwise."""

    def construct(self, input: Any) -> Any:
        """Any shape and numbers; returns the same shape."""
        return rectifiers.relu(input)


class ReLU6(Cell):
    """min(max(x, 0), 6), elementwise."""

    def construct(self, x: Any) -> Any:
        """Any shape and numbers; returns the same shape."""
        return rectifiers.relu6(x)


class Hardtanh(Cell):
    """x clamped to [min_val, max_val], elementwise.

    Args:
        min_val: lower bound.
        max_val: upper bound.

    Raises:
        ValueError: `min_val` is above `max_val`.
    """

    def __init__(self, min_val: float = -1.0, max_val: float = 1.0) -> None:
        super().__init__()
        for name, bound in (("min_val", min_val), ("max_val", max_val)):
            checks.of_type(bound, name, (int, float), of="Hardtanh")
        if min_val > max_val:
            raise ValueError(f"For 'Hardtanh', 'min_val' must not be above 'max_val', but got {min_val} and {max_val}")
        self.min_val = min_val
        self.max_val = max_val

    def construct(self, x: Any) -> Any:
        """Any shape and numbers; returns the same shape."""
        return rectifiers.hardtanh(x, self.min_val, self.max_val)

    def extend_repr(self) -> str:
        """The bounds."""
        return f"min_val={self.min_val}, max_val={self.max_val}"


class LeakyReLU(Cell):
    """x where it is positive, `alpha` times x elsewhere (Maas et al. 2013). torch has 0.01 for `alpha`.

    Args:
        alpha: slope for negative x.
    """

    def __init__(self, alpha: float = 0.2) -> None:
        super().__init__()
        self.alpha = checks.of_type(alpha, "alpha", (int, float), of="LeakyReLU")

    def construct(self, x: Any) -> Any:
        """Any shape, floating-point; returns the same shape."""
        return rectifiers.leaky_relu(x, self.alpha)

    def extend_repr(self) -> str:
        """The slope."""
        return f"alpha={self.alpha}"


class RReLU(Cell):
    """x where it is positive, x times a random slope elsewhere (Xu et al. 2015), not only in training.

    Args:
        lower: the smallest slope.
        upper: the largest slope.

    Raises:
        ValueError: `lower` is above `upper`.
    """

    def __init__(self, lower: float = 1 / 8, upper: float = 1 / 3) -> None:
        super().__init__()
        for name, bound in (("lower", lower), ("upper", upper)):
            checks.of_type(bound, name, (int, float), of="RReLU")
        if lower > upper:
            raise ValueError(f"For 'RReLU', 'lower' must not be above 'upper', but got {lower} and {upper}")
        self.lower = lower
        self.upper = upper

    def construct(self, x: Any) -> Any:
        """Any shape, floating-point; returns the same shape."""
        return rectifiers.rrelu(x, self.lower, self.upper)

    def extend_repr(self) -> str:
        """The range of slopes."""
        return f"lower={self.lower:g}, upper={self.upper:g}"


class PReLU(Cell):
    """x where it is positive, a learned slope times x elsewhere (He et al. 2015).

    Args:
        channel: the number of slopes: 1, or the number of channels (dimension 1 of x).
        w: the initial slopes: a number, a list or a tensor (channel,).

    Attributes:
        w: the slopes, a Parameter named `a`.

    Raises:
        TypeError: `w` is none of these.
        ValueError: `channel` isn't above 0, or `w` has another shape, or a dtype other than float16 and float32.
    """

    def __init__(self, channel: int = 1, w: Any = 0.25) -> None:
        super().__init__()
        checks.positive_int(channel, "channel", of="PReLU")
        if isinstance(w, Real):
            w = [w] * channel
        checks.of_type(w, "w", (float, list, Tensor), of="PReLU")
        slopes = w if isinstance(w, Tensor) else Tensor(np.array(w, float32))
        if slopes.shape != (channel,) or slopes.dtype not in (float16, float32):
            raise ValueError(
                f"For 'PReLU', 'w' must be float16 or float32 of shape ({channel},), but got {slopes.dtype.name} "
                f"{slopes.shape}"
            )
        self.w = Parameter(slopes, name="a")

    def construct(self, x: Any) -> Any:
        """Any shape, floating-point; returns the same shape."""
        return rectifiers.prelu(x, elementwise.cast(self.w, dtype=x.dtype))

    def extend_repr(self) -> str:
        """The number of slopes."""
        return f"channel={self.w.shape[0]}"


class ELU(Cell):
    """x where it is positive, alpha * (exp(x) - 1) elsewhere (Clevert et al. 2015).

    Args:
        alpha: the negated limit for x -> -infinity.
    """

    def __init__(self, alpha: float = 1.0) -> None:
        super().__init__()
        self.alpha = checks.of_type(alpha, "alpha", (int, float), of="ELU")

    def construct(self, x: Any) -> Any:
        """Any shape, floating-point; returns the same shape."""
        return rectifiers.elu(x, self.alpha)

    def extend_repr(self) -> str:
        """alpha."""
        return f"alpha={self.alpha}"


class SeLU(Cell):
    """`ELU` with the constants of self-normalizing networks, scaled (Klambauer et al. 2017)."""

    def construct(self, input_x: Any) -> Any:
        """Any shape, floating-point; returns the same shape."""
        return rectifiers.selu(input_x)


class CELU(Cell):
    """x where it is positive, alpha * (exp(x / alpha) - 1) elsewhere (Barron 2017).

    Args:
        alpha: the negated limit for x -> -infinity; `ValueError` for 0.
    """

    def __init__(self, alpha: float = 1.0) -> None:
        super().__init__()
        checks.of_type(alpha, "alpha", (int, float), of="CELU")
        if alpha == 0:
            raise ValueError(f"For 'CELU', 'alpha' must not be 0, but got {alpha}")
        self.alpha = alpha

    def construct(self, x: Any) -> Any:
        """Any shape, floating-point; returns the same shape."""
        return rectifiers.celu(x, self.alpha)

    def extend_repr(self) -> str:
        """alpha."""
        return f"alpha={self.alpha}"


class SoftShrink(Cell):
    """x shrunk towards 0 by `lambd`, and 0 for |x| <= `lambd`.

    Args:
        lambd: at least 0, else `ValueError`.
    """

    def __init__(self, lambd: float = 0.5) -> None:
        super().__init__()
        self.lambd = checks.in_range(lambd, "lambd", "[0, inf)", of="SoftShrink")

    def construct(self, input: Any) -> Any:
        """Any shape, floating-point; returns the same shape."""
        return rectifiers.softshrink(input, self.lambd)

    def extend_repr(self) -> str:
        """The distance."""
        return f"lambd={self.lambd}"


class HShrink(Cell):
    """x where it is outside [-lambd, lambd], 0 inside.

    Args:
        lambd: half the width of the interval.
    """

    def __init__(self, lambd: float = 0.5) -> None:
        super().__init__()
        self.lambd = checks.of_type(lambd, "lambd", (int, float), of="HShrink")

    def construct(self, input: Any) -> Any:
        """Any shape, floating-point; returns the same shape."""
        return rectifiers.hardshrink(input, self.lambd)

    def extend_repr(self) -> str:
        """Half the width of the interval."""
        return f"lambd={self.lambd}"


class Threshold(Cell):
    """x where it is above a threshold, a value elsewhere.

    Args:
        threshold: the threshold.
        value: the value.
    """

    def __init__(self, threshold: float, value: float) -> None:
        super().__init__()
        self.threshold = checks.of_type(threshold, "threshold", (int, float), of="Threshold")
        self.value = checks.of_type(value, "value", (int, float), of="Threshold")

    def construct(self, input_x: Any) -> Any:
        """Any shape and numbers; returns the same shape."""
        return rectifiers.threshold(input_x, self.threshold, self.value)

    def extend_repr(self) -> str:
        """Threshold and value."""
        return f"threshold={self.threshold}, value={self.value}"
