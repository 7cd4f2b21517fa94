"""Layers without Parameters for images (N, C, H, W)."""

from __future__ import annotations

import math
from typing import Any

from ... import checks
from ...functional import images
from ...functional.losses import comparable_pair
from ...functional.padding import pad
from ...ops import elementwise, slicing
from ...ops.reduction import reduce_mean
from ..cell import Cell


class PixelShuffle(Cell):
    """Rearranges (..., C * r * r, H, W) to (..., C, H * r, W * r) (Shi et al. 2016).

    Args:
        upscale_factor: r, above 0.
    """

    def __init__(self, upscale_factor: int) -> None:
        super().__init__()
        self.upscale_factor = checks.positive_int(upscale_factor, "upscale_factor", of="PixelShuffle")

    def construct(self, input: Any) -> Any:
        """(..., C * r * r, H, W), else `ValueError`; returns (..., C, H * r, W * r)."""
        return images.pixel_shuffle(input, self.upscale_factor)

    def extend_repr(self) -> str:
        """r."""
        return f"upscale_factor={self.upscale_factor}"


class PixelUnshuffle(Cell):
    """Rearranges (..., C, H * r, W * r) to (..., C * r * r, H, W): the inverse of `PixelShuffle`.

    Args:
        downscale_factor: r, above 0.
    """

    def __init__(self, downscale_factor: int) -> None:
        super().__init__()
        self.downscale_factor = checks.positive_int(downscale_factor, "downscale_factor", of="PixelUnshuffle")

    def construct(self, input: Any) -> Any:
        """(..., C, H * r, W * r), else `ValueError`; returns (..., C * r * r, H, W)."""
        return images.pixel_unshuffle(input, self.downscale_factor)

    def extend_repr(self) -> str:
        """r."""
        return f"downscale_factor={self.downscale_factor}"


class ImageGradients(Cell):
    """Differences of neighbouring pixels, downwards and to the right; 0 in the last row and column."""

    def construct(self, images: Any) -> tuple[Any, Any]:
        """(N, C, H, W), else `ValueError`; returns the vertical and the horizontal differences, of the same shape."""
        if images.ndim != 4:
            raise ValueError(f"For 'ImageGradients', 'images' must be (N, C, H, W), but got shape {images.shape}")
        return _difference(images, 2), _difference(images, 3)


def _difference(x: Any, axis: int) -> Any:
    size = x.shape[axis]
    ends = ((1, size), (0, size - 1))
    after, before = (slicing.slice(x, starts=(i,), stops=(j,), steps=(1,), axes=(axis,)) for i, j in ends)
    return pad(after - before, (0, 1) if axis == 3 else (0, 0, 0, 1))


class CentralCrop(Cell):
    """The middle of an image.

    Args:
        central_fraction: the fraction of height and width to keep, in (0, 1].

    Raises:
        TypeError: `central_fraction` isn't a number.
        ValueError: `central_fraction` is out of range.
    """

    def __init__(self, central_fraction: float) -> None:
        super().__init__()
        self.central_fraction = checks.in_range(central_fraction, "central_fraction", "(0, 1]", of="CentralCrop")

    def construct(self, image: Any) -> Any:
        """(N, C, H, W) or (C, H, W), else `ValueError`; returns the same with smaller height and width."""
        if image.ndim not in (3, 4):
            raise ValueError(f"For 'CentralCrop', 'image' must have 3 or 4 dimensions, but got shape {image.shape}")
        cuts = tuple(int((size - size * self.central_fraction) / 2) for size in image.shape[-2:])
        stops = tuple(size - cut for size, cut in zip(image.shape[-2:], cuts, strict=True))
        return slicing.slice(image, starts=cuts, stops=stops, steps=(1, 1), axes=(image.ndim - 2, image.ndim - 1))

    def extend_repr(self) -> str:
        """The fraction."""
        return f"central_fraction={self.central_fraction}"


class PSNR(Cell):
    """Peak signal-to-noise ratio of two images, in decibels: 10 * log10(max_val**2 / mean squared difference).

    Args:
        max_val: the largest value that a pixel can have, above 0.
    """

    def __init__(self, max_val: float = 1.0) -> None:
        super().__init__()
        self.max_val = checks.in_range(max_val, "max_val", "(0, inf)", of="PSNR")

    def construct(self, img1: Any, img2: Any) -> Any:
        """Two images (N, C, H, W), else `ValueError`; returns (N,)."""
        a, b = comparable_pair(img1, img2, ("img1", "img2"), of="PSNR")
        if a.ndim != 4:
            raise ValueError(f"For 'PSNR', 'img1' must be (N, C, H, W), but got shape {a.shape}")
        difference = a - b
        error = reduce_mean(difference * difference, axes=(1, 2, 3))
        return (2 * math.log(self.max_val) - elementwise.log(error)) * (10 / math.log(10))

    def extend_repr(self) -> str:
        """The largest value."""
        return f"max_val={self.max_val}"
