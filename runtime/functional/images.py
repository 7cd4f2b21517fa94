"""Images whose channels become space, the other way round, or change places."""

from __future__ import annotations

from typing import Any

from .. import checks
from ..ops import shaping
from .operands import as_tensor
from .spelling import Primitive, spelled


@spelled()
def pixel_shuffle(input: Any, upscale_factor: int) -> Any:
    """(..., C * r * r, H, W) as (..., C, H * r, W * r), r = `upscale_factor` (Shi et al. 2016).

    Raises:
        TypeError: r is no int.
        ValueError: r isn't above 0, its square doesn't divide the channels, or there are fewer than 3 dimensions.
    """
    x, r = _image(input, upscale_factor, "upscale_factor", of="pixel_shuffle")
    *batch, channels, height, width = x.shape
    if channels % (r * r) != 0:
        raise ValueError(
            f"For 'pixel_shuffle', the channels must be a multiple of {r}**2, but got shape {tuple(x.shape)}"
        )
    b = len(batch)
    split = shaping.reshape(x, shape=(*batch, channels // (r * r), r, r, height, width))
    order = (*range(b), b, b + 3, b + 1, b + 4, b + 2)
    moved = shaping.transpose(split, permutation=order)
    return shaping.reshape(moved, shape=(*batch, channels // (r * r), height * r, width * r))


@spelled()
def pixel_unshuffle(input: Any, downscale_factor: int) -> Any:
    """(..., C, H * r, W * r) as (..., C * r * r, H, W), r = `downscale_factor`: undoes `pixel_shuffle`.

    Raises:
        TypeError: r is no int.
        ValueError: r isn't above 0 or doesn't divide height and width, or there are fewer than 3 dimensions.
    """
    x, r = _image(input, downscale_factor, "downscale_factor", of="pixel_unshuffle")
    *batch, channels, height, width = x.shape
    if height % r != 0 or width % r != 0:
        raise ValueError(
            f"For 'pixel_unshuffle', height and width must be multiples of {r}, but got shape {tuple(x.shape)}"
        )
    b = len(batch)
    split = shaping.reshape(x, shape=(*batch, channels, height // r, r, width // r, r))
    order = (*range(b), b, b + 2, b + 4, b + 1, b + 3)
    moved = shaping.transpose(split, permutation=order)
    return shaping.reshape(moved, shape=(*batch, channels * r * r, height // r, width // r))


@spelled(primitive=Primitive("ChannelShuffle", made_with={"group": "groups"}))
def channel_shuffle(x: Any, groups: int) -> Any:
    """(N, C, ...) with the channels of `groups` equal groups taken in turns (Zhang et al. 2017).

    Raises:
        TypeError: `groups` is no int.
        ValueError: it isn't above 0 or doesn't divide the channels, or there are fewer than 3 dimensions.
    """
    image, count = _image(x, groups, "groups", of="channel_shuffle")
    batch, channels, *spatial = image.shape
    if channels % count != 0:
        raise ValueError(
            f"For 'channel_shuffle', the channels must be a multiple of {count} groups, but got {tuple(image.shape)}"
        )
    split = shaping.reshape(image, shape=(batch, count, channels // count, *spatial))
    turned = shaping.transpose(split, permutation=(0, 2, 1, *range(3, split.ndim)))
    return shaping.reshape(turned, shape=tuple(image.shape))


def _image(input: Any, factor: int, name: str, *, of: str) -> tuple[Any, int]:
    x = as_tensor(input, of=of)
    checks.positive_int(factor, name, of=of)
    if x.ndim < 3:
        raise ValueError(f"For '{of}', 'input' must have at least 3 dimensions, but got shape {tuple(x.shape)}")
    return x, factor
