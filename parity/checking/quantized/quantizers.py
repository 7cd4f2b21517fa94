"""Linear quantizers: the map from numbers to integer codes, and errors in steps."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import ml_dtypes
import numpy as np

from ....runtime.errors import ConversionError
from ...sides.records import Array

HALF = 0.5
CODE_ROUNDING = 2.0**-21
"""Allowed relative error of a code, which was computed by a division in float32."""


@dataclass(frozen=True, eq=False)
class Quantizer:
    """`code = round(x / scale) + zero_point`, saturated to the range of an integer dtype.

    Attributes:
        name: name of the stored scale.
        scale: one scale, one per index of `axis`, or one per block along it; float64.
        zero_point: zero points in float64, with the shape of the scale, or a single one.
        dtype: dtype of the codes.
        axis: axis along which there are several scales.
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
        """The smallest and the largest code."""
        limits = ml_dtypes.iinfo(self.dtype)  # type: ignore[no-untyped-call]
        return int(limits.min), int(limits.max)

    @property
    def step(self) -> float:
        """The largest scale."""
        return float(np.abs(self.scale).max(initial=0.0))

    @property
    def steps(self) -> str:
        """The scale as text: `0.0123`, or the smallest and the largest of several."""
        sizes = np.abs(self.scale)
        if sizes.size == 1:
            return f"{float(sizes.flat[0]):.3g}"
        return f"{float(sizes.min()):.3g} to {float(sizes.max()):.3g}, one per index of axis {self.axis}"

    def same(self, other: Quantizer) -> bool:
        """Whether both map the same numbers to the same codes."""
        return bool(
            np.array_equal(np.ravel(self.scale), np.ravel(other.scale))
            and np.array_equal(np.ravel(self.zero_point), np.ravel(other.zero_point))
            and (self.scale.size == 1 or (self.axis, self.block) == (other.axis, other.block))
        )

    def broadcast(self, values: Array, shape: tuple[int, ...]) -> Array:
        """Return a scale or zero point in a shape that broadcasts to `shape`.

        Raises:
            ConversionError: it doesn't broadcast.
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
        """Return the numbers that codes represent, in float64."""
        scale, zero = (self.broadcast(part, codes.shape) for part in (self.scale, self.zero_point))
        return np.asarray((codes.astype(np.float64) - zero) * scale)

    def codes_of(self, numbers: Array) -> Array:
        """Return the codes of numbers, rounded to the nearest step and saturated."""
        scale, zero = (self.broadcast(part, numbers.shape) for part in (self.scale, self.zero_point))
        with np.errstate(divide="ignore", invalid="ignore"):
            codes = np.clip(np.round(numbers.astype(np.float64) / scale) + zero, *self.codes)
        return np.asarray(np.where(np.isfinite(codes), codes, zero).astype(self.dtype))

    def steps_between(self, codes: Array, numbers: Array) -> Array:
        """Return the errors of codes in steps, less float32's rounding of a code."""
        scale, zero = (self.broadcast(part, codes.shape) for part in (self.scale, self.zero_point))
        centered = codes.astype(np.float64) - zero
        with np.errstate(divide="ignore", invalid="ignore"):
            exact = numbers / scale
        exact = np.where(scale == 0, np.where(numbers == 0, centered, np.inf), exact)
        return np.asarray(np.maximum(np.abs(centered - exact) - CODE_ROUNDING * np.abs(centered), 0.0))

    def is_saturated(self, codes: Array) -> Array:
        """Return where codes are the smallest or largest one; the second smallest counts, for symmetric ranges."""
        low, high = self.codes
        whole = codes.astype(np.float64)
        return np.asarray((whole <= low + 1) | (whole >= high))

    def beyond(self, numbers: Array) -> Array:
        """Return how many steps numbers lie outside the representable range; 0 inside."""
        scale, zero = (self.broadcast(part, numbers.shape) for part in (self.scale, self.zero_point))
        low, high = self.codes
        with np.errstate(divide="ignore", invalid="ignore"):
            code = np.where(scale == 0, zero, numbers / scale + zero)
        return np.asarray(np.maximum(np.maximum(low - HALF - code, code - high - HALF), 0.0))

    def range(self) -> tuple[float, float]:
        """The smallest and the largest representable number over all scales."""
        low, high = self.codes
        ends = [(end - self.zero_point) * self.scale for end in (low, high)]
        return float(np.min(ends)), float(np.max(ends))
