"""Trigonometric and hyperbolic functions, elementwise; angles in radians, integers become float32.

`tanh` is in `activations`.
"""

from __future__ import annotations

import math
from typing import Any

from ..ops import trigonometry
from .operands import as_floating, promote_pair
from .public_op import argument_aliases, public_op


@public_op(method="sin", primitive="Sin")
def sin(input: Any) -> Any:
    """Sine."""
    return trigonometry.sin(as_floating(input, of="sin"))


@public_op(method="cos", primitive="Cos")
def cos(input: Any) -> Any:
    """Cosine."""
    return trigonometry.cos(as_floating(input, of="cos"))


@public_op(method="tan", primitive="Tan")
def tan(input: Any) -> Any:
    """Tangent."""
    return trigonometry.tan(as_floating(input, of="tan"))


@public_op(method=("asin", "arcsin"), primitive="Asin", alias="arcsin")
@argument_aliases(x="input")
def asin(input: Any) -> Any:
    """Arcsine; NaN outside [-1, 1]."""
    return trigonometry.asin(as_floating(input, of="asin"))


@public_op(method=("acos", "arccos"), primitive="ACos", alias="arccos")
def acos(input: Any) -> Any:
    """Arccosine; NaN outside [-1, 1]."""
    return trigonometry.acos(as_floating(input, of="acos"))


@public_op(method=("atan", "arctan"), primitive="Atan", alias="arctan")
def atan(input: Any) -> Any:
    """Arctangent."""
    return trigonometry.atan(as_floating(input, of="atan"))


@public_op(method=("atan2", "arctan2"), primitive="Atan2", alias="arctan2")
def atan2(input: Any, other: Any) -> Any:
    """Angle of the point (x, y) = (`other`, `input`), between -pi and pi."""
    y, x = promote_pair(input, other, of="atan2")
    return trigonometry.atan2(as_floating(y, of="atan2"), as_floating(x, "other", of="atan2"))


@public_op(method="sinh", primitive="Sinh")
def sinh(input: Any) -> Any:
    """Hyperbolic sine."""
    return trigonometry.sinh(as_floating(input, of="sinh"))


@public_op(method="cosh", primitive="Cosh")
def cosh(input: Any) -> Any:
    """Hyperbolic cosine."""
    return trigonometry.cosh(as_floating(input, of="cosh"))


@public_op(method=("asinh", "arcsinh"), primitive="Asinh", alias="arcsinh")
def asinh(input: Any) -> Any:
    """Inverse hyperbolic sine."""
    return trigonometry.asinh(as_floating(input, of="asinh"))


@public_op(method=("acosh", "arccosh"), primitive="Acosh", alias="arccosh")
def acosh(input: Any) -> Any:
    """Inverse hyperbolic cosine; NaN below 1."""
    return trigonometry.acosh(as_floating(input, of="acosh"))


@public_op(method=("atanh", "arctanh"), primitive="Atanh", alias="arctanh")
def atanh(input: Any) -> Any:
    """Inverse hyperbolic tangent; NaN outside [-1, 1]."""
    return trigonometry.atanh(as_floating(input, of="atanh"))


@public_op(method="deg2rad")
def deg2rad(x: Any) -> Any:
    """Convert degrees to radians."""
    return as_floating(x, "x", of="deg2rad") * (math.pi / 180)


@public_op(method="rad2deg")
def rad2deg(x: Any) -> Any:
    """Convert radians to degrees."""
    return as_floating(x, "x", of="rad2deg") * (180 / math.pi)
