"""Boxes in images: resized crops, and pooling of regions of interest."""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import checks
from ..common.tensor import from_array
from ..ir.dims import product
from ..ops import comparison, elementwise, indexing, reduction, rounding, shaping
from .arguments import integers, require_integers
from .operands import require_floating
from .permuting import moveaxis
from .public_op import Primitive, public_op
from .sampling import interpolate_at


@public_op(primitive=Primitive("CropAndResize", init_args=("method", "extrapolation_value")))
def crop_and_resize(
    image: Any, boxes: Any, box_indices: Any, crop_size: Any, method: str = "bilinear", extrapolation_value: float = 0.0
) -> Any:
    """Crop boxes from images and resize them (TensorFlow's `crop_and_resize`).

    Args:
        image: (N, H, W, C), floating-point.
        boxes: (count, 4), y1, x1, y2, x2 as fractions of (height - 1) and (width - 1); y1 > y2 flips the crop.
        box_indices: (count), integers: the image of each box.
        crop_size: (height, width) of the results.
        method: "bilinear" or "nearest".
        extrapolation_value: the value outside of an image.

    Returns:
        (count, height, width, C).

    Raises:
        ValueError: `method` is unknown, or a shape doesn't fit.
    """
    of = "crop_and_resize"
    x, corners = require_floating(image, "image", of=of), require_floating(boxes, "boxes", of=of)
    owners = require_integers(box_indices, "box_indices", of=of)
    checks.one_of(method, "method", ("bilinear", "nearest"), of=of)
    size = integers(crop_size, "crop_size", of=of)
    if x.ndim != 4 or corners.ndim != 2 or corners.shape[1] != 4 or len(size) != 2:
        raise ValueError(
            f"For '{of}', 'image' {tuple(x.shape)}, 'boxes' {tuple(corners.shape)} and {crop_size=} don't fit"
        )
    images = indexing.take(shaping.transpose(x, permutation=(0, 3, 1, 2)), owners, axis=0)
    places = []
    for axis, count in enumerate(size):
        first, last = (indexing.take(corners, from_array(np.array([i])), axis=1) for i in (axis, axis + 2))
        extent = float(x.shape[axis + 1] - 1)
        if count > 1:
            steps = from_array((np.arange(count) / (count - 1)).astype(corners.dtype))
            places.append((first + (last - first) * steps) * extent)
        else:
            places.append((first + last) * (0.5 * extent))
    grid_y = shaping.expand(shaping.reshape(places[0], shape=(*places[0].shape, 1)), shape=(corners.shape[0], *size))
    grid_x = shaping.expand(
        shaping.reshape(places[1], shape=(corners.shape[0], 1, size[1])), shape=(corners.shape[0], *size)
    )
    flat = [shaping.reshape(grid, shape=(corners.shape[0], size[0] * size[1])) for grid in (grid_y, grid_x)]
    rounded = [rounding.round(position) for position in flat] if method == "nearest" else flat
    edges = [elementwise.clamp(p, minimum=0, maximum=s - 1) for p, s in zip(rounded, x.shape[1:3], strict=True)]
    values = interpolate_at(images, edges, nearest=method == "nearest")
    outside = None
    for position, extent in zip(flat, x.shape[1:3], strict=True):
        beyond = comparison.logical_or(
            comparison.less(position, position * 0), comparison.greater(position, position * 0 + float(extent - 1))
        )
        outside = beyond if outside is None else comparison.logical_or(outside, beyond)
    masked = shaping.reshape(outside, shape=(corners.shape[0], 1, size[0] * size[1]))
    values = elementwise.where(masked, np.asarray(extrapolation_value, values.dtype), values)
    return moveaxis(shaping.reshape(values, shape=(corners.shape[0], x.shape[3], *size)), 1, -1)


@public_op(
    primitive=Primitive(
        "ROIAlign", init_args=("pooled_height", "pooled_width", "spatial_scale", "sample_num", "roi_end_mode")
    )
)
def _roi_align(
    features: Any, rois: Any, pooled_height: int, pooled_width: int, spatial_scale: float, sample_num: int = 2,
    roi_end_mode: int = 1,
) -> Any:  # fmt: skip
    """RoIAlign: the mean values of the bins of regions of interest (He et al., "Mask R-CNN", 2017).

    Args:
        features: (N, C, H, W), floating-point.
        rois: (count, 5), the index of the image, then x1, y1, x2, y2 in the coordinates of the original image.
        pooled_height: the number of bins along the height of a region.
        pooled_width: the number of bins along the width of a region.
        spatial_scale: the size of the features divided by that of the original image.
        sample_num: the number of samples per bin along each axis.
        roi_end_mode: 1 includes the last pixel, so that a region from x1 to x1 is one pixel wide.

    Returns:
        (count, C, pooled_height, pooled_width).
    """
    of = "ROIAlign"
    x, regions = require_floating(features, "features", of=of), require_floating(rois, "rois", of=of)
    checks.positive_int(sample_num, "sample_num", of=of)
    checks.one_of(roi_end_mode, "roi_end_mode", (0, 1), of=of)
    if x.ndim != 4 or regions.ndim != 2 or regions.shape[1] != 5:
        raise ValueError(f"For '{of}', 'features' {tuple(x.shape)} and 'rois' {tuple(regions.shape)} don't fit")
    column = [indexing.take(regions, from_array(np.array([i])), axis=1) for i in range(5)]  # (count, 1) each
    owners = elementwise.cast(shaping.reshape(column[0], shape=(regions.shape[0],)), dtype=np.dtype(np.int64))
    images = indexing.take(x, owners, axis=0)
    lines = []
    for first, last, bins, extent in (
        (column[2], column[4], pooled_height, x.shape[2]),
        (column[1], column[3], pooled_width, x.shape[3]),
    ):
        length = elementwise.clamp((last + float(roi_end_mode) - first) * spatial_scale, minimum=1.0)
        samples = (np.arange(bins * sample_num) + 0.5) / (bins * sample_num)
        position = first * spatial_scale + length * from_array(samples.astype(regions.dtype))
        inside = comparison.logical_and(
            comparison.greater_equal(position, position * 0 - 1.0),
            comparison.less_equal(position, position * 0 + float(extent)),
        )
        lines.append(
            (elementwise.clamp(position, minimum=0, maximum=extent - 1), elementwise.cast(inside, dtype=x.dtype))
        )
    (rows, rows_inside), (columns, columns_inside) = lines
    shape = (regions.shape[0], rows.shape[1], columns.shape[1])
    down, across = (shape[0], shape[1], 1), (shape[0], 1, shape[2])
    spread = [
        shaping.reshape(
            shaping.expand(shaping.reshape(line, shape=at), shape=shape), shape=(shape[0], product(shape[1:]))
        )
        for line, at in ((rows, down), (columns, across), (rows_inside, down), (columns_inside, across))
    ]
    values = interpolate_at(images, spread[:2], nearest=False)
    values = values * shaping.reshape(spread[2] * spread[3], shape=(shape[0], 1, shape[1] * shape[2]))
    split = shaping.reshape(values, shape=(shape[0], x.shape[1], pooled_height, sample_num, pooled_width, sample_num))
    return reduction.reduce_mean(split, axes=(3, 5))
