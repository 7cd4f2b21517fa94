"""Rearrangement of images: depth to space, space to depth, channel shuffling, space to batch."""

from __future__ import annotations

from typing import Any

from .. import checks
from ..ir.dims import product
from ..ops import shaping, slicing
from .arguments import integers
from .operands import as_tensor
from .public_op import Primitive, public_op


@public_op()
def pixel_shuffle(input: Any, upscale_factor: int) -> Any:
    """Rearrange (..., C * r * r, H, W) to (..., C, H * r, W * r), r = `upscale_factor` (Shi et al. 2016).

    Raises:
        TypeError: r isn't an int.
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


@public_op()
def pixel_unshuffle(input: Any, downscale_factor: int) -> Any:
    """Rearrange (..., C, H * r, W * r) to (..., C * r * r, H, W), r = `downscale_factor`: inverts `pixel_shuffle`.

    Raises:
        TypeError: r isn't an int.
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


@public_op(primitive=Primitive("ChannelShuffle", init_args={"group": "groups"}))
def channel_shuffle(x: Any, groups: int) -> Any:
    """Interleave `groups` equal groups of channels of (N, C, ...) (Zhang et al. 2017).

    Raises:
        TypeError: `groups` isn't an int.
        ValueError: it isn't above 0 or doesn't divide the channels, or there are fewer than 3 dimensions.
    """
    image, count = _image(x, groups, "groups", of="channel_shuffle")
    batch, channels, *spatial = image.shape
    if channels % count != 0:
        raise ValueError(
            f"For 'channel_shuffle', the channels must be a multiple of {count} groups, but got {tuple(image.shape)}"
        )
    split = shaping.reshape(image, shape=(batch, count, channels // count, *spatial))
    transposed = shaping.transpose(split, permutation=(0, 2, 1, *range(3, split.ndim)))
    return shaping.reshape(transposed, shape=tuple(image.shape))


@public_op(primitive=Primitive("DepthToSpace", init_args=("block_size",)))
def _depth_to_space(x: Any, block_size: int) -> Any:
    """Rearrange (N, b * b * C, H, W) to (N, C, H * b, W * b): the channel index starts with the position in a block."""
    images, b = _batch_of_images(x, block_size, of="DepthToSpace")
    batch, channels, height, width = images.shape
    if channels % (b * b):
        raise ValueError(f"For 'DepthToSpace', the channels must be a multiple of {b}**2, but got {channels}")
    split = shaping.reshape(images, shape=(batch, b, b, channels // (b * b), height, width))
    moved = shaping.transpose(split, permutation=(0, 3, 4, 1, 5, 2))
    return shaping.reshape(moved, shape=(batch, channels // (b * b), height * b, width * b))


@public_op(primitive=Primitive("SpaceToDepth", init_args=("block_size",)))
def _space_to_depth(x: Any, block_size: int) -> Any:
    """Rearrange (N, C, H * b, W * b) to (N, b * b * C, H, W): inverts `DepthToSpace`."""
    images, b = _batch_of_images(x, block_size, of="SpaceToDepth")
    batch, channels, height, width = images.shape
    if height % b or width % b:
        raise ValueError(f"For 'SpaceToDepth', {b} must divide height and width, but got shape {tuple(images.shape)}")
    split = shaping.reshape(images, shape=(batch, channels, height // b, b, width // b, b))
    moved = shaping.transpose(split, permutation=(0, 3, 5, 1, 2, 4))
    return shaping.reshape(moved, shape=(batch, b * b * channels, height // b, width // b))


@public_op(primitive=Primitive("SpaceToBatchND", init_args={"block_shape": "block_size", "paddings": "paddings"}))
def space_to_batch_nd(input_x: Any, block_size: Any, paddings: Any) -> Any:
    """Divide the padded spatial axes into blocks, and move the position within a block to the batch axis.

    Args:
        input_x: (N, ..., *spatial).
        block_size: the block size, an int for all spatial axes or one for each.
        paddings: the pair of numbers of zeros before and after, for each spatial axis.

    Returns:
        (N * product of the block sizes, ..., *(spatial // block)).

    Raises:
        ValueError: a block size doesn't divide a padded axis.
    """
    x = as_tensor(input_x, "input_x", of="space_to_batch_nd")
    blocks = _blocks(block_size, len(paddings), of="space_to_batch_nd")
    lead, count = x.ndim - len(blocks), len(blocks)
    before, after = ((0,) * lead + tuple(pair[side] for pair in paddings) for side in (0, 1))
    x = slicing.pad(x, before=before, after=after)
    for size, block in zip(x.shape[lead:], blocks, strict=True):
        if size % block:
            raise ValueError(f"For 'space_to_batch_nd', blocks {blocks} don't divide the padded shape {tuple(x.shape)}")
    split = [part for size, b in zip(x.shape[lead:], blocks, strict=True) for part in (size // b, b)]
    cut = shaping.reshape(x, shape=(*x.shape[:lead], *split))
    order = (*(lead + 2 * i + 1 for i in range(count)), *range(lead), *(lead + 2 * i for i in range(count)))
    moved = shaping.transpose(cut, permutation=order)
    return shaping.reshape(moved, shape=(x.shape[0] * product(blocks), *x.shape[1:lead], *split[::2]))


@public_op(primitive=Primitive("BatchToSpaceND", init_args=("block_shape", "crops")))
def batch_to_space_nd(input_x: Any, block_shape: Any, crops: Any) -> Any:
    """Invert `space_to_batch_nd`; `crops` holds the numbers of elements to remove at both ends of each spatial axis."""
    x = as_tensor(input_x, "input_x", of="batch_to_space_nd")
    blocks = _blocks(block_shape, len(crops), of="batch_to_space_nd")
    lead, count = x.ndim - len(blocks), len(blocks)
    if x.shape[0] % product(blocks):
        raise ValueError(f"For 'batch_to_space_nd', blocks {blocks} don't divide a batch of {x.shape[0]}")
    batch = x.shape[0] // product(blocks)
    split = shaping.reshape(x, shape=(*blocks, batch, *x.shape[1:]))
    rest = count + lead
    order = (*range(count, rest), *(axis for i in range(count) for axis in (rest + i, i)))
    moved = shaping.transpose(split, permutation=order)
    sizes = tuple(size * b for size, b in zip(x.shape[lead:], blocks, strict=True))
    whole = shaping.reshape(moved, shape=(batch, *x.shape[1:lead], *sizes))
    before, after = ((0,) * lead + tuple(-pair[side] for pair in crops) for side in (0, 1))
    return slicing.pad(whole, before=before, after=after)


def _batch_of_images(x: Any, block_size: int, *, of: str) -> tuple[Any, int]:
    images = as_tensor(x, "x", of=of)
    if images.ndim != 4:
        raise ValueError(f"For '{of}', 'x' must have 4 dimensions, but got shape {tuple(images.shape)}")
    return images, checks.positive_int(block_size, "block_size", of=of)


def _blocks(size: Any, count: int, *, of: str) -> tuple[Any, ...]:
    blocks = integers(size, "block_size", of=of)
    return blocks * count if len(blocks) == 1 else blocks


def _image(input: Any, factor: int, name: str, *, of: str) -> tuple[Any, int]:
    x = as_tensor(input, of=of)
    checks.positive_int(factor, name, of=of)
    if x.ndim < 3:
        raise ValueError(f"For '{of}', 'input' must have at least 3 dimensions, but got shape {tuple(x.shape)}")
    return x, factor
