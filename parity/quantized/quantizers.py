"""A linear quantizer: how numbers become integers, and how many steps numbers are off."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import ml_dtypes
import numpy as np

from ...runtime.errors import ConversionError
from ..sides.records import Array

HALF = 0.5
CODE_ROUNDING = 2.0**-21
"""A code may be off by this share of itself: it was divided by its scale in float32."""


@dataclass(frozen=True, eq=False)
class Quantizer:
    """`code = round(x / scale) + zero_point`, saturated to the range of an integer dtype.

    Attributes:
        name: of the stored scale.
        scale: one, one per index of `axis`, or one per block of it; float64.
        zero_point: likewise, in float64; its shape is that of the scale, or it is a single one.
        dtype: of the codes.
        axis: along which there are several scales.
        block: elements of a block along the axis; 0 for no blocks.
    """

    name: str
    scale: Array
    zero_point: Array
    dtype: np.dtype[np.generic]
    axis: int = 1
    block: int = 0

    @cached_property
    def codes(self) -> tuple[int, int]:
        """The smallest code and the largest."""
        limits = ml_dtypes.iinfo(self.dtype)  # type: ignore[no-untyped-call]
        return int(limits.min), int(limits.max)

    @property
    def step(self) -> float:
        """The largest scale."""
        return float(np.abs(self.scale).max(initial=0.0))

    @property
    def steps(self) -> str:
        """The scale in words: `0.0123`, or the smallest and the largest of several."""
        sizes = np.abs(self.scale)
        if sizes.size == 1:
            return f"{float(sizes.flat[0]):.3g}"
        return f"{float(sizes.min()):.3g} to {float(sizes.max()):.3g}, one per index of axis {self.axis}"

    def same(self, other: Quantizer) -> bool:
        """Whether both make the same codes of the same numbers."""
        return bool(
            np.array_equal(np.ravel(self.scale), np.ravel(other.scale))
            and np.array_equal(np.ravel(self.zero_point), np.ravel(other.zero_point))
            and (self.scale.size == 1 or (self.axis, self.block) == (other.axis, other.block))
        )

    def aligned(self, values: Array, shape: tuple[int, ...]) -> Array:
        """A scale or zero point in a shape that broadcasts to `shape`.

        Raises:
            ConversionError: it doesn't.
        """
        if values.size == 1:
            return values.reshape(())
        axis = self.axis + len(shape) if self.axis < 0 else self.axis
        spread = values
        if not 0 <= axis < len(shape):
            raise ConversionError(f"quantizer {self.name!r} has axis {self.axis}, given {len(shape)} dimensions")
        if self.block and values.ndim == len(shape):
            spread = np.repeat(values, self.block, axis=axis).take(range(shape[axis]), axis=axis)
        elif values.ndim == 1:
            spread = values.reshape([-1 if i == axis else 1 for i in range(len(shape))])
        try:
            return np.broadcast_to(spread, shape)
        except ValueError:
            raise ConversionError(
                f"quantizer {self.name!r} has scales {list(values.shape)} along axis {self.axis}, which don't fit a "
                f"tensor of shape {list(shape)}"
            ) from None

    def numbers(self, codes: Array) -> Array:
        """What codes stand for, in float64."""
        scale, zero = (self.aligned(each, codes.shape) for each in (self.scale, self.zero_point))
        return np.asarray((codes.astype(np.float64) - zero) * scale)

    def steps_between(self, codes: Array, numbers: Array) -> Array:
        """How many steps the numbers that codes stand for are off, less what float32 makes of a code."""
        scale, zero = (self.aligned(each, codes.shape) for each in (self.scale, self.zero_point))
        centred = codes.astype(np.float64) - zero
        with np.errstate(divide="ignore", invalid="ignore"):
            wanted = numbers / scale
        wanted = np.where(scale == 0, np.where(numbers == 0, centred, np.inf), wanted)
        return np.asarray(np.maximum(np.abs(centred - wanted) - CODE_ROUNDING * np.abs(centred), 0.0))

    def saturated(self, codes: Array) -> Array:
        """Where codes are the smallest or the largest one; the smallest but one counts, as of a symmetric range."""
        low, high = self.codes
        whole = codes.astype(np.float64)
        return np.asarray((whole <= low + 1) | (whole >= high))

    def beyond(self, numbers: Array) -> Array:
        """How many steps numbers lie beyond what can be represented: 0 where they don't."""
        scale, zero = (self.aligned(each, numbers.shape) for each in (self.scale, self.zero_point))
        low, high = self.codes
        with np.errstate(divide="ignore", invalid="ignore"):
            code = np.where(scale == 0, zero, numbers / scale + zero)
        return np.asarray(np.maximum(np.maximum(low - HALF - code, code - high - HALF), 0.0))

    def range(self) -> tuple[float, float]:
        """The smallest and the largest number that it can represent, of all its scales."""
        low, high = self.codes
        ends = [(end - self.zero_point) * self.scale for end in (low, high)]
        return float(np.min(ends)), float(np.max(ends))
