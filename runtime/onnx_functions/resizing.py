"""The function for ONNX Resize: interpolation as a product with one matrix per axis."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..errors import ShapeError
from ..ir.types import FLOAT64, is_floating
from ..memory import check_table_size
from ..ops import elementwise, indexing, linear, shaping
from ..ops.registry import Array, Tensor, require
from .registry import onnx_function
from .shaping import positive_axes


@onnx_function("Resize", "roi", "scales", "sizes")
def resize(
    x: Tensor,
    roi: Any = None,
    scales: Any = None,
    sizes: Any = None,
    *,
    antialias: int = 0,
    axes: Any = None,
    coordinate_transformation_mode: str = "half_pixel",
    cubic_coeff_a: float = -0.75,
    exclude_outside: int = 0,
    extrapolation_value: float = 0.0,
    keep_aspect_ratio_policy: str = "stretch",
    mode: str = "nearest",
    nearest_mode: str = "round_prefer_floor",
) -> Any:
    """Resize-19: every result is a weighted sum of source elements, one axis after the other."""
    at = tuple(range(x.ndim)) if axes is None else positive_axes(axes, x.ndim)
    unchanged = [i for i, axis in enumerate(at) if _is_unchanged(x.shape[axis], i, scales or None, sizes or None)]
    if not roi and unchanged:
        scales, sizes = (
            numbers and [g for i, g in enumerate(numbers) if i not in unchanged] for numbers in (scales, sizes)
        )
        at = tuple(axis for i, axis in enumerate(at) if i not in unchanged)
    if not at:
        return x
    old = [x.shape[axis] for axis in at]
    require(all(isinstance(size, int) for size in old), f"needed known sizes, given {tuple(x.shape)}")
    factors, new = _scales_and_sizes(old, scales or None, sizes or None, keep_aspect_ratio_policy)
    for i, axis in enumerate(at):
        crop = (roi[i], roi[i + len(at)]) if roi and coordinate_transformation_mode == "tf_crop_and_resize" else None
        if old[i] == new[i] and factors[i] == 1.0 and crop is None:
            continue
        places = _positions(old[i], new[i], factors[i], coordinate_transformation_mode, crop)
        outside = (places < 0) | (places > old[i] - 1) if crop is not None else np.zeros(new[i], bool)
        if mode == "nearest" and crop is None:
            x = indexing.take(x, _nearest_indices(places, old[i], nearest_mode), axis=axis)
            continue
        weights = _weights(places, old[i], factors[i], mode, nearest_mode, cubic_coeff_a, antialias, exclude_outside)
        weights[outside] = 0.0
        x = _apply_weights(x, axis, weights, outside, extrapolation_value)
    return x


def _is_unchanged(size: Any, i: int, scales: Any, sizes: Any) -> bool:
    """Whether a symbolic size doesn't change, so that it needn't be known."""
    if isinstance(size, int):
        return False
    return bool(scales[i] == 1.0) if scales is not None else sizes is not None and bool(sizes[i] == size)


def _scales_and_sizes(old: list[Any], scales: Any, sizes: Any, policy: str) -> tuple[list[float], list[int]]:
    require((scales is None) != (sizes is None), "needed either scales or sizes, given both or neither")
    numbers = scales if sizes is None else sizes
    require(len(numbers) == len(old), f"needed {len(old)} scales or sizes, given {len(numbers)}")
    if sizes is None:
        return [float(s) for s in scales], [math.floor(size * s) for size, s in zip(old, scales, strict=True)]
    factors = [new / size for new, size in zip(sizes, old, strict=True)]
    if policy == "stretch":
        return factors, list(sizes)
    factor = (min if policy == "not_larger" else max)(factors)
    return [factor] * len(old), [math.floor(size * factor + 0.5) for size in old]


def _positions(old: int, new: int, scale: float, mode: str, crop: tuple[float, float] | None) -> Array:
    """Return the position of each result in the source, by `coordinate_transformation_mode`."""
    check_table_size(new)
    i = np.arange(new, dtype=np.float64)
    match mode:
        case "half_pixel":
            return (i + 0.5) / scale - 0.5
        case "half_pixel_symmetric":
            adjustment = new / (scale * old)
            return old / 2 * (1 - adjustment) + (i + 0.5) / scale - 0.5
        case "pytorch_half_pixel":
            return (i + 0.5) / scale - 0.5 if new > 1 else np.zeros(new)
        case "align_corners":
            length = scale * old  # not necessarily an integer
            return i * (old - 1) / (length - 1) if length != 1 else np.zeros(new)
        case "asymmetric":
            return i / scale
        case "tf_half_pixel_for_nn":
            return (i + 0.5) / scale
        case "tf_crop_and_resize" if crop is not None:
            start, end = crop
            if new > 1:
                return start * (old - 1) + i * (end - start) * (old - 1) / (new - 1)
            return np.full(new, 0.5 * (start + end) * (old - 1))
    raise ShapeError(f"Resize with coordinate_transformation_mode {mode!r} isn't supported, or lacks its roi")


def _nearest_indices(places: Array, old: int, mode: str) -> Array:
    match mode:
        case "round_prefer_floor":
            chosen = np.ceil(places - 0.5)
        case "round_prefer_ceil":
            chosen = np.floor(places + 0.5)
        case "floor":
            chosen = np.floor(places)
        case "ceil":
            chosen = np.ceil(places)
        case _:
            raise ShapeError(f"nearest_mode {mode!r} is unknown")
    return np.clip(chosen, 0, old - 1).astype(np.int64)


def _weights(
    places: Array, old: int, scale: float, mode: str, nearest_mode: str, a: float, antialias: int, exclude: int
) -> Array:
    """Return the weights `(results, old)` of the source elements; positions beyond the ends count as the ends."""
    check_table_size(len(places), old)
    weights = np.zeros((len(places), old))
    rows = np.arange(len(places))
    if mode == "nearest":
        weights[rows, _nearest_indices(places, old, nearest_mode)] = 1.0
        return weights
    require(mode in ("linear", "cubic"), f"mode {mode!r} is unknown")
    stretch = min(scale, 1.0) if antialias else 1.0
    reach = (1.0 if mode == "linear" else 2.0) / stretch
    steps = math.ceil(reach)
    base = np.floor(places).astype(np.int64)
    for offset in range(-steps, steps + 2):
        source = base + offset
        distance = np.abs(places - source) * stretch
        weight = np.maximum(1.0 - distance, 0.0) if mode == "linear" else _cubic(distance, a)
        if exclude:
            weight = np.where((source < 0) | (source >= old), 0.0, weight)
        np.add.at(weights, (rows, np.clip(source, 0, old - 1)), weight)
    if exclude or antialias:
        total = weights.sum(axis=1, keepdims=True)
        weights = np.divide(weights, total, out=np.zeros_like(weights), where=total != 0)
    return weights


def _cubic(d: Array, a: float) -> Array:
    """Return the convolution kernel of Keys (1981) at distances `d`."""
    near = (a + 2) * d**3 - (a + 3) * d**2 + 1
    far = a * d**3 - 5 * a * d**2 + 8 * a * d - 4 * a
    return np.where(d <= 1, near, np.where(d < 2, far, 0.0))


def _apply_weights(x: Tensor, axis: int, weights: Array, outside: Array, value: float) -> Any:
    """Multiply by `weights` along an axis; results from outside the source are `value`."""
    dtype = x.dtype
    wide = x if is_floating(dtype) else elementwise.cast(x, dtype=FLOAT64)
    order = (*(i for i in range(x.ndim) if i != axis), axis)
    axis_last = shaping.transpose(wide, permutation=order)
    result = linear.matmul(axis_last, weights.T.astype(wide.dtype))
    if outside.any():
        result = result + np.where(outside, value, 0.0).astype(wide.dtype)
    result = shaping.transpose(result, permutation=tuple(order.index(i) for i in range(x.ndim)))
    return result if is_floating(dtype) else elementwise.cast(result, dtype=dtype)
