"""`Estimate`, a value with a bound of its rounding error, and the rounding errors of sums.

A sum of n terms that are added one after another is off by the sum of `d_i * s_i`, where `s_i` are the partial sums and
`|d_i| <= u` (Higham, *Accuracy and Stability of Numerical Algorithms*, 2nd ed., sections 3.1 and 3.3). If the `d_i` are
independent with mean zero, that is at most `c * u * sqrt(sum of s_i^2)`, with a probability that grows quickly with c
(Higham and Mary, "A new approach to probabilistic rounding error analysis", 2019, theorem 2.4). Over all orders of the
terms, the mean of the sum of `s_i^2` is at most `n / 3 * (s^2 + q)`, where s is the sum of the terms and q that of
their squares: i terms drawn without replacement have the sum `i / n * s` on average, with a variance of at most
`i * (n - i) / (n * (n - 1)) * q`. Hence, with `c = sqrt(3)`, the rounding error of a sum:

    u * sqrt(n) * sqrt(s^2 + q)

For terms of one sign, that is at most `u * sqrt(n)` times the sum of their magnitudes, and for many terms close to it.
For terms of both signs, the sum of magnitudes would be too large by up to `sqrt(n)`: only an order that puts all
positive terms first makes such partial sums. Where the terms are the elements of a tensor, whose signs may well have an
order, the partial sums in the order of storage count too.

Errors of different operands and elements are independent with mean zero as well: their squares are added.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from ....runtime.ir.types import as_dtype, is_floating
from ....runtime.ops.registry import Op, evaluate
from ...sides.records import Array
from ...verdicts.judge import epsilon


class Estimate(NamedTuple):
    """A value in float64 and the largest error, elementwise, that rounding may have caused in it.

    The bound is None for integers and booleans, which are taken to be exact, and for a floating-point value of which
    nothing is known.
    """

    value: Array
    bound: Array | None

    @property
    def is_known(self) -> bool:
        """Whether the value is exact or has a bound."""
        return self.bound is not None or not is_floating(self.value.dtype)


@dataclass(frozen=True)
class Units:
    """The unit roundoffs of a computation.

    Attributes:
        dtype: the working dtype.
        results: unit roundoff of the working dtype, to which each result is rounded.
        sums: unit roundoff of partial sums, which every framework keeps in float32 at least.
    """

    dtype: str
    results: float
    sums: float

    @classmethod
    def of(cls, dtype: str) -> Units:
        """The units for a working dtype."""
        return cls(dtype, epsilon(dtype) / 2, min(epsilon(dtype), epsilon("float32")) / 2)

    def rounded(self, value: Array) -> Estimate:
        """The estimate of an exact value that is rounded to the working dtype."""
        if not is_floating(value.dtype):
            return Estimate(value, None)
        with np.errstate(all="ignore"):
            return Estimate(value, np.abs(value - value.astype(as_dtype(self.dtype)).astype(value.dtype)))

    def of_sum(self, count: Array | float, value: Array, squares: Array, partial: Array | float = 0.0) -> Array:
        """The rounding error of a sum.

        Args:
            count: number of terms.
            value: the sum.
            squares: sum of the squares of the terms.
            partial: sum of the squares of the partial sums in the order of storage, if they can be told.
        """
        in_some_order = np.maximum(count * (np.square(value) + squares), 3 * partial)
        return self.sums * np.sqrt(in_some_order) + self.results * np.abs(value)


@dataclass(frozen=True)
class Application:
    """An op applied to operands with bounds.

    Attributes:
        op: the op.
        operands: the operands; None for an absent one.
        attributes: the op's attributes.
        outputs: the results in float64.
        units: the unit roundoffs.
    """

    op: Op
    operands: Sequence[Estimate | None]
    attributes: dict[str, Any]
    outputs: tuple[Array, ...]
    units: Units

    @property
    def first(self) -> Estimate:
        """The first operand."""
        x = self.operands[0]
        assert x is not None
        return x

    def __call__(self, *operands: Array | None) -> tuple[Array, ...]:
        """Return the results of the op for other operands."""
        return evaluate(self.op, list(operands), self.attributes)

    def map(self, of_floating: Callable[[Estimate], Array]) -> tuple[Array, ...]:
        """Return the results of the op with something else in place of each floating-point operand."""
        return self(*(x if x is None else x.value if x.bound is None else of_floating(x) for x in self.operands))


def together(*bounds: Array | float) -> Array:
    """The bound of the sum of independent errors."""
    return np.asarray(np.sqrt(sum(np.square(bound) for bound in bounds)))


def bound_of(x: Estimate) -> Array:
    """The bound of an estimate that has one."""
    assert x.bound is not None
    return x.bound
